from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from gbgnn import MLP, FineTuner, FunctionalGradient, GBGNNClassifier, load
from gbgnn._random import Seeds
from gbgnn.boosting import boost
from gbgnn.fitting import FitPlan
from gbgnn.losses import Loss, SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
from gbgnn.tasks import Classification, Regression
from gbgnn.testing import two_blocks
from gbgnn.theory import Certificate, margin_constant, training_bound, weak_learning

LOSSES = {2: SigmoidCrossEntropy(), 3: SoftmaxCrossEntropy(), 7: SoftmaxCrossEntropy()}


def random_case(seed: int, n_labelled: int, n_classes: int, size: float) -> tuple[torch.Tensor, ...]:
    random = np.random.default_rng(seed)
    columns = Classification(classes=np.arange(n_classes)).n_outputs(LOSSES[n_classes])
    scores = size * random.normal(size=(n_labelled, columns))
    direction = random.normal(size=(n_labelled, columns)) * 10 ** random.uniform(-3, 3)
    targets = random.integers(n_classes, size=n_labelled)
    return torch.tensor(scores), torch.tensor(direction), torch.tensor(targets)


# A score of 745 in favour of its class has a gradient below the smallest number there is.
VANISHED = 1e-290

CASES = {
    "seed": st.integers(0, 10**6),
    "n_labelled": st.integers(1, 12),
    "n_classes": st.sampled_from(list(LOSSES)),
    "size": st.sampled_from([0.0, 1.0, 10.0, 1e3]),
}


@settings(max_examples=3000)
@given(**CASES, share=st.floats(0.01, 2.5))
def test_the_guarantee_holds_for_any_step(
    seed: int, n_labelled: int, n_classes: int, size: float, share: float
) -> None:
    """L(Y) - L(Y + eta f) >= M / (2 A) gamma |g|^2, with gamma of the condition that the step belongs to."""
    loss: Loss = LOSSES[n_classes]
    Y, f, y = random_case(seed, n_labelled, n_classes, size)
    g = -loss.gradient(Y, y) / n_labelled
    quality = weak_learning(f / n_labelled, g)
    if quality.cosine < 1e-9 or quality.gradient_norm < VANISHED:
        return
    eta = share / (loss.smoothness * quality.alpha)
    pair = quality.at_step(eta, loss.smoothness)
    if pair is None:
        return
    promised = n_labelled / (2 * loss.smoothness) * pair.gamma * quality.gradient_norm**2
    kept = float(loss.mean(Y, y)) - float(loss.mean(Y + eta * f, y))
    assert kept >= promised - 1e-12 * (1 + size)


@settings(max_examples=500)
@given(**CASES, n_rounds=st.integers(1, 8), shrinkage=st.floats(0.1, 1.9))
def test_lemma_one_and_the_training_bound_hold_over_many_rounds(
    seed: int, n_labelled: int, n_classes: int, size: float, n_rounds: int, shrinkage: float
) -> None:
    loss: Loss = LOSSES[n_classes]
    Y, _, y = random_case(seed, n_labelled, n_classes, size)
    first, gammas, norms, errors = float(loss.mean(Y, y)), [], [], []
    for t in range(n_rounds):
        _, f, _ = random_case(seed + 7 * t + 1, n_labelled, n_classes, size)
        residuals = -loss.gradient(Y, y)
        quality = weak_learning(f / n_labelled, residuals / n_labelled)
        if quality.inner < 0:  # half of all directions point the right way, the others once turned
            f, quality = -f, weak_learning(-f / n_labelled, residuals / n_labelled)
        norms.append(quality.gradient_norm)
        errors.append([float((true_proba(loss, Y, y) * 2 - 1 < d).double().mean()) for d in (0.0, 0.5)])
        if quality.cosine < 1e-9 or quality.gradient_norm < VANISHED:
            gammas.append(0.0)
            continue
        eta = shrinkage / (loss.smoothness * quality.alpha)
        gammas.append(quality.at_step(eta, loss.smoothness).gamma)
        Y = Y + eta * f
    total = sum(gamma * norm**2 for gamma, norm in zip(gammas, norms, strict=True))
    assert total <= 2 * loss.smoothness * first / n_labelled * (1 + 1e-9) + 1e-12
    best = int(np.argmin(norms))
    for error, delta in zip(errors[best], (0.0, 0.5), strict=True):
        bound = training_bound(
            first, sum(gammas), smoothness=loss.smoothness, n_labelled=n_labelled, delta=delta
        )
        assert error <= bound + 1e-9
        assert error <= margin_constant(delta) * n_labelled**0.5 * norms[best] + 1e-9


