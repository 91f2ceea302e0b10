"""Other graph neural networks, run by us on the same data and split."""

from gbgnn.baselines.base import BaselineModel
from gbgnn.baselines.catalogue import BASELINES, Baseline, find_baseline
from gbgnn.baselines.fitting import BaselineResult, choose_model, fit_baseline

__all__ = [
    "BASELINES",
    "Baseline",
    "BaselineModel",
    "BaselineResult",
    "choose_model",
    "find_baseline",
    "fit_baseline",
]
