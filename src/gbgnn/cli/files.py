"""What commands read and write: models, run folders, and data sets in words."""

from __future__ import annotations

import itertools
import json
import re
import secrets
import shlex
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import gbgnn
from gbgnn._files import to_json
from gbgnn.cli.command import describe_error
from gbgnn.cli.screen import counted
from gbgnn.cli.source import Source
from gbgnn.errors import DataError, GBGNNError, ModelFileError
from gbgnn.runs import CHECKPOINT, CONFIG, EPOCHS, HISTORY, METRICS, MODEL, RunFolder, describe_versions


@dataclass(frozen=True)
class Saved:
    """A model on disk with the record of its run, which is empty for a bare model file."""

    model_path: Path
    config: dict[str, Any]
    metrics: dict[str, Any]
    history: Sequence[dict[str, Any]] = ()  # as the run's record has it, which knows how long rounds took

    @property
    def class_names(self) -> dict[str, str]:
        """Names of the classes, by label, where the run's data had them."""
        return dict(self.config.get("run", {}).get("class_names", {}))

    @property
    def graph_checksum(self) -> Any:
        """Checksum of the graph that the model was fitted on, None where there is no record."""
        return self.config.get("run", {}).get("data", {}).get("graph")

    @property
    def source(self) -> Source:
        """The data of the fit."""
        return Source.from_document(self.config.get("data", {}), str(self.model_path))


def open_saved(path: Path) -> Saved:
    """Return the model of a run folder, finished or not, or of a model file."""
    if path.is_file():
        return Saved(path, {}, {})
    if not path.exists():
        partial = path.with_name(path.name + ".partial")
        hint = f" There is an unfinished {partial}." if partial.exists() else ""
        raise ModelFileError(f"there is no run or model {path}.{hint}")
    for name in (MODEL, CHECKPOINT):
        if (path / name).is_file():
            config = read_toml(path / CONFIG) if (path / CONFIG).is_file() else {}
            metrics, history = (_read_if_there(path / told) for told in (METRICS, HISTORY))
            rows = list(map(json.loads, history.splitlines()))
            return Saved(path / name, config, json.loads(metrics or "{}"), rows)
    raise ModelFileError(f"{path} holds neither {MODEL} nor {CHECKPOINT}, so it is not a run folder.")


