"""Callbacks: looking on while a model is fitted, and asking it to stop."""

from gbgnn.callbacks.base import Callback, RoundReport, StartReport
from gbgnn.callbacks.checkpoint import Checkpoint
from gbgnn.callbacks.early_stopping import EarlyStopping
from gbgnn.callbacks.progress import LogProgress
from gbgnn.finetuning.loop import EpochReport, FineTuningReport

__all__ = [
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "EpochReport",
    "FineTuningReport",
    "LogProgress",
    "RoundReport",
    "StartReport",
]
