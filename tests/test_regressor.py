"""GBGNNRegressor: every loss, several outputs, quantiles, certificates; populations, searches and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone, is_regressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_pinball_loss, r2_score

from gbgnn import (
    MLP,
    AbsoluteError,
    FineTuner,
    FunctionalGradient,
    GBGNNClassifier,
    GBGNNRegressor,
    Graph,
    Huber,
    Poisson,
    Quantile,
    Regression,
    StopReason,
    load,
)
from gbgnn.errors import GraphError, ParameterError
from gbgnn.population import PopulationInputs, reason_apart, train_population
from gbgnn.search import Choice, Integer, SearchSpace, tune
from gbgnn.settings import build_model, read_settings

RANDOM = np.random.default_rng(0)
N = 160
EDGES = RANDOM.random((N, N)) < 0.03
GRAPH = Graph((EDGES | EDGES.T).astype(float) * (1 - np.eye(N)), RANDOM.normal(size=(N, 5)))
FEATURES = np.asarray(GRAPH.features)
Y = 100 + 7 * (2 * FEATURES[:, 0] + FEATURES[:, 1]) + RANDOM.normal(size=N)
COUNTS = RANDOM.poisson(np.exp(0.8 * FEATURES[:, 0] + 1)).astype(float)
TRAIN, VAL, TEST = np.arange(90), np.arange(90, 120), np.arange(120, N)
LOSSES = ["squared", "absolute", "huber", "quantile", "poisson"]
SMALL = {"learner": MLP(epochs=20, units=16), "n_rounds": 12, "random_state": 0, "device": "cpu"}


def y_of(loss: str) -> np.ndarray:
    return COUNTS if loss == "poisson" else Y


def fit(loss: Any = "auto", y: np.ndarray | None = None, **chosen: Any) -> GBGNNRegressor:
    y = y_of(loss) if y is None else y
    model = GBGNNRegressor(**SMALL | {"aggregation": "injection", "loss": loss} | chosen)
    return model.fit(TRAIN, y[TRAIN], graph=GRAPH, validation=(VAL, y[VAL]))


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_is_learned_and_falls_in_every_round(loss: str) -> None:
    model, y = fit(loss), y_of(loss)
    losses = model.history_["train_loss"]
    assert losses == sorted(losses, reverse=True)
    assert model.predict(TEST).shape == (40,)
    assert model.score(TEST, y[TEST]) > 0.4
    assert model.score(TEST, y[TEST]) == pytest.approx(r2_score(y[TEST], model.predict(TEST)))
    assert list(model.staged_score(TEST, y[TEST]))[model.best_round_ - 1] == model.score(TEST, y[TEST])
    assert is_regressor(model)
    assert model.loss_.__class__.__name__.lower().startswith(loss[:5])


@pytest.mark.parametrize(
    ("loss", "metric"),
    [
        ("squared", "r2"),
        ("absolute", "neg_mean_absolute_error"),
        ("huber", "neg_mean_absolute_error"),
        ("quantile", "neg_mean_pinball_loss"),
        ("poisson", "neg_mean_poisson_deviance"),
    ],
)
def test_the_round_is_chosen_by_the_metric_that_suits_the_loss(loss: str, metric: str) -> None:
    model = fit(loss)
    assert model.metric_.name == metric
    column = model.history_[f"val_{metric}"]
    assert column[model.best_round_ - 1] == max(column)
    stopped = fit(loss, n_iter_no_change=2, n_rounds=60)
    assert stopped.stop_reason_ is StopReason.NO_IMPROVEMENT
    assert fit(loss, metric="r2").metric_.name == "r2"


@pytest.mark.parametrize("loss", LOSSES)
def test_only_smooth_losses_have_a_certificate(loss: str) -> None:
    model = fit(loss)
    if loss in ("squared", "huber"):
        assert model.certificate_.holds
        assert len(model.certificate_.met) == 12
        return
    assert not hasattr(model, "certificate_")
    with pytest.raises(
        ParameterError, match='no certificate: nothing bounds .* loss="squared" and "huber" have'
    ):
        model.certificate_  # noqa: B018
    assert set(model.history_["guaranteed_decrease"]) == {None}
    assert "GBGNNRegressor" in model._repr_html_()


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "quantile"])
@settings(max_examples=5, deadline=None)
@given(shift=st.floats(-1e4, 1e4), unit=st.floats(1e-2, 1e4))
def test_shift_and_unit_of_y_change_nothing_but_predictions(loss: str, shift: float, unit: float) -> None:
    chosen = {"n_rounds": 3, "dtype": "float64"}
    plain, moved = fit(loss, Y, **chosen), fit(loss, shift + unit * Y, **chosen)
    expected = shift + unit * plain.predict(TEST)
    np.testing.assert_allclose(moved.predict(TEST), expected, atol=1e-4 * unit, rtol=1e-6)


@settings(max_examples=5, deadline=None)
@given(unit=st.floats(1e-3, 1e3))
def test_the_unit_of_counts_does_not_matter(unit: float) -> None:
    chosen = {"n_rounds": 3, "dtype": "float64"}
    plain, moved = fit("poisson", COUNTS, **chosen), fit("poisson", unit * COUNTS, **chosen)
    np.testing.assert_allclose(moved.predict(TEST), unit * plain.predict(TEST), rtol=1e-5)


@pytest.mark.parametrize(
    ("loss", "constant"),
    [("squared", np.mean), ("absolute", np.median), ("huber", np.median), ("poisson", np.mean)],
)
def test_boosting_starts_at_the_best_constant(loss: str, constant: Any) -> None:
    """With a step of next to nothing, that is what is predicted."""
    model = fit(loss, learning_rate=1e-12, n_rounds=1)
    np.testing.assert_allclose(model.predict(TEST), constant(y_of(loss)[TRAIN]), rtol=1e-5)


def test_one_whole_step_without_a_graph_is_least_squares() -> None:
    model = fit(
        "squared",
        aggregation="identity",
        learner=LinearRegression(),
        learning_rate=1.0,
        n_rounds=1,
        dtype="float64",
    )
    expected = LinearRegression().fit(FEATURES[TRAIN], Y[TRAIN]).predict(FEATURES[TEST])
    np.testing.assert_allclose(model.predict(TEST), expected, rtol=1e-9)


def test_an_outlier_pulls_the_squared_error_alone() -> None:
    y = Y.copy()
    y[TRAIN[:5]] += 1e5
    errors = {loss: np.abs(fit(loss, y, n_rounds=30).predict(TEST) - Y[TEST]).mean() for loss in LOSSES[:3]}
    assert errors["absolute"] < 10
    assert errors["huber"] < 10
    assert errors["squared"] > 100


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "poisson"])
def test_several_outputs(loss: str) -> None:
    y = np.column_stack([y_of(loss), 3 * y_of(loss)[::-1]])
    model = fit(loss, y)
    assert model.predict(TEST).shape == (40, 2)
    assert model.scores_.shape == (N, 2)
    assert r2_score(y[TEST, 0], model.predict(TEST)[:, 0]) > 0.4
    assert model.score(TEST, y[TEST]) == pytest.approx(r2_score(y[TEST], model.predict(TEST)))
    assert fit(loss, y[:, :1]).predict(TEST).shape == (40, 1)


def test_weights_of_nodes_count() -> None:
    """A node of weight zero is as good as not there; one of weight two as two."""
    y, weights = Y.copy(), np.ones(90)
    y[TRAIN[:5]] += 1e4
    weights[:5] = 0
    model = GBGNNRegressor(**SMALL, loss="absolute")
    weighted = clone(model).fit(TRAIN, y[TRAIN], graph=GRAPH, sample_weight=weights)
    assert np.abs(weighted.predict(TEST) - Y[TEST]).mean() < 15
    losses = weighted.history_["train_loss"]
    assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_node_of_weight_zero_does_not_matter(loss: str) -> None:
    y, weights = y_of(loss).copy(), np.ones(90)
    weights[:5] = 0
    model = GBGNNRegressor(**SMALL | {"n_rounds": 3}, loss=loss)
    one = clone(model).fit(TRAIN, y[TRAIN], graph=GRAPH, sample_weight=weights)
    y[TRAIN[:5]] += 1e4
    other = clone(model).fit(TRAIN, y[TRAIN], graph=GRAPH, sample_weight=weights)
    np.testing.assert_allclose(other.predict(TEST), one.predict(TEST), rtol=1e-5)
    alike = clone(model).fit(TRAIN, y[TRAIN], graph=GRAPH, sample_weight=np.full(90, 0.5))
    plain = clone(model).fit(TRAIN, y[TRAIN], graph=GRAPH)
    np.testing.assert_allclose(alike.predict(TEST), plain.predict(TEST), rtol=1e-5)


def test_quantiles_cover_what_they_say() -> None:
    random = np.random.default_rng(1)
    n = 1500
    x = random.uniform(-1, 1, size=(n, 1))
    y = x[:, 0] + (0.2 + 0.4 * (x[:, 0] > 0)) * random.normal(size=n)  # noisier on one side
    graph = Graph(np.zeros((n, n)), x)
    train, test = np.arange(800), np.arange(800, n)
    model = GBGNNRegressor(
        loss="quantile",
        quantile=[0.1, 0.5, 0.9],
        aggregation="identity",
        n_rounds=30,
        random_state=0,
        device="cpu",
        learner=MLP(epochs=30, units=16),
    ).fit(train, y[train], graph=graph)
    low, middle, high = model.predict(test, quantiles=[0.1, 0.5, 0.9]).T
    assert np.mean(y[test] < low) == pytest.approx(0.1, abs=0.05)
    assert np.mean(y[test] < middle) == pytest.approx(0.5, abs=0.07)
    assert np.mean(y[test] < high) == pytest.approx(0.9, abs=0.05)
    is_noisy = x[test, 0] > 0.2
    assert (high - low)[is_noisy].mean() > 1.5 * (high - low)[x[test, 0] < -0.2].mean()


def test_quantiles_do_not_cross_and_come_in_the_order_asked_for() -> None:
    levels = [0.1, 0.3, 0.5, 0.7, 0.9]
    model = fit(Quantile(levels=levels), n_rounds=30)
    found = model.predict(TEST, quantiles=levels)
    assert found.shape == (40, 5)
    assert (np.diff(found, axis=1) >= 0).all()
    np.testing.assert_array_equal(model.predict(TEST, quantiles=[0.9, 0.1]), found[:, [4, 0]])
    np.testing.assert_array_equal(model.predict(TEST), found[:, 2])  # the median
    np.testing.assert_array_equal(model.predict(TEST, quantiles=0.3), found[:, [1]])
    expected = -np.mean([mean_pinball_loss(Y[TEST], found[:, i], alpha=q) for i, q in enumerate(levels)])
    assert model.model_.evaluate(TEST, Y[TEST]) == pytest.approx(expected, rel=1e-6)


def test_quantiles_of_several_outputs() -> None:
    y = np.column_stack([Y, -Y])
    model = fit("quantile", y, quantile=[0.2, 0.8])
    assert model.predict(TEST).shape == (40, 2)
    assert model.scores_.shape == (N, 4)
    found = model.predict(TEST, quantiles=[0.2, 0.8])
    assert found.shape == (40, 2, 2)
    assert (found[..., 0] <= found[..., 1]).all()


def test_a_level_that_was_not_fitted_is_named() -> None:
    with pytest.raises(ParameterError, match=r"level 0.2 was not fitted \(fitted: 0.1, 0.9\); fit with"):
        fit("quantile", quantile=[0.1, 0.9]).predict(TEST, quantiles=[0.1, 0.2])
    with pytest.raises(ParameterError, match="these predictions have no quantiles; GBGNNRegressor"):
        fit("squared").predict(TEST, quantiles=[0.1])


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"loss": "hubert"}, "unknown loss 'hubert'. Did you mean 'huber'"),
        ({"loss": "softmax"}, "SoftmaxCrossEntropy takes classes, but numeric y has numbers"),
        ({"loss": Huber(delta=-1)}, r"Huber.delta must be in \(0, inf\)"),
        ({"loss": "quantile", "quantile": 2.0}, r"Quantile.levels must be in \(0, 1\); got 2.0"),
        ({"loss": "absolute", "learning_rate": 1.5}, "steps are searched for; got 1.5"),
        ({"rule": "samme"}, "Samme votes for classes"),
        (
            {"loss": "huber", "rule": FunctionalGradient(loss="squared")},
            "the loss is given twice, loss='huber'",
        ),
        ({"task": "classification"}, "GBGNNRegressor predicts numbers; .* use GBGNNClassifier"),
        ({"task": Regression(loss=Poisson()), "loss": "squared"}, r"made ready for Poisson\(\), but Squared"),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_said(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        fit(**{"loss": "auto", "y": Y} | chosen)


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        ("poisson", -np.abs(Y), "y must not be negative under the Poisson loss"),
        ("squared", np.where(Y > 100, np.nan, Y), "y has .* missing labels"),
        ("squared", np.array(["a"] * N), "y must be numbers; got dtype"),
    ],
)
def test_numbers_that_do_not_suit_are_said(loss: str, y: np.ndarray, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        fit(loss, y)


def test_a_rule_may_bring_the_loss() -> None:
    by_rule = fit("auto", rule=FunctionalGradient(loss="huber"))
    assert by_rule.scores_.tobytes() == fit("huber").scores_.tobytes()
    levels = fit("auto", rule=FunctionalGradient(loss="quantile"), quantile=[0.1, 0.9])
    assert levels.predict(TEST, quantiles=[0.1, 0.9]).shape == (40, 2)


def test_a_classifier_is_told_to_be_a_regressor_alone_and_in_a_population() -> None:
    model = GBGNNClassifier(task="regression")
    with pytest.raises(ParameterError, match="task=Regression.* is to predict numbers: use GBGNNRegressor"):
        model.fit(TRAIN, Y[TRAIN], graph=GRAPH)
    with pytest.raises(ParameterError, match="is to predict numbers: use GBGNNRegressor"):
        PopulationInputs.from_model(model, TRAIN, Y[TRAIN], graph=GRAPH)


@pytest.mark.parametrize("loss", [*LOSSES, "levels"])
def test_a_population_trains_what_fit_trains(loss: str) -> None:
    y = y_of(loss)
    own: Any = Quantile(levels=[0.2, 0.8]) if loss == "levels" else loss
    common = {"device": "cpu", "dtype": "float64", "n_rounds": 4, "loss": own}
    models = [
        GBGNNRegressor(**common, learner=MLP(epochs=5, units=u), learning_rate=rate, random_state=u)
        for u, rate in ((4, 0.3), (8, 0.7))
    ]
    inputs = PopulationInputs.from_model(
        models[0], TRAIN, y[TRAIN], graph=GRAPH, validation=(VAL, y[VAL]), predict_nodes=TEST
    )
    for model, result in zip(models, train_population(inputs, models), strict=True):
        alone = clone(model).fit(TRAIN, y[TRAIN], graph=GRAPH, validation=(VAL, y[VAL]))
        np.testing.assert_allclose(result.scores, alone.scores_[TEST], atol=1e-7)
        np.testing.assert_allclose(result.val_scores, alone.history_[f"val_{alone.metric_.name}"], rtol=1e-6)
        assert result.best_round == alone.best_round_


def test_members_of_a_population_share_the_loss() -> None:
    models = [GBGNNRegressor(loss="huber"), GBGNNRegressor(loss="absolute")]
    assert "share the loss; member 0 has 'huber', member 1 'absolute'" in str(reason_apart(models))
    assert "share the task" in str(reason_apart([GBGNNRegressor(), GBGNNClassifier(rule="gradient")]))


def test_a_search_goes_by_what_is_large_where_it_is_good() -> None:
    base = {"task": "regression", "loss": "absolute", "n_rounds": 4, "learner__epochs": 5}
    space = SearchSpace(base, {"learner__units": Integer(1, 16), "learning_rate": Choice([0.01, 0.5])})
    for population in (None, 4):
        found = tune(
            TRAIN,
            Y[TRAIN],
            graph=GRAPH,
            validation=(VAL, Y[VAL]),
            space=space,
            n_trials=8,
            population=population,
            device="cpu",
        )
        assert isinstance(found.model, GBGNNRegressor)
        assert found.best_value == max(trial.value for trial in found.trials if trial.value is not None) < 0
        assert found.best_settings["learning_rate"] == 0.5  # one of 0.01 learns nothing in four rounds
        error = np.abs(found.model.predict(VAL) - Y[VAL]).mean()
        assert -error == pytest.approx(found.best_value, rel=1e-4)


def test_a_search_among_losses_needs_one_metric() -> None:
    losses = {"loss": Choice(["squared", "huber"])}
    with pytest.raises(ParameterError, match='loss has a range, and metric="auto" goes by the loss'):
        SearchSpace({"task": "regression"}, losses)
    space = SearchSpace({"task": "regression", "metric": "r2", "n_rounds": 3, "learner__epochs": 5}, losses)
    labels: dict[str, Any] = {"graph": GRAPH, "validation": (VAL, Y[VAL]), "space": space, "device": "cpu"}
    found = tune(TRAIN, Y[TRAIN], n_trials=4, population=4, **labels)
    assert {trial.params["loss"] for trial in found.trials} == {"squared", "huber"}


@pytest.mark.parametrize(
    "loss",
    ["squared", "absolute", Huber(delta=0.8), Quantile(levels=(0.1, 0.9)), "poisson", "quantile"],
    ids=repr,
)
def test_a_model_file_gives_back_the_regressor(loss: Any, tmp_path: Path) -> None:
    y = COUNTS if loss == "poisson" else Y
    chosen: dict[str, Any] = {"quantile": [0.2, 0.8]} if loss == "quantile" else {}
    model = fit(loss, y, n_rounds=4, **chosen)
    model.save(tmp_path / "model.gbgnn")
    again = load(tmp_path / "model.gbgnn")
    assert isinstance(again, GBGNNRegressor)
    assert again.predict(TEST).tobytes() == model.predict(TEST).tobytes()
    assert again.predict(TEST, graph=GRAPH).tobytes() == model.predict(TEST, graph=GRAPH).tobytes()
    if model.task_.levels is not None:
        levels = model.task_.levels
        np.testing.assert_array_equal(
            again.predict(TEST, quantiles=levels), model.predict(TEST, quantiles=levels)
        )
    data: dict[str, Any] = {"graph": GRAPH, "validation": (VAL, y[VAL])}
    longer = again.set_params(warm_start=True, n_rounds=6).fit(TRAIN, y[TRAIN], **data)
    assert longer.scores_.tobytes() == fit(loss, y, n_rounds=6, **chosen).scores_.tobytes()


def test_a_warm_start_refuses_another_loss() -> None:
    model = fit("absolute", n_rounds=2, warm_start=True)
    with pytest.raises(ParameterError, match="warm_start goes on .* depend on rule, and that has changed"):
        model.set_params(loss=Huber()).fit(TRAIN, Y[TRAIN], graph=GRAPH)


@pytest.mark.parametrize("loss", ["squared", "absolute", "quantile"])
def test_fine_tuning_goes_on_with_the_loss(loss: str) -> None:
    model = fit(loss, n_rounds=4, fine_tune=FineTuner(epochs=15, keep="tuned"))
    assert model.fine_tuning_["kept"] == "tuned"
    assert model.score(TEST, Y[TEST]) > 0.4


def test_settings_say_which_estimator() -> None:
    model = build_model({"task": "regression", "loss": "huber", "n_rounds": 3})
    assert repr(model) == "GBGNNRegressor(loss='huber', n_rounds=3)"
    again = build_model(read_settings(model))
    assert isinstance(again, GBGNNRegressor)
    assert again.loss == "huber"
    assert isinstance(build_model({"quantile": 0.9, "loss": "quantile"}), GBGNNRegressor)
    assert isinstance(build_model({"task": "auto"}), GBGNNClassifier)
    assert "loss" not in read_settings(GBGNNClassifier())
    with pytest.raises(ParameterError, match="these settings are not those of a model: .*class_weight"):
        build_model({"task": "regression", "class_weight": "balanced"})


def test_objects_and_names_stand_for_the_same_loss() -> None:
    assert fit(AbsoluteError()).scores_.tobytes() == fit("absolute").scores_.tobytes()
    assert fit(Quantile(levels=0.5)).scores_.tobytes() == fit("quantile").scores_.tobytes()
