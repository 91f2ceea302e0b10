from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Perceptron, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from gbgnn.errors import ModelFileError, ParameterError
from gbgnn.learners import SklearnHead, SklearnLearner, WeakTask
from gbgnn.testing import check_learner

X = torch.tensor(np.random.default_rng(0).normal(size=(20, 3)))
ROWS = torch.arange(12)
CLASSES = WeakTask(ROWS, torch.arange(12) % 3, torch.full((12,), 1 / 12, dtype=torch.float64), 3)
NUMBERS = WeakTask(ROWS, X[:12, :2] * 2 + 1, torch.full((12,), 1 / 12, dtype=torch.float64), 2)


@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeClassifier(max_depth=2),
        LogisticRegression(),
        KNeighborsClassifier(2),
        Perceptron(),
        make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=2)),
    ],
    ids=["tree", "logistic", "no sample_weight", "no predict_proba", "pipeline"],
)
def test_classifiers_keep_the_contract(estimator: object) -> None:
    check_learner(SklearnLearner(estimator=estimator))


@pytest.mark.parametrize("estimator", [Ridge(alpha=1e-9), GradientBoostingRegressor(n_estimators=50)])
def test_regressors_fit_every_column(estimator: object) -> None:
    head = SklearnLearner(estimator=estimator).fit(X, NUMBERS, seed=0)
    assert head.evaluate(X).shape == (20, 2)
    assert (head.evaluate(X[:12]) - NUMBERS.targets).abs().max() < 0.5


def test_outputs_are_log_probabilities() -> None:
    estimator = LogisticRegression()
    head = SklearnLearner(estimator=estimator).fit(X, CLASSES, seed=0)
    estimator.fit(X[:12].numpy(), CLASSES.targets.numpy(), sample_weight=CLASSES.weights.numpy())
    np.testing.assert_allclose(head.evaluate(X).softmax(dim=1), estimator.predict_proba(X.numpy()))
    assert not hasattr(SklearnLearner(estimator=LogisticRegression()).estimator, "coef_")


def test_weights_reach_an_estimator_that_takes_them() -> None:
    weights = torch.zeros(12, dtype=torch.float64)
    weights[[0, 1]] = 0.5
    task = WeakTask(ROWS, CLASSES.targets, weights, 3)
    head = SklearnLearner(estimator=DecisionTreeClassifier()).fit(X, task, seed=0)
    assert set(head.evaluate(X).argmax(dim=1).tolist()) <= {0, 1}


def test_estimator_without_sample_weight_sees_rows_in_proportion_to_weight() -> None:
    weights = torch.zeros(12, dtype=torch.float64)
    weights[[0, 1]] = 0.5
    task = WeakTask(ROWS, CLASSES.targets, weights, 3)
    for seed in range(20):
        head = SklearnLearner(estimator=KNeighborsClassifier(1)).fit(X, task, seed=seed)
        assert set(head.evaluate(X).argmax(dim=1).tolist()) == {0, 1}


def test_drawn_rows_hold_two_classes_where_the_weights_hold_one() -> None:
    weights = torch.zeros(12, dtype=torch.float64)
    weights[5] = 1
    task = WeakTask(ROWS, CLASSES.targets, weights, 3)
    head = SklearnLearner(estimator=KNeighborsClassifier(1)).fit(X, task, seed=0)
    assert head.estimators[0].classes_.tolist() == [0, 1, 2]


def test_every_random_state_is_set_from_the_seed() -> None:
    learner = SklearnLearner(estimator=DecisionTreeClassifier(max_features=1, splitter="random"))
    outputs = [learner.fit(X, CLASSES, seed=seed).evaluate(X) for seed in range(6)]
    assert any(not torch.equal(outputs[0], other) for other in outputs[1:])


def test_wrong_kind_of_estimator_is_named() -> None:
    with pytest.raises(ParameterError, match="DecisionTreeClassifier is a classifier.*asks for regression"):
        SklearnLearner(estimator=DecisionTreeClassifier()).fit(X, NUMBERS, seed=0)
    with pytest.raises(ParameterError, match="DecisionTreeRegressor is a regressor.*asks for classes"):
        SklearnLearner(estimator=DecisionTreeRegressor()).fit(X, CLASSES, seed=0)


@pytest.mark.parametrize("estimator", [None, DecisionTreeClassifier, StandardScaler()])
def test_estimator_is_checked(estimator: object) -> None:
    with pytest.raises(
        ParameterError, match="SklearnLearner.estimator must be a classifier or regressor object"
    ):
        SklearnLearner(estimator=estimator).check()


def test_estimators_are_never_stored() -> None:
    head = SklearnLearner(estimator=DecisionTreeClassifier()).fit(X, CLASSES, seed=0)
    with pytest.raises(ModelFileError, match="a DecisionTreeClassifier cannot be stored without pickle"):
        head.state()
    with pytest.raises(ModelFileError, match="never stored"):
        SklearnHead.from_state({})
