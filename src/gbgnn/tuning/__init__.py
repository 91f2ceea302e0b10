"""Searching for good settings with Optuna, by validation accuracy alone."""

from gbgnn.errors import MissingDependencyError

try:
    import optuna as _optuna  # noqa: F401
except ImportError as error:
    raise MissingDependencyError("gbgnn.tuning", "optuna", "tune") from error

from gbgnn.tuning.ranges import Choice, Integer, Range, Real
from gbgnn.tuning.repeats import tune_repeatedly
from gbgnn.tuning.search import TrialReport, TuningResult, tune
from gbgnn.tuning.spaces import SearchSpace
from gbgnn.tuning.variants import VARIANTS, default_space, paper_space

__all__ = [
    "VARIANTS",
    "Choice",
    "Integer",
    "Range",
    "Real",
    "SearchSpace",
    "TrialReport",
    "TuningResult",
    "default_space",
    "paper_space",
    "tune",
    "tune_repeatedly",
]
