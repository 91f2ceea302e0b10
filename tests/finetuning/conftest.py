from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gbgnn import MLP
from gbgnn._random import Seeds
from gbgnn.aggregation import Aggregation
from gbgnn.boosting import BoostingRule, Ensemble, boost
from gbgnn.problem import LabelledNodes, Problem
from gbgnn.tasks import MultiLabel, Regression
from gbgnn.testing import make_problem, two_blocks


@pytest.fixture(scope="session")
def three_classes() -> Problem:
    """40 nodes in three classes, 15 labelled with weights of their own, 10 for validation."""
    graph, y = two_blocks(40, n_classes=3)
    problem = make_problem(graph, y, np.arange(15), np.arange(15, 25))
    return replace(problem, train=LabelledNodes.build(np.arange(15), y[:15], np.linspace(0.5, 2, 15)))


@pytest.fixture(scope="session")
def two_classes() -> Problem:
    graph, y = two_blocks(30)
    return make_problem(graph, y, np.arange(12), np.arange(12, 20))


@pytest.fixture(scope="session")
def numbers() -> Problem:
    """40 nodes with two numbers each, made of the features of their neighbours."""
    graph, _ = two_blocks(40)
    X = np.asarray(graph.features)
    y = np.stack([X[:, 0] * X[:, 1], graph.adjacency @ X[:, 2]], axis=1)
    return make_problem(graph, y, np.arange(20), np.arange(20, 30), task=Regression())


@pytest.fixture(scope="session")
def many_labels() -> Problem:
    """40 nodes with any of three labels."""
    graph, classes = two_blocks(40, n_classes=3)
    y = np.stack([classes == 0, classes != 1, np.asarray(graph.features)[:, 0] > 0], axis=1).astype(int)
    return make_problem(graph, y, np.arange(20), np.arange(20, 30), task=MultiLabel())


@pytest.fixture(scope="session")
def boosted() -> Callable[..., Ensemble]:
    """Make a model to tune: small networks, few epochs."""

    def make(problem: Problem, aggregation: Aggregation, rule: BoostingRule, n_rounds: int = 7) -> Ensemble:
        learner = MLP(epochs=30, units=6, dropout=0.0)
        return boost(problem, aggregation, learner, rule, n_rounds=n_rounds, seeds=Seeds(0)).ensemble

    return make
