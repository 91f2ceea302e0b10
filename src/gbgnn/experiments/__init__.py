"""The paper's experiments, one call each, and leaderboards; every number is made of recorded runs.

Needs neither the ``gbgnn`` command nor matplotlib: ``python -m gbgnn.experiments table1`` runs without, and
figures can be drawn later from the records.
"""

from gbgnn.experiments.experiment import Options, Report
from gbgnn.experiments.leaderboard import Contest, compare
from gbgnn.experiments.protocol import Protocol
from gbgnn.experiments.records import Record, RecordFile
from gbgnn.experiments.running import Watch
from gbgnn.experiments.suite import EXPERIMENTS, rebuild, reproduce

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
