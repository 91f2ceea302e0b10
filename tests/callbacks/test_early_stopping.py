from __future__ import annotations

import numpy as np
import pytest

from gbgnn import EarlyStopping, GBGNNClassifier, StopReason
from gbgnn.errors import ParameterError


def fit_on_errors(toy, **settings: object) -> GBGNNClassifier:
    """Some labels are wrong: later rounds are surer of their classes, not righter."""
    y, wrong = toy.y.copy(), np.random.default_rng(1).permutation(35)[:14]
    y[wrong] = (y[wrong] + 1) % 3
    model = toy.model(n_rounds=100, learning_rate=1.0, **settings)
    return model.fit(toy.train, y[toy.train], graph=toy.graph, validation=(toy.val, y[toy.val]))


def test_early_stopping_stops_after_n_rounds_without_a_better_one(toy) -> None:
    fitted = toy.fit(n_rounds=100, n_iter_no_change=3)
    assert fitted.stop_reason_ is StopReason.NO_IMPROVEMENT
    assert len(fitted.ensemble_) == fitted.best_round_ + 3
    again = toy.fit(n_rounds=100, callbacks=[EarlyStopping(3)])
    assert len(again.ensemble_) == len(fitted.ensemble_)


def test_early_stopping_follows_the_metric(toy) -> None:
    by_accuracy = fit_on_errors(toy, n_iter_no_change=3)
    by_loss = fit_on_errors(toy, n_iter_no_change=3, metric="neg_log_loss")
    column = by_loss.history_["val_neg_log_loss"]
    assert by_loss.stop_reason_ is StopReason.NO_IMPROVEMENT
    assert len(by_loss.ensemble_) == by_loss.best_round_ + 3
    assert by_loss.best_round_ == int(np.argmax(column)) + 1
    assert len(by_loss.ensemble_) != len(by_accuracy.ensemble_)


def test_of_equal_metrics_the_lower_loss_is_an_improvement(toy) -> None:
    """A metric that never changes leaves the decision to the loss."""

    def constant(estimator: object, X: object, y: object) -> float:
        return 1.0

    fitted = fit_on_errors(toy, n_iter_no_change=3, metric=constant)
    assert set(fitted.history_["val_constant"]) == {1.0}
    assert fitted.best_round_ == int(np.argmin(fitted.history_["val_loss"])) + 1
    assert len(fitted.ensemble_) == fitted.best_round_ + 3


def test_it_stops_by_validation_whatever_selects_the_round(toy) -> None:
    fitted = toy.fit(n_rounds=100, n_iter_no_change=3, select="last")
    assert len(fitted.ensemble_) == toy.fit(n_rounds=100, n_iter_no_change=3).best_round_ + 3
    assert fitted.best_round_ == len(fitted.ensemble_)


def test_one_object_serves_many_fits(toy) -> None:
    callback = EarlyStopping(3)
    lengths = [len(toy.fit(n_rounds=100, callbacks=[callback]).ensemble_) for _ in range(2)]
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("settings", [{"n_iter_no_change": 3}, {"select": "validation"}])
def test_what_needs_validation_says_so(settings: dict[str, object], toy) -> None:
    with pytest.raises(ParameterError, match="validation"):
        toy.fit(validation=False, **settings)


def test_patience_is_a_positive_integer(toy) -> None:
    with pytest.raises(ParameterError, match="n_iter_no_change must be an integer >= 1; got 0"):
        toy.fit(n_iter_no_change=0)
