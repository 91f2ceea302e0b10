from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from gbgnn import FunctionalGradient, GBGNNClassifier, datasets
from gbgnn._projections import project_columns
from gbgnn.boosting import StopReason
from gbgnn.errors import ParameterError
from gbgnn.learners import ConstrainedMLP, Head, HeadSpace, constrained
from gbgnn.propagation import DenseRows
from gbgnn.rounds import RoundContext
from gbgnn.testing import check_learner, learner_round, path4, two_blocks


def make_round(
    regression: bool = True, seed: int = 0, n_rows: int = 12, n_features: int = 5, scale: float = 1.0
) -> RoundContext:
    random = torch.Generator().manual_seed(seed)
    X = torch.randn(20, n_features, generator=random, dtype=torch.float64)
    weights = torch.rand(n_rows, generator=random, dtype=torch.float64) + 0.1
    numbers = scale * (torch.randn(n_rows, 3, generator=random, dtype=torch.float64) + X[:n_rows, :3])
    targets = numbers if regression else numbers.argmax(dim=1)
    rows, weights = torch.arange(n_rows), weights / weights.sum()
    return learner_round(X, targets, rows=rows, weights=weights, seed=seed, n_outputs=3)


def on(context: RoundContext, X: torch.Tensor) -> RoundContext:
    """The round with another representation."""
    return replace(context, X=DenseRows(X))


def column_sums(head: Head) -> Iterator[torch.Tensor]:
    """Absolute sums of what multiplies each unit's inputs, the constant included."""
    for layer in head.layers:
        yield layer.weight.double().abs().sum(dim=1) + layer.bias.double().abs()


@settings(max_examples=60)
@given(
    optimizer=st.sampled_from(["sgd", "adam", "rmsprop"]),
    hidden_layers=st.integers(0, 4),
    max_norm=st.sampled_from([1e-3, 0.5, 1.0, 3.0, 100.0]),
    bias=st.booleans(),
    regression=st.booleans(),
    batch_size=st.sampled_from([None, 5]),
    learning_rate=st.sampled_from([0.01, 0.5, 1e3]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 10**6),
)
def test_every_column_is_in_the_ball(
    max_norm: float, regression: bool, dtype: torch.dtype, seed: int, **settings: object
) -> None:
    context = make_round(regression, seed)
    context = on(context, context.X.dense().to(dtype))
    learner = ConstrainedMLP(max_norm=max_norm, units=6, epochs=4, **settings)
    learner.check()
    head = learner.fit(context)
    assert head.evaluate(context.X).isfinite().all()
    for sums in column_sums(head):
        assert (sums <= max_norm).all()
    hidden = [bool(layer.bias.any()) for layer in head.layers]
    assert not any(hidden[1:])
    assert settings["bias"] or not hidden[0]


def test_every_step_ends_in_the_ball(monkeypatch: pytest.MonkeyPatch) -> None:
    projected = []

    def spy(W: torch.Tensor, radius: float) -> None:
        project_columns(W, radius)
        projected.append(float(W.abs().sum(dim=0).max()))

    monkeypatch.setattr(constrained, "project_columns", spy)
    ConstrainedMLP(hidden_layers=2, epochs=5, batch_size=4).fit(make_round())
    assert len(projected) == 3 * (1 + 5 * 3)  # layers, times the start and every step
    assert max(projected) <= 1


@pytest.mark.parametrize("hidden_layers", range(5))
@pytest.mark.parametrize("batch_size", [None, 4])
def test_learner_keeps_its_contract(hidden_layers: int, batch_size: int | None) -> None:
    check_learner(ConstrainedMLP(hidden_layers=hidden_layers, batch_size=batch_size, epochs=5))


