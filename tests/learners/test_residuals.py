from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn import (
    BoostedTrees,
    FunctionalGradient,
    GBGNNClassifier,
    GBGNNRegressor,
    Graph,
    PropagatedResiduals,
    Samme,
    Stages,
    load,
)
from gbgnn.errors import ModelFileError, ParameterError
from gbgnn.learners import ResidualsHead
from gbgnn.learners.residuals import N_FOLDS
from gbgnn.losses import AbsoluteError, SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
from gbgnn.problem import InputRecipe, KnownLabels, NodeInputs
from gbgnn.propagation import AugmentedAdjacency, NormalizedLaplacian, Propagation, RandomWalk
from gbgnn.rounds import WeakTask
from gbgnn.testing import check_learner, make_context, make_problem, two_blocks

ALONE = {"propagation": "random_walk", "n_rounds": 1, "random_state": 0}


def inputs_of(
    graph: Graph, rows: np.ndarray, recipe: Propagation | None = None, dtype: torch.dtype = torch.float64
) -> NodeInputs:
    """Return the inputs of a graph in which some nodes are known."""
    inputs = InputRecipe(RandomWalk() if recipe is None else recipe, dtype=dtype).build(graph)
    known = KnownLabels(torch.from_numpy(rows), torch.zeros(len(rows), 1, dtype=dtype))
    return replace(inputs, known=known)


def find_means(
    P: np.ndarray, rows: np.ndarray, residuals: np.ndarray, weights: np.ndarray, n_steps: int, alpha: float
) -> np.ndarray:
    """The means of the docstring, walk by walk; labelled nodes do not hear those of their own fold."""
    P = P - np.diag(P.diagonal())
    signed, absolute = (
        sum(alpha ** (k - 1) * np.linalg.matrix_power(each, k) for k in range(1, n_steps + 1))
        for each in (P, abs(P))
    )
    means = np.zeros((len(P), residuals.shape[1]))
    for i in range(len(P)):
        heard = rows != i
        if n_steps > 1 and i in rows:
            place = int(np.flatnonzero(rows == i)[0])
            heard = np.arange(len(rows)) % N_FOLDS != place % N_FOLDS
        total = absolute[i, rows[heard]] @ weights[heard]
        if total > 0:
            means[i] = signed[i, rows[heard]] * weights[heard] @ residuals[heard] / total
    return means


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 25),
    st.integers(1, 5),
    st.floats(0.1, 1.0),
    st.sampled_from([RandomWalk(), AugmentedAdjacency(), NormalizedLaplacian()]),
)
def test_outputs_are_those_of_dense_algebra(
    seed: int, n_known: int, n_steps: int, alpha: float, recipe: Propagation
) -> None:
    random, (graph, _) = np.random.default_rng(seed), two_blocks(30, seed=seed % 5)
    rows, residuals = random.permutation(30)[:n_known], random.standard_normal((n_known, 3))
    weights, inputs = random.random(n_known) + 0.1, inputs_of(graph, rows, recipe)
    parts = map(torch.from_numpy, (rows, residuals, weights))
    head = ResidualsHead(*parts, n_steps=n_steps, alpha=alpha, scale=2.0)
    expected = 2.0 * find_means(inputs.P.to_scipy().toarray(), rows, residuals, weights, n_steps, alpha)
    found = head.evaluate(inputs.features, inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 4), st.booleans(), st.data())
def test_no_node_hears_itself_to_the_last_bit(
    seed: int, n_known: int, n_steps: int, is_single: bool, data: st.DataObject
) -> None:
    random, (graph, _) = np.random.default_rng(seed), two_blocks(30, seed=seed % 5)
    loops = Graph(graph.adjacency + np.diag(random.random(30)), np.zeros((30, 1)))
    rows, residuals = random.permutation(30)[:n_known], random.standard_normal((n_known, 2))
    inputs = inputs_of(loops, rows, dtype=torch.float32 if is_single else torch.float64)
    place, other = data.draw(st.integers(0, n_known - 1)), residuals.copy()
    other[place] += 1000.0
    first, second = (
        ResidualsHead(
            torch.from_numpy(rows), torch.from_numpy(each), torch.ones(n_known), n_steps=n_steps, alpha=0.9
        ).evaluate(inputs.features, inputs)
        for each in (residuals, other)
    )
    assert torch.equal(first[rows[place]], second[rows[place]])


