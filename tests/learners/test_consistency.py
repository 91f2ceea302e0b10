from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn import (
    ConsistentNetwork,
    FunctionalGradient,
    GBGNNClassifier,
    GBGNNRegressor,
    Graph,
    Samme,
    Turns,
    datasets,
    load,
)
from gbgnn.errors import GraphError, ModelFileError, ParameterError
from gbgnn.learners import HopHead
from gbgnn.learners.consistency import _Training, sharpen
from gbgnn.learners.hop_head import RowMap
from gbgnn.losses import SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
from gbgnn.problem import InputRecipe
from gbgnn.propagation import AugmentedAdjacency
from gbgnn.propagation.product import Mixing
from gbgnn.rounds import RoundContext
from gbgnn.testing import check_learner, make_context, make_problem, two_blocks

SMALL = {"units": 8, "n_hops": 2, "n_views": 2, "row_norm": None}
ON_SCORES = FunctionalGradient(target="loss", learning_rate=1.0)


def fit(data: Any, learner: Any, **settings: Any) -> GBGNNClassifier:
    chosen = {"rule": ON_SCORES, "n_rounds": 2, "random_state": 0, **settings}
    return GBGNNClassifier(learner=learner, **chosen).fit(data.train, data.y[data.train], graph=data.graph)


@pytest.fixture(scope="module")
def data() -> Any:
    return datasets.csbm(n_nodes=150, n_classes=3, per_class=5, seed=0)


def asked_round() -> RoundContext:
    """Round 2 on a small graph, in which a smaller loss of scores and outputs is asked for."""
    graph, y = two_blocks(20)
    context = make_context(make_problem(graph, y, np.arange(8), dtype=torch.float32))
    return replace(context, task=ON_SCORES.ask(context, None))


def training(learner: ConsistentNetwork, seed: int = 0, scores: torch.Tensor | None = None) -> _Training:
    """A training that has not begun, on a small graph."""
    context = asked_round()
    inputs, task = context.inputs, context.weak_task
    rows = RowMap.fit(inputs, learner.row_norm, standardize=False)
    head = HopHead.start(rows, task.n_outputs, learner.units, learner.coefficients(), seed)
    torch.manual_seed(0)
    head.leave.weight.copy_(torch.randn(head.leave.weight.shape))
    scores = context.scores if scores is None else scores
    return _Training(learner, head, rows(inputs), Mixing(inputs.P), task, scores, seed)


@pytest.mark.parametrize("norm", [None, "l1", "l2"])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("standardize", [False, True])
def test_head_is_its_formula(norm: str | None, *, is_sparse: bool, standardize: bool) -> None:
    random = np.random.default_rng(0)
    X = sp.random(30, 40, 0.1, random_state=0, format="csr") if is_sparse else random.normal(size=(30, 7))
    A = sp.csr_array(np.triu(random.random((30, 30)) < 0.1, 1))
    graph = Graph(A + A.T, X)
    inputs = InputRecipe(AugmentedAdjacency(), dtype=torch.float64).build(graph)
    hops = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    rows = RowMap.fit(inputs, norm, standardize=standardize)
    head = HopHead.start(rows, 3, 5, hops, seed=1).double()
    head.leave.weight.copy_(torch.from_numpy(random.normal(size=(3, 5))))
    P, dense = inputs.P.to_scipy().toarray(), X.toarray() if is_sparse else X
    if norm is not None:
        lengths = np.linalg.norm(dense, ord=int(norm[1]), axis=1, keepdims=True)
        dense = dense / np.where(lengths > 0, lengths, 1)
    if standardize:
        dense = dense - dense.mean(axis=0)
        dense /= np.sqrt((dense**2).sum(axis=1).mean())
    (W1, b1), (W2, b2) = ((each.weight.numpy(), each.bias.numpy()) for each in (head.enter, head.leave))
    mixed = 0.2 * dense + 0.5 * P @ dense + 0.3 * P @ P @ dense
    expected = np.maximum(mixed @ W1.T + b1, 0) @ W2.T + b2
    np.testing.assert_allclose(head.evaluate(inputs.features, inputs), expected, atol=1e-12)


@given(n_hops=st.integers(0, 12), restart=st.floats(0.05, 1.0))
def test_coefficients_of_pagerank_are_its_iteration(n_hops: int, restart: float) -> None:
    c = ConsistentNetwork(hops="pagerank", n_hops=n_hops, restart=restart).coefficients().double()
    walk = np.array([1.0])  # as a polynomial in P
    for _ in range(n_hops):
        walk = (1 - restart) * np.append(0, walk) + restart * np.eye(len(walk) + 1)[0]
    np.testing.assert_allclose(c, walk, atol=1e-6)
    assert float(c.sum()) == pytest.approx(1, abs=1e-5)


def test_views_are_alike_where_nothing_is_dropped() -> None:
    own = training(ConsistentNetwork(**SMALL, node_dropout=0, dropout=0, temperature=1.0))
    gate = torch.ones_like(own.head.enter.weight[0])
    views = own._views(gate)
    alone = own.head.outputs(own.words, own.mixing)
    for view in views.unbind(1):
        torch.testing.assert_close(view, alone)
    assert float(own._distance(views)) == pytest.approx(0, abs=1e-10)


