"""The loop, its rules, its record."""

from gbgnn.boosting.callbacks import (
    Boosted,
    Callback,
    Checkpoint,
    EpochReport,
    RoundReport,
    StartReport,
    TuningReport,
)
from gbgnn.boosting.ensemble import Ensemble, Round
from gbgnn.boosting.history import History
from gbgnn.boosting.loop import boost
from gbgnn.boosting.prediction import apply
from gbgnn.boosting.progress import LogProgress
from gbgnn.boosting.rules import BoostingRule, FunctionalGradient, Samme, SammeR, Vote
from gbgnn.boosting.selection import EarlyStopping, RoundSelection
from gbgnn.boosting.stopping import StopReason

__all__ = [
    "Boosted",
    "BoostingRule",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "Ensemble",
    "EpochReport",
    "FunctionalGradient",
    "History",
    "LogProgress",
    "Round",
    "RoundReport",
    "RoundSelection",
    "Samme",
    "SammeR",
    "StartReport",
    "StopReason",
    "TuningReport",
    "Vote",
    "apply",
    "boost",
]
