from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

from gbgnn import (
    MLP,
    BoostedTrees,
    CrossFitted,
    FunctionalGradient,
    GBGNNClassifier,
    GBGNNRegressor,
    Graph,
    GraphNetwork,
    PropagatedResiduals,
    SklearnLearner,
    Stages,
    load,
)
from gbgnn.errors import ModelFileError, ParameterError
from gbgnn.learners import CrossFittedHead
from gbgnn.learners.cross_fitted import deal_out
from gbgnn.problem import KnownLabels
from gbgnn.settings import build_model, read_settings
from gbgnn.testing import check_learner, learner_round, two_blocks

TREES = BoostedTrees(library="sklearn", n_trees=10, min_leaf=2)


def test_keeps_the_promises_of_learners() -> None:
    check_learner(CrossFitted(inner=MLP(epochs=5), n_folds=3))


def test_numbers_of_labelled_nodes_are_those_of_cross_validation() -> None:
    random = np.random.default_rng(0)
    X, rows = random.standard_normal((30, 3)), np.arange(5, 25)
    y = X @ [1.0, -2.0, 0.5] + random.standard_normal(30)
    targets = torch.from_numpy(y[rows, None])
    context = learner_round(torch.from_numpy(X), targets, rows=torch.from_numpy(rows))
    learner = CrossFitted(inner=SklearnLearner(estimator=LinearRegression()), n_folds=4)
    head = learner.fit(context)
    folds = head.folds.numpy()
    assert np.bincount(folds).tolist() == [5, 5, 5, 5]
    alone = [LinearRegression().fit(X[rows[folds != i]], y[rows[folds != i]]).predict(X) for i in range(4)]
    known = KnownLabels(torch.from_numpy(rows), targets)
    here = replace(context.inputs, known=known)
    expected = np.mean(alone, axis=0)
    np.testing.assert_allclose(head.evaluate(context.X, context.inputs)[:, 0], expected)
    expected[rows] = np.array(alone)[folds, rows]
    np.testing.assert_allclose(head.evaluate(context.X, here)[:, 0], expected)


def test_the_own_label_of_a_node_does_not_change_its_output() -> None:
    graph, y = two_blocks(40, n_classes=3)
    X, labels, rows = torch.tensor(graph.features), torch.from_numpy(y[:30]), torch.arange(30)
    outputs = []
    for change in (0.0, 50.0):
        targets = torch.nn.functional.one_hot(labels).double()
        targets[7] += change
        context = learner_round(X, targets, rows=rows)
        here = replace(context.inputs, known=KnownLabels(rows, targets))
        outputs.append(CrossFitted(inner=MLP(epochs=10)).fit(context).evaluate(context.X, here))
    assert torch.equal(outputs[0][7], outputs[1][7])
    assert not torch.equal(outputs[0][8], outputs[1][8])


def test_classes_are_dealt_out_evenly() -> None:
    y = torch.tensor([0] * 20 + [1] * 10 + [2])
    task = learner_round(torch.zeros(31, 1), y).weak_task
    folds = deal_out(task, 5, seed=3)
    for label, (fewest, most) in enumerate([(4, 4), (2, 2), (0, 1)]):
        counts = torch.bincount(folds[y == label], minlength=5)
        assert fewest <= int(counts.min()) <= int(counts.max()) <= most
    assert not torch.equal(folds, deal_out(task, 5, seed=4))
    assert int(deal_out(learner_round(torch.zeros(3, 1), y[19:22]).weak_task, 5, 0).max()) == 2


@pytest.mark.parametrize(
    "inner",
    [TREES, MLP(epochs=20), SklearnLearner(estimator=LinearRegression())],
    ids=["trees", "mlp", "sk"],
)
def test_predicts_the_same_from_a_file_and_other_graphs_without_labels(tmp_path, inner) -> None:
    graph, y = two_blocks(90, n_classes=3)
    learner = Stages(first=CrossFitted(inner=inner, n_folds=3), then=PropagatedResiduals())
    model = GBGNNClassifier(learner=learner, n_rounds=2, random_state=0, aggregation="identity")
    train = np.arange(60)
    model.fit(train, y[train], graph=graph)
    expected = model.predict_proba(np.arange(90))
    model.save(tmp_path / "model.gbgnn")
    again = load(tmp_path / "model.gbgnn")
    np.testing.assert_array_equal(again.predict_proba(np.arange(90), graph=graph), expected)
    *_, staged = model.staged_predict_proba(np.arange(90))
    np.testing.assert_array_equal(staged[60:], expected[60:])
    other, truth = two_blocks(60, n_classes=3)
    assert again.score(np.arange(60), truth, graph=other) > 0.6


