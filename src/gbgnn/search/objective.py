"""One trial at a time: what it is trained on, how it is watched round by round, what came of it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from numpy.typing import ArrayLike
from optuna.trial import FrozenTrial, TrialState

from gbgnn.boosting import StopReason
from gbgnn.callbacks import Callback, RoundReport
from gbgnn.errors import GBGNNWarning, WeakLearnerError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.fitting import Labels
from gbgnn.graph import Graph, labels_checksum
from gbgnn.search.loop import DRAW, Batch, Distributions, ask
from gbgnn.search.spaces import SearchSpace
from gbgnn.search.study import BEST_ROUND, ERROR, finished_trials
from gbgnn.settings import Settings

N_STARTUP_TRIALS = 10
"""No trial is pruned before so many are complete: a median of fewer says little."""
N_WARMUP_ROUNDS = 5
"""No trial is pruned before this round: the first rounds see little of the graph yet."""

Objective = Callable[[optuna.Trial], float]
"""Trains what a trial proposes, and returns how good it is.

It raises ``optuna.TrialPruned`` where it was given up, ``WeakLearnerError`` where nothing could be trained.
"""


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What every trial is trained on, and judged by. There is no place for other labels."""

    nodes: ArrayLike
    y: ArrayLike
    graph: Graph
    validation: Labels

    def fit(self, model: GBGNNClassifier) -> float:
        """Fit the model and return how good it is on the validation nodes, fine-tuned where it is to be."""
        model.fit(self.nodes, self.y, graph=self.graph, validation=self.validation)
        return model.model_.evaluate(*self.validation)

    def curves(self, models: Iterable[GBGNNClassifier]) -> list[list[float]]:
        """Fit models; return how good each is on the validation nodes after every round, or an empty list."""
        curves: list[list[float]] = []
        for model in models:
            try:
                with _ignore_warnings():
                    self.fit(model)
                curves.append(list(model.history_[f"val_{model.history_.metric}"]))
            except WeakLearnerError:
                curves.append([])
        return curves

    def checksums(self) -> dict[str, str]:
        """Return checksums of the graph and of the labels."""
        labels = labels_checksum([(self.nodes, self.y), self.validation])
        return {"graph": self.graph.checksum, "labels": labels}


@dataclass(eq=False)
class ReportRounds(Callback):
    """Tells Optuna how good every round is on the validation nodes, and gives up what is hopeless."""

    trial: optuna.Trial
    stopping: MedianStopping

    def on_round(self, report: RoundReport) -> StopReason | None:
        """Report, and say whether to go on."""
        value = report.validation_score
        assert value is not None  # a search has validation nodes
        self.trial.report(value, report.t)
        return StopReason.PRUNED if self.stopping(report.t, {0: value}) else None


@dataclass(frozen=True, eq=False)
class FitObjective:
    """Fits the model of a trial, whose seed is that of its draw, on a device."""

    space: SearchSpace
    data: TrainingData
    device: Any

    def __call__(self, trial: optuna.Trial) -> float:
        """Return how good the model is on the validation nodes."""
        model = self.build(trial.params, seed=trial.user_attrs[DRAW][0])
        stopping = MedianStopping([medians(finished_trials(trial.study))])
        # Fine-tuning moves the learners; nothing else asks for them.
        is_fine_tuned = model.fine_tune not in (None, False)
        model.set_params(callbacks=[ReportRounds(trial, stopping)], keep_learners=is_fine_tuned)
        value = self.data.fit(model)
        if model.stop_reason_ is StopReason.PRUNED:
            raise optuna.TrialPruned
        trial.set_user_attr(BEST_ROUND, model.best_round_)
        return value

    def build(self, settings: Settings, seed: int) -> GBGNNClassifier:
        """Return an unfitted model of the space."""
        return self.space.build(settings, seed).set_params(device=self.device)


def run_one_by_one(
    distributions: Distributions, objective: Objective, batches: Sequence[Batch]
) -> list[list[FrozenTrial]]:
    """Draw and run the trials of batches one after another; return what came of them, by batch."""
    return [
        [run_trial(batch.study, ask(batch.study, distributions, draw), objective) for draw in batch.draws]
        for batch in batches
    ]


def run_trial(study: optuna.Study, trial: optuna.Trial, objective: Objective) -> FrozenTrial:
    """Run a trial that was drawn, tell the study what came of it, and return that.

    What nothing can be said of, a model without a round or a value that is not a number, is a failed trial;
    other errors, and Ctrl-C, are passed on, and the trial is left to be drawn again.
    """
    try:
        with _ignore_warnings():
            value = objective(trial)
        if math.isnan(value):
            raise WeakLearnerError("the metric of the validation nodes is not a number.")
    except optuna.TrialPruned:
        return study.tell(trial, state=TrialState.PRUNED)
    except WeakLearnerError as error:
        trial.set_user_attr(ERROR, str(error))
        return study.tell(trial, state=TrialState.FAIL)
    except BaseException:
        study.tell(trial, state=TrialState.FAIL)
        raise
    return study.tell(trial, value)


@contextmanager
def _ignore_warnings() -> Iterator[None]:
    """Let no model warn: a search tries settings that no one would choose, a thousand times."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GBGNNWarning)
        yield


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
    """The median stopping rule, as Optuna has it, for one trial or for many that run at once.

    A trial is given up when its best value is below the :func:`medians` of those before it, its ``limits``.
    With several seeds, so many members in a row belong to it, its value is their mean, and all are given up.
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
