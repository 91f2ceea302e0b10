"""The paper's experiments, one call each, and leaderboards; every number is made of recorded runs.

Needs neither the ``gbgnn`` command nor matplotlib: ``python -m gbgnn_lab.experiments table1`` runs without,
and figures can be drawn later from the records.
"""

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
