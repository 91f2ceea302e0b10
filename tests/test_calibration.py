from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss

from gbgnn import Calibrated, GBGNNClassifier, GBGNNRegressor, Samme, datasets, predictions_frame
from gbgnn.errors import GraphError, ParameterError
from gbgnn.predictor import as_predictor
from gbgnn.reliability import Reliability

DATA = datasets.csbm(n_nodes=400, n_classes=3, per_class=10, seed=0)
VAL, TEST = DATA.val, DATA.test
METHODS = ["temperature", "graph"]


def _fit(**settings):
    model = GBGNNClassifier(**{"n_rounds": 3, "preset": "fast", "random_state": 0} | settings)
    return model.fit(DATA.train, DATA.y[DATA.train], graph=DATA.graph)


@pytest.fixture(scope="module")
def model():
    return _fit()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rule", ["gradient", Samme()])
def test_the_class_stays_and_the_log_loss_falls(method: str, rule) -> None:
    model = _fit(rule=rule)
    calibrated = Calibrated(model, method=method).fit(VAL, DATA.y[VAL])
    everyone = np.arange(400)
    assert (calibrated.predict(everyone) == model.predict(everyone)).all()
    assert calibrated.score(TEST, DATA.y[TEST]) == model.score(TEST, DATA.y[TEST])
    proba = calibrated.predict_proba(everyone).astype(float)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
    before, after = (
        log_loss(DATA.y[VAL], each / each.sum(axis=1, keepdims=True))
        for each in (model.predict_proba(VAL).astype(float), proba[VAL])
    )
    assert after < before
    assert (calibrated.classes_ == model.classes_).all()


@pytest.mark.parametrize("method", METHODS)
def test_probabilities_are_those_of_scores_divided_by_the_temperatures(model, method: str) -> None:
    calibrated = Calibrated(model, method=method).fit(VAL, DATA.y[VAL])
    logs = np.log(model.predict_proba(TEST).astype(float)) / calibrated.temperatures_[TEST][:, None]
    expected = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(calibrated.predict_proba(TEST), expected, rtol=1e-4, atol=1e-6)
    assert (np.ptp(calibrated.temperatures_) > 0) == (method == "graph")


@pytest.mark.parametrize("method", METHODS)
def test_the_same_graph_given_again_is_predicted_the_same(model, method: str) -> None:
    calibrated = Calibrated(model, method=method).fit(VAL, DATA.y[VAL])
    again = calibrated.predict_proba(TEST, graph=DATA.graph)
    np.testing.assert_allclose(again, calibrated.predict_proba(TEST), rtol=1e-4, atol=1e-6)
    other = datasets.csbm(n_nodes=90, n_classes=3, per_class=5, seed=3).graph
    assert calibrated.predict_proba([0, 5], graph=other).shape == (2, 3)


def test_two_classes_have_one_score() -> None:
    data = datasets.csbm(n_nodes=300, per_class=10, seed=1)
    model = GBGNNClassifier(n_rounds=2, preset="fast", random_state=0)
    model.fit(data.train, data.y[data.train], graph=data.graph)
    calibrated = Calibrated(model).fit(data.val, data.y[data.val])
    odds = np.log(model.predict_proba(data.test).astype(float))
    expected = 1 / (1 + np.exp(-(odds[:, 1] - odds[:, 0]) / calibrated.temperatures_[0]))
    np.testing.assert_allclose(calibrated.predict_proba(data.test)[:, 1], expected, rtol=1e-4)
    errors = [Reliability.of(each, data.test, data.y[data.test]).ece for each in (model, calibrated)]
    assert errors[1] < errors[0]


@pytest.mark.parametrize("method", METHODS)
def test_it_goes_wherever_a_fitted_model_goes(model, method: str) -> None:
    calibrated = Calibrated(model, method=method).fit(VAL, DATA.y[VAL])
    frame = predictions_frame(calibrated, [0, 7])
    np.testing.assert_allclose(frame.filter(like="proba").to_numpy(), calibrated.predict_proba([0, 7]))
    inside = calibrated.model_
    *_, (t, scores) = inside.stage(TEST)
    assert t == len(model.history_)
    np.testing.assert_allclose(scores, inside.find_scores(TEST), rtol=1e-3, atol=1e-4)
    assert inside.facts["calibration"]["method"] == method
    assert ("weights" in inside.facts["calibration"]) == (method == "graph")
    assert inside.history_rows == model.history_rows_
    assert inside.graph_checksum == DATA.graph.checksum
    assert inside.evaluate(TEST, DATA.y[TEST]) == model.model_.evaluate(TEST, DATA.y[TEST])
    assert inside.column_importances() == model.column_importances()
    assert inside.scale_shares() == model.scale_shares()
    np.testing.assert_array_equal(inside.contributions([3]).values, model.contributions([3]).values)
    np.testing.assert_array_equal(inside.attributions([3]).values, model.attributions([3]).values)
    np.testing.assert_array_equal(inside.response_curves().values, model.response_curves().values)
    assert inside.seed == 0
    assert inside.settings["n_rounds"] == 3
    assert inside.train_nodes.tolist() == sorted(DATA.train.tolist()) or len(inside.train_nodes) == 30
    assert inside.validation_nodes.tolist() == []


def test_of_what_is_calibrated_nothing_is_left_to_do(model) -> None:
    calibrated = Calibrated(model).fit(VAL, DATA.y[VAL])
    twice = Calibrated(calibrated).fit(VAL, DATA.y[VAL])
    np.testing.assert_allclose(twice.temperatures_, 1, rtol=1e-3)


def test_settings_are_scikit_learns(model) -> None:
    calibrated = Calibrated(model, method="graph")
    assert calibrated.get_params(deep=False) == {"model": model, "method": "graph"}
    assert clone(Calibrated(GBGNNClassifier(), method="graph")).method == "graph"
    with pytest.raises(NotFittedError):
        calibrated.predict(TEST)


def test_what_cannot_be_calibrated_is_said(model) -> None:
    with pytest.raises(ParameterError, match=r"Calibrated.method must be one of temperature, graph.*'graph'"):
        Calibrated(model, method="graphs").fit(VAL, DATA.y[VAL])
    with pytest.raises(NotFittedError, match="got GBGNNClassifier, which is not fitted, or none of gbgnn's"):
        Calibrated(GBGNNClassifier()).fit(VAL, DATA.y[VAL])
    with pytest.raises(GraphError, match="shares 1 nodes with the training nodes"):
        Calibrated(model).fit(DATA.train[:1], DATA.y[DATA.train[:1]])
    numbers = GBGNNRegressor(n_rounds=1, random_state=0).fit(DATA.train, np.arange(30.0), graph=DATA.graph)
    with pytest.raises(ParameterError, match="predicts numbers; PredictionIntervals makes intervals"):
        Calibrated(numbers).fit(VAL, DATA.y[VAL])
    several = GBGNNClassifier(n_rounds=1, random_state=0).fit(
        DATA.train, np.eye(3)[DATA.y[DATA.train]], graph=DATA.graph
    )
    with pytest.raises(ParameterError, match="this model predicts several labels per node"):
        Calibrated(several).fit(VAL, np.eye(3)[DATA.y[VAL]])
    with pytest.raises(NotFittedError, match="a fitted model of gbgnn is needed; got int"):
        as_predictor(3)
