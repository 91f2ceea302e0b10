from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn import FunctionalGradient, GBGNNClassifier, GBGNNRegressor, Graph, GraphNetwork, load
from gbgnn.errors import ModelFileError, ParameterError
from gbgnn.learners import GraphNetworkHead
from gbgnn.learners.columns import ColumnMap
from gbgnn.learners.graph_blocks import MIXINGS, Dropout, Neighbours, start_blocks
from gbgnn.learners.graph_training import warm_cosine
from gbgnn.problem import InputRecipe, KnownLabels, NodeInputs
from gbgnn.propagation import AugmentedAdjacency, DenseRows, RandomWalk
from gbgnn.testing import check_learner, two_blocks

BOOSTED = {"rule": FunctionalGradient(target="loss", learning_rate=1.0, retries=0), "n_rounds": 1}


def noise(n: int = 120, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """Return two communities of which the features tell nothing."""
    graph, y = two_blocks(n, seed=seed)
    return Graph(graph.adjacency, np.random.default_rng(seed).standard_normal((n, 3))), y


def words(n: int = 120, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """Return two communities, each of which has words of its own, most of them rare."""
    graph, y = two_blocks(n, seed=seed)
    random = np.random.default_rng(seed)
    chance = np.where((np.arange(60) % 2) == y[:, None], 0.1, 0.02)
    X = (random.random((n, 60)) < chance) * random.random((n, 60))
    X[:, 7] = 0.0
    X[3, 8], X[:, 9] = 1000.0, 0.5
    return Graph(graph.adjacency, sp.csr_array(X)), y


def halves(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return half of the nodes and the other half, both of all classes."""
    nodes = np.arange(n)
    return nodes[nodes % 4 < 2], nodes[nodes % 4 >= 2]


def inputs_of(graph: Graph, known: KnownLabels | None = None) -> NodeInputs:
    return replace(InputRecipe(RandomWalk()).build(graph), known=known)


def random_head(
    inputs: NodeInputs, n_labels: int = 3, seed: int = 0, mixing: str = "mean"
) -> GraphNetworkHead:
    """Return a network none of whose weights is zero."""
    blocks = start_blocks(3, 8, seed, mixing)
    head = GraphNetworkHead.start(ColumnMap.fit(inputs), blocks, n_labels, 2, units=8, seed=seed)
    random = torch.Generator().manual_seed(seed)
    for weight in head.parameters():
        weight.copy_(torch.randn(weight.shape, generator=random))
    return head


def fit(graph: Graph, y: np.ndarray, train: np.ndarray, **network: object) -> GBGNNClassifier:
    model = GBGNNClassifier(
        learner=GraphNetwork(**{"epochs": 60, **network}),
        propagation="random_walk",
        random_state=0,
        **BOOSTED,
    )
    return model.fit(train, y[train], graph=graph)


def test_keeps_the_promises_of_learners() -> None:
    check_learner(GraphNetwork(epochs=5, depth=2, units=4))


def test_begins_with_zero() -> None:
    inputs = inputs_of(noise()[0])
    head = GraphNetworkHead.start(ColumnMap.fit(inputs), start_blocks(2, 4, 1), 0, 2, units=4, seed=1)
    assert not head.evaluate(inputs.features, inputs).any()


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("mixing", MIXINGS)
def test_outputs_are_those_of_dense_algebra(mixing: str, is_sparse: bool) -> None:
    graph = (words if is_sparse else noise)(30)[0]
    known = KnownLabels(torch.tensor([3, 5]), torch.tensor([[0.5, 1.0], [-0.5, 2.0]]))
    inputs = inputs_of(graph)
    head = random_head(inputs, mixing=mixing)
    state = {name: value.double().numpy() for name, value in head.state().items()}
    P, S = (recipe.build(graph.adjacency).toarray() for recipe in (RandomWalk(), AugmentedAdjacency()))

    def standardise(H: np.ndarray, scale: np.ndarray) -> np.ndarray:
        centred = H - H.mean(axis=1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * scale[0] + scale[1]

    labels = np.zeros((30, 3))
    labels[[3, 5]] = [[0.5, 1.0, 1.0], [-0.5, 2.0, 1.0]]
    columns = head.columns(inputs)
    assert (columns.sparse is not None) == is_sparse
    words_first = np.zeros((30, 0))
    if is_sparse:
        words_first = graph.features.toarray() * state["columns.scales"]
    X = np.hstack([words_first, columns.dense.double().numpy(), labels])
    H = np.maximum(X @ state["enter.weight"].T + state["enter.bias"], 0)
    for i in range(3):
        Z = standardise(H, state[f"blocks.{i}.scale"])
        heard = S @ Z if mixing == "symmetric" else Z
        told = heard @ state[f"blocks.{i}.own.weight"].T + state[f"blocks.{i}.own.bias"]
        if mixing != "symmetric":
            told = told + P @ Z @ state[f"blocks.{i}.others"].T
        if mixing == "both":
            told = told + S @ Z @ state[f"blocks.{i}.symmetric"].T
        H = H + np.maximum(told, 0)
    expected = standardise(H, state["scale"]) @ state["leave.weight"].T + state["leave.bias"]
    found = head.outputs(columns, Neighbours(inputs.P), known)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-3, atol=1e-3)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.data())
def test_no_node_hears_its_own_label(seed: int, n_known: int, data: st.DataObject) -> None:
    random = np.random.default_rng(seed)
    graph, _ = noise(20, seed % 7)
    rows = torch.from_numpy(random.permutation(20)[:n_known])
    codes = torch.from_numpy(random.standard_normal((n_known, 2))).float()
    head = random_head(inputs_of(graph), seed=seed)
    place = data.draw(st.integers(0, n_known - 1))
    other = codes.clone()
    other[place] += 5.0
    first, second = (
        head.evaluate(DenseRows(torch.zeros(20, 0)), inputs_of(graph, KnownLabels(rows, each)))
        for each in (codes, other)
    )
    assert torch.equal(first[rows[place]], second[rows[place]])


def test_other_nodes_hear_a_label() -> None:
    graph, _ = noise(20)
    head = random_head(inputs_of(graph))
    first, second = (
        head.evaluate(
            DenseRows(torch.zeros(20, 0)), inputs_of(graph, KnownLabels(torch.tensor([4, 9]), each))
        )
        for each in torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [-3.0, 4.0]]])
    )
    changed = (first != second).any(dim=1)
    assert not changed[9]
    assert changed.sum() > 5


def test_labels_nearby_are_worth_more_than_noise() -> None:
    graph, y = noise(300)
    train, test = np.arange(0, 300, 3), np.arange(1, 300, 3)
    heard, deaf = (fit(graph, y, train, label_share=share).score(test, y[test]) for share in (0.5, 0.0))
    assert heard > 0.9
    assert heard > deaf + 0.1


def test_predictions_of_the_same_graph_are_the_same_wherever_they_come_from(tmp_path) -> None:
    graph, y = noise()
    model = fit(graph, y, halves(120)[0])
    nodes = np.arange(120)
    expected = model.predict_proba(nodes)
    twin = Graph(graph.adjacency.copy(), np.array(graph.features))
    np.testing.assert_array_equal(model.predict_proba(nodes, graph=twin), expected)
    (staged,) = model.model_.staged_predict_proba(nodes)
    np.testing.assert_array_equal(staged, expected)
    model.save(tmp_path / "model.gbgnn")
    again = load(tmp_path / "model.gbgnn")
    np.testing.assert_array_equal(again.predict_proba(nodes), expected)
    np.testing.assert_array_equal(again.predict_proba(nodes, graph=twin), expected)


def test_predicts_another_graph_of_which_no_label_is_known() -> None:
    graph, y = two_blocks(200, seed=0)
    other, truth = two_blocks(90, seed=0)
    model = fit(graph, y, halves(200)[0])
    assert model.score(np.arange(90), truth, graph=other) > 0.9
    narrow = Graph(other.adjacency, np.asarray(other.features)[:, :2])
    with pytest.raises(Exception, match="2 features"):
        model.predict([0], graph=narrow)


def test_stops_where_the_validation_nodes_are_predicted_best() -> None:
    graph, y = noise(200, seed=3)
    train, val = halves(200)
    learner = GraphNetwork(epochs=100, label_share=0.0)
    fits = [
        GBGNNClassifier(learner=each, random_state=0, **BOOSTED).fit(
            train, y[train], graph=graph, validation=(val, y[val])
        )
        for each in (learner, GraphNetwork(epochs=100, label_share=0.0, patience=None))
    ]
    watched, free = (model.history_[-1]["val_loss"] for model in fits)
    assert watched <= np.log(2)  # where it began
    assert watched < free


def test_offsets_that_say_it_all_leave_nothing_to_do() -> None:
    graph, y = two_blocks(100, seed=1)
    model = GBGNNClassifier(learner=GraphNetwork(epochs=10), rule=BOOSTED["rule"], n_rounds=3, random_state=0)
    train, val = halves(100)
    model.fit(train, y[train], graph=graph, validation=(val, y[val]))
    losses = model.history_["val_loss"]
    assert losses == sorted(losses, reverse=True)


def test_learns_numbers_and_weights_count() -> None:
    graph, y = two_blocks(150, seed=2)
    numbers = y * 4.0 + 10.0
    train, test = halves(150)
    model = GBGNNRegressor(learner=GraphNetwork(epochs=80), random_state=0, **BOOSTED)
    assert model.fit(train, numbers[train], graph=graph).score(test, numbers[test]) > 0.8
    wrong = np.arange(len(train)) % 5 < 2
    spoiled = np.where(wrong, 24.0 - numbers[train], numbers[train])
    model.set_params(learner__label_share=0.0).fit(
        train, spoiled, graph=graph, sample_weight=np.where(wrong, 1e-6, 1.0)
    )
    assert model.score(test, numbers[test]) > 0.8


def test_columns_are_mapped_by_quantiles() -> None:
    graph, _ = two_blocks(50, seed=4)
    X = np.asarray(graph.features, np.float64)
    plain, stretched = (
        ColumnMap.fit(inputs)(inputs).dense
        for inputs in (inputs_of(Graph(graph.adjacency, each)) for each in (X, 1e6 * np.exp(X)))
    )
    torch.testing.assert_close(plain, stretched, rtol=1e-3, atol=1e-3)
    assert float(plain.abs().max()) < 4
    constant = inputs_of(Graph(graph.adjacency, np.ones((50, 2))))
    assert not ColumnMap.fit(constant)(constant).dense[:, :2].any()


def test_dropout_keeps_the_mean_and_thins_out() -> None:
    ones = torch.ones(1000, 33)
    thin = Dropout(0.25, torch.Generator().manual_seed(0))(ones)
    assert float((thin == 0).float().mean()) == pytest.approx(0.25, abs=0.01)
    assert float(thin.mean()) == pytest.approx(1.0, abs=0.01)
    assert torch.equal(Dropout(0.25)(ones), ones)


def test_steps_grow_and_fall() -> None:
    sizes = [warm_cosine(share) for share in np.linspace(0, 1, 11)]
    assert sizes == sorted(sizes[:3]) + sorted(sizes[3:], reverse=True)
    assert (max(sizes), sizes[-1]) == (1.0, 0.0)


@pytest.mark.parametrize(
    "setting",
    [
        *({"depth": 0}, {"units": 0}, {"dropout": 1.0}, {"label_share": 1.0}),
        *({"learning_rate": 0}, {"epochs": 0}, {"mixing": "sum"}),
    ],
)
def test_settings_out_of_range_are_named(setting: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=f"GraphNetwork.{next(iter(setting))}"):
        GraphNetwork(**setting).check()


def test_rows_alone_are_not_enough() -> None:
    inputs = inputs_of(noise()[0])
    with pytest.raises(ParameterError, match="needs the graph"):
        random_head(inputs)(torch.zeros(3, 3))
    narrow = inputs_of(Graph(noise()[0].adjacency, np.zeros((120, 1))))
    with pytest.raises(ParameterError, match="1 columns, but the network has seen 3"):
        random_head(inputs).evaluate(narrow.features, narrow)


@pytest.mark.parametrize(
    "name", ["enter.bias", "blocks.1.others", "blocks.0.scale", "leave.weight", "columns.knots", "scale"]
)
def test_shapes_of_a_file_are_checked(name: str) -> None:
    state = random_head(inputs_of(noise()[0])).state()
    restored = GraphNetworkHead.from_state(state)
    assert restored.state().keys() == state.keys()
    with pytest.raises(ModelFileError, match="graph network"):
        GraphNetworkHead.from_state(state | {name: state[name][..., :-1].contiguous()})


def test_sparse_columns_are_scaled_and_stay_sparse() -> None:
    graph, _ = words()
    columns = ColumnMap.fit(inputs_of(graph))
    X = graph.features.toarray()
    expected = 1 / np.maximum(
        X.std(axis=0), abs(X).max(axis=0) / 4, where=X.std(axis=0) > 1e-9, out=np.ones(60)
    )
    expected[[7, 9]] = 0.0  # nothing varies
    np.testing.assert_allclose(columns.scales, expected, rtol=1e-5)
    mapped = columns(inputs_of(graph)).sparse
    assert mapped is not None
    assert len(mapped.rows.values) == graph.features.nnz
    assert float(mapped.rows.values.abs().max()) < 4.001


def test_gradients_of_sparse_columns_are_those_of_dense_ones() -> None:
    inputs = inputs_of(words()[0])
    columns = ColumnMap.fit(inputs)(inputs)
    assert columns.sparse is not None
    dense = torch.hstack([columns.sparse.rows.dense(), columns.dense])
    random = torch.Generator().manual_seed(0)
    weight, bias = (torch.randn(*size, generator=random).requires_grad_() for size in ((5, 61), (5,)))
    sparse_output = columns.times(weight, bias, None)
    dense_output = torch.addmm(bias, dense, weight.t())
    torch.testing.assert_close(sparse_output, dense_output, rtol=1e-4, atol=1e-4)
    found, expected = (
        torch.autograd.grad(each.sin().sum(), [weight, bias]) for each in (sparse_output, dense_output)
    )
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("mixing", MIXINGS)
def test_a_network_on_words_learns_and_is_the_same_after_a_file(tmp_path, mixing: str) -> None:
    graph, y = words(200)
    train, test = halves(200)
    model = fit(graph, y, train, mixing=mixing, label_share=0.0)
    assert model.score(test, y[test]) > 0.9
    model.save(tmp_path / "model.gbgnn")
    again = load(tmp_path / "model.gbgnn")
    np.testing.assert_array_equal(
        again.predict_proba(test, graph=graph), model.predict_proba(test, graph=graph)
    )
    other, truth = words(90, seed=4)
    assert again.score(np.arange(90), truth, graph=other) > 0.8
    dense = Graph(other.adjacency, other.features.toarray())
    np.testing.assert_allclose(
        again.predict_proba(np.arange(90), graph=dense),
        again.predict_proba(np.arange(90), graph=other),
        rtol=1e-4,
    )


def test_networks_that_grow_have_as_many_blocks_as_rounds() -> None:
    graph, y = two_blocks(80)
    model = GBGNNClassifier(
        learner=GraphNetwork(grow=True, depth=3, epochs=5, units=4), n_rounds=4, random_state=0
    )
    model.fit(np.arange(40), y[:40], graph=graph)
    assert [len(each.head.blocks) for each in model.model_.ensemble] == [1, 2, 3, 3]


@pytest.mark.parametrize("name", ["blocks.1.symmetric", "columns.scales"])
def test_further_shapes_of_a_file_are_checked(name: str) -> None:
    state = random_head(inputs_of(words()[0]), mixing="both").state()
    assert GraphNetworkHead.from_state(state).state().keys() == state.keys()
    with pytest.raises(ModelFileError, match="graph network"):
        GraphNetworkHead.from_state(state | {name: state[name][None]})
