from __future__ import annotations

import inspect
import sys
from typing import Any

import numpy as np
import pytest
import torch
from lightgbm import LGBMClassifier
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, Perceptron, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from xgboost import XGBClassifier

from gbgnn.errors import MissingDependencyError, ModelFileError, ParameterError
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


@pytest.mark.parametrize(
    ("estimator", "targets"),
    [
        (DecisionTreeClassifier(max_depth=3), LABELS),
        (RandomForestClassifier(5), LABELS),
        (LogisticRegression(), LABELS),
        (make_pipeline(StandardScaler(), LogisticRegression()), LABELS),
        (HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=1), LABELS),
        (GradientBoostingRegressor(n_estimators=5), NUMBERS),
        (Ridge(), NUMBERS),
    ],
)
def test_estimators_come_back_from_bytes_the_same(estimator: Any, targets: torch.Tensor) -> None:
    head = SklearnLearner(estimator=estimator).fit(asked(targets))
    restored = SklearnHead.from_state(head.state())
    assert torch.equal(restored(X), head(X))


def test_estimator_that_needs_pickle_is_refused() -> None:
    for estimator in (KNeighborsClassifier(2, algorithm="kd_tree"), LGBMClassifier(verbose=-1), SVC()):
        head = SklearnLearner(estimator=estimator).fit(asked(LABELS))
        name = type(estimator).__name__
        with pytest.raises(
            ModelFileError, match=f"a {name} cannot be stored without pickle .*learners=False"
        ):
            head.state()


def test_forged_states_are_refused() -> None:
    classifier = SklearnLearner(estimator=DecisionTreeClassifier()).fit(asked(LABELS)).state()
    regressor = SklearnLearner(estimator=DecisionTreeRegressor()).fit(asked(NUMBERS)).state()
    forged = [
        {},
        classifier | {"n_outputs": torch.tensor(2)},  # fewer than it has classes
        classifier | {"estimator.0": classifier["estimator.0"][:-1]},
        classifier | {"estimator.0": classifier["estimator.0"].float()},
        classifier | {"estimator.1": regressor["estimator.0"]},
        {
            "n_outputs": torch.tensor(3),
            "estimator.0": torch.frombuffer(bytearray(b"junk"), dtype=torch.uint8),
        },
    ]
    for state in forged:
        with pytest.raises(ModelFileError, match="its estimators cannot be read"):
            SklearnHead.from_state(state)


def test_skops_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    head = SklearnLearner(estimator=DecisionTreeClassifier()).fit(asked(LABELS))
    state = head.state()
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(
        MissingDependencyError, match=r"saving .* needs skops: pip install \"gbgnn\[trees\]\""
    ):
        head.state()
    with pytest.raises(MissingDependencyError, match="loading scikit-learn's estimators needs skops"):
        SklearnHead.from_state(state)


VALIDATION = (torch.arange(12, 20), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1]))


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (HistGradientBoostingClassifier(early_stopping=True), "X_val"),
        (LGBMClassifier(early_stopping_rounds=2, verbose=-1, min_child_samples=1), "eval_X"),
        (XGBClassifier(early_stopping_rounds=2), "eval_set"),
        (HistGradientBoostingClassifier(), None),
        (LGBMClassifier(verbose=-1), None),
        (MLPClassifier(early_stopping=True), None),
        (DecisionTreeClassifier(), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_estimator_that_stops_early_gets_the_validation_nodes(
    estimator: Any, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []
    usual = type(estimator).fit

    def fit(self: Any, X: Any, y: Any, **keywords: Any) -> Any:
        given.append(keywords)
        return usual(self, X, y, **keywords)

    fit.__signature__ = inspect.signature(usual)  # type: ignore[attr-defined]
    monkeypatch.setattr(type(estimator), "fit", fit)
    learner = SklearnLearner(estimator=estimator)
    assert learner.watches_validation == (name is not None)
    if name is None and not hasattr(estimator, "min_samples_leaf"):
        return
    targets = LABELS.clamp(max=1)  # the third class is in validation only
    context = learner_round(X, targets, rows=ROWS, val=VALIDATION, n_outputs=3)
    head = learner.fit(context)
    assert head(X).shape == (20, 3)
    (keywords,) = given
    assert ({"X_val", "eval_X", "eval_set"} & keywords.keys()) == ({name} if name else set())
    if name is not None:
        pair = (keywords[name], keywords.get(name.replace("X", "y")))
        rows, wanted = keywords[name][0] if name == "eval_set" else pair
        np.testing.assert_array_equal(rows, X[VALIDATION[0]][VALIDATION[1] < 2])
        assert wanted.tolist() == [0, 1, 0, 1, 0, 1]


def test_regressor_that_stops_early_gets_its_own_column() -> None:
    estimator = HistGradientBoostingRegressor(early_stopping=True, n_iter_no_change=1, min_samples_leaf=1)
    validation = (torch.arange(12, 20), torch.stack([X[12:, 0] * 2 + 1, -X[12:, 1]], dim=1))
    learner = SklearnLearner(estimator=estimator)
    context = learner_round(X, NUMBERS, rows=ROWS, val=validation)
    first, second = learner.fit(context).estimators
    assert first.n_iter_ > second.n_iter_  # whose validation targets are the opposite
    without = learner_round(X, NUMBERS, rows=ROWS)
    assert len(learner.fit(without).estimators) == 2


def test_no_validation_class_in_common_is_no_validation() -> None:
    learner = SklearnLearner(
        estimator=HistGradientBoostingClassifier(early_stopping=True, min_samples_leaf=1)
    )
    validation = (torch.arange(12, 14), torch.tensor([2, 2]))
    context = learner_round(X, LABELS.clamp(max=1), rows=ROWS, val=validation, n_outputs=3)
    assert learner.fit(context)(X).shape == (20, 3)
