"""The loop, its rules, its record."""

from gbgnn.boosting.callbacks import (
    Boosted,
    Callback,
    Checkpoint,
    EarlyStopping,
    LogProgress,
    RoundReport,
    RoundSelection,
    StartReport,
)
from gbgnn.boosting.ensemble import Ensemble, Round
from gbgnn.boosting.history import History
from gbgnn.boosting.loop import boost
from gbgnn.boosting.prediction import apply
from gbgnn.boosting.rules import BoostingRule, FunctionalGradient, Samme, SammeR, Vote
from gbgnn.boosting.stopping import StopReason

__all__ = [
    "Boosted",
    "BoostingRule",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "Ensemble",
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
    "Vote",
    "apply",
    "boost",
]
