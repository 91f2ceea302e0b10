"""Searching for good settings with Optuna, by validation accuracy alone."""

from gbgnn.errors import import_needed

import_needed("optuna", "gbgnn.search", "tune")  # before the modules that need it

from gbgnn.search.loop import TrialReport
from gbgnn.search.search import SearchResult, tune, tune_repeatedly
from gbgnn.search.spaces import (
    VARIANTS,
    Choice,
    Integer,
    Range,
    Real,
    SearchSpace,
    default_space,
    paper_space,
)

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
