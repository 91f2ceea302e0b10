from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from gbgnn import (
    Callback,
    ConstrainedMLP,
    FunctionalGradient,
    GBGNNClassifier,
    Graph,
    Linear,
    NodeSplit,
    NonLinear,
    load,
)
from gbgnn._random import Seeds
from gbgnn.boosting import Ensemble, StopReason, boost
from gbgnn.callbacks import RoundReport
from gbgnn.errors import ParameterError
from gbgnn.fitting import FitPlan
from gbgnn.guarantees import covered_spaces, depth_bound, generalisation_bound, margin_errors
from gbgnn.guarantees.generalisation import ramps, share_of
from gbgnn.learners import HeadSpace
from gbgnn.problem import InputRecipe
from gbgnn.propagation import AugmentedAdjacency, RandomWalk
from gbgnn.tasks import Regression
from gbgnn.testing import two_blocks
from gbgnn.theory import (
    Draw,
    Estimate,
    confidence_term,
    independence_factor,
    mlp_complexity,
    nonlinear_mlp_complexity,
    partition_term,
    q_factor,
    rademacher_complexity,
    sign_probability,
)
from gbgnn.theory.monte_carlo import VectorFamily, draw_sums

N, M = 40, 20


def fit(n_classes: int = 2, learner: object = None, n_rounds: int = 4, **settings: object) -> GBGNNClassifier:
    graph, y = two_blocks(N, n_classes=n_classes)
    learner = ConstrainedMLP(epochs=10) if learner is None else learner
    model = GBGNNClassifier(learner=learner, n_rounds=n_rounds, random_state=0, dtype="float64", **settings)
    return model.fit(np.arange(M), y[:M], graph=graph)


def propagated(model: GBGNNClassifier, t: int) -> np.ndarray:
    """P^(t-1) X, by dense algebra."""
    P = AugmentedAdjacency().build(model.graph_.adjacency).toarray()
    return np.linalg.matrix_power(P, t - 1) @ model.graph_.features


OLD = {"form": "corrected", "steps": "fixed"}


def test_every_term_of_the_first_form_equals_its_formula() -> None:
    model = fit()
    bound = generalisation_bound(model, delta=0.3, confidence=0.9, **OLD)
    for t, (eta, term) in enumerate(zip(model.etas_, bound.complexities, strict=True), start=1):
        norm = float(np.linalg.norm(propagated(model, t)))
        closed = math.sqrt(2) * norm / math.sqrt(M * (N - M))  # B = 1, L = 1
        assert term == pytest.approx(eta * closed / (2 * 0.3))
    assert bound.partition == partition_term(M, N - M)
    assert bound.deviation == pytest.approx(confidence_term(M, N - M, 0.9))
    signs = np.where(model.train_targets_ == 1, 1, -1)
    margins = signs * np.tanh(model.scores_[:M, 0] / 2)
    assert bound.training == pytest.approx((margins < 0.3).mean())
    assert bound.per_class == ()


def test_the_paper_s_form_is_what_is_printed() -> None:
    model = fit(learner=ConstrainedMLP(hidden_layers=1, units=4, max_norm=3.0, epochs=5))
    bound = generalisation_bound(model, delta=0.0, form="paper")
    for t, (eta, term) in enumerate(zip(model.etas_, bound.complexities, strict=True), start=1):
        norm = float(np.linalg.norm(propagated(model, t)))
        assert term == pytest.approx(eta * 2 * math.sqrt(2) * 6 * norm / math.sqrt(M * (N - M)))
    assert any("does not hold" in note for note in bound.notes)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("mixing_norm", [None, 1.5])