def _read_if_there(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def read_toml(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML file."""
    if path.exists() and not path.is_file():  # a pipe would keep its reader waiting
        raise DataError(f"{path} is not a file.")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path} is not a TOML file: {error}.") from error


def to_toml(document: Mapping[str, Any]) -> str:
    """Return the document as TOML; what is None, which TOML does not have, or an empty table is left out."""
    import tomli_w

    return tomli_w.dumps(_drop_none(document))


def _drop_none(table: Mapping[str, Any]) -> dict[str, Any]:
    kept = {str(k): _drop_none(v) if isinstance(v, Mapping) else v for k, v in table.items()}
    return {k: v for k, v in kept.items() if v is not None and v != {}}


def fingerprint(data: gbgnn.datasets.Dataset) -> dict[str, str]:
    """Return checksums of all that training sees: the graph, and the labels of all but the test nodes."""
    from gbgnn.labels import labels_checksum

    labels = labels_checksum((nodes, data.y[nodes]) for nodes in (data.train, data.val))
    return {"graph": data.graph.checksum, "labels": labels}


def describe(data: gbgnn.datasets.Dataset) -> str:
    """Return the size of a data set in a line, its classes or numbers those of the training nodes."""
    import numpy as np

    graph, names = data.graph, list_class_names(data)
    size = (
        f"{data.name}: {counted(graph.n_nodes, 'node')}, {counted(graph.n_edges, 'edge')}, "
        f"{counted(graph.n_features, 'feature')}"
    )
    if data.is_regression:
        y = data.y[data.train]
        return f"{size}, numbers from {y.min():.4g} to {y.max():.4g}"
    classes = [name_class(label, names) for label in np.unique(data.y[data.train])]
    listed = ", ".join([*classes[:12], *(["..."] if len(classes) > 12 else [])])
    return f"{size}, {counted(len(classes), 'class', 'classes')} ({listed})"


def describe_split(data: gbgnn.datasets.Dataset) -> str:
    """Return which nodes train, validate and test, and whether that came with the data or was drawn."""
    from gbgnn.datasets.graphland import SETTINGS

    name, n_own = data.split_name, len(data.own_splits)
    sizes = f"train {len(data.train):,}, val {len(data.val):,}, test {len(data.test):,}"
    sizes += f"; {len(data.calibration):,} set aside for calibration" if len(data.calibration) else ""
    own = re.fullmatch(r"public (\d+) of (\d+)", name)
    if own:
        how = f"number {own[1]} of the {own[2]} that come with the data (--split K takes another)"
    elif name == "public" or name in SETTINGS:
        how = "the one that comes with the data" if name == "public" else f"{name}, which comes with the data"
    else:
        beside = f"; the data's own {counted(n_own, 'split')} not used" if n_own else ""
        how = f"drawn ({name}{beside})" if name not in ("", "given") else "given"
    return f"split: {how}: {sizes}"


def describe_choices(data: gbgnn.datasets.Dataset) -> list[str]:
    """Return what was found out about the data, each in a line: the task, the split, columns, repairs."""
    lines = [f"task: {data.task_reason}", describe_split(data), *data.notes]
    if data.is_inductive:
        n_seen = data.snapshot("train").graph.n_nodes
        lines.append(f"inductive: training sees {counted(n_seen, 'node')} and the edges among them")
    return [*lines, *(f"repaired: {repair}" for repair in data.graph.repairs)]


def name_class(label: Any, class_names: Mapping[str, str]) -> str:
    """Return the name of a class where there is one, else the label itself."""
    return class_names.get(str(label), str(label))


def list_class_names(data: gbgnn.datasets.Dataset) -> dict[str, str]:
    """Return the name of each integer class, for a run's record; empty where labels speak for themselves."""
    if data.class_names is None or data.y.dtype.kind != "i":
        return {}
    return {str(label): name for label, name in enumerate(data.class_names)}


def start_run(
    model: gbgnn.GBGNNClassifier,
    source: Source,
    data: gbgnn.datasets.Dataset,
    *,
    out: Path | None,
    force: bool,
    checkpoint_every: int | None = None,
    beside: Mapping[str, str] | None = None,
) -> RunFolder:
    """Make the folder of a run, with the record of all settings and what else is known, and return it."""
    import torch

    from gbgnn.settings import nest_settings, read_settings

    facts = {  # beside the settings; --config passes over them
        "command": shlex.join(["gbgnn", *sys.argv[1:]]),
        "started": datetime.now().astimezone().isoformat(timespec="seconds"),
        "checkpoint_every": checkpoint_every,
        "force": force,  # a resumed run may replace what the run could
        "threads": torch.get_num_threads(),  # it may show in the last bits
        "split": f"{data.split_name}: train {len(data.train)}, val {len(data.val)}, test {len(data.test)}",
        "data": fingerprint(data),
        "class_names": list_class_names(data),
        "versions": describe_versions(),
    }
    config = {
        **nest_settings(read_settings(model)),
        "data": replace(
            source, dataset=source.dataset or (None if source.nodes else data.name)
        ).to_document(),
        "run": facts,
    }
    while True:
        run = RunFolder(out or _default_path(data), force)
        try:
            run.start({CONFIG: to_toml(config), **(beside or {})})
        except DataError:
            if out is not None or not run.partial.exists():  # else another one had the same second
                raise
        else:
            return run


def save_model(model: gbgnn.GBGNNClassifier, run: RunFolder) -> list[str]:
    """Write the model into a run's folder, without its learners where they cannot be; return what to note."""
    run.check_there()
    try:
        model.save(run.partial / MODEL)
    except ModelFileError as error:
        model.save(run.partial / MODEL, learners=False)
        return [f"the model was written without its learners, so it predicts this graph only: {error}"]
    return []


def finish_run(run: RunFolder, model: gbgnn.GBGNNClassifier, metrics: dict[str, Any]) -> None:
    """Write the record of what has run, and put the folder in place; the model is there already."""
    told = {HISTORY: to_lines(model.history_rows_), METRICS: to_json(metrics, indent=2) + "\n"}
    tuning = getattr(model, "fine_tuning_", None)  # which an average of models has not
    if tuning is not None:
        told[EPOCHS] = to_lines(tuning["history"])
    run.finish(told)


def to_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as JSON, each in a line."""
    return "".join(to_json(row) + "\n" for row in rows)


@contextmanager
def rescued(model: gbgnn.GBGNNClassifier, run: RunFolder) -> Iterator[None]:
    """Note in any error where the trained model is, if anywhere, whose run could not be written."""
    try:
        yield
    except Exception as error:
        # A folder in which something is missing may be about to go, with all that it still holds.
        error.add_note(_rescue(model, run, is_going=isinstance(error, FileNotFoundError)))
        raise


def _rescue(model: gbgnn.GBGNNClassifier, run: RunFolder, *, is_going: bool) -> str:
    go_on = f"go on with: gbgnn fit --resume {run.path}"
    if run.is_of_search:
        go_on = "give the command again with --force; trials in a --storage are there."
    path = run.partial / MODEL
    if path.is_file() and not is_going:
        return f"The trained model is {path}; when the cause is removed, {go_on}"
    home = run.partial if run.partial.is_dir() else run.partial.parent
    free = f"{shutil.disk_usage(home).free / 2**20:,.1f} MB are free in {home}"
    again = f"make room there, then {go_on}" if run.checkpoint.exists() else "make room there, and fit again."
    elsewhere = Path(tempfile.gettempdir(), f"{run.path.name}-{secrets.token_hex(4)}.gbgnn")
    try:
        model.save(elsewhere)
    except (GBGNNError, OSError) as error:
        return f"The trained model could not be put elsewhere: {describe_error(error)} {free}; {again}"
    size = elsewhere.stat().st_size / 2**20
    return f"The trained model ({size:,.1f} MB) is in {elsewhere}. {free}; {again}"


def _default_path(data: gbgnn.datasets.Dataset) -> Path:
    """Return a folder named after data and time, with a number where another run has the name."""
    stem = re.sub(r"[^\w.-]+", "-", Path(data.name).name).strip("-.") or "graph"
    name, endings = f"{stem}-{datetime.now():%Y%m%d-%H%M%S}", (f"_{n}" for n in itertools.count(2))
    paths = (Path("runs", name + ending) for ending in itertools.chain([""], endings))
    return next(path for path in paths if not (path.exists() or RunFolder(path).partial.exists()))
