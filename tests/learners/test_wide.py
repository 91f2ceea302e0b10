from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn import FunctionalGradient, GBGNNClassifier, datasets
from gbgnn.boosting import StopReason
from gbgnn.errors import GBGNNWarning, ParameterError
from gbgnn.learners import MLPHead, WeakTask, WideReLU, wide
from gbgnn.learners.wide import _gram_product
from gbgnn.losses import SigmoidCrossEntropy, SoftmaxCrossEntropy
from gbgnn.propagation import DenseRows
from gbgnn.rounds import RoundContext
from gbgnn.testing import check_learner, learner_round, path4, two_blocks
from gbgnn.theory import weak_learning
from gbgnn.theory.kernels import relu_kernel, separate_rows


def make_round(n_rows: int = 10, n_features: int = 12, n_outputs: int = 2, seed: int = 0) -> RoundContext:
    random = torch.Generator().manual_seed(seed)
    X = torch.randn(n_rows + 5, n_features, generator=random, dtype=torch.float64)
    targets = torch.randn(n_rows, n_outputs, generator=random, dtype=torch.float64)
    weights = torch.rand(n_rows, generator=random, dtype=torch.float64) + 0.1
    rows = torch.randperm(n_rows + 5, generator=random)[:n_rows]
    return learner_round(X, targets, rows=rows, weights=weights / weights.sum(), seed=seed)


def on(context: RoundContext, X: torch.Tensor) -> RoundContext:
    """The round with another representation."""
    return replace(context, X=DenseRows(X))


def asking(context: RoundContext, **changes: object) -> RoundContext:
    """The round with another task."""
    return replace(context, task=replace(context.weak_task, **changes))


def weighted_norm(values: torch.Tensor, task: WeakTask) -> float:
    return float((task.weights[:, None] * values.double() ** 2).sum().sqrt())


@settings(max_examples=40)
@given(
    n_rows=st.integers(1, 15),
    n_features=st.integers(6, 30),
    n_outputs=st.integers(1, 4),
    pair=st.sampled_from([(1.0, 0.5), (1.0, 0.1), (3.0, 2.0), (0.2, 0.1), (5.0, 4.5)]),
    unit=st.sampled_from([1e-6, 1e-2, 1.0, 1e3]),
    target_unit=st.sampled_from([1e-9, 1.0, 20.0]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 10**6),
)
def test_the_condition_is_met_as_asked(
    n_rows: int,
    n_features: int,
    n_outputs: int,
    pair: tuple[float, float],
    unit: float,
    target_unit: float,
    dtype: torch.dtype,
    seed: int,
) -> None:
    context = make_round(n_rows, n_features, n_outputs, seed)
    context = on(context, (unit * context.X.dense()).to(dtype))
    context = asking(context, targets=target_unit * context.weak_task.targets)
    alpha, beta = pair
    head = WideReLU(units=1024, alpha=alpha, beta=beta, max_epochs=20_000).fit(context)
    task = context.weak_task
    output = head.evaluate(context.X)[task.rows]
    ratio = weighted_norm(output - alpha * task.targets, task) / weighted_norm(task.targets, task)
    assert ratio <= beta
    report = head.report()
    assert report["is_met"]
    assert report["residual_ratio"] == pytest.approx(ratio, rel=1e-2)
    cosine = weak_learning(output, task.targets, task.weights).cosine
    assert cosine >= math.sqrt(1 - (beta / alpha) ** 2) - 1e-9


