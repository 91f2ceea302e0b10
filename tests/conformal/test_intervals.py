from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError

from gbgnn import GBGNNRegressor, PredictionIntervals, load
from gbgnn.errors import GBGNNWarning, GraphError, ParameterError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from crepes import ConformalRegressor
    from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor

LEVELS = [0.025, 0.05, 0.5, 0.95, 0.975]


class _Prefit(RegressorMixin, BaseEstimator):
    """Numbers that are there already: X is a column of row numbers."""

    def __init__(self, numbers: np.ndarray) -> None:
        self.numbers = numbers
        self.fitted_ = True

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.numbers[np.asarray(X).ravel().astype(int)]


@pytest.fixture(scope="module")
def numbers(blocks_of_three):
    """Numbers that vary more where the first column is large."""
    random = np.random.default_rng(0)
    first = np.asarray(blocks_of_three.graph.features)[:, 0]
    return 3 * blocks_of_three.y + first + random.normal(size=600) * np.exp(first / 2)


@pytest.fixture(scope="module")
def parts():
    drawn = np.random.default_rng(1).permutation(600)
    return drawn[:200], drawn[200:350], drawn[350:]


@pytest.fixture(scope="module")
def quantiles(blocks_of_three, numbers, parts):
    model = GBGNNRegressor(loss="quantile", quantile=LEVELS, n_rounds=4, preset="fast", random_state=0)
    return model.fit(parts[0], numbers[parts[0]], graph=blocks_of_three.graph)


@pytest.fixture(scope="module")
def means(blocks_of_three, numbers, parts):
    model = GBGNNRegressor(n_rounds=4, preset="fast", random_state=0)
    return model.fit(parts[0], numbers[parts[0]], graph=blocks_of_three.graph)


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_residuals_give_the_intervals_of_mapie_and_crepes(means, numbers, parts, confidence: float) -> None:
    _, cal, rest = parts
    found = PredictionIntervals(means, confidence=confidence).fit(cal, numbers[cal]).predict_interval(rest)
    predicted = means.predict(np.arange(600)).astype(float)
    theirs = SplitConformalRegressor(_Prefit(predicted), confidence_level=confidence)
    _, expected = theirs.conformalize(cal[:, None], numbers[cal]).predict_interval(rest[:, None])
    np.testing.assert_allclose(found, expected[:, :, 0])
    others = ConformalRegressor().fit(numbers[cal] - predicted[cal])
    np.testing.assert_allclose(found, others.predict_int(predicted[rest], confidence=confidence))


@pytest.mark.parametrize(("confidence", "pair"), [(0.9, (1, 3)), (0.95, (0, 4))])
def test_quantiles_give_the_conformalised_ones_of_mapie(quantiles, numbers, parts, confidence, pair) -> None:
    _, cal, rest = parts
    ours = PredictionIntervals(quantiles, confidence=confidence).fit(cal, numbers[cal])
    found = ours.predict_interval(rest)
    bounds = quantiles.predict(np.arange(600), quantiles=LEVELS).astype(float)
    prefit = [_Prefit(bounds[:, k]) for k in (*pair, 2)]
    theirs = ConformalizedQuantileRegressor(prefit, confidence_level=confidence, prefit=True)
    theirs.conformalize(cal[:, None], numbers[cal])
    _, expected = theirs.predict_interval(rest[:, None], symmetric_correction=True)
    np.testing.assert_allclose(found, expected[:, :, 0])


@pytest.mark.parametrize("which", ["means", "quantiles"])
def test_over_draws_intervals_hold_the_number_as_often_as_promised(which, request, numbers, parts) -> None:
    model, held_out = request.getfixturevalue(which), np.concatenate(parts[1:])
    found = []
    for seed in range(60):
        drawn = np.random.default_rng(seed).permutation(held_out)
        own = PredictionIntervals(model).fit(drawn[:199], numbers[drawn[:199]])
        found.append(own.evaluate(drawn[199:], numbers[drawn[199:]]).coverage)
    assert abs(np.mean(found) - 0.9) < 4 * np.std(found) / np.sqrt(60)


