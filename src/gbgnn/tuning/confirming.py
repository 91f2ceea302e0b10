"""Confirming: the best trials of a search trained again with other seeds, because the best are also lucky.

The best of a thousand trials is good, and was lucky on these validation nodes. What luck a seed has had,
another seed has not; so the mean accuracy over several seeds says more of settings than one trial, and after
which round it is highest says more of how many rounds to take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from optuna.trial import FrozenTrial, TrialState

from gbgnn.estimators import GBGNNClassifier
from gbgnn.tuning.spaces import SearchSpace, Settings

N_SEEDS = 5
"""A trial that is confirmed is trained with so many seeds beside its own."""

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


def confirm(
    searches: Sequence[tuple[Sequence[FrozenTrial], int]], space: SearchSpace, n_best: int, curves: Curves
) -> list[list[Confirmed]]:
    """Train the best trials of searches again with other seeds; return them by search, the best mean first.

    Parameters
    ----------
    searches
        The trials of each search, and its seed.
    space
        What was searched.
    n_best
        How many trials of each to confirm.
    curves
        Trains the models of all searches.
    """
    rivals = [(trial, seed) for trials, seed in searches for trial in best_trials(trials, n_best)]
    models = [space.build(trial.params, other) for trial, seed in rivals for other in other_seeds(seed)]
    told = iter(curves(models))
    found: dict[int, list[Confirmed]] = {seed: [] for _, seed in searches}
    for trial, seed in rivals:
        own = list(trial.intermediate_values.values())
        mean = mean_curve([own, *(next(told) for _ in range(N_SEEDS))])
        best = int(mean.argmax())
        settings = {**trial.params, "n_rounds": best + 1, "select": "last"}
        found[seed].append(Confirmed(settings, float(mean[best]), trial.number))
    return [sorted(each, key=lambda rival: (-rival.value, rival.number)) for each in found.values()]


def best_trials(trials: Iterable[FrozenTrial], n_best: int) -> list[FrozenTrial]:
    """Return the best complete trials, the best first, and of equals the first."""
    complete = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    return sorted(complete, key=lambda trial: (-trial.values[0], trial.number))[:n_best]


def other_seeds(seed: int) -> list[int]:
    """Return the seeds with which a trial is confirmed.

    Examples
    --------
    >>> len({0, *other_seeds(0), *other_seeds(1)})
    11
    """
    return [int(each) for each in np.random.SeedSequence((seed, N_SEEDS)).generate_state(N_SEEDS)]


def mean_curve(curves: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Return the mean after every round of the first curve; one that ended earlier stays where it was.

    Examples
    --------
    >>> mean_curve([[0.5, 0.7, 0.6], [0.7], []])
    array([0.4       , 0.46666667, 0.43333333])
    """
    n_rounds = len(curves[0])
    # A model of which no round could be trained predicts nothing.
    full = [[*curve[:n_rounds], *[curve[-1] if curve else 0.0] * (n_rounds - len(curve))] for curve in curves]
    mean: NDArray[np.float64] = np.asarray(full).mean(axis=0)
    return mean
