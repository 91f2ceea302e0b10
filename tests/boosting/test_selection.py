from __future__ import annotations

import numpy as np
import pytest

from gbgnn import MLP, EarlyStopping, StopReason
from gbgnn._random import Seeds
from gbgnn.aggregation import Adjacency
from gbgnn.boosting import RoundSelection, Samme, boost
from gbgnn.errors import ParameterError
from gbgnn.testing import problem_of


def test_validation_selects_the_most_accurate_round_and_the_lower_loss_among_equals(toy) -> None:
    fitted = toy.fit()
    keys = list(zip(fitted.history_["val_accuracy"], [-x for x in fitted.history_["val_loss"]], strict=True))
    assert fitted.best_round_ == int(max(range(12), key=lambda i: keys[i])) + 1
    assert fitted.score(toy.val, toy.y[toy.val]) == max(fitted.history_["val_accuracy"])


def test_gradient_selects_the_smallest_norm(toy) -> None:
    fitted = toy.fit(validation=False, select="gradient", rule="samme")
    assert fitted.best_round_ == int(np.argmin(fitted.history_["gradient_norm"])) + 1


def test_last_is_last_and_auto_without_validation_too(toy) -> None:
    assert toy.fit(select="last").best_round_ == 12
    assert toy.fit(validation=False).best_round_ == 12


def test_selected_scores_are_those_of_the_selected_round(toy) -> None:
    fitted = toy.fit(validation=False, select="gradient", rule="samme")
    staged = list(fitted.staged_predict_proba(np.arange(60)))
    np.testing.assert_array_equal(fitted.predict_proba(np.arange(60)), staged[fitted.best_round_ - 1])


def test_early_stopping_stops_after_n_rounds_without_a_better_one(toy) -> None:
    fitted = toy.fit(n_rounds=100, n_iter_no_change=3)
    assert fitted.stop_reason_ is StopReason.NO_IMPROVEMENT
    assert len(fitted.ensemble_) == fitted.best_round_ + 3
    again = toy.fit(n_rounds=100, callbacks=[EarlyStopping(3)])
    assert len(again.ensemble_) == len(fitted.ensemble_)


@pytest.mark.parametrize("settings", [{"n_iter_no_change": 3}, {"select": "validation"}])
def test_what_needs_validation_says_so(settings: dict[str, object], toy) -> None:
    with pytest.raises(ParameterError, match="validation"):
        toy.fit(validation=False, **settings)


def test_selection_forgets_the_run_before(toy) -> None:
    selection = RoundSelection("last")
    problem = problem_of(toy.graph, toy.y, toy.train)
    for n_rounds in (3, 1):
        boost(
            problem,
            Adjacency(),
            MLP(epochs=2),
            Samme(),
            n_rounds=n_rounds,
            seeds=Seeds(0),
            callbacks=[selection],
        )
        assert selection.best_round == n_rounds
