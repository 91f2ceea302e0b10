"""FunctionalGradient(target="loss"): learners that build on the scores so far."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest
import torch
from sklearn.tree import DecisionTreeClassifier
from torch.nn import functional

from gbgnn import MLP, BoostedTrees, FunctionalGradient, GBGNNClassifier, GBGNNRegressor, SklearnLearner
from gbgnn.errors import ParameterError
from gbgnn.learners.batched import BatchedMLP
from gbgnn.learners.schedule import Schedule, Shape, TrainingSettings
from gbgnn.losses import SoftmaxCrossEntropy
from gbgnn.testing import two_blocks

RULE = FunctionalGradient(target="loss", learning_rate=1.0)


def blocks(n_classes: int = 3, n: int = 120) -> tuple:
    graph, y = two_blocks(n, n_classes=n_classes, n_features=6, seed=1)
    order = np.random.default_rng(0).permutation(n)
    return graph, y, order[: n // 2], order[n // 2 : 3 * n // 4]


@pytest.mark.parametrize("n_members", [1, 3])
@pytest.mark.parametrize("batch_size", [None, 4])
def test_gradients_are_those_of_outputs_and_offsets(n_members: int, batch_size: int | None) -> None:
    random, n_rows = torch.Generator().manual_seed(0), 12
    settings = [TrainingSettings(5, epochs=2, batch_size=batch_size, optimizer="sgd")] * n_members
    schedule = Schedule.build(settings, n_rows)
    shape = Shape(schedule, n_columns=4, fan_in=4, n_hidden=1, n_outputs=3, is_shared=True)
    network = BatchedMLP(shape, SoftmaxCrossEntropy(), torch.empty(0, dtype=torch.float64))
    rows = torch.randn(n_rows, 4, generator=random, dtype=torch.float64)
    targets = torch.randint(3, (n_rows,), generator=random)
    offsets = 3 * torch.randn(n_members, n_rows, 3, generator=random, dtype=torch.float64)
    weights = torch.rand(n_members, n_rows, generator=random, dtype=torch.float64)
    keys = schedule.derive_keys(list(range(n_members)), shape.n_steps, 1)
    network.load(schedule, keys, rows, targets, weights, offsets)
    for _ in range(2):  # the rows of the second step are others, where there are batches
        step = network._step_on_host
        chosen = network._chosen[:, step] if batch_size else torch.arange(n_rows).expand(n_members, -1)
        scales = network._scales[:, step] if batch_size else torch.ones(n_members)
        layers = [
            (w.clone().requires_grad_(), b.clone().requires_grad_()) for w, b in network.layers(n_members)
        ]
        for i in range(n_members):
            own = chosen[i]
            hidden = functional.linear(rows[own], layers[0][0][i], layers[0][1][i]).relu()
            output = functional.linear(hidden, layers[1][0][i], layers[1][1][i]) + offsets[i, own]
            losses = functional.cross_entropy(output, targets[own], reduction="none")
            (losses * weights[i, own] * scales[i]).sum().backward()
        before = [(w.clone(), b.clone()) for w, b in network.layers(n_members)]
        network.step(n_members, len(chosen[0]))
        for (w, b), (w0, b0), (wg, bg) in zip(network.layers(n_members), before, layers, strict=True):
            torch.testing.assert_close((w0 - w) / 0.01, wg.grad)
            torch.testing.assert_close((b0 - b) / 0.01, bg.grad)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_second_round_of_trees_is_lightgbm_with_these_initial_scores(n_classes: int) -> None:
    graph, y, train, _ = blocks(n_classes)
    learner = BoostedTrees(library="lightgbm", n_trees=7, min_leaf=2, patience=None)
    model = GBGNNClassifier(
        learner=learner,
        rule=RULE,
        aggregation="identity",
        n_rounds=2,
        select="last",
        random_state=0,
        device="cpu",
    ).fit(train, y[train], graph=graph)
    first, second = (r.head for r in model.model_.ensemble)
    rows = torch.tensor(graph.features, dtype=torch.float32)
    offsets = first(rows).numpy()
    data = lightgbm.Dataset(
        graph.features.astype(np.float32)[train],
        y[train],
        init_score=offsets[train].squeeze(),
        free_raw_data=False,
    )
    objective = {"objective": "binary"} if n_classes == 2 else {"objective": "multiclass", "num_class": 3}
    fixed = {"min_data_in_leaf": 2, "lambda_l2": 1.0, "min_data_in_bin": 1, "num_threads": 1, "verbosity": -1}
    seeds = {"deterministic": True, "force_col_wise": True, "min_data_per_group": 2}
    expected = lightgbm.train(objective | fixed | seeds, data, 7).predict(rows.numpy(), raw_score=True)
    np.testing.assert_allclose(second(rows).numpy().squeeze(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.scores_, first(rows) + second(rows), rtol=1e-5, atol=1e-5)


def test_trees_of_numbers_go_on_where_the_last_round_ended() -> None:
    graph, _, train, val = blocks()
    y = graph.features[:, 0] + 3 * graph.features[:, 1] ** 2
    model = GBGNNRegressor(
        learner=BoostedTrees(n_trees=20, min_leaf=2),
        rule=RULE,
        aggregation="identity",
        n_rounds=3,
        device="cpu",
    ).fit(train, y[train], graph=graph, validation=(val, y[val]))
    losses = model.history_["train_loss"]
    assert losses[2] < losses[1] < losses[0]


@pytest.mark.parametrize(
    "learner", [MLP(epochs=30, patience=5), MLP(epochs=20, hidden_layers=0), BoostedTrees()]
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_round_makes_the_loss_smaller(learner, n_classes: int) -> None:
    graph, y, train, val = blocks(n_classes)
    model = GBGNNClassifier(
        learner=learner, rule=RULE, n_rounds=3, select="last", random_state=0, device="cpu"
    )
    model.fit(train, y[train], graph=graph, validation=(val, y[val]))
    losses = np.array(model.history_["train_loss"])
    assert (np.diff(losses) < 0).all()
    assert model.history_["eta"] == [1.0] * len(losses)


def test_a_step_is_a_share_of_what_was_fitted() -> None:
    graph, y, train, _ = blocks()
    settings = {"learner": BoostedTrees(patience=None), "n_rounds": 1, "random_state": 0, "device": "cpu"}
    whole, half = (
        GBGNNClassifier(rule=FunctionalGradient(target="loss", learning_rate=rate), **settings)
        .fit(train, y[train], graph=graph)
        .scores_
        for rate in (1.0, 0.5)
    )
    np.testing.assert_allclose(half, whole / 2, rtol=1e-6)


def test_who_cannot_build_on_scores_says_so() -> None:
    graph, y, train, _ = blocks()
    learner = SklearnLearner(estimator=DecisionTreeClassifier())
    with pytest.raises(ParameterError, match="SklearnLearner cannot build on the scores so far"):
        GBGNNClassifier(learner=learner, rule=RULE).fit(train, y[train], graph=graph)
    with pytest.raises(ParameterError, match="sklearn cannot build on the scores of earlier rounds"):
        GBGNNClassifier(learner=BoostedTrees(library="sklearn", n_trees=3), rule=RULE, n_rounds=2).fit(
            train, y[train], graph=graph
        )
    with pytest.raises(ParameterError, match="BoostedTrees minimise softmax, sigmoid and squared losses"):
        GBGNNRegressor(learner=BoostedTrees(), rule=RULE, loss="absolute", n_rounds=1).fit(
            train, y[train], graph=graph
        )


@pytest.mark.parametrize("library", ["sklearn", "lightgbm", "xgboost"])
@pytest.mark.parametrize("is_multilabel", [False, True])
def test_one_score_of_two_classes_is_fitted_by_every_library(library: str, is_multilabel: bool) -> None:
    graph, y, train, val = blocks(2)
    targets = np.column_stack([y, 1 - y, y]) if is_multilabel else y
    model = GBGNNClassifier(
        learner=BoostedTrees(library=library, n_trees=30), rule=RULE, n_rounds=1, random_state=0
    )
    model.fit(train, targets[train], graph=graph, validation=(val, targets[val]))
    assert model.scores_.shape == (120, 3 if is_multilabel else 1)
    assert (model.predict(val) == targets[val]).mean() > 0.6
