"""What must hold of any fit, on random graphs: hypothesis chooses graph, parts and seed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn import (
    MLP,
    FunctionalGradient,
    GBGNNClassifier,
    Graph,
    InputInjection,
    KernelTargetAlignment,
    Lazy,
)
from gbgnn.errors import WeakLearnerError

PARTS = {
    "aggregation": st.sampled_from(
        [
            *("adjacency", "identity", "linear", "nonlinear"),
            *(Lazy(mixing=0.4), InputInjection(), KernelTargetAlignment(epochs=4)),
        ]
    ),
    "rule": st.sampled_from(["gradient", "samme", "samme_r", FunctionalGradient(target="labels")]),
    "propagation": st.sampled_from(["augmented", "normalized", "random_walk", "laplacian"]),
    "seed": st.integers(0, 10**6),
    "n_classes": st.integers(2, 4),
}


def random_graph(seed: int, n_classes: int, n_nodes: int = 30) -> tuple[Graph, np.ndarray, np.ndarray]:
    """A weighted, maybe directed graph, with isolated nodes."""
    random = np.random.default_rng(seed)
    A = sp.random_array((n_nodes, n_nodes), density=0.1, rng=random, format="csr")
    A = A if seed % 3 == 0 else A + A.T
    y = np.arange(n_nodes) % n_classes
    features = random.normal(size=(n_nodes, 4)) + y[:, None]
    one_of_each = np.arange(n_classes)
    others = n_classes + random.permutation(n_nodes - n_classes)[: 14 - n_classes]
    return Graph(A, features), y, np.concatenate([one_of_each, others])


def fit(
    graph: Graph, y: np.ndarray, train: np.ndarray, val: np.ndarray, seed: int, **parts: object
) -> GBGNNClassifier:
    model = GBGNNClassifier(
        learner=MLP(epochs=4, units=6, batch_size=5), n_rounds=4, random_state=seed, device="cpu", **parts
    )
    return model.fit(train, y[train], graph=graph, validation=(val, y[val]))


@settings(max_examples=40)
@given(**PARTS)
def test_node_permutation_changes_nothing(seed: int, n_classes: int, **parts: object) -> None:
    graph, y, chosen = random_graph(seed, n_classes)
    train, val = chosen[:10], chosen[10:]
    order = np.random.default_rng(seed).permutation(30)
    place = np.argsort(order)
    permuted = Graph(graph.adjacency[order][:, order], np.asarray(graph.features)[order])
    try:
        model = fit(graph, y, train, val, seed, dtype="float64", **parts)
    except WeakLearnerError:
        with pytest.raises(WeakLearnerError):
            fit(permuted, y[order], place[train], place[val], seed, dtype="float64", **parts)
        return
    other = fit(permuted, y[order], place[train], place[val], seed, dtype="float64", **parts)
    np.testing.assert_allclose(other.scores_, model.scores_[order], rtol=1e-6, atol=1e-7)
    assert other.best_round_ == model.best_round_


@settings(max_examples=40)
@given(**PARTS)
def test_scrambling_every_other_label_changes_nothing(seed: int, n_classes: int, **parts: object) -> None:
    """fit is given the whole label vector, but may look at train and validation nodes only."""
    graph, y, chosen = random_graph(seed, n_classes)
    train, val = chosen[:10], chosen[10:]
    scrambled = np.random.default_rng(seed).permutation(y)
    scrambled[chosen] = y[chosen]
    try:
        model = fit(graph, y, train, val, seed, **parts)
    except WeakLearnerError:
        return
    other = fit(graph, scrambled, train, val, seed, **parts)
    assert other.scores_.tobytes() == model.scores_.tobytes()
    without_clock = [{**row, "seconds": 0, "peak_memory": 0} for row in model.history_]
    assert without_clock == [{**row, "seconds": 0, "peak_memory": 0} for row in other.history_]


@settings(max_examples=25)
@given(**PARTS)
def test_validation_labels_reach_the_choice_of_round_only(seed: int, n_classes: int, **parts: object) -> None:
    graph, y, chosen = random_graph(seed, n_classes)
    train, val = chosen[:10], chosen[10:]
    other_y = y.copy()
    other_y[val] = np.roll(y[val], 1)
    try:
        models = [fit(graph, labels, train, val, seed, select="last", **parts) for labels in (y, other_y)]
    except WeakLearnerError:
        return
    assert models[0].scores_.tobytes() == models[1].scores_.tobytes()


@settings(max_examples=25)
@given(**PARTS)
def test_staged_equals_shorter_fit_and_refit_equals_fit(seed: int, n_classes: int, **parts: object) -> None:
    graph, y, chosen = random_graph(seed, n_classes)
    nodes = np.arange(30)

    def train(n_rounds: int) -> GBGNNClassifier:
        model = GBGNNClassifier(learner=MLP(epochs=3, units=5), n_rounds=n_rounds, random_state=seed, **parts)
        return model.fit(chosen, y[chosen], graph=graph)

    try:
        model = train(4)
    except WeakLearnerError:
        return
    for t, proba in enumerate(model.staged_predict_proba(nodes), start=1):
        assert proba.tobytes() == train(t).predict_proba(nodes).tobytes()
    assert model.fit(chosen, y[chosen], graph=graph).predict_proba(nodes).tobytes() == proba.tobytes()
