"""The search loop: plan the next trials of one study or of several, draw them, run them, tell of them.

Settings are drawn by TPE, with no memory but the study itself.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial

from gbgnn._isolation import Processes
from gbgnn.search.study import (
    PROCESS,
    best_trials,
    finished_trials,
    in_memory_study,
    register_worker,
    state_name,
    worker_name,
)
from gbgnn.settings import Settings

N_RANDOM_TRIALS = 10  # so many are drawn at random before TPE has enough to learn from
DRAW = "draw"  # the attribute of a trial that says from which draw it came

Draw = tuple[int, ...]  # seed, stream and place in it of a trial; no two trials of a study have the same
Distributions = dict[str, BaseDistribution]


@dataclass(frozen=True, eq=False)
class Batch:
    """Trials that are to be drawn and run in a study, and those that were finished ``before``."""

    study: optuna.Study
    draws: Sequence[Draw]
    before: Sequence[FrozenTrial] = ()


Propose = Callable[[Sequence[Batch]], list[list[Settings]]]
Runner = Callable[[Sequence[Batch]], Sequence[Sequence[FrozenTrial]]]
"""Draws and runs the trials of batches, adds them to their studies, and returns them by batch."""


@dataclass(frozen=True, eq=False)
class TrialReport:
    """What is known after a trial."""

    state: str  # "complete", "pruned" or "failed"
    value: float | None  # validation accuracy; of a pruned trial that of its last round, of a failed one None
    best_value: float | None  # the best of all complete trials so far; None while there is none
    n_done: int  # how many are finished
    n_trials: int  # how many there are to be


def run_studies(
    studies: Mapping[int, optuna.Study],
    run: Runner,
    *,
    n_trials: int,
    at_once: int = 1,
    deadline: float | None = None,
    on_trial: Callable[[int, TrialReport], None] | None = None,
) -> None:
    """Run trials until every study has ``n_trials`` finished ones, those that it has already included.

    Studies, one for each seed, are interleaved: each gets the trials that it would get by itself, ``at_once``
    at a time. ``run`` draws and runs them, one by one or as a population. None is begun after ``deadline``, a
    time of ``time.perf_counter``. ``on_trial`` is called after every trial with the seed of its study and
    what is known of that.
    """
    with ExitStack() as stack:
        streams = {seed: (seed, stack.enter_context(register_worker(studies[seed]))) for seed in studies}
        while deadline is None or time.perf_counter() <= deadline:
            planned = {}
            for seed, study in studies.items():
                done = finished_trials(study)
                if len(done) < n_trials:
                    first = sum(trial.user_attrs.get(DRAW, [])[:2] == list(streams[seed]) for trial in done)
                    n_draws = min(at_once, n_trials - len(done))
                    draws = [(*streams[seed], first + i) for i in range(n_draws)]
                    planned[seed] = Batch(study, draws, done)
            if not planned:
                break
            for (seed, batch), ended in zip(planned.items(), run(list(planned.values())), strict=True):
                done = list(batch.before)
                for trial in ended:
                    done.append(trial)
                    if on_trial is not None:
                        value = None if trial.values is None else trial.values[0]
                        best = next((each.values[0] for each in best_trials(done, 1)), None)
                        on_trial(seed, TrialReport(state_name(trial), value, best, len(done), n_trials))


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
        # Trials that run beside this one count as bad ones, so that it keeps away from them: an experiment
        # before Optuna 5.
        with warnings.catch_warnings(action="ignore", category=optuna.exceptions.ExperimentalWarning):
            super().__init__(n_startup_trials=N_RANDOM_TRIALS, seed=seed, constant_liar=True)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> Distributions:
        """Return all distributions that hold more than one value."""
        return {name: each for name, each in self._distributions.items() if not each.single()}