@pytest.mark.parametrize("n_steps", [1, 4])
def test_the_own_label_of_a_node_does_not_change_its_scores(n_steps: int) -> None:
    graph, y = two_blocks(60, n_classes=3)
    train = np.random.default_rng(0).permutation(60)[:30]
    problem = make_problem(graph, y, train)
    inputs = replace(
        problem.inputs, known=KnownLabels(problem.train.rows, torch.zeros(30, 1, dtype=torch.float64))
    )
    rule = FunctionalGradient()
    for place in range(0, 30, 7):
        outputs = []
        for label in range(3):
            targets = problem.train.targets.clone()
            targets[place] = label
            own = replace(problem, inputs=inputs, train=replace(problem.train, targets=targets))
            context = make_context(own)
            context = replace(context, task=rule.ask(context, None))
            head = PropagatedResiduals(n_steps=n_steps).fit(context)
            outputs.append(head.evaluate(context.X, inputs)[train[place]])
        assert torch.equal(outputs[0], outputs[1])
        assert torch.equal(outputs[0], outputs[2])
        assert outputs[0].any()


def test_with_nothing_said_yet_numbers_are_means_of_neighbours() -> None:
    graph, _ = two_blocks(50, seed=3)
    random = np.random.default_rng(0)
    y, train = random.normal(10.0, 3.0, 50), random.permutation(50)[:30]
    weights = random.random(30) + 0.5
    model = GBGNNRegressor(
        learner=PropagatedResiduals(n_steps=1), dtype="float64", keep_learners=True, **ALONE
    )
    model.fit(train, y[train], graph=graph, sample_weight=weights)
    head = model.model_.ensemble[0].head
    A, mean = graph.adjacency.toarray(), np.average(y[train], weights=weights)
    shares = A[:, train] * weights
    total = shares.sum(axis=1, keepdims=True)
    expected = np.divide(shares @ (y[train, None] - mean), total, where=total > 0, out=np.zeros((50, 1)))
    found = head.evaluate(model.model_.build_inputs().features, model.model_.build_inputs())
    ratio = found.numpy()[expected != 0] / expected[expected != 0]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)  # numbers are standardised inside


def test_keeps_the_promises_of_learners() -> None:
    check_learner(PropagatedResiduals())


