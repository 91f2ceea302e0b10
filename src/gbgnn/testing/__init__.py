"""Toy graphs and contract checks, for our own tests and for those of plug-ins."""

from gbgnn.testing.contracts import check_aggregation, check_learner, check_propagation, check_rule
from gbgnn.testing.graphs import path4, problem_of, two_blocks

__all__ = [
    "check_aggregation",
    "check_learner",
    "check_propagation",
    "check_rule",
    "path4",
    "problem_of",
    "two_blocks",
]