def test_spaces_of_the_parts_reach_the_closed_form(bias: bool, mixing_norm: float | None) -> None:
    aggregation = "adjacency" if mixing_norm is None else Linear(max_norm=mixing_norm, epochs=2)
    learner = ConstrainedMLP(hidden_layers=1, units=4, max_norm=2.0, bias=bias, epochs=5)
    model = fit(learner=learner, aggregation=aggregation)
    bound = generalisation_bound(model, **OLD)
    for t, (eta, term) in enumerate(zip(model.etas_, bound.complexities, strict=True), start=1):
        norm = float(np.linalg.norm(propagated(model, t)))
        mixing = [] if mixing_norm is None else [mixing_norm] * (t - 1)
        closed = mlp_complexity(norm, M, N - M, n_layers=2, max_norm=2.0, mixing_norms=mixing, bias=bias)
        assert term == pytest.approx(eta * closed)


def test_relu_hops_take_the_bound_that_holds_for_them() -> None:
    model = fit(aggregation=NonLinear(max_norm=1.5, epochs=2))
    bound = generalisation_bound(model, **OLD)
    first = float(np.linalg.norm(propagated(model, 2)))
    for t in (2, 3, 4):
        closed = nonlinear_mlp_complexity(
            first,
            M,
            N - M,
            n_layers=1,
            max_norm=1.0,
            mixing_norms=[1.5] * (t - 1),
            operator_norms=[1.0] * (t - 2),
        )
        assert bound.complexities[t - 1] == pytest.approx(model.etas_[t - 1] * closed)


def test_relu_hops_as_printed_have_operator_norms_only() -> None:
    model = fit(aggregation=NonLinear(max_norm=1.5, epochs=2))
    bound = generalisation_bound(model, form="paper")
    norm = float(np.linalg.norm(propagated(model, 1)))
    for t in (2, 3, 4):
        printed = 2 * math.sqrt(2) * 1.5 ** (t - 1) * 2**t * norm / math.sqrt(M * (N - M))
        assert bound.complexities[t - 1] == pytest.approx(model.etas_[t - 1] * printed)


@pytest.mark.parametrize("aggregation", ["adjacency", "injection", "lazy", "identity"])
def test_fixed_hops_are_their_own_envelope(aggregation: str) -> None:
    model = fit(aggregation=aggregation)
    bound = generalisation_bound(model, **OLD)
    for eta, term, rows in zip(model.etas_, bound.complexities, representations(model), strict=True):
        closed = math.sqrt(2 / (M * (N - M))) * float(rows.norm())
        assert term == pytest.approx(eta * closed)


def representations(model: GBGNNClassifier) -> list[torch.Tensor]:
    inputs = InputRecipe(AugmentedAdjacency(), dtype=torch.float64).build(model.graph_)
    X, seen = inputs.features, []
    for trained in model.ensemble_:
        X = trained.hop(X, inputs)
        seen.append(X.dense())
    return seen


def test_monte_carlo_is_below_the_closed_form_and_above_the_exact_value() -> None:
    model = fit()
    closed = generalisation_bound(model, **OLD)
    drawn = generalisation_bound(model, complexity="monte_carlo", n_draws=4000, **OLD)
    for t, (eta, low, high) in enumerate(
        zip(model.etas_, drawn.complexities, closed.complexities, strict=True), start=1
    ):
        exact = rademacher_complexity(propagated(model, t), M, n_draws=20_000, seed=1)
        assert eta * exact.value < low < high
    assert drawn.deviation > closed.deviation  # a share of the failure probability paid for the draws


@pytest.mark.parametrize("complexity", ["closed", "monte_carlo"])
def test_steps_chosen_by_looking_cost_more(complexity: str) -> None:
    model = fit(n_rounds=9)
    fixed = generalisation_bound(model, complexity=complexity, steps="fixed")
    any_steps = generalisation_bound(model, complexity=complexity)
    ratios = np.array(any_steps.complexities) / generalisation_bound(model, steps="fixed").complexities
    assert np.ptp(ratios) < 1e-9  # one class for all rounds: one factor
    assert any_steps.complexity > fixed.complexity
    assert any_steps.deviation > fixed.deviation
    if complexity == "closed":
        assert 3.0 <= ratios[0] <= 3.0 * 1.25  # the root of nine rounds, the next power of 1.25
    else:
        assert ratios[0] < 3.0
    assert any_steps.steps == "any"
    assert not any("steps" in note for note in any_steps.notes)
    assert any("steps" in note for note in fixed.notes)