def test_views_are_right_on_average() -> None:
    """Dropped rows, columns and units are made up for: before the ReLU, the mean is what it was."""
    own = training(ConsistentNetwork(**SMALL | {"n_views": 4000}, node_dropout=0.3, feature_dropout=0.2))
    own.drop = lambda hidden: hidden  # type: ignore[assignment]
    own.head.enter.bias.fill_(50.0)  # so that no unit is ever zero
    views = own._views(torch.ones_like(own.head.enter.weight[0]))
    alone = own.head.outputs(own.words, own.mixing)
    deviation = views.std(dim=1) / 4000**0.5
    assert bool(((views.mean(dim=1) - alone).abs() < 5 * deviation + 1e-3).all())


def test_distance_is_the_brute_force_sum() -> None:
    own = training(ConsistentNetwork(**SMALL, temperature=0.4))
    outputs = own._views(torch.ones_like(own.head.enter.weight[0]))
    found, terms = float(own._distance(outputs)), []
    for node in outputs.detach().double():
        beliefs = own.task.loss.evaluate("link", node)
        mean = beliefs.mean(dim=0)
        target = sharpen(mean[None], 0.4, own.task.loss)[0]
        terms += [float((belief - target).square().sum()) for belief in beliefs]
    assert found == pytest.approx(np.mean(terms), rel=1e-5)


@settings(max_examples=50)
@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=6), st.floats(0.1, 1.0))
def test_sharpened_beliefs_are_beliefs(weights: list[float], temperature: float) -> None:
    p = torch.tensor([weights], dtype=torch.float64) / sum(weights)
    q = sharpen(p, temperature, SoftmaxCrossEntropy())
    assert float(q.sum()) == pytest.approx(1)
    assert bool((q.max() >= p.max() - 1e-12).all())
    both = torch.cat([p[:, :1], 1 - p[:, :1]], dim=1)
    alone = sharpen(p[:, :1], temperature, SigmoidCrossEntropy())
    torch.testing.assert_close(alone, sharpen(both, temperature, SoftmaxCrossEntropy())[:, :1])
    torch.testing.assert_close(sharpen(p, temperature, SquaredError()), p)


def test_nodes_without_labels_train() -> None:
    learner = ConsistentNetwork(**SMALL, epochs=5, patience=None)
    heads = [
        each.fit(asked_round())
        for each in (learner, learner, ConsistentNetwork(**SMALL, epochs=5, patience=None, consistency=0))
    ]
    first, again, without = (head.enter.weight for head in heads)
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert not torch.equal(first, without)


def test_columns_that_tell_nothing_fade(data: Any) -> None:
    noise = np.random.default_rng(0).normal(size=(data.graph.n_nodes, 30))
    X = np.column_stack([np.asarray(data.graph.features), noise])
    graph, n_own = Graph(data.graph.adjacency, X), data.graph.n_features

    def share_of_noise(gate_decay: float | None) -> float:
        learner = ConsistentNetwork(**SMALL, epochs=150, gate_decay=gate_decay, patience=None)
        model = GBGNNClassifier(learner=learner, rule=ON_SCORES, n_rounds=1, random_state=0)
        model.fit(data.train, data.y[data.train], graph=graph)
        squares = model.ensemble_.rounds[0].head.enter.weight.square().sum(dim=0)
        return float(squares[n_own:].mean() / squares[:n_own].mean())

    assert share_of_noise(0.005) < 0.7 * share_of_noise(None)


def test_teacher_is_what_earlier_rounds_say(data: Any) -> None:
    plain, taught = (
        fit(data, ConsistentNetwork(**SMALL, epochs=20, teacher=share, patience=None)) for share in (0.0, 0.5)
    )
    firsts, seconds = ([m.ensemble_.rounds[i].head.enter.weight for m in (plain, taught)] for i in (0, 1))
    torch.testing.assert_close(*firsts, rtol=0, atol=0)  # before round 1 nothing is said
    assert not torch.equal(*seconds)


@pytest.mark.parametrize("learner", [ConsistentNetwork(**SMALL, epochs=3), Turns()])
def test_learner_keeps_its_contract(learner: Any) -> None:
    check_learner(learner)


def test_learns_with_five_labels_a_class(data: Any) -> None:
    model = fit(data, ConsistentNetwork(row_norm=None, epochs=80), n_rounds=1)
    assert model.score(data.test, data.y[data.test]) > 0.85


@pytest.mark.parametrize("rule", [FunctionalGradient(), Samme(), ON_SCORES])
def test_goes_with_every_rule(rule: Any, data: Any) -> None:
    model = fit(data, ConsistentNetwork(**SMALL, epochs=40), rule=rule)
    assert model.score(data.test, data.y[data.test]) > 0.6


