from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from gbgnn import (
    Adjacency,
    FunctionalGradient,
    GBGNNClassifier,
    Graph,
    Identity,
    InputInjection,
    KernelTargetAlignment,
    Lazy,
    Samme,
    SammeR,
)
from gbgnn.boosting import StopReason
from gbgnn.errors import GBGNNWarning, ParameterError
from gbgnn.losses import SoftmaxCrossEntropy
from gbgnn.population import MemberResult, PopulationInputs, train_population
from gbgnn.propagation import SparseRows
from gbgnn.testing import two_blocks

Build = Callable[..., GBGNNClassifier]
Inputs = Callable[..., PopulationInputs]
Alone = Callable[[Sequence[GBGNNClassifier]], list[GBGNNClassifier | None]]


def assert_equal(result: MemberResult, fitted: GBGNNClassifier | None, tolerance: float = 1e-8) -> None:
    """Numbers may differ by a share of the largest of their kind: products are summed in another order."""
    if fitted is None:
        assert result.best_round == result.n_rounds == 0
        assert result.scores is None
        assert result.best_val_accuracy is None
        return
    assert result.val_accuracy == fitted.history_["val_accuracy"]
    assert result.train_accuracy == fitted.history_["train_accuracy"]
    assert (result.best_round, result.stop_reason) == (fitted.best_round_, fitted.stop_reason_)
    for name in ("val_loss", "train_loss"):
        np.testing.assert_allclose(
            getattr(result, name), fitted.history_[name], rtol=tolerance, atol=tolerance
        )
    for mine, expected in ((result.etas, fitted.etas_), (result.scores, fitted.scores_)):
        assert mine is not None
        np.testing.assert_allclose(mine, expected, rtol=0, atol=tolerance * np.abs(expected).max())