def test_rounds_that_were_allowed_count_not_those_that_early_stopping_left() -> None:
    class StopAtFour(Callback):
        def on_round(self, report: RoundReport) -> StopReason | None:
            return StopReason.REQUESTED if report.t == 4 else None

    model = fit(n_rounds=16, callbacks=[StopAtFour()])
    assert len(model.etas_) == 4
    ratios = [
        generalisation_bound(each).complexity / generalisation_bound(each, steps="fixed").complexity
        for each in (model, fit(n_rounds=4))
    ]
    assert ratios[0] >= 4.0
    assert ratios[0] > 1.5 * ratios[1]


@pytest.mark.parametrize(
    "changed",
    [
        {"rule": "samme"},
        {"aggregation": "kta"},
        {"aggregation": Linear(max_norm=7.0)},
        {"learner": "mlp"},
        {"learner__max_norm": 9.0},
        {"learner__hidden_layers": 1},
        {"propagation": "laplacian"},
        {"feature_norm": "l2"},
        {"n_rounds": 400, "learning_rate": 1.9},
        {"dtype": "float32", "random_state": 8, "fine_tune": True, "keep_learners": False},
    ],
    ids=str,
)
def test_bounds_are_of_the_model_as_it_was_fitted(changed: dict) -> None:
    model, untouched = fit(n_rounds=3), fit(n_rounds=3)
    model.set_params(**changed)
    for arguments in ({}, OLD, {"complexity": "monte_carlo", "n_draws": 50}, {"form": "paper"}):
        assert generalisation_bound(model, **arguments) == generalisation_bound(untouched, **arguments)
    assert depth_bound(model) == depth_bound(untouched)
    assert model.certificate_ == untouched.certificate_


def test_settings_that_no_bound_covers_are_those_of_the_fit() -> None:
    model = fit(learner="mlp").set_params(learner=ConstrainedMLP())
    with pytest.raises(ParameterError, match="no bound covers MLP"):
        generalisation_bound(model)


def test_only_errors_of_classes_are_bounded() -> None:
    graph, _ = two_blocks(N)
    y = np.asarray(graph.features)[:M, 0]
    plan = FitPlan.build(
        GBGNNClassifier(learner=ConstrainedMLP(epochs=3)), Regression(), np.arange(M), y, graph, seed=0
    )
    parts = plan.problem, plan.member.aggregation, plan.member.learner, plan.member.rule
    regression = plan.model(boost(*parts, n_rounds=2, seeds=Seeds(0)))
    with pytest.raises(ParameterError, match="the bounds are of errors of classification; got Regression"):
        covered_spaces(regression)


@settings(max_examples=40)
@given(delta=st.floats(0.05, 0.95), confidence=st.floats(0.5, 0.999), low=st.floats(0.01, 0.99))
def test_bounds_move_with_their_arguments(delta: float, confidence: float, low: float) -> None:
    wide, narrow = (generalisation_bound(MODEL, delta=d, confidence=confidence) for d in (delta, low * delta))
    assert wide.training >= narrow.training
    assert wide.complexity < narrow.complexity
    surer = generalisation_bound(MODEL, delta=delta, confidence=confidence + (1 - confidence) / 2)
    assert surer.deviation > wide.deviation
    assert surer.training == wide.training


MODEL = fit(n_rounds=2)


