"""Columns and neighbours: parts sum to scores, and are what linear algebra says where models are linear."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from gbgnn import (
    MLP,
    BoostedTrees,
    ConsistentNetwork,
    CrossFitted,
    FunctionalGradient,
    GBGNNClassifier,
    GBGNNRegressor,
    Graph,
    GraphNetwork,
    Neighbourhood,
    PropagatedResiduals,
    Stages,
)
from gbgnn.errors import AbsentError, GraphError
from gbgnn.testing import two_blocks

N = 120
BLOCKS, Y = two_blocks(N, n_classes=3, n_features=4)
TRAIN, VAL, NODES = np.arange(60), np.arange(60, 80), np.array([5, 100, 70])
RANDOM = np.random.default_rng(0)
TABLE = {
    "age": np.where(RANDOM.random(N) < 0.1, np.nan, 40 + 10 * BLOCKS.features[:, 0]),
    "city": np.array(["Oslo", "Rome", "Lima"])[(Y + (RANDOM.random(N) < 0.3)) % 3],
    "year": np.full(N, 2024),
    "shoes": RANDOM.integers(36, 47, N).astype(float),
}
PEOPLE = Graph(BLOCKS.adjacency, TABLE)
LOSS = FunctionalGradient(target="loss", learning_rate=1.0, retries=0)
NEARBY = Neighbourhood(hops=2, targets=1, positions=2)
TREES = BoostedTrees(library="sklearn", n_trees=8, max_leaves=5, columns="all")
NETWORK = GraphNetwork(depth=2, units=8, epochs=30)


def fit(graph: Graph = BLOCKS, y: Any = Y, **settings: Any) -> Any:
    kind = GBGNNRegressor if np.asarray(y).dtype.kind == "f" else GBGNNClassifier
    known = {"preset": "fast", "random_state": 0, "n_rounds": 3, "select": "last"}
    model = kind(**known | {"learner": MLP(units=6, epochs=15)} | settings)
    return model.fit(TRAIN, y[TRAIN], graph=graph, validation=(VAL, y[VAL]))


ON_TABLES: dict[str, dict[str, Any]] = {
    "network": {"aggregation": "kta"},
    "network on columns side by side": {"aggregation": "beside"},
    "soft votes": {"rule": "samme_r"},
    "trees": {"learner": TREES, "neighbourhood": NEARBY, "aggregation": "identity"},
    "hops inside": {
        "learner": ConsistentNetwork(n_hops=3, units=8, epochs=20),
        "aggregation": "identity",
        "rule": LOSS,
        "n_rounds": 1,
    },
    "trees, then a graph network": {
        "learner": Stages(first=TREES, then=NETWORK),
        "rule": LOSS,
        "neighbourhood": NEARBY,
        "aggregation": "identity",
        "n_rounds": 2,
    },
    "cross-fitted networks": {
        "learner": CrossFitted(inner=MLP(units=6, epochs=10), n_folds=3),
        "aggregation": "identity",
        "n_rounds": 1,
    },
}


@pytest.mark.parametrize("kind", ON_TABLES)
def test_columns_sum_to_scores_have_the_users_names_and_are_the_same_every_time(kind: str) -> None:
    model = fit(PEOPLE, **ON_TABLES[kind])
    told, scores = model.attributions(NODES), model.scores_[NODES]
    assert list(told.columns[:4]) == ["age", "city", "year", "shoes"]
    assert told.values.shape == (3, len(told.columns), 3)
    np.testing.assert_allclose(told.scores, scores, atol=1e-5)
    np.testing.assert_allclose(told.seen_values.sum(axis=1), told.values.sum(axis=1), atol=1e-9)
    np.testing.assert_array_equal(told.values[:, 2], 0)  # a year that is always the same
    again = model.attributions(NODES)
    assert again.values.tobytes() == told.values.tobytes()
    known = {"labels nearby", "position in the graph", "number of neighbours"}
    assert set(told.columns[4:]) <= known
    if "trees" in kind:
        assert {"labels nearby", "position in the graph"} <= set(told.columns)
        assert "share of neighbours with city=Oslo" in told.seen
    if "graph network" in kind:
        assert "number of neighbours" in told.columns
        assert "city=Oslo (graph network)" in told.seen


def test_a_linear_head_owes_to_a_column_its_weight_times_what_was_heard() -> None:
    model = fit(learner=MLP(hidden_layers=0, epochs=15), n_rounds=2, dtype="float64")
    told, P = model.attributions(NODES), model.model_.build_inputs().P.to_scipy().toarray()
    X = BLOCKS.features - BLOCKS.features.mean(axis=0)
    expected = np.zeros_like(told.values)
    for t, trained in enumerate(model.ensemble_):
        heard = (np.linalg.matrix_power(P, t) @ X)[NODES]
        expected += trained.eta * heard[..., None] * trained.head.layers[0].weight.numpy().T
    np.testing.assert_allclose(told.values, expected, atol=1e-10)
    assert told.remainder < 1e-10
    average = Graph(BLOCKS.adjacency, np.tile(BLOCKS.features.mean(axis=0), (N, 1)))
    np.testing.assert_allclose(told.base, model.decision_function(NODES, graph=average), atol=1e-10)


def test_the_base_of_a_network_is_the_score_in_a_graph_of_average_nodes() -> None:
    average = Graph(BLOCKS.adjacency, np.tile(BLOCKS.features.mean(axis=0), (N, 1)))
    for settings in ({"aggregation": "kta"}, {"aggregation": "injection", "rule": "samme_r"}):
        model = fit(dtype="float64", **settings)
        told = model.attributions(NODES)
        expected = model.decision_function(NODES, graph=average)
        np.testing.assert_allclose(told.base, expected, atol=5e-3 * np.abs(told.scores).max())
        neighbours = model.neighbour_contributions(NODES)
        np.testing.assert_allclose([own.base for own in neighbours], told.base, atol=0.02)


def test_what_matters_most_comes_first() -> None:
    told = fit(aggregation="kta").attributions(NODES)
    for i in range(3):
        top = told.top(i, n=3)
        assert len(top) == 3
        first, second = np.argsort(-told.scores[i])[:2]
        lead = told.values[i, :, first] - told.values[i, :, second]
        assert top[0] == (told.columns[np.abs(lead).argmax()], pytest.approx(lead[np.abs(lead).argmax()]))
        assert dict(told.top(i, n=9, output="2")) == pytest.approx(
            dict(zip(told.columns, told.values[i, :, 2], strict=True))
        )
    numbers = fit(PEOPLE, BLOCKS.features[:, 0] * 3.0 + RANDOM.normal(size=N)).attributions(NODES)
    assert numbers.outputs == ["y"]
    assert numbers.top(0)[0][0] == "age"
    assert numbers.top(0, n=1, seen=True)[0][0] in numbers.seen


def test_integrals_through_a_graph_network_are_gradients_along_the_way() -> None:
    model = fit(PEOPLE, learner=NETWORK, aggregation="identity", rule=LOSS, n_rounds=1, dtype="float64")
    rounds = model.model_.explain([NODES[1]]).rounds
    head, inputs, node = rounds.looks[0].head, rounds.inputs, int(NODES[1])
    entered = head.enter_graph(inputs, node)
    np.testing.assert_allclose(
        entered.rest(entered.end)[node].numpy(), head.evaluate(inputs.features, inputs)[node].numpy()
    )
    moved, steps = entered.end - entered.start, 300
    total = torch.zeros_like(moved)
    for place in (np.arange(steps) + 0.5) / steps:
        Z = (entered.start + float(place) * moved).requires_grad_()
        total += torch.autograd.grad(entered.rest(Z)[node, 0], Z)[0] / steps
    eta, told = model.etas_[0], model.model_.explain([node])
    size = float(np.abs(told.neighbours[0].values).max())
    by_node = np.zeros(N)
    by_node[told.neighbours[0].neighbours] = told.neighbours[0].values[:, 0]
    np.testing.assert_allclose(by_node, eta * (total * moved).sum(dim=1).numpy(), atol=0.05 * size)
    by_column = eta * entered.split(total).numpy()
    found = told.attributions.seen_values[0, :, 0]
    np.testing.assert_allclose(found, by_column, atol=0.05 * np.abs(by_column).max())


def test_a_labelled_node_is_explained_without_its_own_label() -> None:
    model = fit(learner=NETWORK, aggregation="identity", rule=LOSS, n_rounds=1, dtype="float64")
    for node in (0, 1, 100):
        own = model.neighbour_contributions([node])[0]
        np.testing.assert_allclose(own.scores, model.scores_[node], atol=1e-8)
    rounds = model.model_.explain([0]).rounds
    head = rounds.looks[0].head
    own = head.enter_graph(rounds.inputs, 0)
    others = head.enter_graph(rounds.inputs, 100)
    assert not torch.equal(own.end[0], others.end[0])


@pytest.mark.parametrize("sparse", [False, True])
def test_words_of_a_graph_network_sum_as_columns_do(sparse: bool) -> None:
    import scipy.sparse as sp

    words = (RANDOM.random((N, 30)) < 0.1).astype(float)
    words[:, 0] = Y
    graph = Graph(BLOCKS.adjacency, sp.csr_array(words) if sparse else words)
    model = fit(graph, learner=NETWORK, aggregation="identity", rule=LOSS, n_rounds=1)
    told = model.attributions(NODES)
    np.testing.assert_allclose(told.scores, model.scores_[NODES], atol=1e-5)
    assert list(told.columns[:30]) == [f"x{i}" for i in range(30)]
    assert "number of neighbours" in told.columns


def test_neighbours_sum_to_scores_and_are_exact_for_linear_hops() -> None:
    model = fit(aggregation="kta", learner=MLP(hidden_layers=0, epochs=15), dtype="float64")
    P, X = model.model_.build_inputs().P.to_scipy().toarray(), BLOCKS.features
    centred = X - X.mean(axis=0)
    curves = model.response_curves()
    for own in model.neighbour_contributions(NODES):
        expected = np.zeros((N, 3))
        for trained, walks in zip(model.ensemble_, curves.coefficients, strict=True):
            weights = sum(c * np.linalg.matrix_power(P, k)[own.node] for k, c in enumerate(walks))
            expected += trained.eta * weights[:, None] * (centred @ trained.head.layers[0].weight.numpy().T)
        np.testing.assert_allclose(own.values, expected[own.neighbours], atol=1e-10)
        np.testing.assert_allclose(own.scores, model.scores_[own.node], atol=1e-10)
        assert (np.diff(np.abs(own.lead())) <= 1e-12).all()
        assert own.steps[list(own.neighbours).index(own.node)] == 0
        assert (own.steps >= 0).all()
        assert own.rest_parts == []


def test_a_round_that_reaches_one_step_hears_of_neighbours_alone() -> None:
    model = fit(n_rounds=2, propagation="random_walk")
    for own in model.neighbour_contributions(NODES):
        assert set(own.neighbours) == {own.node, *BLOCKS.adjacency[[own.node]].indices}
        assert set(own.steps) == {0, 1}
        told = own.describe(2)
        assert [each["node"] for each in told] == own.neighbours[:2].tolist()
        assert told[0]["added"] == pytest.approx(own.lead()[0])


def test_residuals_come_from_labelled_nodes_and_rounds_of_trees_stay_whole() -> None:
    learner = Stages(first=CrossFitted(inner=TREES, n_folds=3), then=PropagatedResiduals(n_steps=3))
    how = {"learner": learner, "aggregation": "identity", "n_rounds": 2, "rule": LOSS, "dtype": "float64"}
    model = fit(neighbourhood=NEARBY, **how)
    for own in model.neighbour_contributions([0, 11, 100]):
        assert own.rest_parts == ["round 1"]
        assert set(own.neighbours) <= set(TRAIN) - {own.node}
        np.testing.assert_allclose(own.scores, model.scores_[own.node], atol=1e-6)
    near = fit(learner=PropagatedResiduals(n_steps=1), aggregation="identity", n_rounds=1, rule=LOSS)
    told = near.neighbour_contributions([100])[0]
    assert set(told.neighbours) <= set(TRAIN) & set(BLOCKS.adjacency[[100]].indices)
    other, _ = two_blocks(60, n_classes=3, n_features=4, seed=5)
    assert not len(near.neighbour_contributions([1], graph=other)[0].neighbours)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"rule": "samme"}, "votes for one class"),
        ({"aggregation": "learned"}, "LearnedHop makes every column of several"),
        ({"aggregation": "linear"}, "from round 2 on, MixingHop makes every column of several"),
    ],
)
def test_why_there_are_none_is_said(settings: dict[str, Any], why: str) -> None:
    model = fit(**settings)
    with pytest.raises(AbsentError, match=why):
        model.attributions(NODES)
    if settings == {"rule": "samme"}:
        with pytest.raises(AbsentError, match="not known what each neighbour added: a round votes"):
            model.neighbour_contributions(NODES)


def test_trees_alone_do_not_say_of_whom_they_heard() -> None:
    model = fit(learner=TREES, neighbourhood=NEARBY, aggregation="identity")
    with pytest.raises(AbsentError, match="not known what each neighbour added"):
        model.neighbour_contributions(NODES)


@pytest.mark.parametrize("kind", ON_TABLES)
def test_of_no_nodes_there_is_nothing(kind: str) -> None:
    model = fit(PEOPLE, **ON_TABLES[kind])
    assert model.contributions([]).by_scale.shape[0] == 0
    assert len(model.attributions([]).values) == 0
    assert model.neighbour_contributions([]) == []
    with pytest.raises(GraphError, match="holds node id 500"):
        model.explain([500])


def test_attributions_are_a_frame_in_a_line() -> None:
    told = fit(PEOPLE).attributions(NODES)
    frame = pd.DataFrame(told.values[..., 0], index=told.nodes, columns=told.columns)
    assert frame.loc[100].abs().idxmax() in TABLE
