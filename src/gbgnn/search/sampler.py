"""Where the settings of a trial come from: TPE, with no memory but the study itself."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import FrozenTrial

from gbgnn.search.spaces import SearchSpace, Settings
from gbgnn.search.study import in_memory_study

N_RANDOM_TRIALS = 10
"""So many trials are drawn at random before TPE has enough to learn from."""

Draw = tuple[int, ...]
"""Seed, stream and place in it of a trial; no two trials of a study have the same."""


def ask(study: optuna.Study, space: SearchSpace, draw: Draw) -> optuna.Trial:
    """Return a new trial; equal draws in equal studies are equal trials.

    No sampler lives on between trials, so that a study that was interrupted goes on as if it had not been.

    Parameters
    ----------
    study, space
        Where the trial belongs, and what it may take.
    draw
        From which its random numbers come.
    """
    (seed,) = np.random.SeedSequence(draw).generate_state(1)
    study.sampler = JointTPE(space, int(seed))
    trial = study.ask(space.distributions())
    trial.set_user_attr("draw", list(draw))
    return trial


def propose(trials: Sequence[FrozenTrial], space: SearchSpace, draws: Sequence[Draw]) -> list[Settings]:
    """Return the settings of new trials, one for each draw, after the trials that are finished.

    Nothing but the arguments decides, so that any process can do it; TPE takes some 20 ms for each.
    """
    desk = in_memory_study(trials)
    return [ask(desk, space, draw).params for draw in draws]


class JointTPE(BaseSampler):
    """Optuna's TPE over all ranges of a space at once.

    Left to itself TPE finds out from all earlier trials which settings they have in common, for every trial
    anew; of a thousand trials that takes longer than the rest of its work.

    Parameters
    ----------
    space
        What is searched.
    seed
        Of this one trial.
    """

    def __init__(self, space: SearchSpace, seed: int) -> None:
        self._space = space
        with warnings.catch_warnings():
            # Trials that run beside this one count as bad ones, so that it keeps away from them: an
            # experiment before Optuna 5.
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._tpe = TPESampler(n_startup_trials=N_RANDOM_TRIALS, seed=seed, constant_liar=True)

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return all ranges that hold more than one value."""
        return {name: d for name, d in self._space.distributions().items() if not d.single()}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Propose values for all of them; none while there are too few trials."""
        return self._tpe.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Propose a value for one of them: at random, while there are too few trials."""
        return self._tpe.sample_independent(study, trial, param_name, param_distribution)