def test_several_classes_are_told_from_the_rest_one_by_one() -> None:
    model = fit(n_classes=3)
    bound = generalisation_bound(model, confidence=0.9, **OLD)
    assert [part.label for part in bound.per_class] == [0, 1, 2]
    assert bound.total == pytest.approx(sum(part.total for part in bound.per_class))
    assert bound.per_class[0].confidence == pytest.approx(1 - 0.1 / 3)
    assert bound.per_class[0].deviation == pytest.approx(confidence_term(M, N - M, 1 - 0.1 / 3))
    for k, part in enumerate(bound.per_class):
        signs = np.where(model.train_targets_ == k, 1, -1)
        assert part.training == (signs * np.tanh(model.scores_[:M, k] / 2) < 0.5).mean()
    assert any("3 classes" in note for note in bound.notes)


@settings(max_examples=200)
@given(seed=st.integers(0, 10**6), n_classes=st.integers(2, 6))
def test_a_wrong_prediction_is_an_error_of_some_class(seed: int, n_classes: int) -> None:
    random = np.random.default_rng(seed)
    scores, y = random.normal(size=(50, n_classes)), random.integers(n_classes, size=50)
    signs = np.where(y[:, None] == np.arange(n_classes), 1, -1)
    wrong_somewhere = (signs * scores <= 0).any(axis=1)
    assert (wrong_somewhere | (scores.argmax(axis=1) == y)).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_term_of_the_sharp_form_equals_its_formula(n_classes: int) -> None:
    model = fit(n_classes)
    bound = generalisation_bound(model, delta=0.3, confidence=0.9, steps="fixed")
    K = 1 if n_classes == 2 else n_classes
    for t, (eta, term) in enumerate(zip(model.etas_, bound.complexities, strict=True), start=1):
        closed = math.sqrt(2) * float(np.linalg.norm(propagated(model, t))) / math.sqrt(M * (N - M))
        assert term == pytest.approx(K * eta * closed * independence_factor(M, N - M) / (2 * 0.3))
    assert (bound.partition, bound.imbalance, bound.per_class) == (0, 0, ())
    assert bound.deviation == pytest.approx(confidence_term(M, N - M, 0.9))
    wanted = model.train_targets_[:, None] == (np.array([1]) if K == 1 else np.arange(K))
    margins = np.where(wanted, 1, -1) * np.tanh(model.scores_[:M] / 2)
    ramps = np.where(margins <= 0, 1, np.where(margins >= 0.3, 0, 1 - margins / 0.3))
    assert bound.training == pytest.approx(np.minimum(ramps.sum(axis=1), 1).mean())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_sharp_form_is_the_smaller_one(n_classes: int) -> None:
    model = fit(n_classes)
    sharp, first = (generalisation_bound(model, form=form, steps="any") for form in ("sharp", "corrected"))
    assert sharp.training <= first.training
    assert sharp.deviation <= first.deviation * (1 + 1e-12)
    assert sharp.total < first.total


@settings(max_examples=200)
@given(seed=st.integers(0, 10**6), n_classes=st.integers(2, 5), delta=st.floats(0.05, 0.95))
def test_the_ramp_lies_between_error_and_margin_error(seed: int, n_classes: int, delta: float) -> None:
    random = np.random.default_rng(seed)
    n = n_classes if n_classes > 2 else 1
    scores, y = random.normal(size=(30, n), scale=2), random.integers(n_classes, size=30)
    task = SimpleNamespace(n_columns=n_classes)
    model = SimpleNamespace(scores=scores, train_nodes=np.arange(30), train_targets=y, task=task)
    ramp, within = ramps(model, delta), np.array(margin_errors(model, delta))
    said = (scores[:, 0] > 0).astype(int) if n == 1 else scores.argmax(axis=1)
    assert (ramp.sum(axis=1).clip(max=1) >= (said != y)).all()
    assert (ramp.mean(axis=0) <= within + 1e-12).all()
    moved = SimpleNamespace(**{**vars(model), "scores": scores + 0.01})
    assert (abs(ramps(moved, delta) - ramp) <= 0.01 / (2 * delta) + 1e-12).all()  # how fast it changes