@pytest.mark.parametrize(("bias", "max_norm"), [(False, 1.0), (False, 0.2), (True, 1.0), (False, 50.0)])
def test_linear_model_is_the_best_one_in_the_ball(bias: bool, max_norm: float) -> None:
    """A general solver on |X W / s - r|^2 under the norm constraint, one column of W at a time."""
    context = make_round(n_features=3)
    task = context.weak_task
    head = ConstrainedMLP(max_norm=max_norm, bias=bias, epochs=2000).fit(context)
    rows = context.X.rows(task.rows).numpy()
    if bias:
        rows = np.hstack([rows, np.ones((12, 1))])
    w, r = task.weights.numpy()[:, None], task.targets.numpy()
    n = rows.shape[1]
    reach = np.abs(rows.T @ (w * r)).max(axis=0).sum() / (w * r**2).sum()
    for k in range(3):
        wanted = reach * r[:, k]

        def loss(x: np.ndarray, wanted: np.ndarray = wanted) -> tuple[float, np.ndarray]:
            error = rows @ (x[:n] - x[n:]) - wanted
            slope = 2 * rows.T @ (w[:, 0] * error)
            return float(w[:, 0] @ error**2), np.concatenate([slope, -slope])

        solved = minimize(
            loss,
            np.full(2 * n, max_norm / (4 * n)),
            jac=True,
            method="SLSQP",
            bounds=[(0, None)] * (2 * n),
            constraints={"type": "ineq", "fun": lambda x: max_norm - x.sum()},
            options={"ftol": 1e-15, "maxiter": 1000},
        )
        layer = head.layers[0]
        mine = np.concatenate([layer.weight[k], layer.bias[k : k + 1]])[:n]
        np.testing.assert_allclose(mine, solved.x[:n] - solved.x[n:], atol=1e-3 * max_norm)


@settings(max_examples=40)
@given(
    hidden_layers=st.integers(0, 4),
    optimizer=st.sampled_from(["sgd", "adam", "rmsprop"]),
    regression=st.booleans(),
    power=st.integers(-40, 40),
    target_power=st.integers(-60, 20),
    seed=st.integers(0, 10**6),
)
def test_units_of_features_and_targets_change_no_weight(
    hidden_layers: int, optimizer: str, regression: bool, power: int, target_power: int, seed: int
) -> None:
    """To the bit for powers of two, which round nothing."""
    context = make_round(regression, seed)
    other = make_round(regression, seed, scale=2.0**target_power)
    other = on(other, 2.0**power * context.X.dense())
    learner = ConstrainedMLP(
        hidden_layers=hidden_layers, optimizer=optimizer, units=5, epochs=6, batch_size=7
    )
    first, second = learner.fit(context), learner.fit(other)
    for name, value in first.state().items():
        assert torch.equal(second.state()[name], value)


@pytest.mark.parametrize("factor", [1e-4, 3e-2, 700.0])
@pytest.mark.parametrize("hidden_layers", [0, 2])
def test_any_unit_of_the_features_gives_the_same_weights(factor: float, hidden_layers: int) -> None:
    context = make_round(seed=1)
    learner = ConstrainedMLP(hidden_layers=hidden_layers, max_norm=2.0)
    other = on(context, factor * context.X.dense())
    first, second = learner.fit(context).state(), learner.fit(other).state()
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, rtol=1e-6, atol=1e-8)


def test_the_tighter_the_ball_the_fewer_columns() -> None:
    context = make_round(n_features=30)
    X, task = context.X.dense(), context.weak_task
    used, cosines = [], []
    for max_norm in (1e-3, 0.5, 1.0, 2.0):
        head = ConstrainedMLP(max_norm=max_norm, epochs=400).fit(context)
        used.append(int((head.layers[0].weight != 0).sum()))
        output, w = head(X[:12]), task.weights[:, None]
        inner = (w * output * task.targets).sum()
        cosines.append(float(inner / ((w * output**2).sum() * (w * task.targets**2).sum()).sqrt()))
    assert used[0] == 3  # the best column of each output
    assert used == sorted(used)
    assert cosines == sorted(cosines)
    assert cosines[-1] > 0.95


