from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import fbeta_score, make_scorer
from sklearn.tree import DecisionTreeRegressor

from gbgnn import (
    MLP,
    Adjacency,
    ConstrainedMLP,
    FineTuner,
    FunctionalGradient,
    GBGNNClassifier,
    GBGNNRegressor,
    Graph,
    Identity,
    InputInjection,
    KernelTargetAlignment,
    Lazy,
    Linear,
    NonLinear,
    Samme,
    SammeR,
)
from gbgnn._random import Seeds
from gbgnn.aggregation import Aggregation
from gbgnn.base_estimator import GBGNNEstimator
from gbgnn.boosting import BoostingRule, History, Member, StopReason, apply, boost_many
from gbgnn.callbacks import LogProgress
from gbgnn.errors import GBGNNWarning, GraphError, ParameterError, WeakLearnerError
from gbgnn.population import MemberResult, PopulationInputs, reason_apart, train_population
from gbgnn.propagation import Propagator, SparseRows
from gbgnn.registry import as_part
from gbgnn.testing import two_blocks

GRAPH, CLASSES = two_blocks(70, n_classes=3)
TRAIN, VAL, NODES = np.arange(24), np.arange(24, 48), np.arange(70)
SMOOTH = GRAPH.adjacency @ np.asarray(GRAPH.features)
LABELS: dict[str, np.ndarray] = {
    "classification": CLASSES,
    "regression": 3 + SMOOTH[:, :2],
    "multilabel": (SMOOTH[:, :3] > np.median(SMOOTH[:, :3], axis=0)).astype(int),
}
RATIOS = ("alpha", "beta", "gamma")
NOT_NUMBERS = ("seconds", "peak_memory", "coefficients", "learner")

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")


def build(learner: dict[str, Any] | None = None, **chosen: Any) -> GBGNNEstimator:
    """A small model in double precision; ``learner`` are settings of its MLP."""
    usual = {"rule": "samme", "n_rounds": 3, "dtype": "float64", "device": "cpu", "random_state": 0}
    usual["task"] = "classification"
    kind = GBGNNRegressor if chosen.get("task") == "regression" else GBGNNClassifier
    mlp = MLP(**{"units": 6, "epochs": 8, "learning_rate": 0.05, **(learner or {})})
    return kind(**({"learner": mlp} | usual | chosen))


def data_of(model: GBGNNEstimator, graph: Graph = GRAPH, **given: Any) -> dict[str, Any]:
    """The arguments of a fit."""
    y = LABELS[model.task]
    return {"nodes": TRAIN, "y": y[TRAIN], "graph": graph, "validation": (VAL, y[VAL])} | given


def inputs_of(model: GBGNNEstimator, **given: Any) -> PopulationInputs:
    return PopulationInputs.from_model(model, **({"predict_nodes": NODES} | data_of(model, **given)))


@dataclass
class Alone:
    """What came of a model that was trained by itself."""

    history: History
    scores: np.ndarray
    best_round: int
    stop_reason: StopReason


def fit_alone(model: GBGNNEstimator, **given: Any) -> Alone | None:
    """Train a model by itself; None where not even one round could be."""
    data = data_of(model, **given)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GBGNNWarning)
            fitted = clone(model).fit(data.pop("nodes"), data.pop("y"), **data)
    except WeakLearnerError:
        return None
    return Alone(fitted.history_, fitted.scores_, fitted.best_round_, fitted.stop_reason_)


def assert_equal(result: MemberResult, alone: Alone | None, tolerance: float = 1e-8) -> None:
    """Numbers may differ by a share of the largest of their kind: products are summed in another order."""
    if alone is None:
        assert result.best_round == result.n_rounds == 0
        assert (result.scores, result.best_val_score, result.val_scores) == (None, None, [])
        return
    mine, expected = result.boosted.history, alone.history
    assert (result.n_rounds, result.best_round) == (len(expected), alone.best_round)
    assert result.stop_reason is alone.stop_reason
    assert mine.metric == expected.metric
    assert list(mine[0]) == list(expected[0])
    for name in [column for column in mine[0] if column not in NOT_NUMBERS]:
        prefix = "exp_" if name.startswith("exp_") else ""
        # Of a direction at right angles to the gradient, rounding decides what these are.
        is_clear = [abs(cosine or 0) > 1e-12 for cosine in expected[f"{prefix}cosine"]]
        shown = range(len(mine)) if name.removeprefix("exp_") not in RATIOS else np.flatnonzero(is_clear)
        found, others = ([table[name][t] for t in shown] for table in (mine, expected))
        assert [value is None for value in found] == [value is None for value in others], name
        ours, theirs = (np.array([v or 0 for v in values], float) for values in (found, others))
        # The sine of an angle that rounding takes for zero is the root of it, so beta is judged by alpha.
        sizes = [expected[f"{prefix}alpha" if name == f"{prefix}beta" else name][t] or 0 for t in shown]
        atol = tolerance * max(1.0, *np.abs(sizes), 0.0)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol, err_msg=name)
    for coefficients, others in zip(mine["coefficients"], expected["coefficients"], strict=True):
        np.testing.assert_allclose(coefficients or 0, others or 0, rtol=10 * tolerance, atol=tolerance)
    assert result.scores is not None
    assert_close(result.scores, alone.scores, tolerance)


