"""Run folders: ``RUN.partial`` while a run is being made, ``RUN`` once it is whole.

The last step of a run renames the folder, so that a reader never meets half of one, and a run that was killed
leaves its checkpoint where ``--resume`` finds it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gbgnn._files import write_text
from gbgnn._json import to_json
from gbgnn.cli import toml
from gbgnn.errors import DataError, ModelFileError

CONFIG, CHECKPOINT, MODEL = "config.toml", "checkpoint.gbgnn", "model.gbgnn"
HISTORY, EPOCHS, METRICS = "history.jsonl", "fine_tuning.jsonl", "metrics.json"

Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class RunFolder:
    """A run that is being made."""

    path: Path
    force: bool = False

    @property
    def partial(self) -> Path:
        """Where everything is written until the run is whole."""
        return self.path.with_name(self.path.name + ".partial")

    @property
    def checkpoint(self) -> Path:
        """The model as it was some rounds ago."""
        return self.partial / CHECKPOINT

    def check_free(self) -> None:
        """Raise when a run, finished or not, or something else is in the way."""
        if _is_filled(self.path) and not self.force:
            raise DataError(f"{self.path} exists; choose another --out, or replace it with --force.")
        for folder in (self.path, self.partial):
            if _is_filled(folder) and not (folder / CONFIG).is_file():
                raise DataError(
                    f"{folder} is not a run folder and will not be replaced; choose another --out."
                )
        if self.partial.exists() and not self.force:
            cure = f"go on with --resume {self.path}, or " if self.checkpoint.exists() else ""
            raise DataError(f"{self.partial} holds an unfinished run; {cure}start over with --force.")

    def start(self, config: dict[str, Any]) -> None:
        """Make the partial folder, with the record of what is about to run."""
        self.check_free()
        if self.partial.exists():
            shutil.rmtree(self.partial)
        self.partial.mkdir(parents=True)
        write_text(self.partial / CONFIG, toml.dumps(config))

    def finish(self, history: Rows, metrics: dict[str, Any], epochs: Rows | None = None) -> None:
        """Write the record of what has run and put the folder in place; the model is there already.

        ``history`` has a row per round, ``epochs`` one per epoch of fine-tuning; None where there was none.
        """
        _write_rows(self.partial / HISTORY, history)
        if epochs is not None:
            _write_rows(self.partial / EPOCHS, epochs)
        write_text(self.partial / METRICS, to_json(metrics, indent=2) + "\n")
        old = self.path.with_name(self.path.name + ".replaced")
        shutil.rmtree(old, ignore_errors=True)
        if _is_filled(self.path):
            self.path.rename(old)
        self.partial.rename(self.path)
        # Only now: until the folder is in place the checkpoint is what a killed run would go on from.
        (self.path / CHECKPOINT).unlink(missing_ok=True)
        shutil.rmtree(old, ignore_errors=True)

    def discard(self) -> None:
        """Remove the partial folder unless it holds a checkpoint."""
        if not self.checkpoint.exists():
            shutil.rmtree(self.partial, ignore_errors=True)


def unfinished(path: Path) -> RunFolder:
    """Return the run that was interrupted, or say why there is nothing to go on with."""
    run = RunFolder(path.with_name(path.name.removesuffix(".partial")))
    if run.checkpoint.is_file():
        return run
    if run.partial.is_dir():
        raise DataError(
            f"{run.partial} has no checkpoint yet, so nothing is lost by fitting anew with --force."
        )
    if run.path.is_dir():
        raise DataError(f"{run.path} is finished; there is nothing to go on with.")
    raise DataError(f"there is no run {run.path}, and no unfinished {run.partial}.")


@dataclass(frozen=True)
class Saved:
    """A model on disk with the record of its run, which is empty for a bare model file."""

    model_path: Path
    config: dict[str, Any]
    metrics: dict[str, Any]

    @property
    def class_names(self) -> dict[str, str]:
        """Names of the classes, by label, where the run's data had them."""
        names: dict[str, str] = self.config.get("run", {}).get("class_names", {})
        return names

    @property
    def graph_checksum(self) -> str | None:
        """Checksum of the graph that the model was fitted on, where there is a record."""
        checksum: str | None = self.config.get("run", {}).get("data", {}).get("graph")
        return checksum


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
            config = toml.read(path / CONFIG) if (path / CONFIG).is_file() else {}
            return Saved(path / name, config, _read_metrics(path / METRICS))
    raise ModelFileError(f"{path} holds neither {MODEL} nor {CHECKPOINT}, so it is not a run folder.")


def _write_rows(path: Path, rows: Rows) -> None:
    write_text(path, "".join(to_json(row) + "\n" for row in rows))


def _read_metrics(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    metrics: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return metrics


def _is_filled(folder: Path) -> bool:
    return folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))