def test_learner_keeps_its_contract() -> None:
    targets = torch.randn(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    check_learner(WideReLU(units=64, beta=0.9), learner_round(torch.eye(12), targets).weak_task)


def test_training_is_gradient_descent_on_the_first_layer() -> None:
    """The same weights as plain torch gives, in the units of rows and targets of size one."""
    context = replace(make_round(n_outputs=3), seed=3)
    X, task = context.X.dense(), context.weak_task
    roots = task.weights.sqrt()[:, None]
    rows, targets = roots * X[task.rows], roots * 2.0 * task.targets
    unit = targets.norm() / math.sqrt(3)
    with pytest.warns(GBGNNWarning, match="came within"):
        start, fitted = (
            WideReLU(units=50, alpha=2.0, beta=0.01, max_epochs=n, learning_rate=0.7).fit(context)
            for n in (0, 5)
        )
    scale = unit / rows.norm()
    theta = (start.layers[0].weight.t() / scale).requires_grad_()
    signs = start.layers[1].weight.t()
    for _ in range(5):
        output = (rows / rows.norm() @ theta).relu() @ signs
        (slope,) = torch.autograd.grad((output - targets / unit).square().sum() / 2, theta)
        theta = (theta - 0.7 * slope).detach().requires_grad_()
    torch.testing.assert_close(fitted.layers[0].weight, (scale * theta).t().detach())
    assert torch.equal(fitted.layers[1].weight, start.layers[1].weight)
    assert fitted.report()["epochs"] == 5


def test_it_starts_from_normal_weights_and_fair_signs() -> None:
    with pytest.warns(GBGNNWarning, match="in 0 epochs"):
        head = WideReLU(units=5000, max_epochs=0).fit(make_round(n_features=40))
    theta, signs = head.layers[0].weight, head.layers[1].weight * math.sqrt(5000)
    theta = theta / theta.std()
    assert theta.mean().abs() < 0.01
    assert (theta.abs() < 1).double().mean() == pytest.approx(0.6827, abs=0.005)
    torch.testing.assert_close(signs.abs(), torch.ones_like(signs))
    assert signs.mean(dim=1).abs().max() < 0.06
    assert (signs[0] * signs[1]).mean().abs() < 0.06
    assert not any(layer.bias.any() for layer in head.layers)


@pytest.mark.parametrize("n_features", [3, 30])
def test_gram_product_is_one_whatever_the_shape(n_features: int) -> None:
    rows = torch.randn(10, n_features, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    right = torch.eye(10, dtype=torch.float64)
    torch.testing.assert_close(_gram_product(rows)(right), rows @ rows.t())


def test_default_step_is_one_over_the_kernels_largest_eigenvalue() -> None:
    """With very many units the network's kernel is the closed form."""
    context = make_round(n_outputs=1)
    task = context.weak_task
    rows = task.weights.sqrt()[:, None] * context.X.rows(task.rows)
    rows = rows / rows.norm()
    random = torch.Generator().manual_seed(0)
    theta = torch.randn(12, 200_000, generator=random, dtype=torch.float64)
    signs = torch.full((200_000, 1), 200_000**-0.5, dtype=torch.float64)
    step = WideReLU()._step(
        rows @ theta > 0,
        signs,
        _gram_product(rows),
        torch.randn(10, 1, generator=random, dtype=torch.float64),
    )
    assert 1 / step == pytest.approx(float(torch.linalg.eigvalsh(relu_kernel(rows))[-1]), rel=0.05)


def test_units_of_rows_and_targets_do_not_change_the_epochs() -> None:
    context = make_round()
    X = context.X.dense()
    other = asking(on(context, 2.0**-20 * X), targets=2.0**-30 * context.weak_task.targets)
    first, second = WideReLU().fit(context), WideReLU().fit(other)
    assert first.report()["epochs"] == second.report()["epochs"]
    torch.testing.assert_close(second(2.0**-20 * X), 2.0**-30 * first(X))


def test_same_seed_same_bytes_and_another_seed_another_head() -> None:
    context = make_round()
    first, second, other = (WideReLU(units=64).fit(replace(context, seed=s)) for s in (0, 0, 1))
    assert all(torch.equal(v, second.state()[k]) for k, v in first.state().items())
    assert not torch.equal(first.evaluate(context.X), other.evaluate(context.X))


def test_report_is_ready_for_json_and_names_the_kernels_smallest_eigenvalue() -> None:
    context = make_round()
    report = WideReLU().fit(context).report()
    assert json.loads(json.dumps(report)) == report
    assert set(report) == {
        "epochs",
        "is_met",
        "residual_ratio",
        "smallest_eigenvalue",
        "zero_rows",
        "n_zero_rows",
        "parallel_rows",
        "n_parallel_pairs",
        "note",
    }
    smallest = torch.linalg.eigvalsh(relu_kernel(context.X.rows(context.weak_task.rows)))[0]
    assert report["smallest_eigenvalue"] == pytest.approx(float(smallest))
    assert report["zero_rows"] == report["parallel_rows"] == []


def test_rows_that_break_the_assumption_are_named_by_node() -> None:
    context = make_round()
    X = context.X.dense()
    a, b, c, d = context.weak_task.rows[:4].tolist()
    X[a], X[c] = 0, -3 * X[b]
    with pytest.warns(
        GBGNNWarning, match=rf"1 zero rows \(nodes {a}\) and 1 pairs of parallel rows \(nodes {b} and {c}\)"
    ):
        head = WideReLU(beta=0.9).fit(context)
    assert head.report()["zero_rows"] == [a]
    assert head.report()["parallel_rows"] == [[b, c]]
    assert d not in head.report()["zero_rows"]
    assert not head(X)[a].any()


def test_rows_without_weight_are_not_looked_at() -> None:
    context = make_round()
    X, task = context.X.dense(), context.weak_task
    a, b, c = task.rows[:3].tolist()
    X[a], X[b] = 0, X[c]
    weights = task.weights.clone()
    weights[:2] = 0
    report = WideReLU().fit(asking(context, weights=weights / weights.sum())).report()
    assert report["is_met"]
    assert report["n_zero_rows"] == report["n_parallel_pairs"] == 0


def test_long_lists_are_cut_in_the_warning() -> None:
    context = learner_round(torch.arange(1.0, 11.0)[:, None], torch.ones(10, 1))
    with pytest.warns(GBGNNWarning, match=r"45 pairs .*\(nodes 0 and 1, .*, 0 and 5, \.\.\.\)"):
        WideReLU(units=32, beta=0.9).fit(context)


def test_an_unreachable_condition_is_said_and_the_head_returned() -> None:
    """Two equal rows with opposite targets."""
    X = torch.tensor([[1.0, 2.0], [1.0, 2.0]], dtype=torch.float64)
    targets = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    with pytest.warns(GBGNNWarning) as caught:
        head = WideReLU(max_epochs=30).fit(learner_round(X, targets))
    text = str(caught[-1].message)
    assert "WideReLU came within 1 |r| of alpha r in 30 epochs, not within beta = 0.5" in text
    assert "(smallest eigenvalue of the kernel: 0)" in text
    assert "max_epochs" in text
    report = head.report()
    assert (report["is_met"], report["epochs"]) == (False, 30)
    assert report["residual_ratio"] == pytest.approx(1, abs=1e-3)


def test_too_many_rows_for_the_kernel_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide, "separate_rows", lambda X, ids: separate_rows(X, ids, most_rows=9))
    with pytest.warns(GBGNNWarning, match="angles are not computed for more than 9 rows"):
        WideReLU(max_epochs=0).fit(make_round())


def test_a_step_too_long_is_said() -> None:
    context = make_round()
    context = on(context, context.X.dense().float())
    for step in (1e3, 1e30):
        with pytest.warns(GBGNNWarning, match=r"diverged after \d+ epochs with learning_rate = 1"):
            WideReLU(learning_rate=step).fit(context)


def test_nothing_to_fit_is_nothing() -> None:
    context = make_round()
    head = WideReLU().fit(asking(context, targets=torch.zeros(10, 2, dtype=torch.float64)))
    assert not head.evaluate(context.X).any()
    assert head.report()["residual_ratio"] == 0
    with pytest.warns(GBGNNWarning, match="10 zero rows"), pytest.warns(GBGNNWarning, match="in 0 epochs"):
        head = WideReLU().fit(on(context, torch.zeros(15, 12, dtype=torch.float64)))
    assert head.report()["epochs"] == 0
    assert head.report()["residual_ratio"] == pytest.approx(1)


def test_state_round_trips_without_the_report() -> None:
    context = make_round()
    head = WideReLU(units=64).fit(context)
    again = MLPHead.from_state(head.state())
    assert torch.equal(again.evaluate(context.X), head.evaluate(context.X))
    assert again.report() is None


def test_classes_are_refused() -> None:
    with pytest.raises(ParameterError, match=r'WideReLU follows the gradient.*target="gradient"'):
        WideReLU().fit(learner_round(torch.eye(10), torch.arange(10) % 2))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("first_weight", [1.0, 3.0])
def test_every_round_of_boosting_meets_the_pair_asked_for(n_classes: int, first_weight: float) -> None:
    """Replayed round by round from the trained parts, with the residuals at the scores so far."""
    graph, y = two_blocks(40, n_classes=n_classes, n_features=8)
    model = GBGNNClassifier(
        learner=WideReLU(units=1024, alpha=2.0, beta=1.0),
        n_rounds=6,
        random_state=0,
        class_weight={k: first_weight if k == 0 else 1.0 for k in range(n_classes)},
    )
    model.fit(np.arange(16), y[:16], graph=graph)
    assert model.stop_reason_ is StopReason.ROUNDS_EXHAUSTED
    assert all(report["is_met"] for report in model.history_["learner"])
    assert min(model.history_["cosine"]) >= math.sqrt(1 - 0.5**2)
    loss = SigmoidCrossEntropy() if n_classes == 2 else SoftmaxCrossEntropy()
    targets = torch.tensor(y[:16])
    weights = torch.where(targets == 0, first_weight, 1.0).double()
    task = WeakTask(torch.arange(16), targets, weights / weights.sum(), n_classes, loss)
    inputs = model.model_.build_inputs()
    X, scores = inputs.features, torch.zeros(40, 1 if n_classes == 2 else n_classes)
    for trained in model.ensemble_:
        X = trained.hop(X, inputs)
        output = trained.head.evaluate(X)
        residuals = -loss.gradient(scores[:16].double(), targets)
        distance = weighted_norm(output[:16] - 2.0 * residuals, task)
        assert distance <= 1.0 * weighted_norm(residuals, task)
        scores = scores + trained.eta * output


def test_it_has_a_name_and_learns_karate() -> None:
    data = datasets.load("karate")
    model = GBGNNClassifier(learner="wide", n_rounds=5, random_state=0)
    model.fit(data.train, data.y[data.train], graph=data.graph)
    assert model.history_["train_accuracy"][-1] == 1
    assert model.score(data.test, data.y[data.test]) > 0.8
    assert all(report["is_met"] for report in model.history_["learner"])


def test_one_feature_makes_all_rows_parallel_and_the_rule_judges() -> None:
    """On the path every f is proportional to the feature, so that the pair is out of reach from round 1."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = GBGNNClassifier(learner=WideReLU(units=64, max_epochs=50), n_rounds=1, random_state=0)
        model.fit([0, 1, 2, 3], [0, 0, 1, 1], graph=path4())
    texts = [str(w.message) for w in caught]
    assert "6 pairs of parallel rows (nodes 0 and 1, 0 and 2, 0 and 3, 1 and 2, 1 and 3, ...)" in texts[0]
    assert "came within" in texts[1]
    (report,) = model.history_["learner"]
    assert not report["is_met"]
    assert model.history_["cosine"][0] > 0


def test_labels_as_target_are_refused_by_the_estimator() -> None:
    graph, y = two_blocks(20)
    model = GBGNNClassifier(learner="wide", rule=FunctionalGradient(target="labels"))
    with pytest.raises(ParameterError, match="WideReLU .* asks for classes"):
        model.fit(np.arange(10), y[:10], graph=graph)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"units": 0}, "units must be an integer >= 1; got 0"),
        ({"alpha": 0}, r"alpha must be in \(0, inf\); got 0"),
        ({"beta": 0}, r"beta must be in \(0, 1\); got 0"),
        ({"alpha": 0.5, "beta": 0.5}, r"beta must be in \(0, 0.5\); got 0.5"),
        ({"max_epochs": -1}, "max_epochs must be an integer >= 0; got -1"),
        ({"learning_rate": 0}, r"learning_rate must be in \(0, inf\); got 0"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=f"WideReLU.{message}"):
        WideReLU(**settings).check()


def test_default_settings_are_in_range() -> None:
    WideReLU().check()
    WideReLU(learning_rate=0.1).check()
