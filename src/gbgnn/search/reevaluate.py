"""Several seeds for the same settings: in every trial, and once more for the best, which are also the lucky.

The best of a thousand trials is good, and was lucky on these validation nodes. What luck a seed has had,
another seed has not; so the mean accuracy over several seeds says more of settings than one model does, and
after which round it is highest says more of how many rounds to take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from optuna.trial import FrozenTrial

from gbgnn.estimators import GBGNNClassifier
from gbgnn.search.study import BEST_ROUND, best_trials
from gbgnn.settings import Settings

N_SEEDS = 5
"""A trial that is confirmed is trained with so many seeds beside those that it had."""

Curves = Callable[[Sequence[GBGNNClassifier]], Sequence[Sequence[float]]]
"""Trains models, and returns the validation accuracy of each after every round."""


@dataclass(frozen=True, eq=False)
class Confirmed:
    """Settings that were good with several seeds.

    Parameters
    ----------
    settings
        Those that were searched, with ``n_rounds``, the round after which the mean accuracy was highest, and
        ``select="last"``, so that no seed chooses its own.
    value
        The mean validation accuracy over the seeds after so many rounds.
    number
        Of the trial.
    """

    settings: Settings
    value: float
    number: int


def reevaluate(
    searches: Sequence[tuple[Sequence[FrozenTrial], int]],
    build: Callable[[Settings, int], GBGNNClassifier],
    n_best: int,
    curves: Curves,
    seeds_per_trial: int = 1,
) -> list[list[Confirmed]]:
    """Train the best trials of searches again with other seeds; return them by search, the best mean first.

    Where none are to be trained again, the best trial of several seeds stands as it is; of trials with one
    seed each, none is returned.

    Parameters
    ----------
    searches
        The trials of each search, and its seed.
    build, curves
        How settings and a seed become an unfitted model, and how the models of all searches are trained.
    n_best
        How many trials of each search to train again.
    seeds_per_trial
        How many seeds each trial had.
    """
    if not n_best:
        n_standing = 1 if seeds_per_trial > 1 else 0
        return [[_stand(best) for best in best_trials(trials, n_standing)] for trials, _ in searches]
    rivals = [[(trial, seed) for trial in best_trials(trials, n_best)] for trials, seed in searches]
    models = [
        build(trial.params, other)
        for own in rivals
        for trial, seed in own
        for other in draw_seeds(seed, seeds_per_trial + N_SEEDS)[seeds_per_trial:]
    ]
    found = iter(curves(models))

    def judge(trial: FrozenTrial) -> Confirmed:
        own = list(trial.intermediate_values.values())
        mean = mean_curve([*[own] * seeds_per_trial, *(next(found) for _ in range(N_SEEDS))])
        best = int(mean.argmax()) + 1
        return Confirmed(_stop_at(trial.params, best), float(mean[best - 1]), trial.number)

    judged = [[judge(trial) for trial, _ in own] for own in rivals]
    return [sorted(own, key=lambda each: (-each.value, each.number)) for own in judged]


def _stand(trial: FrozenTrial) -> Confirmed:
    return Confirmed(_stop_at(trial.params, trial.user_attrs[BEST_ROUND]), trial.values[0], trial.number)


def _stop_at(settings: Settings, n_rounds: int) -> Settings:
    """Return settings of models that all stop after the same round."""
    return {**settings, "n_rounds": n_rounds, "select": "last"}


def draw_seeds(seed: int, n: int) -> list[int]:
    """Return the seeds that settings are trained with in the search of a seed, which comes first.

    Examples
    --------
    >>> len({*draw_seeds(0, 6), *draw_seeds(1, 6)}), draw_seeds(7, 9)[:4] == draw_seeds(7, 4)
    (12, True)
    """
    others = np.random.SeedSequence((seed, 1)).generate_state(max(0, n - 1))
    return [seed, *map(int, others)][:n]


def mean_curve(curves: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Return the mean after every round of the longest curve; one that ended earlier stays where it was.

    Examples
    --------
    >>> mean_curve([[0.5, 0.7, 0.6], [0.7], []])
    array([0.4       , 0.46666667, 0.43333333])
    """
    n_rounds = max(map(len, curves))
    # A model of which no round could be trained predicts nothing: no better than the worst.
    worst = min((value for curve in curves for value in curve if value < 0), default=0.0)
    full = [[*curve, *[curve[-1] if curve else worst] * (n_rounds - len(curve))] for curve in curves]
    mean: NDArray[np.float64] = np.asarray(full).mean(axis=0)
    return mean
