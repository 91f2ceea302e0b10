from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gbgnn import MLP, GBGNNClassifier, GBGNNRegressor, Graph, NodeSplit
from gbgnn.blend import BlendedModel, BlendMember
from gbgnn.report import Subject
from gbgnn.testing import two_blocks

HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    '"><a href="javascript:window.hacked = 1">&amp; {{ 7 * 7 }} %{x}</a>',
]
"""Names that people give to classes, columns and nodes."""

SPLIT = NodeSplit(range(0, 20), range(20, 30), range(30, 50))
QUICK = {"preset": "fast", "n_rounds": 3, "random_state": 0}


def quick_learner() -> MLP:
    return MLP(epochs=10, units=4)


@pytest.fixture(scope="session")
def hostile_graph() -> tuple[Graph, np.ndarray]:
    """60 nodes in three classes, whose ids and columns are called anything."""
    graph, y = two_blocks(60, n_classes=3)
    ids = [f"{i} {HOSTILE[i % 3]}" for i in range(60)]
    names = [f"{HOSTILE[i % 3]} {i}" for i in range(graph.n_features)]
    return Graph(graph.adjacency, graph.features, node_ids=ids, feature_names=names), y


@pytest.fixture(scope="session")
def classes(hostile_graph: tuple[Graph, np.ndarray]) -> Subject:
    """A classifier of three classes with hostile names; ten nodes are in no part of the split."""
    graph, y = hostile_graph
    labels = np.array(HOSTILE)[y]
    model = GBGNNClassifier(learner=quick_learner(), **QUICK)
    validation = (SPLIT.val, labels[SPLIT.val])
    model.fit(SPLIT.train, labels[SPLIT.train], graph=graph, validation=validation)
    return Subject.of(model, graph, labels, SPLIT, name=HOSTILE[0], command=HOSTILE[1], config=HOSTILE[2])


@pytest.fixture(scope="session")
def labels(hostile_graph: tuple[Graph, np.ndarray]) -> Subject:
    """A model of several labels per node."""
    graph, y = hostile_graph
    table = np.stack([y == 0, y != 1, y == 2], axis=1).astype(int)
    model = GBGNNClassifier(learner=quick_learner(), **QUICK).fit(
        SPLIT.train, table[SPLIT.train], graph=graph
    )
    return Subject.of(model, graph, table, SPLIT, name="labels")


@pytest.fixture(scope="session")
def numbers(hostile_graph: tuple[Graph, np.ndarray]) -> Subject:
    """A model of numbers."""
    graph, y = hostile_graph
    target = y + np.linspace(0, 1, 60)
    model = GBGNNRegressor(learner=quick_learner(), **QUICK).fit(
        SPLIT.train, target[SPLIT.train], graph=graph
    )
    return Subject.of(model, graph, target, SPLIT, name="numbers")


@pytest.fixture(scope="session")
def average(hostile_graph: tuple[Graph, np.ndarray]) -> Subject:
    """An average of two models, as preset="best" makes one."""
    graph, y = hostile_graph
    validation = (SPLIT.val, y[SPLIT.val])
    fitted = [
        GBGNNClassifier(learner=quick_learner(), rule=rule, **QUICK)
        .fit(SPLIT.train, y[SPLIT.train], graph=graph, validation=validation)
        .model_
        for rule in ("gradient", "samme")
    ]
    tried = {"metric": "accuracy", "score": 0.9, "loss": 0.5, "seconds": 1.0, "status": "done"}
    names = ("network", "votes")
    model = BlendedModel(
        task=fitted[0].task,
        loss=fitted[0].task.default_loss,
        metric=fitted[0].metric,
        members=tuple(BlendMember(*each) for each in zip(names, fitted, (0.75, 0.25), strict=True)),
        leaderboard=[{"family": name, "variant": "", "weight": 0.5, **tried} for name in names],
        seed=0,
        settings=fitted[0].settings,
        validation_score=0.9,
        validation_loss=0.5,
    )
    return Subject.of(model, graph, y, SPLIT, name="average")


@pytest.fixture(scope="session")
def bare(classes: Subject) -> Subject:
    """A run whose data is gone, with what its record says."""
    recorded = {"test": {"nodes": 20, "accuracy": 0.85, "log_loss": 0.4}}
    return replace(
        classes, name="bare", parts=(), graph=None, why_no_data="the folder is gone.", recorded=recorded
    )
