"""The search loop: plan the next trials of one study or of several, run them, tell of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import optuna
from optuna.trial import FrozenTrial, TrialState

from gbgnn.search.sampler import DRAW, Batch, Draw
from gbgnn.search.study import finished_trials, state_name
from gbgnn.search.workers import register_worker

Runner = Callable[[Sequence[Batch]], Sequence[Sequence[FrozenTrial]]]
"""Draws and runs the trials of batches, adds them to their studies, and returns them by batch."""


@dataclass(frozen=True, eq=False)
class TrialReport:
    """What is known after a trial.

    Parameters
    ----------
    state
        ``"complete"``, ``"pruned"`` or ``"failed"``.
    value
        Validation accuracy; of a pruned trial, that of its last round; of a failed one, None.
    best_value
        The best of all complete trials so far; None while there is none.
    n_done, n_trials
        How many are finished, and how many there are to be.
    """

    state: str
    value: float | None
    best_value: float | None
    n_done: int
    n_trials: int


def run_studies(
    studies: Mapping[int, optuna.Study],
    run: Runner,
    *,
    n_trials: int,
    at_once: int = 1,
    deadline: float | None = None,
    on_trial: Callable[[int, TrialReport], None] | None = None,
) -> None:
    """Run trials until every study has as many as it is to have.

    Parameters
    ----------
    studies
        One for each seed, interleaved: each gets the trials that it would get by itself.
    run
        How trials are drawn and run: one by one, or as a population.
    n_trials
        How many finished trials a study is to have, those that it has already included.
    at_once
        How many trials of a study are drawn at a time.
    deadline
        Begin no trial after this time of ``time.perf_counter``; None has no limit.
    on_trial
        Called after every trial with the seed of its study and what is known of that.
    """
    with ExitStack() as stack:
        streams = {seed: (seed, stack.enter_context(register_worker(studies[seed]))) for seed in studies}
        while planned := {
            seed: batch
            for seed, study in studies.items()
            if (batch := _plan(study, streams[seed], n_trials, at_once)).draws
        }:
            if deadline is not None and time.perf_counter() > deadline:
                break
            for (seed, batch), ended in zip(planned.items(), run(list(planned.values())), strict=True):
                done = list(batch.before)
                for trial in ended:
                    done.append(trial)
                    if on_trial is not None:
                        on_trial(seed, _report(done, n_trials))


def _plan(study: optuna.Study, stream: Draw, n_trials: int, at_once: int) -> Batch:
    """Return what to draw next in a study, which is nothing once it has all its trials."""
    done = finished_trials(study)
    first = sum(trial.user_attrs.get(DRAW, [])[:2] == list(stream) for trial in done)
    draws = [(*stream, first + i) for i in range(min(at_once, n_trials - len(done)))]
    return Batch(study, draws, done)


def _report(done: Sequence[FrozenTrial], n_trials: int) -> TrialReport:
    """Return what is known after the last of the finished trials."""
    values = [trial.values[0] for trial in done if trial.state is TrialState.COMPLETE]
    last = done[-1]
    value = None if last.values is None else last.values[0]
    return TrialReport(state_name(last), value, max(values, default=None), len(done), n_trials)
