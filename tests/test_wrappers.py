from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gbgnn import (
    Calibrated,
    GBGNNClassifier,
    GBGNNRegressor,
    PredictionIntervals,
    PredictionSets,
    datasets,
    load,
    save,
)
from gbgnn.errors import ModelFileError
from gbgnn.persistence import read_header
from gbgnn.wrappers import unwrap, unwrap_header, wrap, wrap_header

DATA = datasets.csbm(n_nodes=300, n_classes=3, per_class=10, seed=0)
VAL, TEST = DATA.val, DATA.test


@pytest.fixture(scope="module")
def model() -> GBGNNClassifier:
    fitted = GBGNNClassifier(n_rounds=2, preset="fast", random_state=0)
    return fitted.fit(DATA.train, DATA.y[DATA.train], graph=DATA.graph)


@pytest.fixture(scope="module")
def numbers() -> np.ndarray:
    return np.asarray(DATA.graph.features)[:, 0] + DATA.y


@pytest.fixture(scope="module")
def regressor(numbers) -> GBGNNRegressor:
    fitted = GBGNNRegressor(loss="quantile", quantile=[0.1, 0.9], n_rounds=2, preset="fast", random_state=0)
    return fitted.fit(DATA.train, numbers[DATA.train], graph=DATA.graph)


def test_calibrated_probabilities_come_back(model, tmp_path: Path) -> None:
    for method, given in (("temperature", {}), ("graph", {"graph": DATA.graph})):
        calibrated = Calibrated(model, method=method).fit(VAL, DATA.y[VAL])
        save(calibrated, tmp_path / "c.gbgnn")
        again = load(tmp_path / "c.gbgnn", **given)
        assert isinstance(again, Calibrated)
        assert again.method == method
        np.testing.assert_array_equal(again.predict_proba(TEST), calibrated.predict_proba(TEST))


@pytest.mark.parametrize("settings", [{}, {"score": "aps", "diffusion": 0.5, "random_state": 3}])
def test_sets_come_back_around_a_calibrated_model(model, settings, tmp_path: Path) -> None:
    calibrated = Calibrated(model).fit(VAL, DATA.y[VAL])
    sets = PredictionSets(calibrated, confidence=0.8, **settings).fit(TEST[:60], DATA.y[TEST[:60]])
    save(sets, tmp_path / "s.gbgnn")
    again = load(tmp_path / "s.gbgnn", graph=DATA.graph)
    assert isinstance(again, PredictionSets)
    assert isinstance(again.model, Calibrated)
    assert (again.confidence, again.score, again.diffusion) == (0.8, sets.score, sets.diffusion)
    np.testing.assert_array_equal(again.predict_set(TEST), sets.predict_set(TEST))
    np.testing.assert_array_equal(
        again.predict_set(TEST, confidence=0.9), sets.predict_set(TEST, confidence=0.9)
    )
    assert again.caveat_ is None
    kinds = [each["kind"] for each in read_header(tmp_path / "s.gbgnn")["around"]]
    assert kinds == ["sets", "calibrated"]
    save(again, tmp_path / "t.gbgnn")
    assert (tmp_path / "s.gbgnn").read_bytes() == (tmp_path / "t.gbgnn").read_bytes()


def test_intervals_come_back(regressor, numbers, tmp_path: Path) -> None:
    intervals = PredictionIntervals(regressor, confidence=0.85).fit(VAL, numbers[VAL])
    save(intervals, tmp_path / "i.gbgnn", learners=False)
    again = load(tmp_path / "i.gbgnn")
    np.testing.assert_array_equal(again.predict_interval(TEST), intervals.predict_interval(TEST))


def test_an_estimator_and_its_model_are_one_file(model, tmp_path: Path) -> None:
    save(model, tmp_path / "a.gbgnn")
    save(model.model_, tmp_path / "b.gbgnn")
    assert (tmp_path / "a.gbgnn").read_bytes() == (tmp_path / "b.gbgnn").read_bytes()
    assert "around" not in read_header(tmp_path / "a.gbgnn")


def test_what_is_half_of_something_is_not_written(model, tmp_path: Path) -> None:
    calibrated = Calibrated(model).fit(VAL, DATA.y[VAL])
    with pytest.raises(ModelFileError, match=r"save\(Calibrated\(...\), path\)"):
        save(calibrated.model_, tmp_path / "c.gbgnn")
    assert not (tmp_path / "c.gbgnn").exists()


def _forge(change: Callable[[dict[str, Any]], None], layers: Any, model: Any) -> None:
    record = copy.deepcopy(layers)
    change(record[0][1])
    wrap(model, json.loads(json.dumps(record)))


FORGED = {
    "another score": lambda r: r.update(score="raps"),
    "a confidence above one": lambda r: r.update(confidence=1.5),
    "a confidence that is text": lambda r: r.update(confidence="0.9"),
    "no numbers": lambda r: r.update(scores=[]),
    "numbers in two rows": lambda r: r.update(scores=[[0.1], [0.2]]),
    "a score that is no number": lambda r: r.update(scores=[0.1, float("nan")]),
    "text for numbers": lambda r: r.update(scores=["a"]),
    "a seed that is text": lambda r: r.update(seed_="x"),
    "a setting that is gone": lambda r: r.pop("diffusion"),
}


@pytest.mark.parametrize("how", FORGED)
def test_forged_sets_are_refused(model, how: str) -> None:
    layers, _ = unwrap(PredictionSets(model).fit(VAL, DATA.y[VAL]))
    with pytest.raises((ValueError, KeyError, TypeError)):
        _forge(FORGED[how], layers, model)


def test_forged_temperatures_and_intervals_are_refused(model, regressor, numbers) -> None:
    layers, _ = unwrap(Calibrated(model, method="graph").fit(VAL, DATA.y[VAL]))
    for change in (
        lambda r: r.update(method="temperature"),
        lambda r: r.update(method="other"),
        lambda r: r["learned"].update(weights=[1.0]),
        lambda r: r["learned"].update(intercept=float("nan")),
        lambda r: r["learned"].update(weights=[1.0, 2.0, float("inf")]),
    ):
        with pytest.raises((ValueError, KeyError)):
            _forge(change, layers, model)
    layers, _ = unwrap(PredictionIntervals(regressor).fit(VAL, numbers[VAL]))
    for change in (
        lambda r: r.update(bounds=r["bounds"][:1]),
        lambda r: r.update(bounds=[r["bounds"][0], r["bounds"][1][:3]]),
        lambda r: r.update(truth=[1.0]),
        lambda r: r.update(confidence=0),
    ):
        with pytest.raises((ValueError, KeyError)):
            _forge(change, layers, regressor)
    with pytest.raises(ValueError, match="is for one class per node"):
        wrap(regressor, unwrap(Calibrated(model).fit(VAL, DATA.y[VAL]))[0])


def test_a_forged_file_is_damaged(model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = PredictionSets(model).fit(VAL, DATA.y[VAL])
    monkeypatch.setattr(PredictionSets, "record", lambda self: {"confidence": 0.9})
    save(sets, tmp_path / "f.gbgnn")
    with pytest.raises(ModelFileError, match="f.gbgnn is damaged: its header does not fit"):
        load(tmp_path / "f.gbgnn")


def test_headers_are_wrapped_and_unwrapped() -> None:
    inner, layers = {"format_version": 3, "library_version": "1"}, [("sets", {"a": 1})]
    assert wrap_header(inner, []) is inner
    assert unwrap_header(wrap_header(inner, layers)) == (layers, inner)
    assert unwrap_header(inner) == ([], inner)
