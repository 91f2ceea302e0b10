from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from gbgnn import Calibrated, GBGNNClassifier, GBGNNRegressor, PredictionSets, load
from gbgnn.conformal import SetQuality
from gbgnn.errors import GBGNNWarning, GraphError, ParameterError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from crepes import ConformalClassifier
    from mapie.classification import SplitConformalClassifier


class _Prefit(ClassifierMixin, BaseEstimator):
    """Probabilities that are there already, as scikit-learn has them: X is a column of row numbers."""

    def __init__(self, proba: np.ndarray) -> None:
        self.proba = proba
        self.classes_ = np.arange(proba.shape[1])
        self.fitted_ = True

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)

    def predict_proba(self, X):
        return self.proba[np.asarray(X).ravel().astype(int)]


@pytest.fixture
def halves(blocks_of_three):
    return np.random.default_rng(0).permutation(np.concatenate([blocks_of_three.val, blocks_of_three.test]))


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
def test_without_diffusion_sets_are_those_of_mapie(blocks_of_three, classifier, halves, confidence) -> None:
    y, cal, rest = blocks_of_three.y, halves[:99], halves[99:]
    proba = classifier.predict_proba(np.arange(600)).astype(float)
    proba /= proba.sum(axis=1, keepdims=True)
    theirs = SplitConformalClassifier(_Prefit(proba), confidence_level=confidence, conformity_score="lac")
    _, expected = theirs.conformalize(cal[:, None], y[cal]).predict_set(rest[:, None])
    ours = PredictionSets(classifier, confidence=confidence, score="lac", diffusion=0, allow_empty=True)
    found = ours.fit(cal, y[cal]).predict_set(rest)
    assert (found == expected[:, :, 0]).all()


@pytest.mark.parametrize("score", ["aps", "lac"])
def test_with_diffusion_sets_are_those_of_crepes(blocks_of_three, classifier, halves, score: str) -> None:
    y, cal, rest = blocks_of_three.y, halves[:120], halves[120:]
    ours = PredictionSets(classifier, score=score, diffusion=0.5, allow_empty=True).fit(cal, y[cal])
    scores = ours._find_scores(classifier.model_, None)
    theirs = ConformalClassifier().fit(scores[cal, y[cal]])
    for confidence in (0.7, 0.9, 0.95):
        expected = theirs.predict_set(scores[rest], confidence=confidence, smoothing=False)
        assert (ours.predict_set(rest, confidence=confidence) == expected.astype(bool)).all()


@pytest.mark.parametrize("score", ["aps", "lac"])
@pytest.mark.parametrize("diffusion", [0.0, 0.5])
def test_over_draws_sets_hold_the_class_as_often_as_promised(
    blocks_of_three, classifier, halves, score: str, diffusion: float
) -> None:
    y, found = blocks_of_three.y, []
    sets = PredictionSets(classifier, score=score, diffusion=diffusion, allow_empty=True)
    for seed in range(60):
        drawn = np.random.default_rng(seed).permutation(halves)
        found.append(sets.fit(drawn[:199], y[drawn[:199]]).evaluate(drawn[199:], y[drawn[199:]]).coverage)
    # The scores have no ties: the mean over all draws is exactly 180 / 200.
    error = np.std(found) / np.sqrt(60)
    assert abs(np.mean(found) - 0.9) < 4 * error


def test_no_set_is_empty_unless_it_may_be(blocks_of_three, classifier, halves) -> None:
    y, cal, rest = blocks_of_three.y, halves[:100], halves[100:]
    sure = PredictionSets(classifier, confidence=0.2, score="lac").fit(cal, y[cal])
    sets = sure.predict_set(rest)
    assert (sets.sum(axis=1) >= 1).all()
    empty = sure.set_params(allow_empty=True).predict_set(rest)
    assert (empty <= sets).all()
    assert (empty.sum(axis=1) == 0).any()
    assert sure.evaluate(rest, y[rest]).sizes[0] == (empty.sum(axis=1) == 0).sum()


def test_larger_confidence_larger_sets_and_the_same_sets_twice(blocks_of_three, classifier, halves) -> None:
    y, cal, rest = blocks_of_three.y, halves[:100], halves[100:]
    sets = PredictionSets(classifier).fit(cal, y[cal])
    small, large = sets.predict_set(rest), sets.predict_set(rest, confidence=0.99)
    assert (small <= large).all()
    assert small.sum() < large.sum()
    again = PredictionSets(classifier).fit(cal[::-1], y[cal[::-1]])
    assert (again.predict_set(rest) == small).all()
    assert sets.predict_set(rest[3:4])[0].tolist() == small[3].tolist()
    assert (sets.predict(rest) == classifier.predict(rest)).all()
    assert (sets.classes_ == classifier.classes_).all()


