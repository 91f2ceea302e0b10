"""Classes of different sizes: weights, metrics of ranks, thresholds of scikit-learn's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    get_scorer,
    log_loss,
    recall_score,
    roc_auc_score,
)
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.utils.class_weight import compute_sample_weight

from gbgnn import MLP, GBGNNClassifier, StopReason
from gbgnn.search import Choice, SearchSpace, tune
from gbgnn.testing import two_blocks

GRAPH, BLOCKS = two_blocks(200, n_classes=3)
RANDOM = np.random.default_rng(0)
RARE = (np.asarray(GRAPH.features)[:, 0] + RANDOM.normal(size=200) > 1.8).astype(int)
TRAIN, VAL, TEST = np.arange(100), np.arange(100, 150), np.arange(150, 200)
METRICS = ["roc_auc", "average_precision", "neg_log_loss"]
SMALL: dict[str, Any] = {
    "learner": MLP(epochs=10, units=8),
    "n_rounds": 8,
    "random_state": 0,
    "device": "cpu",
}


def fit(y: np.ndarray, **chosen: Any) -> GBGNNClassifier:
    model = GBGNNClassifier(**SMALL | chosen)
    return model.fit(TRAIN, y[TRAIN], graph=GRAPH, validation=(VAL, y[VAL]))


@pytest.mark.parametrize("rule", ["gradient", "samme_r"])
def test_weights_find_more_of_the_rare_class(rule: str) -> None:
    assert 0 < RARE.mean() < 0.25
    models = [fit(RARE, rule=rule, class_weight=weight) for weight in (None, "balanced", {0: 1, 1: 100})]
    recalls = [recall_score(RARE, model.predict(np.arange(200))) for model in models]
    assert recalls[0] < recalls[1] <= recalls[2]
    same = GBGNNClassifier(**SMALL, rule=rule).fit(
        TRAIN,
        RARE[TRAIN],
        graph=GRAPH,
        validation=(VAL, RARE[VAL]),
        sample_weight=compute_sample_weight("balanced", RARE[TRAIN]),
    )
    assert same.scores_.tobytes() == models[1].scores_.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", METRICS)
def test_of_two_classes_metrics_are_scikit_learns(metric: str, dtype: str) -> None:
    model = fit(RARE, metric=metric, dtype=dtype)
    found = model.model_.evaluate(TEST, RARE[TEST])
    assert found == pytest.approx(get_scorer(metric)(model, TEST, RARE[TEST]), rel=1e-6)
    column = model.history_[f"val_{metric}"]
    assert column[model.best_round_ - 1] == max(column)


def test_of_several_classes_metrics_are_means_of_each_against_the_rest() -> None:
    y = np.array(["ant", "bee", "cat"])[BLOCKS]
    for metric in METRICS:
        model = fit(y, metric=metric)
        proba, own = model.predict_proba(TEST), (y[TEST][:, None] == model.classes_).astype(int)
        expected = {
            "roc_auc": roc_auc_score(y[TEST], proba, multi_class="ovr", average="macro"),
            "average_precision": average_precision_score(own, proba, average="macro"),
            "neg_log_loss": -log_loss(y[TEST], proba),
        }[metric]
        assert model.model_.evaluate(TEST, y[TEST]) == pytest.approx(expected, rel=1e-6)


def test_a_class_that_validation_lacks_does_not_count() -> None:
    val = VAL[BLOCKS[VAL] != 2]
    for metric in METRICS:
        model = GBGNNClassifier(**SMALL, metric=metric)
        model.fit(TRAIN, BLOCKS[TRAIN], graph=GRAPH, validation=(val, BLOCKS[val]))
        assert np.isfinite(model.history_[f"val_{metric}"]).all()
    val = VAL[BLOCKS[VAL] == 1]
    model = GBGNNClassifier(**SMALL, metric="roc_auc")
    model.fit(TRAIN, BLOCKS[TRAIN], graph=GRAPH, validation=(val, BLOCKS[val]))
    assert np.isnan(model.history_["val_roc_auc"]).all()
    losses = model.history_["val_loss"]
    assert losses[model.best_round_ - 1] == min(losses)


def test_metrics_stop_early_and_judge_searches() -> None:
    model = fit(RARE, metric="average_precision", n_iter_no_change=2, n_rounds=80)
    assert model.stop_reason_ is StopReason.NO_IMPROVEMENT
    space = SearchSpace(
        {"metric": "neg_log_loss", "n_rounds": 4, "learner__epochs": 5},
        {"learning_rate": Choice([0.01, 0.5])},
    )
    data: dict[str, Any] = {"graph": GRAPH, "validation": (VAL, RARE[VAL]), "space": space, "device": "cpu"}
    found = tune(TRAIN, RARE[TRAIN], n_trials=4, population=4, **data)
    best = -log_loss(RARE[VAL], found.model.predict_proba(VAL))
    assert found.best_value == pytest.approx(best, rel=1e-5)
    assert found.best_value == max(trial.value for trial in found.trials)


def test_scikit_learn_tunes_and_fixes_the_threshold() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        model = GBGNNClassifier(**SMALL).set_fit_request(graph=True)
        nodes = np.concatenate([TRAIN, VAL])
        tuned = TunedThresholdClassifierCV(model, scoring="balanced_accuracy", cv=3)
        tuned.fit(nodes, RARE[nodes], graph=GRAPH)
        fixed = FixedThresholdClassifier(model, threshold=0.1).fit(nodes, RARE[nodes], graph=GRAPH)
        margin = FixedThresholdClassifier(model, threshold=-1.0, response_method="decision_function")
        margin.fit(nodes, RARE[nodes], graph=GRAPH)
    assert 0 < tuned.best_threshold_ < 0.5
    plain = tuned.estimator_
    assert balanced_accuracy_score(RARE[nodes], tuned.predict(nodes)) > balanced_accuracy_score(
        RARE[nodes], plain.predict(nodes)
    )
    np.testing.assert_array_equal(fixed.predict(TEST), fixed.estimator_.predict_proba(TEST)[:, 1] >= 0.1)
    assert plain.decision_function(TEST).shape == (50,)
    np.testing.assert_array_equal(margin.predict(TEST), margin.estimator_.decision_function(TEST) >= -1.0)