def assert_close(mine: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    np.testing.assert_allclose(mine, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def check_population(
    models: Sequence[GBGNNEstimator], tolerance: float = 1e-8, **given: Any
) -> list[MemberResult]:
    """Train models at once and each alone, and compare."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GBGNNWarning)
        results = train_population(inputs_of(models[0], **given), models)
    for result, model in zip(results, models, strict=True):
        assert_equal(result, fit_alone(model, **given), tolerance)
    return results


MLPS = st.fixed_dictionaries(
    {
        "units": st.integers(3, 12),
        "dropout": st.sampled_from([0.0, 0.3, 0.5]),
        "optimizer": st.sampled_from(["adam", "rmsprop", "sgd"]),
        "learning_rate": st.sampled_from([0.01, 0.05, 0.1]),
        "momentum": st.sampled_from([0.0, 0.3]),
        "weight_decay": st.sampled_from([None, 0.0, 0.01]),
        "epochs": st.integers(0, 12),
        "batch_size": st.sampled_from([None, 5, 8, 24, 100]),
    }
)
AGGREGATIONS = {
    Adjacency: st.just({}),
    Identity: st.just({}),
    InputInjection: st.fixed_dictionaries({"mixing": st.floats(0, 1)}),
    Lazy: st.fixed_dictionaries({"mixing": st.floats(0, 1)}),
    KernelTargetAlignment: st.fixed_dictionaries(
        {
            "degree": st.just(2),
            "epochs": st.integers(0, 9),
            "optimizer": st.sampled_from(["adam", "rmsprop", "sgd"]),
            "learning_rate": st.sampled_from([0.02, 0.1]),
        }
    ),
    Linear: st.fixed_dictionaries({"learning_rate": st.sampled_from([0.1, 0.2])}),
}
RATE = st.sampled_from([0.5, 1.0])
RULES = {
    "samme": (
        Samme,
        st.fixed_dictionaries({"error_floor": st.sampled_from([1e-9, 1e-3]), "learning_rate": RATE}),
    ),
    "samme_r": (
        SammeR,
        st.fixed_dictionaries({"proba_floor": st.sampled_from([1e-9, 1e-3]), "learning_rate": RATE}),
    ),
    "gradient": (
        FunctionalGradient,
        st.fixed_dictionaries({"learning_rate": RATE, "min_cosine": st.sampled_from([0.01, 0.3])}),
    ),
    "labels": (
        FunctionalGradient,
        st.fixed_dictionaries({"learning_rate": RATE, "target": st.just("labels")}),
    ),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
# The same examples every time: among thousands there are learners that rounding sends another way.
@settings(max_examples=3, derandomize=True, phases=[Phase.generate])
@given(data=st.data())
def test_every_member_equals_the_same_model_trained_alone(
    aggregation: type[Any], rule: str, data: st.DataObject
) -> None:
    (kind, chosen), hidden_layers = RULES[rule], data.draw(st.integers(0, 2))
    check_population(
        [
            build(
                data.draw(MLPS) | {"hidden_layers": hidden_layers},
                aggregation=aggregation(**data.draw(AGGREGATIONS[aggregation])),
                rule=kind(**data.draw(chosen)),
                n_rounds=data.draw(st.integers(1, 4)),
                random_state=data.draw(st.integers(0, 3)),
            )
            for _ in range(data.draw(st.integers(2, 3)))
        ]
    )


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("rule", ["samme", "samme_r", "gradient"])
@pytest.mark.parametrize("aggregation", ["adjacency", "injection", "kta"])
def test_members_in_coordinates_of_the_rows_equal_themselves_alone(
    aggregation: str, rule: str, standardize: bool
) -> None:
    wide = Graph(GRAPH.adjacency, np.random.default_rng(0).standard_normal((70, 60)))
    learner = {"basis": "rows", "standardize": standardize, "hidden_layers": 1}
    models = [
        build(
            learner | {"units": units, "batch_size": batch},
            aggregation=aggregation,
            rule=rule,
            random_state=units,
        )
        for units, batch in ((4, None), (9, None), (6, 10))
    ]
    check_population(models, graph=wide)


@pytest.mark.parametrize("aggregation", ["adjacency", "kta"])
def test_sparse_features_are_those_of_a_model_alone(aggregation: str) -> None:
    features = sp.random_array((70, 60), density=0.1, rng=np.random.default_rng(0), format="csr")
    sparse = Graph(GRAPH.adjacency, features)
    models = [build({"units": units}, aggregation=aggregation, random_state=units) for units in (4, 9)]
    assert isinstance(inputs_of(models[0], graph=sparse).problem.inputs.features, SparseRows)
    check_population(models, graph=sparse)


@pytest.mark.parametrize("aggregation", ["adjacency", "injection", "kta"])
def test_single_precision_agrees_up_to_its_rounding(aggregation: str) -> None:
    models = [
        build({"units": u}, aggregation=aggregation, rule="samme_r", random_state=u, dtype="float32")
        for u in (4, 9)
    ]
    for result, model in zip(train_population(inputs_of(models[0]), models), models, strict=True):
        alone = fit_alone(model)
        assert alone is not None
        assert result.scores is not None
        assert result.scores.dtype == np.float32
        np.testing.assert_allclose(result.scores, alone.scores, rtol=1e-3, atol=1e-3)


def test_raw_rows_are_trained_on_where_asked() -> None:
    check_population([build({"standardize": False, "units": u}) for u in (4, 8)])


def test_two_classes_under_the_sigmoid_loss_have_one_score() -> None:
    graph, y = two_blocks(70)
    given = {"graph": graph, "y": y[TRAIN], "validation": (VAL, y[VAL])}
    results = check_population([build({"units": u}, rule="gradient") for u in (4, 8)], **given)
    assert results[0].scores is not None
    assert results[0].scores.shape == (70, 1)


@pytest.mark.parametrize("aggregation", ["adjacency", "lazy", "kta", "linear"])
@pytest.mark.parametrize("task", ["regression", "multilabel"])
@pytest.mark.parametrize("patience", [None, 3])
def test_numbers_and_several_labels_are_learned_as_alone(
    task: str, aggregation: str, patience: int | None
) -> None:
    models = [
        build(
            {"units": 4 + i, "batch_size": (None, 7)[i % 2], "patience": patience, "epochs": 20},
            task=task,
            rule=FunctionalGradient(learning_rate=0.3 + 0.2 * i),
            aggregation=aggregation,
            random_state=i,
        )
        for i in range(3)
    ]
    results = check_population(models)
    assert results[0].scores is not None
    assert results[0].scores.shape == LABELS[task].shape


@pytest.mark.parametrize("rule", ["samme", "gradient"])
@pytest.mark.parametrize("aggregation", ["adjacency", "injection"])
def test_members_lose_patience_as_alone(rule: str, aggregation: str) -> None:
    models = [
        build(
            {
                "units": 4 + i,
                "epochs": (40, 5, 30, 30)[i],
                "batch_size": (None, None, 8, 5)[i],
                "dropout": (0.5, 0.0)[i % 2],
                "patience": 3,
                "learning_rate": 0.1,
            },
            rule=rule,
            aggregation=aggregation,
            random_state=i,
        )
        for i in range(4)
    ]
    patient = check_population(models)
    for model in models:
        model.learner.patience = None
    others = train_population(inputs_of(models[0]), models)
    assert any(a.val_scores != b.val_scores for a, b in zip(patient, others, strict=True))


def test_patience_needs_validation_nodes() -> None:
    models = [build({"patience": 3}) for _ in range(2)]
    with pytest.raises(ParameterError, match="MLP.patience stops on validation nodes, but there are none"):
        train_population(inputs_of(models[0], validation=None), models)


@pytest.mark.parametrize(
    ("task", "metric"),
    [
        ("classification", "f1_macro"),
        ("classification", "neg_log_loss"),
        ("classification", make_scorer(fbeta_score, beta=2, average="macro")),
        ("regression", "r2"),
        ("regression", "neg_mean_absolute_error"),
        ("multilabel", "accuracy"),
        ("multilabel", "average_precision"),
    ],
    ids=str,
)
def test_rounds_are_chosen_by_any_metric_as_alone(task: str, metric: Any) -> None:
    models = [
        build({"units": 4 + i}, task=task, metric=metric, rule="gradient", n_rounds=5, random_state=i)
        for i in range(2)
    ]
    for result in check_population(models):
        assert result.best_val_score == max(result.val_scores)


@pytest.mark.parametrize("aggregation", ["adjacency", "kta", "linear"])
def test_members_may_choose_their_rounds_in_ways_of_their_own(aggregation: str) -> None:
    ways = ("auto", "last", "validation", "gradient")
    models = [build(select=way, aggregation=aggregation, n_rounds=6) for way in ways]
    results = check_population(models)
    assert results[1].best_round == 6
    norms = results[3].boosted.history["gradient_norm"]
    assert results[3].best_round == 1 + int(np.argmin(norms))


def test_nodes_may_weigh_more_than_others() -> None:
    weights = np.linspace(1, 3, len(TRAIN))
    for rule in ("samme", "gradient"):
        models = [build({"units": u}, rule=rule, class_weight="balanced") for u in (4, 8)]
        check_population(models, sample_weight=weights)


def test_order_and_company_of_members_do_not_matter() -> None:
    models = [build({"units": u, "epochs": u, "batch_size": 30 - 5 * u}, random_state=u) for u in (3, 4, 5)]
    inputs = inputs_of(models[0])
    ways = [train_population(inputs, models), train_population(inputs, models[::-1])[::-1]]
    ways.append([train_population(inputs, [each])[0] for each in models])
    for first, *others in zip(*ways, strict=True):
        for other in others:
            assert other.val_scores == first.val_scores
            np.testing.assert_allclose(other.scores, first.scores, rtol=1e-10)


def test_models_stay_as_they_are() -> None:
    model = build(rule="samme", learning_rate=0.5)
    train_population(inputs_of(model), [model, build(rule="samme", learning_rate=0.7)])
    assert (model.rule, model.learning_rate) == ("samme", 0.5)
    assert not hasattr(model, "model_")
    assert model.learner.weight_decay is None


@pytest.mark.parametrize("rates", [(1, 0.5), (0.5, 1)])
def test_rates_may_be_whole_numbers(rates: tuple[float, float]) -> None:
    check_population([build(rule=Samme(learning_rate=rate)) for rate in rates])


def test_random_states_that_are_no_seed_draw_one() -> None:
    models = [build(random_state=None) for _ in range(2)]
    first, second = train_population(inputs_of(models[0]), models)
    assert not np.allclose(first.scores, second.scores)


@pytest.mark.parametrize("aggregation", ["adjacency", "kta"])
def test_dropped_members_change_no_other(aggregation: str) -> None:
    models = [build({"units": 4 + i}, aggregation=aggregation, n_rounds=4, random_state=i) for i in range(5)]
    inputs = inputs_of(models[0])
    heard: list[tuple[int, list[int]]] = []

    def drop(t: int, scores: Mapping[int, float | None]) -> set[int]:
        heard.append((t, sorted(scores)))
        return {1: {3}, 2: {0, 4}}.get(t, set())

    whole, pruned = train_population(inputs, models), train_population(inputs, models, on_round=drop)
    assert heard == [(1, [0, 1, 2, 3, 4]), (2, [0, 1, 2, 4]), (3, [1, 2]), (4, [1, 2])]
    assert [result.n_rounds for result in pruned] == [2, 4, 4, 1, 2]
    for i, (full, part) in enumerate(zip(whole, pruned, strict=True)):
        n = part.n_rounds
        assert part.val_scores == full.val_scores[:n]
        losses = part.boosted.history["val_loss"], full.boosted.history["val_loss"][:n]
        np.testing.assert_allclose(*losses, rtol=1e-12)
        assert (part.stop_reason is StopReason.REQUESTED) == (i in (0, 3, 4))


def test_listener_hears_the_validation_scores() -> None:
    heard: dict[int, Mapping[int, float | None]] = {}
    models = [build(n_rounds=1 + i, random_state=i) for i in range(3)]

    def listen(t: int, scores: Mapping[int, float | None]) -> list[int]:
        heard[t] = dict(scores)
        return []

    results = train_population(inputs_of(models[0]), models, on_round=listen)
    for t, scores in heard.items():
        assert scores == {i: r.val_scores[t - 1] for i, r in enumerate(results) if r.n_rounds >= t}


def test_listener_of_members_that_are_trained_one_after_another_hears_of_each_and_may_drop_it() -> None:
    heard: list[tuple[int, list[int]]] = []
    models = [build(aggregation="linear", n_rounds=3, random_state=i) for i in range(2)]

    def listen(t: int, scores: Mapping[int, float | None]) -> list[int]:
        heard.append((t, list(scores)))
        return [0] if 0 in scores and t == 2 else []

    first, second = train_population(inputs_of(models[0]), models, on_round=listen)
    assert heard == [(1, [0]), (2, [0]), (1, [1]), (2, [1]), (3, [1])]
    assert (first.n_rounds, first.stop_reason) == (2, StopReason.REQUESTED)
    assert_equal(second, fit_alone(models[1]))


@pytest.mark.parametrize("aggregation", ["adjacency", "linear"])
def test_listener_may_drop_only_members_in_training(aggregation: str) -> None:
    model = build(aggregation=aggregation)
    with pytest.raises(ParameterError, match="asked to drop member 7, who did not take part in round 1"):
        train_population(inputs_of(model), [model], on_round=lambda t, scores: {7})


@pytest.mark.parametrize("select", ["auto", "last"])
def test_without_validation_the_last_round_predicts(select: str) -> None:
    chosen = build(select=select)
    heard: list[float | None] = []

    def listen(t: int, scores: Mapping[int, float | None]) -> tuple[()]:
        heard.extend(scores.values())
        return ()

    (result,) = train_population(inputs_of(chosen, validation=None), [chosen], on_round=listen)
    assert result.best_round == result.n_rounds == 3
    assert (result.val_scores, result.best_val_score, heard) == ([], None, [None] * 3)
    assert_equal(result, fit_alone(chosen, validation=None))


def test_without_further_nodes_there_are_no_scores() -> None:
    model = build()
    (result,) = train_population(inputs_of(model, predict_nodes=None), [model])
    assert result.scores is None
    assert result.best_val_score == max(result.val_scores)


@pytest.mark.parametrize("on_failure", ["stop", "warn"])
@pytest.mark.parametrize("aggregation", ["adjacency", "lazy"])
def test_refused_learners_are_tried_again_and_given_up_as_alone(on_failure: str, aggregation: str) -> None:
    rules = [
        FunctionalGradient(min_cosine=c, retries=2, on_failure=on_failure) for c in (0.0, 0.2, 0.45, 0.9)
    ]
    models = [build({"epochs": 2}, rule=rule, aggregation=aggregation, n_rounds=4) for rule in rules]
    results = check_population(models)
    tried = [attempts for result in results for attempts in result.boosted.history["attempts"]]
    assert {1, 2, 3} >= set(tried) > {1}
    assert (0.0 in results[3].boosted.ensemble.etas) == (on_failure == "warn")


@pytest.mark.parametrize("rule", ["samme", "samme_r", "gradient"])
def test_diverged_learners_end_boosting_as_alone(rule: str) -> None:
    wild = {"optimizer": "sgd", "learning_rate": 1e200, "dropout": 0.0, "epochs": 20}
    first, _ = check_population([build(wild, rule=rule), build(rule=rule)])
    assert (first.n_rounds, first.stop_reason) == (0, StopReason.DIVERGED)


def test_learners_no_better_than_chance_end_boosting_as_alone() -> None:
    y = np.random.default_rng(0).integers(0, 3, size=70)
    models = [build({"epochs": e}, n_rounds=8, random_state=e) for e in (0, 1, 30)]
    results = check_population(models, y=y[TRAIN], validation=(VAL, y[VAL]))
    assert StopReason.NO_BETTER_THAN_CHANCE in {result.stop_reason for result in results}


def test_cohorts_on_several_cores_give_the_same_and_leave_torch_as_it_was() -> None:
    models = [build({"units": 4 + i}, random_state=i) for i in range(6)]
    inputs, n_before = inputs_of(models[0]), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = train_population(inputs, models)
        torch.set_num_threads(3)
        three = train_population(inputs, models)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(n_before)
    for mine, other in zip(one, three, strict=True):
        assert mine.val_scores == other.val_scores
        np.testing.assert_allclose(mine.scores, other.scores, rtol=1e-10)


def test_members_share_the_time() -> None:
    models = [build(n_rounds=n) for n in (1, 6)]
    short, long = train_population(inputs_of(models[0]), models)
    assert 0 < short.seconds < long.seconds


@pytest.mark.parametrize(
    "parts",
    [
        {"aggregation": "linear"},
        {"aggregation": NonLinear(epochs=2)},
        {"aggregation": KernelTargetAlignment(degree=1, solver="exact")},
        {"learner": LogisticRegression()},
        {"learner": DecisionTreeRegressor(max_depth=2), "rule": "gradient"},
        {"learner": ConstrainedMLP(epochs=5), "aggregation": "lazy"},
        {"rule": "gradient", "propagation": "random_walk", "aggregation": "kta"},
        {"propagation": "laplacian", "aggregation": "kta"},
        {"feature_norm": "l2"},
    ],
    ids=str,
)
def test_every_part_of_the_library_can_be_in_a_population(parts: dict[str, Any]) -> None:
    check_population([build(n_rounds=3, random_state=i).set_params(**parts) for i in range(2)])


@pytest.mark.parametrize("aggregation", [Adjacency(), Lazy(), KernelTargetAlignment(degree=1), Linear()])
@pytest.mark.parametrize("rule", [Samme(), FunctionalGradient()])
def test_members_boosted_on_all_nodes_equal_themselves_alone_and_keep_their_learners(
    aggregation: Aggregation, rule: BoostingRule
) -> None:
    problem = inputs_of(build()).problem
    members = [
        Member(aggregation, MLP(units=3 + i, epochs=30 + i), rule, n_rounds=2 + i, seeds=Seeds(i))
        for i in range(3)
    ]
    for member, together in zip(members, boost_many(problem, members), strict=True):
        (alone,) = boost_many(problem, [member])
        assert (len(together.ensemble), together.stop) == (len(alone.ensemble), alone.stop)
        torch.testing.assert_close(together.scores, alone.scores, rtol=1e-9, atol=1e-10)
        voting = rule.voting_for(problem.task)
        torch.testing.assert_close(apply(together.ensemble, problem.inputs, voting), together.scores)


@pytest.mark.parametrize("aggregation", ["kta", "lazy"])
def test_where_eigenvalues_are_not_real_learned_hops_are_trained_one_after_another(aggregation: str) -> None:
    directed = Graph(sp.csr_array(np.triu(GRAPH.adjacency.toarray(), 1)), GRAPH.features)
    models = [build(aggregation=aggregation, propagation="random_walk", random_state=i) for i in range(2)]
    aggregation_ = as_part("aggregation", aggregation)
    is_restricted = inputs_of(models[0], graph=directed).restrict(aggregation_, 3) is not None
    assert is_restricted == (aggregation == "lazy")
    check_population(models, graph=directed)


def test_a_population_sees_the_labelled_validation_and_further_nodes_alone() -> None:
    inputs = inputs_of(build(), predict_nodes=[69, 3])
    assert inputs.nodes.tolist() == [*TRAIN, *VAL, 69, 3]
    problem = inputs.restrict(Lazy(), n_rounds=3)
    assert problem is not None
    assert problem.inputs.features.shape == (50, GRAPH.n_features)
    assert problem.train.rows.tolist() == list(range(24))
    assert problem.validation.rows.tolist() == list(range(24, 48))
    assert torch.equal(problem.train.targets, inputs.problem.train.targets)
    expected = torch.tensor(np.asarray(GRAPH.features)[inputs.nodes])
    assert torch.equal(problem.inputs.features.dense(), expected)
    assert inputs.restrict(Linear(), n_rounds=3) is None


def test_rows_are_computed_once_for_all_populations_of_a_study(monkeypatch: pytest.MonkeyPatch) -> None:
    multiply, products = Propagator.__call__, []

    def count(P: Propagator, X: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        products.append(X.shape)
        return multiply(P, X, out)

    monkeypatch.setattr(Propagator, "__call__", count)
    models = [build(aggregation=Lazy(mixing=m), n_rounds=4) for m in (0.2, 0.8)]
    inputs = inputs_of(models[0])
    for _ in range(2):
        train_population(inputs, models)
        assert len(products) == 3


def test_further_nodes_must_exist_and_may_repeat() -> None:
    with pytest.raises(GraphError, match="70"):
        inputs_of(build(), predict_nodes=[70])
    model = build()
    (result,) = train_population(inputs_of(model, predict_nodes=[5, 5, 0]), [model])
    assert result.scores is not None
    np.testing.assert_array_equal(result.scores[0], result.scores[1])


def test_inputs_are_what_fit_would_be_trained_on() -> None:
    built = build(class_weight={0: 3.0, 1: 1.0, 2: 1.0}, dtype="float32", propagation="random_walk")
    inputs = inputs_of(built).problem
    assert (inputs.inputs.dtype, inputs.inputs.device.type) == (torch.float32, "cpu")
    weights = np.where(CLASSES[TRAIN] == 0, 3.0, 1.0)
    np.testing.assert_allclose(inputs.train.weights, weights / weights.sum())
    np.testing.assert_allclose(inputs.inputs.P.to_scipy().sum(axis=1), 1, rtol=1e-6)
    normed = inputs_of(build(feature_norm="l2")).problem.inputs.features.dense()
    np.testing.assert_allclose(normed.norm(dim=1), 1)


def test_a_share_of_nodes_for_validation_is_an_error() -> None:
    with pytest.raises(ParameterError, match="validation_fraction sets other nodes aside for every seed"):
        inputs_of(build(validation_fraction=0.5), validation=None)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"fine_tune": FineTuner()}, r"member 1 has fine_tune=FineTuner\(\); train that model alone"),
        ({"callbacks": [LogProgress()]}, "member 1 has callbacks; a population calls on_round instead"),
        ({"dtype": "float32"}, "member 1 asks for torch.float32 on cpu, but the inputs are torch.float64 on"),
        (
            {"propagation": "laplacian"},
            "share the propagation; member 0 has 'augmented', member 1 'laplacian'",
        ),
        ({"feature_norm": "l2"}, "share the feature_norm; member 0 has None, member 1 'l2'"),
        ({"class_weight": "balanced"}, "share the class_weight; member 0 has None, member 1 'balanced'"),
        ({"task": "multilabel", "rule": "gradient"}, "share the task; member 0 has 'classification'"),
        ({"validation_fraction": 0.1}, "member 1 has validation_fraction=0.1; train that model alone"),
        ({"metric": "f1_macro"}, "share the metric; member 0 has 'auto', member 1 'f1_macro'"),
        ({"n_iter_no_change": 5}, "member 1 has n_iter_no_change=5; train that model alone"),
        ({"warm_start": True}, "member 1 has warm_start=True; train that model alone"),
        ({"aggregation": "lazy"}, "share the aggregation; member 0 has .?Adjacency.?, member 1 .?Lazy"),
        ({"learner": {"patience": 3}}, "share the learner.patience; member 0 has .?None.?, member 1 .?3"),
        (
            {"learner": {"hidden_layers": 2}},
            "share the learner.hidden_layers; member 0 has .?1.?, member 1 .?2",
        ),
        ({"learner": {"standardize": False}}, "share the learner.standardize; member 0 has .?True"),
        ({"rule": SammeR()}, "share the rule; member 0 has .?Samme.?, member 1 .?SammeR"),
        ({"rule": "samm"}, "unknown rule 'samm'"),
    ],
    ids=str,
)
def test_what_cannot_be_trained_together_is_named(chosen: dict[str, Any], message: str) -> None:
    models = [build(), build(**chosen)]
    with pytest.raises(ParameterError, match=message):
        train_population(inputs_of(models[0]), models)
    if "dtype" not in chosen:
        assert reason_apart(models) == reason_apart(models, inputs_of(models[0]))


@pytest.mark.parametrize(
    ("family", "parts", "message"),
    [
        (
            "aggregation",
            [KernelTargetAlignment(degree=d) for d in (2, 3)],
            "share the aggregation.degree; member 0 has .?2.?, member 1 .?3",
        ),
        ("aggregation", [KernelTargetAlignment(rescale=r) for r in (True, False)], "aggregation.rescale"),
        (
            "rule",
            [FunctionalGradient(retries=r) for r in (0, 1)],
            "share the rule.retries; member 0 has .?0.?, member 1 .?1",
        ),
        ("rule", [FunctionalGradient(loss=loss) for loss in ("softmax", "auto")], "share the rule.loss"),
        ("rule", [FunctionalGradient(target=t) for t in ("labels", "gradient")], "share the rule.target"),
    ],
)
def test_settings_of_parts_that_must_agree_are_named(family: str, parts: list[Any], message: str) -> None:
    reason = reason_apart([build(**{family: part}) for part in parts])
    assert reason is not None
    assert re.search(message, reason)
    assert reason.endswith("Train them apart.")


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"n_rounds": 0}, "n_rounds must be an integer >= 1; got 0"),
        ({"learner": {"units": 0}}, "MLP.units must be an integer >= 1; got 0"),
        ({"rule": Samme(error_floor=2.0)}, "Samme.error_floor must be in"),
        ({"select": "best"}, "select must be one of"),
    ],
    ids=str,
)
def test_values_that_no_model_may_have_are_no_reason_to_train_apart_but_an_error(
    chosen: dict[str, Any], message: str
) -> None:
    models = [build(), build(**chosen)]
    assert reason_apart(models) is None
    with pytest.raises(ParameterError, match=message):
        train_population(inputs_of(models[0]), models)


def test_members_may_differ_in_all_else() -> None:
    models = [
        build({"units": 3, "epochs": 2}, rule=Samme(), aggregation=Lazy(mixing=0.2), n_rounds=2),
        build(
            {"units": 9, "batch_size": 4, "optimizer": "sgd", "weight_decay": 0.1},
            rule=Samme(error_floor=0.1),
            aggregation=Lazy(mixing=0.9),
            select="last",
            random_state=4,
            learning_rate=0.5,
        ),
    ]
    assert reason_apart(models, inputs_of(models[0])) is None
    check_population(models)


def test_selection_by_validation_needs_validation_nodes() -> None:
    chosen = build(select="validation")
    with pytest.raises(ParameterError, match='select="validation" needs validation nodes'):
        train_population(inputs_of(chosen, validation=None), [chosen])


def test_members_must_be_models_and_there_must_be_one() -> None:
    inputs = inputs_of(build())
    with pytest.raises(
        ParameterError, match="member 0 must be a GBGNNClassifier or a GBGNNRegressor; got MLP"
    ):
        train_population(inputs, [MLP()])
    with pytest.raises(ParameterError, match="a population needs at least one model; got none"):
        train_population(inputs, [])


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("hidden_layers", [0, 1, 2])
@pytest.mark.parametrize("aggregation", ["adjacency", "injection", "kta"])
@pytest.mark.parametrize("rule", ["samme", "samme_r", "gradient"])
def test_members_on_a_gpu_equal_models_trained_alone_on_a_cpu(
    rule: str, aggregation: str, hidden_layers: int
) -> None:
    methods = ("adam", "rmsprop", "sgd")
    models = [
        build(
            {
                "units": 4 + i,
                "epochs": 6 + 3 * i,
                "optimizer": methods[i % 3],
                "batch_size": (None, 7, 5)[i % 3 if i < 6 else 0],
                "dropout": (0.5, 0.0)[i % 2],
                "hidden_layers": hidden_layers,
            },
            rule=rule,
            aggregation=aggregation,
            n_rounds=1 + i % 4,
            random_state=i,
        )
        for i in range(9)
    ]
    check_on_gpu(models)


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("aggregation", ["adjacency", "lazy", "kta", "linear"])
@pytest.mark.parametrize("task", ["regression", "multilabel", "classification"])
@pytest.mark.parametrize("patience", [None, 3])
def test_every_task_is_learned_on_a_gpu_as_on_a_cpu(
    task: str, aggregation: str, patience: int | None
) -> None:
    models = [
        build(
            {"units": 4 + i, "batch_size": (None, 7)[i % 2], "patience": patience, "epochs": 20},
            task=task,
            rule=FunctionalGradient(learning_rate=0.3 + 0.2 * i),
            aggregation=aggregation,
            random_state=i,
        )
        for i in range(3)
    ]
    check_on_gpu(models)


def check_on_gpu(models: Sequence[GBGNNEstimator], tolerance: float = 1e-7) -> None:
    """Train models at once on a GPU, alone on a CPU and alone on a GPU, and compare."""
    expected = [fit_alone(model) for model in models]
    for model in models:
        model.set_params(device="cuda")
    results = train_population(inputs_of(models[0]), models)
    for result, on_cpu, model in zip(results, expected, models, strict=True):
        assert_equal(result, on_cpu, tolerance)
        there = fit_alone(model)
        assert (there is None) == (on_cpu is None)
        if on_cpu is not None and there is not None:
            assert_close(there.scores, on_cpu.scores, tolerance)