def test_other_targets(data: Any) -> None:
    learner = ConsistentNetwork(**SMALL, epochs=200)
    numbers = np.asarray(data.graph.features)[:, 0] + data.y
    regressor = GBGNNRegressor(learner=learner, rule=ON_SCORES, n_rounds=1, random_state=0)
    regressor.fit(data.train, numbers[data.train], graph=data.graph)
    assert regressor.score(data.test, numbers[data.test]) > 0.2
    labels = np.stack([data.y == 0, data.y != 1], axis=1).astype(int)
    several = GBGNNClassifier(learner=learner, rule=ON_SCORES, n_rounds=1, random_state=0)
    several.fit(data.train, labels[data.train], graph=data.graph)
    assert (several.predict(data.test) == labels[data.test]).mean() > 0.8
    two = GBGNNClassifier(learner=learner, rule=ON_SCORES, n_rounds=1, random_state=0)
    two.fit(data.train, data.y[data.train] == 0, graph=data.graph)
    assert (two.predict(data.test) == (data.y[data.test] == 0)).mean() > 0.8


def test_after_others_it_may_stay_silent_but_not_first(data: Any) -> None:
    wrong = (data.y[data.val] + 1) % 3  # of which training knows nothing
    model = GBGNNClassifier(learner=ConsistentNetwork(**SMALL), rule=ON_SCORES, n_rounds=3, random_state=0)
    model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, wrong))
    assert len(model.history_) == 1
    assert float(abs(model.decision_function(data.test)).max()) > 0


def test_saved_staged_and_on_other_graphs(data: Any, tmp_path: Any) -> None:
    learner = Turns(odd=ConsistentNetwork(**SMALL, epochs=10), even=ConsistentNetwork(units=4, epochs=10))
    model = fit(data, learner, n_rounds=3)
    model.save(tmp_path / "model.gbgnn")
    loaded = load(tmp_path / "model.gbgnn")
    other = datasets.csbm(n_nodes=90, n_classes=3, per_class=5, seed=1)
    nodes = np.arange(90)
    expected = model.predict_proba(nodes, graph=other.graph)
    np.testing.assert_array_equal(loaded.predict_proba(nodes, graph=other.graph), expected)
    shorter = fit(data, learner, n_rounds=2)
    staged = list(model.staged_predict_proba(data.test))
    np.testing.assert_array_equal(staged[1], shorter.predict_proba(data.test))
    assert [len(each.head.enter.weight) for each in model.ensemble_.rounds] == [8, 4, 8]
    order = np.random.default_rng(0).permutation(90)
    turned = Graph(other.graph.adjacency[order][:, order], np.asarray(other.graph.features)[order])
    np.testing.assert_allclose(model.predict_proba(nodes, graph=turned), expected[order], atol=1e-5)


def test_columns_that_are_all_alike_say_nothing() -> None:
    graph = Graph(sp.eye_array(6, format="csr"), np.full((6, 3), 7.0))
    inputs = InputRecipe(AugmentedAdjacency()).build(graph)
    rows = RowMap.fit(inputs, None, standardize=True)
    assert float(rows.scale) == 0
    assert not bool(rows(inputs)(torch.ones(2, 3)).any())


def test_other_columns_are_named(data: Any) -> None:
    model = fit(data, ConsistentNetwork(**SMALL, epochs=2), n_rounds=1)
    wider = Graph(data.graph.adjacency, np.ones((data.graph.n_nodes, 99)))
    with pytest.raises(GraphError, match="99 features per node"):
        model.predict(data.test, graph=wider)
    head = model.ensemble_.rounds[0].head
    inputs = InputRecipe(AugmentedAdjacency()).build(wider)
    with pytest.raises(ParameterError, match="nodes have 99 columns"):
        head.evaluate(inputs.features, inputs)
    with pytest.raises(ParameterError, match="needs the graph"):
        head(inputs.features.dense())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hops", "all"),
        ("schedule", "steps"),
        ("row_norm", "l3"),
        ("n_hops", -1),
        ("n_views", 0),
        ("node_dropout", 1.0),
        ("temperature", 0.0),
        ("restart", 0.0),
        ("consistency", -1.0),
        ("gate_decay", -1.0),
        ("learning_rate", 0.0),
        ("teacher", 1.0),
    ],
)
def test_settings_out_of_range_are_named(name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=rf"ConsistentNetwork\.{name}"):
        ConsistentNetwork(**{name: value}).check()


@pytest.mark.parametrize(
    "change",
    [
        {"norm": torch.tensor(7)},
        {"hops": torch.zeros(0)},
        {"leave.weight": torch.zeros(2, 3)},
        {"enter.bias": torch.zeros(3)},
        {"centre": torch.zeros(3)},
        {"scale": torch.zeros(2)},
    ],
)
def test_a_file_that_does_not_fit_is_refused(change: dict[str, torch.Tensor]) -> None:
    rows = RowMap("l2", torch.zeros(4), torch.ones(1))
    head = HopHead.start(rows, 2, 5, torch.tensor([1.0]), seed=0)
    again = HopHead.from_state(head.state())
    assert again.norm == "l2"
    torch.testing.assert_close(again.enter.weight, head.enter.weight)
    with pytest.raises(ModelFileError, match="network with hops"):
        HopHead.from_state(head.state() | change)
