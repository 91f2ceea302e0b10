"""scikit-learn's conventions, for the classifier and the regressor alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import (
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
    check_set_params,
)

from gbgnn import MLP, GBGNNClassifier, GBGNNRegressor, Huber
from gbgnn.testing import two_blocks

GRAPH, BLOCKS = two_blocks(90, n_classes=3)
NODES = np.arange(90)
NUMBERS = np.asarray(GRAPH.features)[:, 0] * 3 + 10
BOTH: list[tuple[type, np.ndarray]] = [(GBGNNClassifier, BLOCKS), (GBGNNRegressor, NUMBERS)]
SMALL: dict[str, Any] = {"learner": MLP(epochs=5, units=8), "n_rounds": 3, "random_state": 0, "device": "cpu"}

both = pytest.mark.parametrize(("kind", "y"), BOTH, ids=["classifier", "regressor"])


@pytest.mark.parametrize(
    "check",
    [
        check_no_attributes_set_in_init,
        check_get_params_invariance,
        check_set_params,
        check_parameters_default_constructible,
    ],
)
@both
def test_scikit_learns_own_checks_of_parameters(kind: type, y: np.ndarray, check: Any) -> None:
    check(kind.__name__, kind())
    assert set(kind().get_params(deep=False)) == set(kind.__dataclass_fields__)


@both
def test_clone_and_nested_parameters(kind: type, y: np.ndarray) -> None:
    model = kind(**SMALL)
    copy = clone(model).set_params(learner__units=3)
    assert (copy.learner.units, model.learner.units) == (3, 8)
    model.fit(NODES, y, graph=GRAPH)
    assert not hasattr(clone(model), "model_")
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        clone(model).predict(NODES)


@both
def test_tags_say_what_it_is(kind: type, y: np.ndarray) -> None:
    tags, is_class = get_tags(kind()), kind is GBGNNClassifier
    assert (is_classifier(kind()), is_regressor(kind())) == (is_class, not is_class)
    assert (tags.input_tags.one_d_array, tags.input_tags.two_d_array) == (True, False)
    assert tags.target_tags.required
    assert tags.target_tags.multi_output is not is_class
    if is_class:
        assert (tags.classifier_tags.multi_class, tags.classifier_tags.multi_label) == (True, True)
    assert hasattr(kind(), "predict_proba") == hasattr(kind(), "decision_function") == is_class


@both
def test_html_shows_the_model_fitted_or_not(kind: type, y: np.ndarray) -> None:
    model = kind(**SMALL)
    assert kind.__name__ in model._repr_html_()
    assert kind.__name__ in model.fit(NODES, y, graph=GRAPH)._repr_html_()


SCORERS = {
    GBGNNClassifier: [
        *("accuracy", "balanced_accuracy", "f1_macro", "neg_log_loss", "roc_auc_ovr", "roc_auc_ovo_weighted"),
        *("neg_brier_score", "d2_log_loss_score", "matthews_corrcoef", "top_k_accuracy", "average_precision"),
    ],
    GBGNNRegressor: [
        *("r2", "neg_mean_squared_error", "neg_mean_absolute_error", "neg_root_mean_squared_error"),
        *("neg_median_absolute_error", "neg_max_error", "explained_variance", "d2_absolute_error_score"),
    ],
}


@both
def test_cross_validation_with_any_scorer(kind: type, y: np.ndarray) -> None:
    found = cross_validate(
        kind(**SMALL),
        NODES,
        y,
        params={"graph": GRAPH},
        scoring=SCORERS[kind],
        cv=3,
        error_score="raise",
        return_train_score=True,
    )
    assert all(np.isfinite(found[f"test_{name}"]).all() for name in SCORERS[kind])
    own = cross_val_score(kind(**SMALL), NODES, y, params={"graph": GRAPH}, cv=3)
    np.testing.assert_allclose(own, found["test_accuracy" if kind is GBGNNClassifier else "test_r2"])
    assert cross_val_predict(kind(**SMALL), NODES, y, params={"graph": GRAPH}, cv=3).shape == (90,)
    sizes, *_ = learning_curve(kind(**SMALL), NODES, y, params={"graph": GRAPH}, cv=3, train_sizes=[0.5, 1.0])
    assert sizes.tolist() == [30, 60]


@both
def test_searches_over_parts(kind: type, y: np.ndarray) -> None:
    grid = {"aggregation": ["adjacency", "identity"], "learner__units": [4, 8]}
    found = GridSearchCV(kind(**SMALL), grid, cv=3, error_score="raise").fit(NODES, y, graph=GRAPH)
    assert found.best_params_.keys() == grid.keys()
    assert found.best_estimator_.predict(NODES).shape == (90,)
    drawn = RandomizedSearchCV(kind(**SMALL), grid, n_iter=2, cv=3, random_state=0).fit(NODES, y, graph=GRAPH)
    assert np.isfinite(drawn.best_score_)


def test_losses_may_be_searched() -> None:
    grid = {"loss": ["squared", "absolute", Huber(delta=1.0)]}
    found = GridSearchCV(GBGNNRegressor(**SMALL), grid, cv=3, scoring="r2", error_score="raise")
    scores = found.fit(NODES, NUMBERS, graph=GRAPH).cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert len(set(scores)) == 3


@both
def test_the_graph_is_routed(kind: type, y: np.ndarray) -> None:
    weights = np.linspace(0.5, 1.5, 90)
    with sklearn.config_context(enable_metadata_routing=True):
        model = kind(**SMALL).set_fit_request(graph=True, sample_weight=True)
        model.set_score_request(graph=False, sample_weight=True)
        found = GridSearchCV(model, {"n_rounds": [1, 2]}, cv=3, error_score="raise")
        found.fit(NODES, y, graph=GRAPH, sample_weight=weights)
        expected = clone(model).set_params(**found.best_params_)
        expected.fit(NODES, y, graph=GRAPH, sample_weight=weights)
        assert found.best_estimator_.scores_.tobytes() == expected.scores_.tobytes()
        steps = make_pipeline(FunctionTransformer(), model)
        assert steps.fit(NODES, y, graph=GRAPH, sample_weight=weights).predict(NODES).shape == (90,)


@both
def test_the_last_step_of_a_pipeline(kind: type, y: np.ndarray) -> None:
    frame = FunctionTransformer(lambda nodes: pd.DataFrame({"node": np.asarray(nodes)}))
    steps = Pipeline([("frame", frame), ("model", kind(**SMALL))]).set_output(transform="pandas")
    steps.fit(NODES, y, model__graph=GRAPH)
    alone = kind(**SMALL).fit(NODES, y, graph=GRAPH)
    np.testing.assert_array_equal(steps.predict(NODES), alone.predict(NODES))
    assert steps.score(NODES, y) == alone.score(NODES, y)
    assert isinstance(steps[-1], BaseEstimator)
    found = GridSearchCV(steps, {"model__n_rounds": [1, 2]}, cv=3).fit(NODES, y, model__graph=GRAPH)
    assert found.best_params_["model__n_rounds"] in (1, 2)


def test_two_classes_have_one_decision_as_in_scikit_learn() -> None:
    y = np.where(BLOCKS == 0, "no", "yes")
    for rule in ("gradient", "samme", "samme_r"):
        model = GBGNNClassifier(**SMALL, rule=rule).fit(NODES, y, graph=GRAPH)
        decision = model.decision_function(NODES)
        assert decision.shape == (90,)
        np.testing.assert_array_equal(np.where(decision > 0, "yes", "no"), model.predict(NODES))


@both
def test_weights_reach_fit_and_score(kind: type, y: np.ndarray) -> None:
    weights = np.zeros(90)
    weights[:20] = 1.0
    model = kind(**SMALL).fit(NODES, y, graph=GRAPH)
    of_these = model.score(NODES[:20], y[:20])
    assert model.score(NODES, y, weights) == pytest.approx(of_these)
    assert model.score(NODES, y) != of_these
    others = kind(**SMALL).fit(NODES, y, graph=GRAPH, sample_weight=weights)
    assert others.scores_.tobytes() != model.scores_.tobytes()