@pytest.mark.parametrize("target", ["gradient", "labels", "loss"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_spread_where_features_tell_nothing(target: str, n_classes: int) -> None:
    graph, y = two_blocks(300, n_classes=n_classes)
    graph = Graph(graph.adjacency, np.zeros((300, 1)))
    train, test = np.split(np.random.default_rng(0).permutation(300), [90])
    model = GBGNNClassifier(learner=PropagatedResiduals(), rule=FunctionalGradient(target=target), **ALONE)
    assert model.fit(train, y[train], graph=graph).score(test, y[test]) > 0.9


def test_votes_in_other_rules_and_for_several_labels() -> None:
    graph, y = two_blocks(200, n_classes=4)
    train, test = np.arange(0, 200, 3), np.arange(1, 200, 3)
    model = GBGNNClassifier(learner=PropagatedResiduals(), rule=Samme(), **ALONE)
    assert model.fit(train, y[train], graph=graph).score(test, y[test]) > 0.8
    labels = np.stack([y < 2, y % 2 == 0], axis=1).astype(int)
    model = GBGNNClassifier(learner=PropagatedResiduals(), **ALONE)
    assert (model.fit(train, labels[train], graph=graph).predict(test) == labels[test]).mean() > 0.8


def test_corrects_trees_that_see_nothing_of_the_graph(tmp_path) -> None:
    graph, y = two_blocks(300, seed=1, n_features=2)
    random = np.random.default_rng(0)
    numbers = 5.0 + np.asarray(graph.features)[:, 0] + 2.0 * y + 0.1 * random.standard_normal(300)
    graph = Graph(graph.adjacency, random.standard_normal((300, 2)))
    train, val, test = np.split(random.permutation(300), [150, 200])
    scores = []
    for learner in (
        BoostedTrees(n_trees=20),
        Stages(first=BoostedTrees(n_trees=20), then=PropagatedResiduals(n_steps=3)),
    ):
        model = GBGNNRegressor(
            learner=learner,
            rule=FunctionalGradient(target="loss", learning_rate=1.0),
            **ALONE | {"n_rounds": 2},
        )
        model.fit(train, numbers[train], graph=graph, validation=(val, numbers[val]))
        scores.append(model.score(test, numbers[test]))
    assert scores[1] > scores[0] + 0.1
    expected = model.predict(test)
    model.save(tmp_path / "model.gbgnn")
    again, twin = load(tmp_path / "model.gbgnn"), Graph(graph.adjacency.copy(), np.array(graph.features))
    np.testing.assert_array_equal(again.predict(test, graph=twin), expected)
    *_, staged = model.staged_predict(test)
    np.testing.assert_array_equal(staged, expected)


def test_on_another_graph_nothing_is_heard() -> None:
    graph, y = two_blocks(80)
    other, _ = two_blocks(40, seed=5)
    model = GBGNNClassifier(learner=PropagatedResiduals(), **ALONE).fit(np.arange(40), y[:40], graph=graph)
    np.testing.assert_allclose(model.predict_proba(np.arange(40), graph=other), 0.5)
    assert not (model.predict_proba(np.arange(40)) == 0.5).all()


@pytest.mark.parametrize(
    "loss", [SquaredError(), AbsoluteError(), SoftmaxCrossEntropy(), SigmoidCrossEntropy()]
)
def test_the_scale_is_where_the_training_loss_is_least(loss) -> None:
    random = torch.Generator().manual_seed(0)
    graph, y = two_blocks(60)
    rows = np.arange(0, 60, 1)[:40]
    n_outputs = 2 if isinstance(loss, SoftmaxCrossEntropy) else 1
    numbers = torch.from_numpy(2.0 * y[rows] - 1.0)[:, None] + 0.3 * torch.randn(
        40, 1, generator=random, dtype=torch.float64
    )
    targets = numbers if loss.takes == "numbers" else torch.from_numpy(y[rows])
    weights = torch.rand(40, generator=random, dtype=torch.float64)
    offsets = torch.randn(40, n_outputs, generator=random, dtype=torch.float64)
    task = WeakTask(
        torch.from_numpy(rows), targets, weights / weights.sum(), n_outputs, loss, offsets=offsets
    )
    context = make_context(make_problem(graph, y, rows))
    head = PropagatedResiduals().fit(replace(context, task=task))
    step = head.means(context.inputs.P)[task.rows]
    found = [
        float(loss.mean(offsets + scale * head.scale * step, targets, task.weights))
        for scale in (0.0, 0.8, 1.0, 1.25)
    ]
    assert min(found) == pytest.approx(found[2], rel=1e-4)
    assert found[2] < found[0]


def test_settings_and_files_are_checked() -> None:
    with pytest.raises(ParameterError, match=r"PropagatedResiduals.alpha must be in \(0, 1\]; got 0"):
        PropagatedResiduals(alpha=0.0).check()
    with pytest.raises(ParameterError, match=r"PropagatedResiduals.n_steps"):
        PropagatedResiduals(n_steps=0).check()
    head = ResidualsHead(torch.arange(3), torch.zeros(3, 2), torch.ones(3), n_steps=2, alpha=0.5, scale=3.0)
    again = ResidualsHead.from_state(head.state())
    assert (again.n_steps, again.alpha, again.scale) == (2, 0.5, 3.0)
    with pytest.raises(ParameterError, match="need the graph"):
        head(torch.zeros(3, 2))
    for name, part in (
        ("rows", torch.zeros(3)),
        ("weights", torch.ones(2)),
        ("residuals", torch.zeros(2, 2)),
        ("settings", torch.zeros(3)),
    ):
        with pytest.raises(ModelFileError, match="residuals cannot be read"):
            ResidualsHead.from_state(head.state() | {name: part})
