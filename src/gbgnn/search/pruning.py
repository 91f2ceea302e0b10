"""The median stopping rule, as Optuna has it, for one trial or for many that run at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from optuna.trial import FrozenTrial, TrialState

N_STARTUP_TRIALS = 10
"""No trial is pruned before so many are complete: a median of fewer says little."""
N_WARMUP_ROUNDS = 5
"""No trial is pruned before this round: the first rounds see little of the graph yet."""


def medians(trials: Iterable[FrozenTrial]) -> dict[int, float]:
    """Return the median of the complete trials after each round from which on trials are pruned."""
    complete = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    if len(complete) < N_STARTUP_TRIALS:
        return {}
    by_round: dict[int, list[float]] = {}
    for trial in complete:
        for t, value in trial.intermediate_values.items():
            if t >= N_WARMUP_ROUNDS and not math.isnan(value):
                by_round.setdefault(t, []).append(value)
    return {t: float(np.median(values)) for t, values in by_round.items()}


class MedianStopping:
    """Says after every round which members the median stopping rule gives up: all of a trial, or none.

    Parameters
    ----------
    limits
        For every trial the :func:`medians` of those before it, below which its best value must not be.
    seeds_per_trial
        How many members in a row belong to a trial; its value is their mean.

    Examples
    --------
    >>> stopping = MedianStopping([{5: 0.8}, {5: 0.6}])
    >>> stopping(4, {0: 0.7, 1: 0.7}), stopping(5, {0: 0.5, 1: 0.5})
    ([], [0])
    """

    def __init__(self, limits: Sequence[Mapping[int, float]], seeds_per_trial: int = 1) -> None:
        self._limits, self._seeds_per_trial = limits, seeds_per_trial
        self._best, self._last = [-math.inf] * len(limits), [0.0] * (len(limits) * seeds_per_trial)

    def __call__(self, t: int, values: Mapping[int, float | None]) -> list[int]:
        """Return the members to drop, of those that took round ``t`` with these validation values."""
        for member, value in values.items():
            assert value is not None  # a search has validation nodes
            self._last[member] = value
        n = self._seeds_per_trial
        for trial in {member // n for member in values}:
            self._best[trial] = max(self._best[trial], sum(self._last[trial * n : (trial + 1) * n]) / n)
        limits = self._limits
        return [m for m in values if self._best[m // n] < limits[m // n].get(t, -math.inf)]