def test_quantiles_are_wide_where_numbers_vary_and_residuals_are_not(
    means, quantiles, numbers, parts, blocks_of_three
) -> None:
    _, cal, rest = parts
    wide = np.asarray(blocks_of_three.graph.features)[rest, 0] > 0.5
    for model, varies in ((means, False), (quantiles, True)):
        intervals = PredictionIntervals(model).fit(cal, numbers[cal])
        widths = np.ptp(intervals.predict_interval(rest), axis=1)
        assert (np.ptp(widths) > 1e-6) == varies
        assert intervals.predict(rest).tolist() == model.predict(rest).tolist()
    assert widths[wide].mean() > widths[~wide].mean()


def test_intervals_that_would_cross_meet_in_the_middle(quantiles, numbers, parts) -> None:
    _, cal, rest = parts
    told = PredictionIntervals(quantiles, confidence=0.9).fit(cal, numbers[cal])
    told.calibration_bounds_ = told.calibration_bounds_ + 9 * np.array([-1, -1, 0, 1, 1])  # all far inside
    found = told.predict_interval(rest)
    assert (found[:, 0] <= found[:, 1]).all()
    assert (found[:, 0] == found[:, 1]).any()


def test_quality_by_degree_and_another_graph(means, numbers, parts, blocks_of_three) -> None:
    _, cal, rest = parts
    intervals = PredictionIntervals(means).fit(cal, numbers[cal])
    whole, rows = intervals.evaluate(rest, numbers[rest]), intervals.evaluate_by_degree(rest, numbers[rest])
    assert sum(row["quality"].n_nodes for row in rows) == whole.n_nodes == len(rest)
    again = intervals.predict_interval(rest, graph=blocks_of_three.graph)
    np.testing.assert_allclose(again, intervals.predict_interval(rest), rtol=1e-4, atol=1e-4)


def test_a_model_of_a_file_has_the_same_intervals(means, numbers, parts, tmp_path) -> None:
    _, cal, rest = parts
    means.save(tmp_path / "m.gbgnn")
    again = PredictionIntervals(load(tmp_path / "m.gbgnn")).fit(cal, numbers[cal])
    own = PredictionIntervals(means).fit(cal, numbers[cal])
    np.testing.assert_allclose(again.predict_interval(rest), own.predict_interval(rest))


def test_of_too_few_nodes_intervals_are_infinite(means, numbers, parts) -> None:
    cal = parts[1][:8]
    with pytest.warns(GBGNNWarning, match="8 calibration nodes are too few for a confidence of 0.9"):
        intervals = PredictionIntervals(means).fit(cal, numbers[cal])
    assert np.isinf(intervals.predict_interval(parts[2])).all()
    assert np.isfinite(intervals.predict_interval(parts[2], confidence=0.5)).all()


def test_what_has_no_intervals_is_said(means, numbers, parts, classifier, blocks_of_three) -> None:
    train, cal, _ = parts
    with pytest.raises(NotFittedError):
        PredictionIntervals(means).predict_interval([0])
    with pytest.raises(
        ParameterError, match="PredictionIntervals is for numbers; .* PredictionSets makes sets"
    ):
        PredictionIntervals(classifier).fit(cal, numbers[cal])
    with pytest.raises(GraphError, match="shares 1 nodes with the training nodes"):
        PredictionIntervals(means).fit(train[:1], numbers[train[:1]])
    both = GBGNNRegressor(n_rounds=1, random_state=0)
    both.fit(train, np.column_stack([numbers, numbers])[train], graph=blocks_of_three.graph)
    with pytest.raises(
        ParameterError, match="one number per node; this model predicts 2. Fit one model for each"
    ):
        PredictionIntervals(both).fit(cal, np.column_stack([numbers, numbers])[cal])