def test_quality_by_degree_is_that_of_all_nodes_in_parts(blocks_of_three, classifier, halves) -> None:
    y, cal, rest = blocks_of_three.y, halves[:100], halves[100:]
    sets = PredictionSets(classifier).fit(cal, y[cal])
    whole, parts = sets.evaluate(rest, y[rest]), sets.evaluate_by_degree(rest, y[rest])
    assert isinstance(whole, SetQuality)
    assert sum(row["quality"].n_nodes for row in parts) == whole.n_nodes
    held = sum(row["quality"].n_nodes * row["quality"].coverage for row in parts)
    assert held == pytest.approx(whole.n_nodes * whole.coverage)


def test_calibrated_models_and_models_of_a_file_have_sets(
    blocks_of_three, classifier, halves, tmp_path
) -> None:
    data, cal, rest = blocks_of_three, halves[:100], halves[100:]
    calibrated = Calibrated(classifier).fit(data.val, data.y[data.val])
    assert PredictionSets(calibrated).fit(cal, data.y[cal]).evaluate(rest, data.y[rest]).coverage > 0.8
    classifier.save(tmp_path / "m.gbgnn")
    again = load(tmp_path / "m.gbgnn")
    with pytest.raises(
        ParameterError, match="loaded from a file, which does not hold its graph; pass graph="
    ):
        PredictionSets(again, diffusion=0.5).fit(cal, data.y[cal])
    sets = PredictionSets(again, diffusion=0.5).fit(cal, data.y[cal], graph=data.graph)
    own = PredictionSets(classifier, diffusion=0.5).fit(cal, data.y[cal])
    assert (sets.predict_set(rest, graph=data.graph) == own.predict_set(rest)).mean() > 0.99
    bare = PredictionSets(again).fit(cal, data.y[cal])
    assert bare.predict_set(rest).any()


def test_nodes_that_chose_the_round_are_warned_of(blocks_of_three) -> None:
    data = blocks_of_three
    model = GBGNNClassifier(n_rounds=2, preset="fast", random_state=0)
    val = data.val[:50]
    model.fit(data.train, data.y[data.train], graph=data.graph, validation=(val, data.y[val]))
    with pytest.warns(GBGNNWarning, match="50 of the 50 .* a confidence of 0.8 is not guaranteed exactly"):
        sets = PredictionSets(model, confidence=0.8).fit(val, data.y[val])
    assert "not guaranteed exactly" in sets.caveat_
    assert PredictionSets(model).fit(data.test, data.y[data.test]).caveat_ is None


def test_of_too_few_nodes_every_class_may_be(blocks_of_three, classifier) -> None:
    data = blocks_of_three
    with pytest.warns(GBGNNWarning, match="5 calibration nodes are too few"):
        sets = PredictionSets(classifier).fit(data.val[:5], data.y[data.val[:5]])
    assert sets.predict_set(data.test).all()
    with pytest.warns(GBGNNWarning, match="for a confidence of 0.99"):
        sets.predict_set(data.test, confidence=0.99)


def test_what_has_no_sets_is_said(blocks_of_three, classifier) -> None:
    data = blocks_of_three
    with pytest.raises(NotFittedError):
        PredictionSets(classifier).predict_set([0])
    with pytest.raises(ParameterError, match=r"PredictionSets.score must be one of lac, aps; got 'raps'"):
        PredictionSets(classifier, score="raps").fit(data.val, data.y[data.val])
    with pytest.raises(ParameterError, match=r"PredictionSets.diffusion must be in \[0, 1\]; got 2"):
        PredictionSets(classifier, diffusion=2).fit(data.val, data.y[data.val])
    with pytest.raises(ParameterError, match=r"PredictionSets.confidence must be in \(0, 1\); got 90"):
        PredictionSets(classifier, confidence=90).fit(data.val, data.y[data.val])
    with pytest.raises(GraphError, match="shares 30 nodes with the training nodes"):
        PredictionSets(classifier).fit(data.train, data.y[data.train])
    sets = PredictionSets(classifier).fit(data.val, data.y[data.val])
    with pytest.raises(GraphError, match=r"graph must be a gbgnn.Graph; got str"):
        PredictionSets(classifier).fit(data.val, data.y[data.val], graph="x")
    with pytest.raises(GraphError, match=r"graph must be a gbgnn.Graph; got str"):
        sets.predict_set([0], graph="x")
    with pytest.raises(GraphError, match="node id 600, but the graph has 600 nodes"):
        sets.predict_set([600])
    numbers = GBGNNRegressor(n_rounds=1, random_state=0).fit(data.train, np.arange(30.0), graph=data.graph)
    with pytest.raises(
        ParameterError, match="PredictionSets is for one class per node; this model predicts numbers"
    ):
        PredictionSets(numbers).fit(data.val, data.y[data.val])