def test_shares_of_all_sizes_are_less_than_the_whole() -> None:
    powers = range(-10_000, 10_001)
    rest = 2 / (3 * 10_000)  # of all larger ones, by the integral
    assert 0.75 < share_of(None) + sum(share_of(power) for power in powers) + rest < 1  # and little is lost
    model = fit()
    bound = generalisation_bound(model, confidence=0.9)
    spent = generalisation_bound(model, steps="fixed").complexity / independence_factor(M, N - M)
    power = math.ceil(math.log(spent, 1.25))  # delta is 1/2
    assert bound.deviation == pytest.approx(confidence_term(M, N - M, 1 - 0.1 * share_of(power)))


def test_steps_of_zero_are_a_class_of_their_own() -> None:
    model = fit(n_rounds=2)
    rounds = tuple(replace(each, eta=0.0) for each in model.model_.ensemble)
    model.model_ = replace(model.model_, ensemble=Ensemble(rounds))
    bound = generalisation_bound(model, confidence=0.9)
    assert bound.complexities == (0.0, 0.0)
    assert bound.deviation == pytest.approx(confidence_term(M, N - M, 1 - 0.1 * share_of(None)))


def test_strata_that_were_drawn_alike_cost_little() -> None:
    model, kinds = fit(), np.arange(N) % 2
    plain, by_kind = (generalisation_bound(model, strata=strata) for strata in (None, kinds))
    draw = Draw.of_strata(kinds, np.arange(M))
    assert by_kind.imbalance == 0
    assert by_kind.deviation > plain.deviation
    ratio = draw.independence / independence_factor(M, N - M)
    assert by_kind.complexity == pytest.approx(ratio * plain.complexity)
    assert "in each of 2 strata" in by_kind.notes[0]
    unlike = generalisation_bound(model, strata=np.arange(N) < M + 10)
    assert unlike.imbalance == 0.5


def test_signs_are_as_frequent_as_in_the_stratum_with_most() -> None:
    model = fit()
    kinds = (np.arange(N) >= 30).astype(int)  # 20 of 30 and none of 10
    draw = Draw.of_strata(kinds, np.arange(M))
    plain, by_kind = (generalisation_bound(model, strata=each, steps="fixed") for each in (None, kinds))
    more = math.sqrt(draw.sign_probability / sign_probability(M, N - M))
    factor = more * draw.independence / independence_factor(M, N - M)
    assert by_kind.complexity == pytest.approx(factor * plain.complexity)


def test_a_population_is_whom_the_labelled_nodes_were_drawn_from() -> None:
    model = fit()
    bound = generalisation_bound(model, population=np.arange(30), steps="fixed")
    for t, (eta, term) in enumerate(zip(model.etas_, bound.complexities, strict=True), start=1):
        closed = math.sqrt(2) * float(np.linalg.norm(propagated(model, t)[:30])) / math.sqrt(M * 10)
        assert term == pytest.approx(eta * closed * independence_factor(M, 10))
    assert "all 30;" in bound.notes[0]
    assert generalisation_bound(model, population=np.arange(N)) == generalisation_bound(model)
    drawn = generalisation_bound(model, population=np.arange(30), complexity="monte_carlo", n_draws=500)
    assert drawn.complexity < generalisation_bound(model, population=np.arange(30)).complexity


def test_a_split_says_whether_it_is_the_draw_that_is_assumed() -> None:
    model, kinds = fit(), np.arange(N) % 2
    for draw, strata, holds in (
        ("uniform", None, True),
        ("uniform", kinds, True),
        ("strata", None, False),
        ("strata", kinds, True),
        ("per class", None, False),
        ("", None, None),
    ):
        split = NodeSplit(np.arange(M)[::-1], draw=draw)
        bound = generalisation_bound(model, split=split, strata=strata)
        assert bound.assumption_holds is holds
        assert ("no theorem" in bound.notes[0]) is (holds is False)
    assert generalisation_bound(model).assumption_holds is None


