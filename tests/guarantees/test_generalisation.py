from __future__ import annotations

import math

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
    NonLinear,
    load,
)
from gbgnn._random import Seeds
from gbgnn.boosting import StopReason, boost
from gbgnn.callbacks import RoundReport
from gbgnn.errors import ParameterError
from gbgnn.fitting import FitPlan
from gbgnn.guarantees import covered_spaces, depth_bound, generalisation_bound, margin_errors
from gbgnn.problem import InputRecipe
from gbgnn.propagation import AugmentedAdjacency
from gbgnn.tasks import Regression
from gbgnn.testing import two_blocks
from gbgnn.theory import (
    confidence_term,
    mlp_complexity,
    nonlinear_mlp_complexity,
    partition_term,
    rademacher_complexity,
)

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


def test_every_term_equals_its_formula() -> None:
    model = fit()
    bound = generalisation_bound(model, delta=0.3, confidence=0.9)
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
    bound = generalisation_bound(model)
    for t, (eta, term) in enumerate(zip(model.etas_, bound.complexities, strict=True), start=1):
        norm = float(np.linalg.norm(propagated(model, t)))
        mixing = [] if mixing_norm is None else [mixing_norm] * (t - 1)
        closed = mlp_complexity(norm, M, N - M, n_layers=2, max_norm=2.0, mixing_norms=mixing, bias=bias)
        assert term == pytest.approx(eta * closed)


def test_relu_hops_take_the_bound_that_holds_for_them() -> None:
    model = fit(aggregation=NonLinear(max_norm=1.5, epochs=2))
    bound = generalisation_bound(model)
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
    bound = generalisation_bound(model)
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
    closed = generalisation_bound(model)
    drawn = generalisation_bound(model, complexity="monte_carlo", n_draws=4000)
    for t, (eta, low, high) in enumerate(
        zip(model.etas_, drawn.complexities, closed.complexities, strict=True), start=1
    ):
        exact = rademacher_complexity(propagated(model, t), M, n_draws=20_000, seed=1)
        assert eta * exact.value < low < high
    assert drawn.deviation > closed.deviation  # a share of the failure probability paid for the draws


@pytest.mark.parametrize("complexity", ["closed", "monte_carlo"])
def test_steps_chosen_by_looking_cost_more(complexity: str) -> None:
    model = fit(n_rounds=9)
    fixed = generalisation_bound(model, complexity=complexity)
    any_steps = generalisation_bound(model, complexity=complexity, steps="any")
    ratios = np.array(any_steps.complexities) / generalisation_bound(model).complexities
    assert np.ptp(ratios) < 1e-9  # one class for all rounds: one factor
    assert any_steps.complexity > fixed.complexity
    assert any_steps.deviation > fixed.deviation
    if complexity == "closed":
        assert 3.0 <= ratios[0] <= 3.0 * 1.25  # the root of nine rounds, the next power of 1.25
    else:
        assert ratios[0] < 3.0
    assert not any("steps" in note for note in any_steps.notes)
    assert any("steps" in note for note in fixed.notes)


def test_rounds_that_were_allowed_count_not_those_that_early_stopping_left() -> None:
    class StopAtFour(Callback):
        def on_round(self, report: RoundReport) -> StopReason | None:
            return StopReason.REQUESTED if report.t == 4 else None

    model = fit(n_rounds=16, callbacks=[StopAtFour()])
    assert len(model.etas_) == 4
    ratio = generalisation_bound(model, steps="any").complexity / generalisation_bound(model).complexity
    assert ratio >= 4.0
    assert ratio > 1.5 * (
        generalisation_bound(fit(n_rounds=4), steps="any").complexity
        / generalisation_bound(fit(n_rounds=4)).complexity
    )


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
    for arguments in ({}, {"steps": "any"}, {"complexity": "monte_carlo", "n_draws": 50}, {"form": "paper"}):
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
    bound = generalisation_bound(model, confidence=0.9)
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


def test_the_bound_holds_over_random_partitions() -> None:
    """The rigorous form, on ten random choices of the labelled nodes of a graph of 4,000."""
    from gbgnn import datasets

    data = datasets.csbm(4000, n_features=2, separation=2.0, seed=0)
    n_vacuous = 0
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(4000)
        train, rest = order[:2000], order[2000:]
        model = GBGNNClassifier(learner=ConstrainedMLP(epochs=5), n_rounds=2, random_state=seed)
        model.fit(train, data.y[train], graph=data.graph)
        bound = generalisation_bound(model, delta=0.2, steps="any")
        assert 1 - model.score(rest, data.y[rest]) <= bound.total
        n_vacuous += bound.is_vacuous
    assert n_vacuous == 0  # and it says something


def test_depth_bound_has_the_certificate_s_training_bound_and_the_same_other_terms() -> None:
    model = fit(n_rounds=8)
    for form in ("corrected", "paper"):
        by_depth = depth_bound(model, delta=0.2, form=form)
        whole = generalisation_bound(model, delta=0.2, form=form)
        assert by_depth.training == model.certificate_.training_bounds(delta=0.2, form=form)
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
        ({"confidence": 1.0}, "confidence must be in"),
        ({"form": "printed"}, "form must be one of corrected, paper"),
        ({"steps": "some"}, "steps must be one of fixed, any"),
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