LEARNER = st.fixed_dictionaries(
    {
        "units": st.integers(3, 12),
        "dropout": st.sampled_from([0.0, 0.3, 0.5]),
        "optimizer": st.sampled_from(["adam", "rmsprop", "sgd"]),
        "learning_rate": st.sampled_from([0.01, 0.05, 0.1]),
        "momentum": st.sampled_from([0.0, 0.3]),
        "weight_decay": st.sampled_from([0.0, 0.01]),
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
}
RULES = {
    Samme: st.fixed_dictionaries(
        {"error_floor": st.sampled_from([1e-9, 1e-3]), "learning_rate": st.sampled_from([0.5, 1.0])}
    ),
    SammeR: st.fixed_dictionaries(
        {"proba_floor": st.sampled_from([1e-9, 1e-3]), "learning_rate": st.sampled_from([0.5, 1.0])}
    ),
    FunctionalGradient: st.fixed_dictionaries(
        {"learning_rate": st.sampled_from([0.3, 1.0]), "min_cosine": st.sampled_from([0.01, 0.3])}
    ),
}


@pytest.mark.parametrize("hidden_layers", [0, 1, 2])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
# The same examples every time: among thousands there are learners that rounding sends another way.
@settings(max_examples=3, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_member_equals_the_same_model_trained_alone(
    model: Build,
    inputs_of: Inputs,
    alone: Alone,
    aggregation: type[Any],
    rule: type[Any],
    hidden_layers: int,
    data: st.DataObject,
) -> None:
    models = [
        model(
            data.draw(LEARNER) | {"hidden_layers": hidden_layers},
            aggregation=aggregation(**data.draw(AGGREGATIONS[aggregation])),
            rule=rule(**data.draw(RULES[rule])),
            n_rounds=data.draw(st.integers(1, 4)),
            random_state=data.draw(st.integers(0, 3)),
        )
        for _ in range(data.draw(st.integers(1, 5)))
    ]
    results = train_population(inputs_of(models[0]), models)
    for result, fitted in zip(results, alone(models), strict=True):
        assert_equal(result, fitted)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("rule", ["samme", "samme_r", "gradient"])
@pytest.mark.parametrize("aggregation", ["adjacency", "injection", "kta"])
def test_members_in_coordinates_of_the_rows_equal_themselves_alone(
    model: Build, aggregation: str, rule: str, standardize: bool
) -> None:
    graph, y = two_blocks(70, n_classes=3)
    wide = Graph(graph.adjacency, np.random.default_rng(0).standard_normal((70, 60)))
    train, val = np.arange(24), np.arange(24, 48)
    learner = {"basis": "rows", "standardize": standardize, "hidden_layers": 1}
    models = [
        model(
            learner | {"units": units, "batch_size": batch},
            aggregation=aggregation,
            rule=rule,
            random_state=units,
        )
        for units, batch in ((4, None), (9, None), (6, 10))
    ]
    given = {"graph": wide, "validation": (val, y[val])}
    inputs = PopulationInputs.of(models[0], train, y[train], predict_nodes=np.arange(70), **given)
    for result, each in zip(train_population(inputs, models), models, strict=True):
        assert_equal(result, clone(each).fit(train, y[train], **given))


@pytest.mark.parametrize("aggregation", ["adjacency", "kta"])
def test_sparse_features_are_those_of_a_model_alone(model: Build, aggregation: str) -> None:
    graph, y = two_blocks(70, n_classes=3)
    features = sp.random_array((70, 60), density=0.1, rng=np.random.default_rng(0), format="csr")
    sparse, train, val = Graph(graph.adjacency, features), np.arange(24), np.arange(24, 48)
    models = [model({"units": units}, aggregation=aggregation, random_state=units) for units in (4, 9)]
    given = {"graph": sparse, "validation": (val, y[val])}
    inputs = PopulationInputs.of(models[0], train, y[train], predict_nodes=np.arange(70), **given)
    assert isinstance(inputs.problem.inputs.features, SparseRows)
    for result, each in zip(train_population(inputs, models), models, strict=True):
        assert_equal(result, clone(each).fit(train, y[train], **given))


def test_loss_of_ones_own_is_that_of_a_model_alone(model: Build, inputs_of: Inputs, alone: Alone) -> None:
    own, usual = (model(rule=FunctionalGradient(loss=loss)) for loss in (Steep(), "softmax"))
    (steep,), (plain,) = (train_population(inputs_of(each), [each]) for each in (own, usual))
    for result, fitted in zip((steep, plain), alone([own, usual]), strict=True):
        assert_equal(result, fitted)
    assert steep.etas != pytest.approx(plain.etas)


class Steep(SoftmaxCrossEntropy):
    """Twice the softmax cross entropy: twice the gradient, half the step."""

    smoothness = 1.0

    def values(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return 2 * super().values(scores, targets)

    def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return 2 * super().gradient(scores, targets)


@pytest.mark.parametrize("aggregation", ["adjacency", "injection", "kta"])
def test_single_precision_agrees_up_to_its_rounding(
    model: Build, inputs_of: Inputs, alone: Alone, aggregation: str
) -> None:
    models = [
        model({"units": u}, aggregation=aggregation, rule="samme_r", random_state=u, dtype="float32")
        for u in (4, 9)
    ]
    for result, fitted in zip(train_population(inputs_of(models[0]), models), alone(models), strict=True):
        assert fitted is not None
        assert result.scores is not None
        assert result.scores.dtype == np.float32
        np.testing.assert_allclose(result.scores, fitted.scores_, rtol=1e-3, atol=1e-3)


def test_raw_rows_are_trained_on_where_asked(model: Build, inputs_of: Inputs, alone: Alone) -> None:
    models = [model({"standardize": False, "units": u}) for u in (4, 8)]
    for result, fitted in zip(train_population(inputs_of(models[0]), models), alone(models), strict=True):
        assert_equal(result, fitted)


def test_two_classes_under_the_sigmoid_loss() -> None:
    from gbgnn.testing import two_blocks

    graph, y = two_blocks(40)
    train, val = (np.arange(12), y[:12]), (np.arange(12, 24), y[12:24])
    build = GBGNNClassifier(n_rounds=3, dtype="float64", device="cpu", random_state=0)
    inputs = PopulationInputs.of(build, *train, graph=graph, validation=val, predict_nodes=np.arange(40))
    (result,) = train_population(inputs, [build])
    assert_equal(result, build.fit(*train, graph=graph, validation=val))
    assert result.scores is not None
    assert result.scores.shape == (40, 1)


def test_order_and_company_of_members_do_not_matter(model: Build, inputs_of: Inputs) -> None:
    models = [model({"units": u, "epochs": u, "batch_size": 30 - 5 * u}, random_state=u) for u in (3, 4, 5)]
    inputs = inputs_of(models[0])
    ways = [train_population(inputs, models), train_population(inputs, models[::-1])[::-1]]
    ways.append([train_population(inputs, [each])[0] for each in models])
    for first, *others in zip(*ways, strict=True):
        for other in others:
            assert other.val_accuracy == first.val_accuracy
            np.testing.assert_allclose(other.val_loss, first.val_loss, rtol=1e-12)
            np.testing.assert_allclose(other.scores, first.scores, rtol=1e-10)


@pytest.mark.parametrize("aggregation", ["adjacency", "kta"])
def test_dropped_members_change_no_other(model: Build, inputs_of: Inputs, aggregation: str) -> None:
    models = [model({"units": 4 + i}, aggregation=aggregation, n_rounds=4, random_state=i) for i in range(5)]
    inputs = inputs_of(models[0])
    heard: list[tuple[int, list[int]]] = []

    def drop(t: int, accuracies: Mapping[int, float | None]) -> set[int]:
        heard.append((t, sorted(accuracies)))
        return {1: {3}, 2: {0, 4}}.get(t, set())

    whole, pruned = train_population(inputs, models), train_population(inputs, models, on_round=drop)
    assert heard == [(1, [0, 1, 2, 3, 4]), (2, [0, 1, 2, 4]), (3, [1, 2]), (4, [1, 2])]
    assert [result.n_rounds for result in pruned] == [2, 4, 4, 1, 2]
    for i, (full, part) in enumerate(zip(whole, pruned, strict=True)):
        n = part.n_rounds
        assert part.val_accuracy == full.val_accuracy[:n]
        np.testing.assert_allclose(part.val_loss, full.val_loss[:n], rtol=1e-12)
        assert (part.stop_reason is StopReason.REQUESTED) == (i in (0, 3, 4))
        assert len(part.coefficients) == (n if aggregation == "kta" else 0)


def test_listener_hears_the_validation_accuracies(model: Build, inputs_of: Inputs) -> None:
    heard: dict[int, Mapping[int, float | None]] = {}
    models = [model(n_rounds=1 + i, random_state=i) for i in range(3)]

    def listen(t: int, accuracies: Mapping[int, float | None]) -> list[int]:
        heard[t] = dict(accuracies)
        return []

    results = train_population(inputs_of(models[0]), models, on_round=listen)
    for t, accuracies in heard.items():
        assert accuracies == {i: r.val_accuracy[t - 1] for i, r in enumerate(results) if r.n_rounds >= t}


def test_listener_may_drop_only_members_in_training(model: Build, inputs_of: Inputs) -> None:
    with pytest.raises(ParameterError, match="asked to drop member 7, who did not take part in round 1"):
        train_population(inputs_of(model()), [model()], on_round=lambda t, accuracies: {7})


@pytest.mark.parametrize("select", ["auto", "last"])
def test_without_validation_the_last_round_predicts(model: Build, inputs_of: Inputs, select: str) -> None:
    chosen = model(select=select)
    heard: list[float | None] = []
    inputs = inputs_of(chosen, validation=None)

    def listen(t: int, accuracies: Mapping[int, float | None]) -> tuple[()]:
        heard.extend(accuracies.values())
        return ()

    (result,) = train_population(inputs, [chosen], on_round=listen)
    assert result.best_round == result.n_rounds == 3
    assert result.val_accuracy == result.val_loss == []
    assert result.best_val_accuracy is None
    assert heard == [None] * 3


def test_last_round_predicts_where_asked(model: Build, inputs_of: Inputs, alone: Alone) -> None:
    models = [model(select="last", n_rounds=5, random_state=i) for i in range(3)]
    for result, fitted in zip(train_population(inputs_of(models[0]), models), alone(models), strict=True):
        assert_equal(result, fitted)


def test_refused_learners_are_tried_again_and_given_up_as_alone(
    model: Build, inputs_of: Inputs, alone: Alone
) -> None:
    for on_failure in ("stop", "warn"):
        rules = [FunctionalGradient(min_cosine=c, retries=2, on_failure=on_failure) for c in (0.0, 0.2, 0.9)]
        models = [model({"epochs": 2}, rule=rule, n_rounds=4) for rule in rules]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GBGNNWarning)
            fits = alone(models)
        results = train_population(inputs_of(models[0]), models)
        for result, fitted in zip(results, fits, strict=True):
            assert_equal(result, fitted)
        assert (0.0 in results[2].etas) == (on_failure == "warn")


def test_diverged_learners_end_boosting_as_alone(model: Build, inputs_of: Inputs, alone: Alone) -> None:
    wild = {"optimizer": "sgd", "learning_rate": 1e200, "dropout": 0.0, "epochs": 20}
    models = [model(wild, rule="samme_r"), model(rule="samme_r")]
    first, second = train_population(inputs_of(models[0]), models)
    assert (first.n_rounds, first.stop_reason) == (0, StopReason.DIVERGED)
    assert_equal(second, alone(models)[1])


def test_cohorts_on_several_cores_give_the_same_and_leave_torch_as_it_was(
    model: Build, inputs_of: Inputs
) -> None:
    models = [model({"units": 4 + i}, random_state=i) for i in range(6)]
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
        assert mine.val_accuracy == other.val_accuracy
        np.testing.assert_allclose(mine.val_loss, other.val_loss, rtol=1e-10)


def test_members_share_the_time(model: Build, inputs_of: Inputs) -> None:
    models = [model(n_rounds=n) for n in (1, 6)]
    short, long = train_population(inputs_of(models[0]), models)
    assert 0 < short.seconds < long.seconds


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
@pytest.mark.parametrize("use_graphs", [True, False])
@pytest.mark.parametrize("hidden_layers", [0, 1, 2])
@pytest.mark.parametrize("aggregation", ["adjacency", "injection", "kta"])
@pytest.mark.parametrize("rule", ["samme", "samme_r", "gradient"])
def test_members_on_a_gpu_equal_models_trained_alone_on_a_cpu(
    model: Build,
    inputs_of: Inputs,
    alone: Alone,
    rule: str,
    aggregation: str,
    hidden_layers: int,
    use_graphs: bool,
) -> None:
    methods = ("adam", "rmsprop", "sgd")
    models = [
        model(
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
    fits = alone(models)
    for each in models:
        each.set_params(device="cuda")
    results = train_population(inputs_of(models[0]), models, use_graphs=use_graphs)
    for result, fitted in zip(results, fits, strict=True):
        assert_equal(result, fitted, tolerance=1e-7)