def test_another_graph_of_the_same_shape_is_refused(tmp_path: object) -> None:
    model = fit()
    model.save(tmp_path / "m.gbgnn")
    faint = Graph(model.graph_.adjacency, 1e-3 * np.asarray(model.graph_.features))
    for each in (model, load(tmp_path / "m.gbgnn")):
        with pytest.raises(ParameterError, match="graph is not that of the fit"):
            generalisation_bound(each, graph=faint)


def drawn_by_hand(
    model: GBGNNClassifier, t: int, *, bias: bool, mixing: float, n_draws: int = 400
) -> np.ndarray:
    """Q sup <sigma, f> over linear heads of norm 1.5 on C^(t-1) P^(t-1) X, on the library's own signs."""
    X = propagated(model, t) * mixing ** (t - 1)
    columns = np.c_[X, np.ones(N)] if bias else X
    signs = VectorFamily("hand", np.eye(N)).X
    p, drawn = sign_probability(M, N - M), []
    for group in range(-(-n_draws // 128)):
        drawn.append(abs(draw_sums(signs, p, 0, group) @ columns).max(axis=1))
    return 1.5 * q_factor(M, N - M) * np.concatenate(drawn)[:n_draws]


@pytest.mark.parametrize(("bias", "mixing"), [(False, 1.0), (True, 1.0), (False, 2.5), (True, 0.4)])
def test_drawn_complexities_have_bias_mixing_norm_and_a_failure_for_every_round(
    bias: bool, mixing: float
) -> None:
    aggregation = "adjacency" if mixing == 1.0 else Linear(max_norm=mixing, epochs=2)
    model = fit(learner=ConstrainedMLP(max_norm=1.5, bias=bias, epochs=5), aggregation=aggregation)
    bound = generalisation_bound(
        model, complexity="monte_carlo", n_draws=400, confidence=0.9, delta=0.25, steps="fixed"
    )
    for t, (eta, term) in enumerate(zip(model.etas_, bound.complexities, strict=True), start=1):
        draws = drawn_by_hand(model, t, bias=bias, mixing=mixing)
        X = propagated(model, t) * mixing ** (t - 1)
        longest = np.maximum(abs(X).max(axis=1), 1.0 if bias else 0.0)
        change = 2 * 1.5 * q_factor(M, N - M) * np.linalg.norm(longest)
        estimate = Estimate.from_draws(draws, change, sign_probability(M, N - M))
        limit = estimate.upper_limit(
            1 - 0.1 * 0.01 / 4
        )  # a hundredth of the failure, for each of four rounds
        assert term == pytest.approx(eta * limit * independence_factor(M, N - M) / 0.5)
    assert bound.deviation == pytest.approx(confidence_term(M, N - M, 1 - 0.1 * 0.99))


def test_drawn_unions_take_the_largest_round_in_every_draw() -> None:
    model = fit(learner=ConstrainedMLP(max_norm=1.5, epochs=5))
    bound = generalisation_bound(model, complexity="monte_carlo", n_draws=400, confidence=0.9, delta=0.5)
    closed = [math.sqrt(2 / (M * (N - M))) * 1.5 * np.linalg.norm(propagated(model, t)) for t in (1, 2, 3, 4)]
    draws = [drawn_by_hand(model, t, bias=False, mixing=1.0) / closed[t - 1] for t in (1, 2, 3, 4)]
    rows = [abs(propagated(model, t)).max(axis=1) / closed[t - 1] for t in (1, 2, 3, 4)]
    change = 2 * 1.5 * q_factor(M, N - M) * np.linalg.norm(np.max(rows, axis=0))
    estimate = Estimate.from_draws(np.max(draws, axis=0), change, sign_probability(M, N - M))
    spent = float(model.etas_ @ closed)
    size = 1.25 ** math.ceil(math.log(spent, 1.25))
    joint = estimate.upper_limit(1 - 0.1 * 0.01)
    assert bound.complexity == pytest.approx(size * joint * independence_factor(M, N - M))


def test_relu_hops_count_the_operator_norm_and_every_round() -> None:
    """The random walk on a star is longer than 1, and ReLU hops have no root of T."""
    graph, y = two_blocks(N)
    edges = graph.adjacency.toarray()
    edges[0, 1:] = edges[1:, 0] = 1
    star = Graph(edges, graph.features)
    model = GBGNNClassifier(
        learner=ConstrainedMLP(epochs=5),
        aggregation=NonLinear(max_norm=1.5, epochs=2),
        propagation=RandomWalk(),
        n_rounds=4,
        random_state=0,
        dtype="float64",
    ).fit(np.arange(M), y[:M], graph=star)
    P = RandomWalk().build(star.adjacency).toarray()
    norm, first = float(np.linalg.norm(P, 2)), float(np.linalg.norm(P @ star.features))
    assert norm > 1.1
    bound = generalisation_bound(model, steps="fixed")
    closed = [math.sqrt(2 / (M * (N - M))) * np.linalg.norm(star.features)] + [
        nonlinear_mlp_complexity(
            *(first, M, N - M),
            n_layers=1,
            max_norm=1.0,
            mixing_norms=[1.5] * (t - 1),
            operator_norms=[norm] * (t - 2),
        )
        for t in (2, 3, 4)
    ]
    expected = model.etas_ * closed * independence_factor(M, N - M)
    assert bound.complexities == pytest.approx(tuple(expected), rel=1e-6)
    size = 1.25 ** math.ceil(math.log(float(model.etas_ @ closed), 1.25))
    any_steps = generalisation_bound(model)
    assert any_steps.complexity == pytest.approx(size * 4 * independence_factor(M, N - M))


def test_heads_that_cannot_be_divided_pay_for_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fit(n_rounds=9)
    root = generalisation_bound(model)
    monkeypatch.setattr(ConstrainedMLP, "hypothesis_space", lambda _: HeadSpace(1, 1.0, is_homogeneous=False))
    assert generalisation_bound(model).complexity == pytest.approx(3 * root.complexity)


def test_the_bound_holds_over_random_draws() -> None:
    """Whole fits, on twenty random choices of half of 1,500 nodes, uniform and by class."""
    from gbgnn import datasets

    data, totals = datasets.csbm(1500, n_features=2, separation=2.0, seed=0), []
    for seed in range(10):
        for draw in (datasets.uniform_split, datasets.stratified_split):
            split = draw(data.y, 0.5, 0.0, seed=seed)
            model = GBGNNClassifier(learner=ConstrainedMLP(epochs=5), n_rounds=2, random_state=seed)
            model.fit(split.train, data.y[split.train], graph=data.graph)
            strata = data.y if split.draw == "strata" else None
            bound = generalisation_bound(model, delta=0.2, split=split, strata=strata)
            assert bound.assumption_holds
            assert 1 - model.score(split.test, data.y[split.test]) <= bound.total
            totals.append(bound.total)
    assert max(totals) < 0.75  # and it says something


def test_depth_bound_has_the_certificate_s_training_bound_and_the_same_other_terms() -> None:
    model = fit(n_rounds=8)
    for form in ("sharp", "corrected", "paper"):
        by_depth = depth_bound(model, delta=0.2, form=form)
        whole = generalisation_bound(model, delta=0.2, form=form, steps="fixed")
        printed = "paper" if form == "paper" else "corrected"
        assert by_depth.training == model.certificate_.training_bounds(delta=0.2, form=printed)
        assert by_depth.notes == whole.notes
        assert by_depth.complexity[-1] == pytest.approx(whole.complexity)
        assert (by_depth.partition, by_depth.deviation) == (whole.partition, whole.deviation)
    assert by_depth.gamma_exponent > 0


def test_a_model_from_a_file_needs_its_graph(tmp_path: object) -> None:
    model = fit()
    model.save(tmp_path / "m.gbgnn")
    again = load(tmp_path / "m.gbgnn")
    with pytest.raises(
        ParameterError, match="loaded from a file, which does not hold its graph; pass graph="
    ):
        generalisation_bound(again)
    assert generalisation_bound(again, graph=model.graph_) == generalisation_bound(model)
    assert margin_errors(again.model_, 0.5) == margin_errors(model.model_, 0.5)
    other = Graph(np.eye(3), np.ones((3, 5)))
    with pytest.raises(ParameterError, match="graph has 3 nodes, but the model was fitted on 40"):
        generalisation_bound(again, graph=other)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rule": "samme"}, "no bound covers Samme.*must add its learner's own output"),
        ({"rule": FunctionalGradient(target="labels")}, "no bound covers FunctionalGradient"),
        ({"learner": "mlp"}, "no bound covers MLP: nothing limits its weights. Use ConstrainedMLP"),
        ({"aggregation": "kta"}, "no bound covers KernelTargetAlignment: it chooses weights by the labels"),
    ],
)
def test_parts_without_norms_are_named(changed: dict, message: str) -> None:
    model = fit(**changed)
    with pytest.raises(ParameterError, match=message):
        generalisation_bound(model)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta": 0.0}, r"generalisation_bound.delta must be in \(0, 1\); got 0.0"),
        ({"delta": 1.0}, r"delta must be in \(0, 1\)"),
        ({"confidence": 1.0}, r"generalisation_bound.confidence must be in \(0, 1\)"),
        ({"confidence": 0.0}, r"generalisation_bound.confidence must be in \(0, 1\)"),
        ({"form": "printed"}, "form must be one of sharp, corrected, paper"),
        ({"steps": "some"}, "steps must be one of any, fixed"),
        ({"form": "corrected", "strata": np.zeros(N)}, 'only form="sharp" has strata'),
        ({"strata": [0, 1]}, "strata must have an entry for each of the 40 nodes"),
        ({"population": [0, 1]}, "population must hold the nodes that trained"),
        ({"population": []}, "population must hold the nodes that trained"),
        ({"population": np.arange(M)}, "every node is labelled"),
        ({"split": NodeSplit([0, 1])}, "are not the training nodes of NodeSplit"),
        ({"complexity": "exact"}, "complexity must be one of closed, monte_carlo"),
        ({"n_draws": 1}, "n_draws must be an integer >= 2"),
        (
            {"form": "paper", "steps": "any"},
            'form="paper" goes with steps="fixed" and complexity="closed" only',
        ),
    ],
)
def test_bad_arguments_are_named(arguments: dict, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        generalisation_bound(MODEL, **arguments)


def test_monte_carlo_is_for_linear_heads_on_linear_hops() -> None:
    deep = fit(learner=ConstrainedMLP(hidden_layers=1, units=4, epochs=2), n_rounds=1)
    with pytest.raises(ParameterError, match='use complexity="closed"'):
        generalisation_bound(deep, complexity="monte_carlo")


def test_without_unlabelled_nodes_there_is_nothing_to_bound() -> None:
    graph, y = two_blocks(12)
    model = GBGNNClassifier(learner=ConstrainedMLP(epochs=2), n_rounds=1, random_state=0)
    model.fit(np.arange(12), y, graph=graph)
    with pytest.raises(ParameterError, match="every node is labelled"):
        generalisation_bound(model)


def test_one_unlabelled_node_is_enough() -> None:
    graph, y = two_blocks(12)
    model = GBGNNClassifier(learner=ConstrainedMLP(epochs=2), n_rounds=1, random_state=0)
    bound = generalisation_bound(model.fit(np.arange(11), y[:11], graph=graph))
    assert math.isfinite(bound.total)
    assert bound.is_vacuous


def test_depth_bound_is_for_one_score() -> None:
    with pytest.raises(ParameterError, match="two classes and one score; this model has 3 score columns"):
        depth_bound(fit(n_classes=3))
    with pytest.raises(NotFittedError):
        depth_bound(GBGNNClassifier())
    with pytest.raises(NotFittedError):
        generalisation_bound(GBGNNClassifier())
