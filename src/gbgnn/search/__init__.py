"""Searching for good settings with Optuna, by validation accuracy alone."""

from gbgnn.errors import MissingDependencyError

try:
    import optuna as _optuna  # noqa: F401
except ImportError as error:
    raise MissingDependencyError("gbgnn.search", "optuna", "tune") from error

from gbgnn.search.loop import TrialReport
from gbgnn.search.results import SearchResult
from gbgnn.search.search import tune, tune_repeatedly
from gbgnn.search.spaces import Choice, Integer, Range, Real, SearchSpace
from gbgnn.search.variants import VARIANTS, default_space, paper_space

__all__ = [
    "VARIANTS",
    "Choice",
    "Integer",
    "Range",
    "Real",
    "SearchResult",
    "SearchSpace",
    "TrialReport",
    "default_space",
    "paper_space",
    "tune",
    "tune_repeatedly",
]
