from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from gbgnn import GBGNNClassifier, datasets
from gbgnn.errors import GraphError, ParameterError
from gbgnn.reliability import Reliability


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60), st.integers(1, 20))
def test_the_error_is_the_mean_gap_of_bins_counted_one_by_one(pairs, n_bins: int) -> None:
    sure, right = (np.array(each) for each in zip(*pairs, strict=True))
    found = Reliability.measure(sure, right, n_bins=n_bins)
    total = 0.0
    for k, (low, high) in enumerate(zip(found.lower, found.upper, strict=True)):
        own = (sure > low) & (sure <= high) | ((k == 0) & (sure == 0))
        assert found.counts[k] == own.sum()
        if own.any():
            total += own.mean() * abs(sure[own].mean() - right[own].mean())
    assert found.ece == pytest.approx(total)
    assert 0 <= found.ece <= found.mce + 1e-12
    assert found.n_nodes == len(pairs)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_bins_are_those_of_scikit_learn(strategy: str) -> None:
    random = np.random.default_rng(0)
    sure = random.uniform(0, 1, 400)
    right = random.uniform(0, 1, 400) < sure**2
    found = Reliability.measure(sure, right, n_bins=7, strategy=strategy)
    accuracy, confidence = calibration_curve(right, sure, n_bins=7, strategy=strategy)
    filled = found.counts > 0
    np.testing.assert_allclose(found.accuracy[filled], accuracy)
    np.testing.assert_allclose(found.confidence[filled], confidence)


def test_bins_of_as_many_nodes_join_where_confidences_are_equal() -> None:
    found = Reliability.measure([0.5] * 9 + [1.0], [True] * 10, n_bins=5, strategy="quantile")
    assert found.counts.tolist() == [9, 1]
    assert found.upper.tolist() == [0.5, 1]
    assert Reliability.measure([1.0, 1.0], [True, True], strategy="quantile").counts.tolist() == [2]


def test_rows_are_json() -> None:
    rows = Reliability.measure([0.2], [True], n_bins=2).rows()
    assert json.loads(json.dumps(rows, allow_nan=False))[1] == {
        "lower": 0.5, "upper": 1.0, "counts": 0, "confidence": None, "accuracy": None
    }  # fmt: skip


def test_a_model_is_asked_for_its_most_likely_class() -> None:
    data = datasets.karate()
    model = GBGNNClassifier(n_rounds=2, random_state=0).fit(data.train, data.y[data.train], graph=data.graph)
    found = Reliability.of(model, data.test, data.y[data.test], n_bins=1)
    assert found.accuracy[0] == pytest.approx(model.score(data.test, data.y[data.test]))
    assert found.confidence[0] == pytest.approx(model.predict_proba(data.test).max(axis=1).mean(), rel=1e-6)
    again = Reliability.of(model, data.test, data.y[data.test], graph=data.graph, n_bins=1)
    assert again.confidence[0] == pytest.approx(found.confidence[0], rel=1e-5)
    strange = Reliability.of(model, data.test, np.full(len(data.test), 7), n_bins=1)
    assert strange.accuracy[0] == 0


def test_what_cannot_be_measured_is_said() -> None:
    with pytest.raises(GraphError, match=r"a confidence and an answer .* shapes \(2,\) and \(3,\)"):
        Reliability.measure([0.1, 0.2], [True, False, True])
    with pytest.raises(GraphError, match="of some nodes"):
        Reliability.measure([], [])
    with pytest.raises(ParameterError, match=r"Reliability.n_bins must be an integer >= 1; got 0"):
        Reliability.measure([0.1], [True], n_bins=0)
    with pytest.raises(ParameterError, match="Did you mean 'quantile'"):
        Reliability.measure([0.1], [True], strategy="quantiles")