def test_tiny_features_are_no_obstacle() -> None:
    """Rows like word frequencies that P has averaged, targets of size 0.5, single precision."""
    context = make_round(scale=0.2)
    context = on(context, (1e-4 * context.X.dense()).float())
    task = context.weak_task
    for hidden_layers, least in ((0, 0.7), (1, 0.7), (2, 0.6)):
        head = ConstrainedMLP(hidden_layers=hidden_layers, max_norm=4.0).fit(context)
        output = head(context.X.rows(task.rows)).double()
        cosine = torch.nn.functional.cosine_similarity(output.flatten(), task.targets.flatten(), dim=0)
        assert cosine > least


@pytest.mark.parametrize("regression", [False, True])
def test_degenerate_tasks_give_finite_heads(regression: bool) -> None:
    context = make_round(regression)
    X, task = context.X.dense(), context.weak_task
    for rows in (torch.zeros_like(X), 1e-300 * X):
        assert ConstrainedMLP(epochs=3).fit(on(context, rows))(X).isfinite().all()
    if regression:
        for size in (0.0, 1e-200):
            nothing = replace(context, task=replace(task, targets=size * task.targets))
            assert ConstrainedMLP(epochs=3).fit(nothing)(X).isfinite().all()


def test_hypothesis_space_names_layers_norm_and_bias() -> None:
    assert ConstrainedMLP().hypothesis_space() == HeadSpace(1, 1.0, False)
    assert ConstrainedMLP(hidden_layers=2, max_norm=3.0, bias=True).hypothesis_space() == HeadSpace(
        3, 3.0, True
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("hidden_layers", [0, 1])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_boosting_follows_the_gradient_every_round(n_classes: int, hidden_layers: int, dtype: str) -> None:
    graph, y = two_blocks(40, n_classes=n_classes)
    learner = ConstrainedMLP(hidden_layers=hidden_layers, max_norm=2.0)
    model = GBGNNClassifier(learner=learner, n_rounds=15, dtype=dtype, random_state=0)
    model.fit(np.arange(20), y[:20], graph=graph)
    assert model.stop_reason_ is StopReason.ROUNDS_EXHAUSTED
    assert all(
        alpha > beta for alpha, beta in zip(model.history_["alpha"], model.history_["beta"], strict=True)
    )
    assert model.history_["train_accuracy"][-1] >= 0.95
    for trained in model.ensemble_:
        for sums in column_sums(trained.head):
            assert (sums <= 2.0).all()


def test_boosting_on_the_path_needs_the_constant() -> None:
    model = GBGNNClassifier(
        learner=ConstrainedMLP(bias=True, epochs=200), n_rounds=20, random_state=0, dtype="float64"
    )
    model.fit([0, 1, 2, 3], [0, 0, 1, 1], graph=path4())
    assert min(model.history_["cosine"]) > 0
    assert model.history_["train_accuracy"][-1] == 1


@pytest.mark.parametrize(
    "rule", ["gradient", "samme", "samme_r", FunctionalGradient(target="labels")], ids=str
)
def test_every_rule_can_use_it_on_karate(rule: object) -> None:
    data = datasets.load("karate")
    model = GBGNNClassifier(learner="constrained", rule=rule, n_rounds=10, random_state=0)
    model.fit(data.train, data.y[data.train], graph=data.graph)
    assert model.history_["train_accuracy"][-1] == 1
    assert model.score(data.test, data.y[data.test]) > 0.85
    assert min(model.history_["cosine"]) > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden_layers": 5}, "hidden_layers must be an integer from 0 to 4; got 5"),
        ({"units": 0}, "units must be an integer >= 1; got 0"),
        ({"max_norm": 0}, r"max_norm must be in \[1e-06, 1e\+06\]; got 0"),
        ({"max_norm": float("inf")}, r"max_norm must be in \[1e-06, 1e\+06\]; got inf"),
        ({"optimizer": "sdg"}, "optimizer must be one of .* Did you mean 'sgd'"),
        ({"learning_rate": 0}, r"learning_rate must be in \(0, inf\); got 0"),
        ({"momentum": 1}, r"momentum must be in \[0, 1\); got 1"),
        ({"epochs": -1}, "epochs must be an integer >= 0; got -1"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1, or None; got 0"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=f"ConstrainedMLP.{message}"):
        ConstrainedMLP(**settings).check()