def true_proba(loss: Loss, Y: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    task = Classification(classes=np.arange(max(2, Y.shape[1])))
    return task.proba(Y, loss.link).gather(1, y[:, None])[:, 0]


@settings(max_examples=1000)
@given(seed=st.integers(0, 10**6), n_labelled=st.integers(1, 12), size=st.sampled_from([0.0, 1.0, 1e3]))
def test_sigmoid_and_softmax_agree_for_two_classes(seed: int, n_labelled: int, size: float) -> None:
    """A score s of the second class is the pair (-s/2, s/2): same step, promise and bound, half the alpha."""
    sigmoid, softmax = SigmoidCrossEntropy(), SoftmaxCrossEntropy()
    s, f, y = random_case(seed, n_labelled, 2, size)
    S, F = (torch.cat([-half, half], dim=1) for half in (s / 2, f / 2))
    one = weak_learning(f / n_labelled, -sigmoid.gradient(s, y) / n_labelled)
    two = weak_learning(F / n_labelled, -softmax.gradient(S, y) / n_labelled)
    assert float(softmax.mean(S, y)) == pytest.approx(float(sigmoid.mean(s, y)), abs=1e-12)
    if one.gradient_norm < VANISHED:
        assert two.gradient_norm < 2 * VANISHED
        return
    assert two.cosine == pytest.approx(one.cosine, abs=1e-9)
    if one.cosine < 1e-6:
        return
    assert two.alpha == pytest.approx(one.alpha / 2)
    step_one, step_two = 1 / (sigmoid.smoothness * one.alpha), 1 / (softmax.smoothness * two.alpha)
    assert step_two == pytest.approx(step_one)
    promise = [q.cosine**2 * q.gradient_norm**2 / A for q, A in ((one, 0.25), (two, 0.5))]
    assert promise[1] == pytest.approx(promise[0])
    bounds = [
        training_bound(1.0, 1.0, smoothness=A, n_labelled=n_labelled, n_scores=K)
        for A, K in ((0.25, 1), (0.5, 2))
    ]
    assert bounds[1] == pytest.approx(bounds[0])


@settings(max_examples=300)
@given(
    seed=st.integers(0, 10**6),
    n_labelled=st.integers(1, 12),
    n_columns=st.integers(1, 4),
    share=st.floats(0.01, 1.99),
)
def test_squared_error_keeps_exactly_what_it_promises(
    seed: int, n_labelled: int, n_columns: int, share: float
) -> None:
    """Its curvature is the same everywhere, so that smoothness loses nothing."""
    loss, random = SquaredError(), np.random.default_rng(seed)
    Y, f, y = (torch.tensor(random.normal(size=(n_labelled, n_columns))) for _ in range(3))
    quality = weak_learning(f / n_labelled, -loss.gradient(Y, y) / n_labelled)
    if quality.cosine < 1e-6:
        return
    eta = share / (loss.smoothness * quality.alpha)
    pair = quality.at_step(eta, loss.smoothness)
    promised = n_labelled / (2 * loss.smoothness) * pair.gamma * quality.gradient_norm**2
    kept = float(loss.mean(Y, y)) - float(loss.mean(Y + eta * f, y))
    assert kept == pytest.approx(promised, rel=1e-6, abs=1e-10)


def fit(rule: object = "gradient", n_classes: int = 2, **settings: object) -> GBGNNClassifier:
    graph, y = two_blocks(40, n_classes=n_classes)
    learner = settings.pop("learner", MLP(epochs=10, units=8))
    model = GBGNNClassifier(rule=rule, learner=learner, random_state=0, **settings)
    return model.fit(np.arange(20), y[:20], graph=graph)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("learning_rate", [0.3, 1.0, 1.8])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradient_boosting_keeps_every_promise(n_classes: int, learning_rate: float, dtype: str) -> None:
    model = fit(FunctionalGradient(learning_rate=learning_rate), n_classes, n_rounds=30, dtype=dtype)
    certificate = model.certificate_
    assert certificate.holds
    assert len(model.history_) >= 10
    assert certificate.met == tuple(range(1, len(model.history_) + 1))
    A, M = certificate.smoothness, certificate.n_labelled
    assert certificate.smoothness == {2: 0.25, 3: 0.5}[n_classes]
    assert M == 20
    for r, row in zip(certificate.rounds, model.history_, strict=True):
        assert r.eta == pytest.approx(1 / (A * r.alpha))
        assert r.gamma == pytest.approx(learning_rate * (2 - learning_rate) * row["gamma"])
        assert r.gamma == pytest.approx(1 - (r.beta / r.alpha) ** 2)
        assert r.guaranteed > 0
    norms = model.history_["gradient_norm"]
    for before, r in zip(norms, certificate.rounds[1:], strict=False):
        assert r.guaranteed == pytest.approx(M / (2 * A) * r.gamma * before**2, rel=1e-6)
    assert certificate.best_round == 1 + int(np.argmin(norms))
    assert certificate.gamma_total == pytest.approx(sum(r.gamma for r in certificate.rounds[1:]))


def test_bounds_start_after_round_one_and_fall() -> None:
    model = fit(n_rounds=12)
    certificate = model.certificate_
    for form in ("corrected", "paper"):
        bounds = certificate.training_bounds(form=form)
        assert bounds[0] == math.inf
        assert all(later < earlier for earlier, later in pairwise(bounds[1:]))
        assert bounds[-1] == training_bound(
            model.history_["train_loss"][0],
            certificate.gamma_total,
            smoothness=0.25,
            n_labelled=20,
            form=form,
        )
    errors = [1 - accuracy for accuracy in model.history_["train_accuracy"]]
    assert errors[certificate.best_round - 1] <= certificate.training_bounds()[-1]


def test_rounds_of_other_rules_promise_what_their_steps_allow() -> None:
    for rule in ("samme", "samme_r"):
        certificate = fit(rule, 3, n_rounds=6).certificate_
        assert certificate.holds
        for r in certificate.rounds:
            assert r.is_met == (r.cosine > 0 and r.guaranteed > 0)
        if not all(r.is_met for r in certificate.rounds[1:]):
            assert certificate.training_bounds()[-1] == math.inf


@pytest.mark.parametrize("bad_round", [1, 2, 4])
def test_one_round_without_a_condition_voids_the_bounds_from_there_on(bad_round: int) -> None:
    rows = fit(n_rounds=5).history_.rows
    # A step that is more than twice too long belongs to no condition.
    rows = [row | ({"eta": 9 * row["eta"]} if row["round"] == bad_round else {}) for row in rows]
    certificate = Certificate.from_history(rows, 0.25, 20)
    assert [r.round for r in certificate.rounds if not r.is_met] == [bad_round]
    bounds = certificate.training_bounds()
    void = bad_round if bad_round > 1 else 6  # round 1 sets the stage, whatever it is
    assert [math.isfinite(bound) for bound in bounds] == [2 <= t < void for t in range(1, 6)]


def test_several_scores_make_residuals_longer() -> None:
    certificate = fit(n_classes=3, n_rounds=4).certificate_
    assert certificate.n_scores == 3
    plain = replace(certificate, n_scores=1).training_bounds()[-1]
    assert certificate.training_bounds()[-1] == pytest.approx(math.sqrt(2 / 3) * plain)
    assert fit(n_rounds=2).certificate_.n_scores == 1


def test_a_fine_tuned_model_says_whose_certificate_it_has() -> None:
    tuned = fit(n_rounds=3, fine_tune=FineTuner(epochs=2, keep="tuned"))
    assert tuned.certificate_.is_before_tuning
    assert "all before fine-tuning" in repr(tuned.certificate_)
    assert "fine-tuning" not in repr(fit(n_rounds=3).certificate_)


def test_a_round_that_adds_nothing_breaks_no_bound() -> None:
    rule = FunctionalGradient(min_cosine=0.999, retries=0, on_failure="warn")
    with pytest.warns(UserWarning, match="adds nothing"):
        certificate = fit(rule, n_rounds=3, learner=MLP(epochs=1, units=2)).certificate_
    silent = [r for r in certificate.rounds if r.eta == 0]
    assert silent
    assert all(not r.is_met and r.gamma == 0 and r.actual == 0 and r.holds for r in silent)


def test_rows_are_json_and_the_repr_says_it() -> None:
    certificate = fit(n_rounds=4).certificate_
    rows = certificate.rows()
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert rows[0]["training_bound"] is None
    assert rows[3]["training_bound"] == certificate.training_bounds()[3]
    assert "4 rounds, condition met in 4, every promise kept" in repr(certificate)


def test_certificate_survives_the_model_file(tmp_path: object) -> None:
    model = fit(n_rounds=3)
    model.save(tmp_path / "m.gbgnn")
    assert load(tmp_path / "m.gbgnn").certificate_ == model.certificate_


def test_unfitted_model_has_none() -> None:
    with pytest.raises(NotFittedError, match="certificate_ is known after a fit; call fit first"):
        GBGNNClassifier().certificate_  # noqa: B018


def test_weighted_nodes_are_certified_too() -> None:
    graph, y = two_blocks(40, n_classes=3)
    model = GBGNNClassifier(learner=MLP(epochs=10, units=8), n_rounds=20, random_state=0, dtype="float64")
    weights = np.r_[np.zeros(2), np.linspace(0.1, 5, 18)]
    certificate = model.fit(np.arange(20), y[:20], graph=graph, sample_weight=weights).certificate_
    assert certificate.holds
    assert len(certificate.met) == 20


def test_later_settings_change_no_certificate() -> None:
    model, other = fit(n_rounds=5), fit(n_rounds=5)
    wanted = other.certificate_
    model.set_params(rule="samme", learning_rate=1.9, n_rounds=3, learner="constrained", aggregation="kta")
    assert model.certificate_ == wanted
    assert model.certificate_.holds


def test_regression_is_certified_and_bounds_no_error() -> None:
    graph, _ = two_blocks(40)
    y = np.asarray(graph.features)[:, 0] ** 2
    settings = GBGNNClassifier(learner=MLP(epochs=10, units=8), n_rounds=10, dtype="float64")
    plan = FitPlan.build(settings, Regression(), np.arange(20), y[:20], graph, seed=0)
    parts = plan.problem, plan.member.aggregation, plan.member.learner, plan.member.rule
    certificate = plan.model(boost(*parts, n_rounds=10, seeds=Seeds(0))).certificate
    assert certificate.holds
    assert (certificate.smoothness, len(certificate.met)) == (2.0, 10)
    for r in certificate.rounds:
        assert 0 < r.guaranteed == pytest.approx(r.actual, rel=1e-6)
    assert set(certificate.training_bounds()) == {math.inf}
    assert any("SquaredError" in note for note in certificate.notes)