def test_residuals_of_trees_that_know_their_labels_by_heart_are_worth_passing_on() -> None:
    graph, y = two_blocks(400, seed=1)
    random = np.random.default_rng(0)
    X = random.standard_normal((400, 3))
    numbers = X[:, 0] + y
    graph = Graph(graph.adjacency, X)
    train, val, test = np.split(random.permutation(400), [200, 300])
    greedy = BoostedTrees(library="sklearn", n_trees=200, learning_rate=0.3, min_leaf=1, patience=None)
    scores = []
    for first in (greedy, CrossFitted(inner=greedy)):
        model = GBGNNRegressor(
            learner=Stages(first=first, then=PropagatedResiduals(n_steps=2)),
            rule=FunctionalGradient(target="loss", learning_rate=1.0, on_failure="stop"),
            propagation="random_walk",
            n_rounds=2,
            random_state=0,
        )
        model.fit(train, numbers[train], graph=graph, validation=(val, numbers[val]))
        scores.append(model.score(test, numbers[test]))
    assert scores[1] > scores[0] + 0.1


def test_settings_of_learners_inside_learners_are_read_and_built() -> None:
    learner = Stages(first=CrossFitted(inner=BoostedTrees(n_trees=7), n_folds=3), then=GraphNetwork(depth=2))
    settings = read_settings(GBGNNClassifier(learner=learner))
    again = build_model(settings).learner
    assert (again.first.n_folds, again.first.inner.n_trees, again.then.depth) == (3, 7, 2)
    assert settings["learner__first"]["inner"]["name"] == "trees"


def test_importances_are_the_mean_of_all() -> None:
    context = learner_round(
        torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 2
    )
    head = CrossFitted(inner=MLP(epochs=3), n_folds=2).fit(context)
    expected = np.mean([each.importances() for each in head.heads], axis=0)
    np.testing.assert_allclose(head.importances(), expected)
    assert head.importances_per_unit
    assert CrossFitted(inner=MLP(epochs=3, norm="layer")).fit(context).importances() is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_folds": 1}, "CrossFitted.n_folds"),
        ({"inner": "trees"}, "CrossFitted.inner must be a learner"),
        ({"inner": GraphNetwork()}, "must be a learner of rows"),
        ({"inner": MLP(units=0)}, "MLP.units"),
    ],
)
def test_settings_out_of_range_are_named(settings, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        CrossFitted(**settings).check()


def test_one_node_cannot_be_left_out() -> None:
    with pytest.raises(ParameterError, match="two labelled nodes or more; got 1"):
        CrossFitted(inner=MLP()).fit(learner_round(torch.zeros(1, 2), torch.zeros(1, 1)))


def test_files_are_checked() -> None:
    context = learner_round(torch.randn(20, 3), torch.arange(20) % 2)
    head = CrossFitted(inner=MLP(epochs=1), n_folds=2).fit(context)
    state = head.state()
    assert torch.equal(CrossFittedHead.from_state(state)(context.X.dense()), head(context.X.dense()))
    for name, part in (
        ("kind", torch.tensor([1, 2], dtype=torch.uint8)),
        ("folds", state["folds"] + 1),
        ("folds", state["folds"][1:]),
        ("rows", state["rows"].double()),
    ):
        with pytest.raises(ModelFileError, match="cross-fitted learners cannot be read"):
            CrossFittedHead.from_state(state | {name: part})
    with pytest.raises(ModelFileError, match="inside CrossFitted cannot be saved"):
        CrossFittedHead([head], state["rows"], state["folds"]).state()
