"""What a search has found: the best trials, trained again with other seeds, and the winner's model.

The best of a thousand trials is good, and was lucky on these validation nodes. What luck a seed has had,
another seed has not; so the mean accuracy over several seeds says more of settings than one model does, and
after which round it is highest says more of how many rounds to take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.trial import FrozenTrial

from gbgnn.errors import ParameterError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.search.loop import DRAW
from gbgnn.search.objective import TrainingData
from gbgnn.search.spaces import SearchSpace
from gbgnn.search.study import BEST_ROUND, ENDS, ERROR, best_trials, finished_trials, state_name
from gbgnn.settings import Settings, build_model

N_SEEDS = 5
"""A trial that is confirmed is trained with so many seeds beside those that it had."""

Curves = Callable[[Sequence[GBGNNClassifier]], Sequence[Sequence[float]]]
"""Trains models, and returns the validation accuracy of each after every round."""


@dataclass(frozen=True, eq=False)
class Confirmed:
    """Settings of a trial that were good with several seeds, and their mean validation accuracy.

    Among the settings are ``n_rounds``, the round after which the mean was highest, and ``select="last"``, so
    that no seed chooses its own.
    """

    settings: Settings
    value: float
    number: int


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search has found.

    Parameters
    ----------
    best_settings
        The winner's settings, those that were searched; where several seeds were asked, ``n_rounds`` and
        ``select`` too.
    best_value
        Its validation accuracy as the trial had it, to which rounding in a population may add or take a node;
        where several seeds were asked, their mean.
    model
        Fitted with the winner's settings and seed; its learners are kept.
    settings
        All settings that ``model`` was built with by :func:`gbgnn.settings.build_model`: fixed ones, best
        ones, ``random_state`` and ``device``. A record of the run needs no other model for them.
    study
        The study, for Optuna's own tools.
    seconds
        How long this search took; trials of an earlier one are not in it.
    confirmed
        The trials that were confirmed, the best first; empty where none were.
    """

    best_settings: Settings
    best_value: float
    model: GBGNNClassifier
    settings: Settings
    study: optuna.Study
    seconds: float
    confirmed: Sequence[Confirmed]

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials, in order."""
        return self.study.get_trials(deepcopy=False)

    @property
    def counts(self) -> dict[str, int]:
        """How many trials are ``complete``, ``pruned`` and ``failed``."""
        states = list(map(state_name, self.trials))
        return {state: states.count(state) for state in ENDS}

    def importances(self) -> dict[str, float]:
        """Return how much each setting has to do with a good value, as shares of one, the largest first.

        Empty while fewer than ten trials are complete: what they say is noise.
        """
        if self.counts["complete"] < 10:
            return {}
        return optuna.importance.get_param_importances(self.study)


def fit_winner(
    study: optuna.Study,
    confirmed: Sequence[Confirmed],
    space: SearchSpace,
    data: TrainingData,
    own: Settings,
    seconds: float,
) -> SearchResult:
    """Fit the winner of a search that is over, with settings of its own, and return what was found."""
    done = finished_trials(study)
    found = best_trials(done, 1)
    if not found:
        reasons = [trial.user_attrs[ERROR] for trial in done if ERROR in trial.user_attrs]
        why = f" The last one: {reasons[-1]}" if reasons else ""
        raise ParameterError(
            f"none of {len(done)} trials was completed, so there is no best one; search longer, or "
            f"elsewhere.{why}"
        )
    best = found[0]
    chosen, value = best.params, best.values[0]
    if confirmed:
        chosen, value = confirmed[0].settings, confirmed[0].value
        best = study.get_trials(deepcopy=False)[confirmed[0].number]
    settings = {**space.base, **chosen, **own}
    if DRAW in best.user_attrs:  # a trial may also have been added by hand
        settings["random_state"] = best.user_attrs[DRAW][0]
    model = build_model(settings)
    data.fit(model)
    return SearchResult(chosen, value, model, settings, study, seconds, confirmed)


def reevaluate(
    searches: Sequence[tuple[Sequence[FrozenTrial], int]],
    build: Callable[[Settings, int], GBGNNClassifier],
    n_best: int,
    curves: Curves,
    seeds_per_trial: int = 1,
) -> list[list[Confirmed]]:
    """Train the best trials of searches again with other seeds; return them by search, the best mean first.

    Searches are their trials and their seeds. Where none are to be trained again, the best trial of several
    seeds stands as it is; of trials with one seed each, none is returned.
    """

    def stop_at(trial: FrozenTrial, n_rounds: int, value: float) -> Confirmed:
        return Confirmed({**trial.params, "n_rounds": n_rounds, "select": "last"}, value, trial.number)

    if not n_best:
        standing = [best_trials(trials, 1 if seeds_per_trial > 1 else 0) for trials, _ in searches]
        return [[stop_at(t, t.user_attrs[BEST_ROUND], t.values[0]) for t in best] for best in standing]
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
        return stop_at(trial, best, float(mean[best - 1]))

    judged = [[judge(trial) for trial, _ in own] for own in rivals]
    return [sorted(own, key=lambda each: (-each.value, each.number)) for own in judged]


def draw_seeds(seed: int, n: int) -> list[int]:
    """Return the seeds that settings are trained with in the search of a seed, which comes first."""
    others = np.random.SeedSequence((seed, 1)).generate_state(max(0, n - 1))
    return [seed, *map(int, others)][:n]


def mean_curve(curves: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Return the mean after every round of the longest curve; one that ended earlier stays where it was."""
    n_rounds = max(map(len, curves))
    # A model of which no round could be trained predicts nothing: no better than the worst.
    worst = min((value for curve in curves for value in curve if value < 0), default=0.0)
    full = [[*curve, *[curve[-1] if curve else worst] * (n_rounds - len(curve))] for curve in curves]
    mean: NDArray[np.float64] = np.asarray(full).mean(axis=0)
    return mean
