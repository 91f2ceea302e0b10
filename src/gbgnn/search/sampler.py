"""Where the settings of trials come from: TPE, with no memory but the study itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial

from gbgnn._isolation import Processes
from gbgnn.search.study import in_memory_study
from gbgnn.search.workers import PROCESS, worker_name
from gbgnn.settings import Settings

N_RANDOM_TRIALS = 10
"""So many trials are drawn at random before TPE has enough to learn from."""
DRAW = "draw"
"""The attribute of a trial that says from which draw it came."""

Draw = tuple[int, ...]
"""Seed, stream and place in it of a trial; no two trials of a study have the same."""

Distributions = dict[str, BaseDistribution]


@dataclass(frozen=True, eq=False)
class Batch:
    """Trials that are to be drawn and run in a study, and those that were finished ``before``."""

    study: optuna.Study
    draws: Sequence[Draw]
    before: Sequence[FrozenTrial] = ()


Propose = Callable[[Sequence[Batch]], list[list[Settings]]]


def ask(study: optuna.Study, distributions: Distributions, draw: Draw) -> optuna.Trial:
    """Return a new trial; equal draws in equal studies are equal trials.

    No sampler lives on between trials, so that a study that was interrupted goes on as if it had not been.
    """
    (seed,) = np.random.SeedSequence(draw).generate_state(1)
    study.sampler = JointTPE(distributions, int(seed))
    trial = study.ask(distributions)
    trial.set_user_attr(DRAW, list(draw))
    trial.set_user_attr(PROCESS, worker_name())
    return trial


def propose(
    trials: Sequence[FrozenTrial], distributions: Distributions, draws: Sequence[Draw]
) -> list[Settings]:
    """Return the settings of new trials, one for each draw, after the trials that are finished.

    Nothing but the arguments decides, so that any process can do it; TPE takes some 20 ms for each.
    """
    study = in_memory_study(trials)
    return [ask(study, distributions, draw).params for draw in draws]


@contextmanager
def start_proposing(distributions: Distributions, n_processes: int = 1) -> Iterator[Propose]:
    """Give a function that returns the settings of batches, drawn in so many processes."""
    if n_processes == 1:
        yield lambda batches: [propose(batch.before, distributions, batch.draws) for batch in batches]
        return
    with ThreadPoolExecutor(n_processes) as pool, Processes(threads=1) as processes:

        def propose_apart(batch: Batch) -> list[Settings]:
            found: list[Settings] = processes.call(propose, batch.before, distributions, batch.draws)
            return found

        yield lambda batches: list(pool.map(propose_apart, batches))


class JointTPE(TPESampler):
    """Optuna's TPE over all distributions at once.

    Left to itself TPE finds out from all earlier trials which settings they have in common, for every trial
    anew; of a thousand trials that takes longer than the rest of its work.
    """

    def __init__(self, distributions: Distributions, seed: int) -> None:
        self._distributions = distributions
        with warnings.catch_warnings():
            # Trials that run beside this one count as bad ones, so that it keeps away from them: an
            # experiment before Optuna 5.
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            super().__init__(n_startup_trials=N_RANDOM_TRIALS, seed=seed, constant_liar=True)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> Distributions:
        """Return all distributions that hold more than one value."""
        return {name: each for name, each in self._distributions.items() if not each.single()}
