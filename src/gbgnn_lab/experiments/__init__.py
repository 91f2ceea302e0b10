"""The paper's experiments, one call each, and leaderboards; every number is made of recorded runs.

Needs neither the ``gbgnn`` command nor matplotlib: ``python -m gbgnn_lab.experiments table1`` runs without,
and figures can be drawn later from the records.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gbgnn.cli.screen import Progress
    from gbgnn_lab.experiments.leaderboard import compare
    from gbgnn_lab.experiments.options import CompareOptions, Options, Protocol
    from gbgnn_lab.experiments.records import Record, RecordFile
    from gbgnn_lab.experiments.report import Report
    from gbgnn_lab.experiments.suite import EXPERIMENTS, rebuild, reproduce

__all__ = [
    "EXPERIMENTS",
    "CompareOptions",
    "Options",
    "Progress",
    "Protocol",
    "Record",
    "RecordFile",
    "Report",
    "compare",
    "rebuild",
    "reproduce",
]

_HOMES = {
    "gbgnn.cli.screen": ("Progress",),
    "gbgnn_lab.experiments.leaderboard": ("compare",),
    "gbgnn_lab.experiments.options": ("CompareOptions", "Options", "Protocol"),
    "gbgnn_lab.experiments.records": ("Record", "RecordFile"),
    "gbgnn_lab.experiments.report": ("Report",),
    "gbgnn_lab.experiments.suite": ("EXPERIMENTS", "rebuild", "reproduce"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: torch takes seconds, which ``gbgnn --help`` spares."""
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
