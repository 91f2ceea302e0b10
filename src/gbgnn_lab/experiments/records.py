"""Records: one line of JSON per run, appended so that a killed process loses the run in progress alone."""

from __future__ import annotations

import json
import os
import platform
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray

from gbgnn.datasets import Dataset
from gbgnn.errors import DataError, GBGNNWarning
from gbgnn.labels import labels_checksum
from gbgnn.registry import as_device
from gbgnn.runs import describe_versions

Fields = dict[str, Any]
RECORDS = "records.jsonl"
PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "optuna", "torch_geometric")
"""Whose versions a record has."""
DIGITS = 16
"""Of a checksum: enough to tell, short enough to read."""


@dataclass(frozen=True)
class Record:
    """What is kept of a run.

    The identity says what was run: data set with checksums and split, model, seed, protocol. Two runs of the
    same identity are the same run, made twice. Settings are those of the model that was judged, as
    :meth:`GBGNNClassifier.set_params <gbgnn.GBGNNClassifier.set_params>` takes them, or of a baseline.

    Examples
    --------
    >>> record = Record({"dataset": "cora", "run": 3}, results={"test_accuracy": 0.8})
    >>> record["run"], record.results["test_accuracy"]
    (3, 0.8)
    """

    identity: Fields
    settings: Fields = field(default_factory=dict)
    results: Fields = field(default_factory=dict)  # what was measured, accuracies between 0 and 1
    failure: str | None = None  # why there is no result
    seconds: float = 0.0  # how long the run took, a search included
    environment: Fields = field(default_factory=dict)  # versions, machine, date, command that repeats the run

    @property
    def key(self) -> str:
        """The identity as text, equal for equal identities."""
        return identity_key(self.identity)

    def __getitem__(self, name: str) -> Any:
        return self.identity[name]


def identity_key(identity: Mapping[str, Any] | Sequence[Any]) -> str:
    """Return an identity, or a part of one, as text, whatever the order of its parts."""
    return json.dumps(identity, sort_keys=True)


class RecordFile:
    """A file of records that several processes may append to, each line in one piece; it need not exist yet.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = RecordFile(Path(folder, "records.jsonl"))
    ...     file.append(Record({"run": 0}, results={"test_accuracy": 0.8}))
    ...     file.append(Record({"run": 0}, results={"test_accuracy": 0.9}))
    ...     [record.results for record in file.read()]
    [{'test_accuracy': 0.9}]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read(self) -> list[Record]:
        """Return the newest record of every identity, in the order in which they first came."""
        if not self.path.exists():
            return []
        newest: dict[str, Record] = {}
        *whole, rest = self.path.read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(whole, 1):
            try:
                record = Record(**json.loads(line))
            except (ValueError, TypeError) as error:
                raise DataError(
                    f"{self.path}: line {number} is not a record ({error}); remove the line, and its run "
                    "will be made again."
                ) from error
            newest[record.key] = record
        if rest:
            warnings.warn(
                f"{self.path}: the last line is cut off; its run was killed and will be made again.",
                GBGNNWarning,
                stacklevel=2,
            )
        return list(newest.values())

    def append(self, record: Record) -> None:
        """Add a record; what a killed process left of a line is removed first."""
        line = json.dumps(asdict(record), ensure_ascii=False, allow_nan=False) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path.with_name(f".{self.path.name}.lock"))
        with lock, self.path.open("a+b") as file:
            _drop_half_line(file)
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())


def _drop_half_line(file: BinaryIO) -> None:
    """Cut the file after its last whole line; who wrote the rest is dead, or it would hold the lock."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 1))
    if file.read(1) not in (b"\n", b""):
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def open_records(out: str | os.PathLike[str], experiment: str) -> RecordFile:
    """Return the file of an experiment's records in the folder of all results."""
    return RecordFile(Path(out, experiment, RECORDS))


def read_records(out: str | os.PathLike[str], *experiments: str) -> list[Record]:
    """Return the records of some experiments, those that have none left out."""
    return [record for name in experiments for record in open_records(out, name).read()]


def describe_environment(device: Any, command: str) -> dict[str, Any]:
    """Return versions, machine, date and command for a record."""
    place = as_device(device)
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "cpu": find_cpu_name(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpu": torch.cuda.get_device_name(place) if place.type == "cuda" else None,
        },
        "versions": describe_versions(PACKAGES),
    }


def find_cpu_name(info: Path = Path("/proc/cpuinfo")) -> str:
    """Return what the processor calls itself."""
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def identify_data(data: Dataset) -> Fields:
    """Return name, split and checksums of data: of the graph, of the labels training sees, of the test's.

    The task is there where it is not classification.
    """
    seen, test = [(part, data.y[part]) for part in (data.train, data.val)], [(data.test, data.y[data.test])]
    return {
        "dataset": data.name,
        "split": data.split_name,
        **({"task": data.task} if data.is_regression else {}),
        "data": {
            "graph": data.graph.checksum[:DIGITS],
            "labels": labels_checksum(seen)[:DIGITS],
            "test": labels_checksum(test)[:DIGITS],
        },
    }


def judge(predictions: NDArray[Any], data: Dataset) -> Fields:
    """Return the accuracy on validation and test nodes of classes that are predicted for all nodes.

    No system is given test labels: they are read here, once it has predicted.
    """
    return {
        f"{part}_accuracy": float(np.mean(predictions[nodes] == data.y[nodes])) if len(nodes) else None
        for part, nodes in (("val", data.val), ("test", data.test))
    }


def check_splits(data: Dataset) -> None:
    """Raise unless there are nodes to choose by and nodes to judge by."""
    for part, verb in (("val", "choose"), ("test", "judge")):
        if not len(getattr(data, part)):
            raise DataError(
                f"{data.name} has no {part} nodes, so there is nothing to {verb} models by; draw some with "
                "split='stratified'."
            )
