"""The paper's experiments, one call each, and leaderboards; every number is made of recorded runs.

Needs neither the ``gbgnn`` command nor matplotlib: ``python -m gbgnn_lab.experiments table1`` runs without,
and figures can be drawn later from the records.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gbgnn_lab.experiments.experiment import Options, Report
    from gbgnn_lab.experiments.leaderboard import Contest, compare
    from gbgnn_lab.experiments.protocol import Protocol
    from gbgnn_lab.experiments.records import Record, RecordFile
    from gbgnn_lab.experiments.running import Watch
    from gbgnn_lab.experiments.suite import EXPERIMENTS, rebuild, reproduce

__all__ = [
    "EXPERIMENTS",
    "Contest",
    "Options",
    "Protocol",
    "Record",
    "RecordFile",
    "Report",
    "Watch",
    "compare",
    "rebuild",
    "reproduce",
]

_HOMES = {
    "experiment": ("Options", "Report"),
    "leaderboard": ("Contest", "compare"),
    "protocol": ("Protocol",),
    "records": ("Record", "RecordFile"),
    "running": ("Watch",),
    "suite": ("EXPERIMENTS", "rebuild", "reproduce"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: torch takes seconds, which ``gbgnn --help`` spares."""
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
