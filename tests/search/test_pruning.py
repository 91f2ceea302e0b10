from __future__ import annotations

import math

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.trial import TrialState, create_trial

from gbgnn.search.pruning import N_STARTUP_TRIALS, N_WARMUP_ROUNDS, MedianStopping, medians

values = st.integers(-5, 5).map(lambda n: n / 5)
curves = st.lists(
    st.lists(values | st.just(math.nan), min_size=1, max_size=N_WARMUP_ROUNDS + 3),
    min_size=N_STARTUP_TRIALS - 1,
    max_size=N_STARTUP_TRIALS + 5,
)


@pytest.mark.filterwarnings("ignore:All-NaN")  # numpy's, in Optuna
@settings(max_examples=100)
@given(curves, st.lists(values, min_size=1, max_size=N_WARMUP_ROUNDS + 4))
def test_our_medians_prune_when_optuna_does(past: list[list[float]], mine: list[float]) -> None:
    pruner = optuna.pruners.MedianPruner(n_startup_trials=N_STARTUP_TRIALS, n_warmup_steps=N_WARMUP_ROUNDS)
    study = optuna.create_study(direction="maximize", pruner=pruner)
    for curve in past:
        study.add_trial(create_trial(value=0.5, intermediate_values=dict(enumerate(curve, start=1))))
    study.add_trial(create_trial(state=TrialState.PRUNED, intermediate_values={N_WARMUP_ROUNDS: 9.0}))
    stopping, trial = MedianStopping([medians(study.trials)]), study.ask()
    for t, value in enumerate(mine, start=1):
        trial.report(value, t)
        assert trial.should_prune() == bool(stopping(t, {0: value}))


@pytest.mark.parametrize(
    ("accuracies", "dropped"),
    [
        # Before a limit there is none, and at it is not below it.
        ([{0: 0.1, 1: 0.1}, {0: 0.5, 1: 0.5}], [[], [1]]),
        # The best so far counts, not the last.
        ([{0: 0.1, 1: 0.7}, {0: 0.1, 1: 0.1}], [[], [0]]),
        # Who is gone is not named again.
        ([{0: 0.6, 1: 0.9}, {1: 0.2}], [[], []]),
    ],
)
def test_the_median_rule_drops_whose_best_is_below_its_own_limit(accuracies, dropped) -> None:
    rule = MedianStopping([{2: 0.5}, {2: 0.6, 3: 0.9}])
    assert [rule(t, told) for t, told in enumerate(accuracies, start=1)] == dropped


def test_members_of_a_trial_are_given_up_together_by_their_mean() -> None:
    stopping = MedianStopping([{1: 0.5, 2: 0.5}, {1: 0.5, 2: 0.5}], 2)
    assert stopping(1, {0: 0.9, 1: 0.1, 2: 0.9, 3: 0.05}) == [2, 3]
    assert stopping(2, {0: 0.1}) == []  # the best mean so far was high enough; 1 has ended by itself


def test_what_is_not_a_number_is_below_every_limit() -> None:
    assert MedianStopping([{1: -9.0}])(1, {0: math.nan}) == [0]
