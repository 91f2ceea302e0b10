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
from gbgnn.learners import SklearnHead, SklearnLearner
from gbgnn.rounds import RoundContext
from gbgnn.testing import check_learner, learner_round

X = torch.tensor(np.random.default_rng(0).normal(size=(20, 3)))
ROWS = torch.arange(12)
LABELS = ROWS % 3
NUMBERS = X[:12, :2] * 2 + 1


def asked(targets: torch.Tensor, seed: int = 0, weights: dict[int, float] | None = None) -> RoundContext:
    """A round that asks for the targets of 12 nodes; ``weights`` leaves all others out."""
    given = None
    if weights is not None:
        given = torch.zeros(12, dtype=torch.float64)
        given[list(weights)] = torch.tensor(list(weights.values()), dtype=torch.float64)
    return learner_round(X, targets, seed=seed, rows=ROWS, weights=given)


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
    head = SklearnLearner(estimator=estimator).fit(asked(NUMBERS))
    assert head(X).shape == (20, 2)
    assert (head(X[:12]) - NUMBERS).abs().max() < 0.5


def test_outputs_are_log_probabilities() -> None:
    estimator = LogisticRegression()
    head = SklearnLearner(estimator=estimator).fit(asked(LABELS))
    estimator.fit(X[:12].numpy(), LABELS.numpy(), sample_weight=np.full(12, 1 / 12))
    np.testing.assert_allclose(head(X).softmax(dim=1), estimator.predict_proba(X.numpy()))
    assert not hasattr(SklearnLearner(estimator=LogisticRegression()).estimator, "coef_")


def test_weights_reach_an_estimator_that_takes_them() -> None:
    context = asked(LABELS, weights={0: 0.5, 1: 0.5})
    head = SklearnLearner(estimator=DecisionTreeClassifier()).fit(context)
    assert set(head(X).argmax(dim=1).tolist()) <= {0, 1}


def test_estimator_without_sample_weight_sees_rows_in_proportion_to_weight() -> None:
    for seed in range(20):
        context = asked(LABELS, seed, weights={0: 0.5, 1: 0.5})
        head = SklearnLearner(estimator=KNeighborsClassifier(1)).fit(context)
        assert set(head(X).argmax(dim=1).tolist()) == {0, 1}


def test_drawn_rows_hold_two_classes_where_the_weights_hold_one() -> None:
    head = SklearnLearner(estimator=KNeighborsClassifier(1)).fit(asked(LABELS, weights={5: 1.0}))
    assert head.estimators[0].classes_.tolist() == [0, 1, 2]


def test_every_random_state_is_set_from_the_seed() -> None:
    learner = SklearnLearner(estimator=DecisionTreeClassifier(max_features=1, splitter="random"))
    outputs = [learner.fit(asked(LABELS, seed))(X) for seed in range(6)]
    assert any(not torch.equal(outputs[0], other) for other in outputs[1:])


def test_wrong_kind_of_estimator_is_named() -> None:
    with pytest.raises(ParameterError, match="DecisionTreeClassifier is a classifier.*asks for regression"):
        SklearnLearner(estimator=DecisionTreeClassifier()).fit(asked(NUMBERS))
    with pytest.raises(ParameterError, match="DecisionTreeRegressor is a regressor.*asks for classes"):
        SklearnLearner(estimator=DecisionTreeRegressor()).fit(asked(LABELS))


@pytest.mark.parametrize("estimator", [None, DecisionTreeClassifier, StandardScaler()])
def test_estimator_is_checked(estimator: object) -> None:
    with pytest.raises(
        ParameterError, match="SklearnLearner.estimator must be a classifier or regressor object"
    ):
        SklearnLearner(estimator=estimator).check()


def test_estimators_are_never_stored() -> None:
    head = SklearnLearner(estimator=DecisionTreeClassifier()).fit(asked(LABELS))
    with pytest.raises(ModelFileError, match="a DecisionTreeClassifier cannot be stored without pickle"):
        head.state()
    with pytest.raises(ModelFileError, match="never stored"):
        SklearnHead.from_state({})
