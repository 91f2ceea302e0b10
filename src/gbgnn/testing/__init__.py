"""Toy graphs and contract checks, for our own tests and for those of plug-ins."""

from gbgnn.testing.contracts import (
    check_aggregation,
    check_learner,
    check_loss,
    check_propagation,
    check_rule,
    check_task,
)
from gbgnn.testing.graphs import learner_round, make_context, make_problem, make_round, path4, two_blocks

__all__ = [
    "check_aggregation",
    "check_learner",
    "check_loss",
    "check_propagation",
    "check_rule",
    "check_task",
    "learner_round",
    "make_context",
    "make_problem",
    "make_round",
    "path4",
    "two_blocks",
]
