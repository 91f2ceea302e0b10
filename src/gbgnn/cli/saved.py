"""Models on disk: those of run folders, finished or not, and bare model files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gbgnn.cli import toml
from gbgnn.errors import ModelFileError
from gbgnn.runs import CHECKPOINT, CONFIG, METRICS, MODEL


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


def _read_metrics(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    metrics: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return metrics
