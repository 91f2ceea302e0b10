"""Trials: what they are trained on, one by one or many as one population, and when they are given up."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import optuna
from numpy.typing import ArrayLike, NDArray
from optuna.trial import FrozenTrial, TrialState, create_trial

from gbgnn.base_estimator import GBGNNEstimator
from gbgnn.boosting import StopReason
from gbgnn.callbacks import Callback, RoundReport
from gbgnn.errors import GBGNNWarning, ParameterError, WeakLearnerError
from gbgnn.fitting import Labels
from gbgnn.graph import Graph
from gbgnn.labels import labels_checksum
from gbgnn.population import MemberResult, PopulationInputs, reason_apart, train_population
from gbgnn.search.loop import DRAW, Batch, Distributions, Draw, Propose, ask
from gbgnn.search.spaces import SearchSpace
from gbgnn.search.study import BEST_ROUND, ERROR, finished_trials, in_memory_study
from gbgnn.settings import Settings

N_STARTUP_TRIALS = 10  # no trial is pruned before so many are complete: a median of fewer says little
N_WARMUP_ROUNDS = 5  # nor before this round: the first rounds see little of the graph yet

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

    def fit(self, model: GBGNNEstimator) -> float:
        """Fit the model and return how good it is on the validation nodes, fine-tuned where it is to be."""
        model.fit(self.nodes, self.y, graph=self.graph, validation=self.validation)
        score: float = model.model_.evaluate(*self.validation)
        return score

    def curves(self, models: Iterable[GBGNNEstimator]) -> list[list[float]]:
        """Fit models; return how good each is on the validation nodes after every round, or an empty list."""
        curves: list[list[float]] = []
        for model in models:
            try:
                with warnings.catch_warnings(action="ignore", category=GBGNNWarning):
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

    def build(self, settings: Settings, seed: int) -> GBGNNEstimator:
        """Return an unfitted model of the space."""
        model = self.space.build(settings, seed)
        if model.preset == "best":
            raise ParameterError('a search trains one model for a trial; preset="best" searches by itself.')
        return model.set_params(device=self.device)


def run_one_by_one(
    distributions: Distributions, objective: Objective, batches: Sequence[Batch]
) -> list[list[FrozenTrial]]:
    """Draw and run the trials of batches one after another; return what came of them, by batch.

    What nothing can be said of, a model without a round or a value that is not a number, is a failed trial;
    other errors, and Ctrl-C, are passed on, and the trial is left to be drawn again.
    """
    by_batch = []
    for batch in batches:
        study, ended = batch.study, []
        for draw in batch.draws:
            trial = ask(study, distributions, draw)
            try:
                # A search tries settings that no one would choose, a thousand times.
                with warnings.catch_warnings(action="ignore", category=GBGNNWarning):
                    value = objective(trial)
                if math.isnan(value):
                    raise WeakLearnerError("the metric of the validation nodes is not a number.")
            except optuna.TrialPruned:
                ended.append(study.tell(trial, state=TrialState.PRUNED))
            except WeakLearnerError as error:
                trial.set_user_attr(ERROR, str(error))
                ended.append(study.tell(trial, state=TrialState.FAIL))
            except BaseException:
                study.tell(trial, state=TrialState.FAIL)
                raise
            else:
                ended.append(study.tell(trial, value))
        by_batch.append(ended)
    return by_batch


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


class _Candidate(NamedTuple):
    """A trial to train, its model with every seed that it gets, and what came before it."""

    draw: Draw
    settings: Settings
    models: Sequence[GBGNNEstimator]
    before: Sequence[FrozenTrial]
    limits: Mapping[int, float]


class BatchedTrials:
    """Trains trials many at a time, and one by one what no population can train.

    A batch is added to its study as a whole: storing every accuracy of every round by itself would take
    longer than the training. What is interrupted is not in the study, and is drawn again. A trial of several
    seeds is judged by the mean of their accuracies, after the round where that is highest.
    """

    def __init__(self, objective: FitObjective, seeds_per_trial: int = 1) -> None:
        self._objective, self._seeds_per_trial = objective, seeds_per_trial
        self._distributions = objective.space.distributions()
        self._inputs: dict[str, PopulationInputs] = {}

    def can_train(self) -> bool:
        """Return whether a population can train any model of the space."""
        objective = self._objective
        return any(reason_apart([objective.build(corner, 0)]) is None for corner in objective.space.corners())

    def run(self, propose: Propose, batches: Sequence[Batch]) -> list[list[FrozenTrial]]:
        """Train the trials of all batches together and add them to their studies; return them by batch."""
        candidates = []
        for batch, proposed in zip(batches, propose(batches), strict=True):
            limits = medians(batch.before)
            for draw, settings in zip(batch.draws, proposed, strict=True):
                seeds = draw_seeds(draw[0], self._seeds_per_trial)
                models = [self._objective.build(settings, seed) for seed in seeds]
                candidates.append(_Candidate(draw, settings, models, batch.before, limits))
        found: dict[int, FrozenTrial] = {}
        for group in _group_models([each.models[0] for each in candidates]):
            found.update(zip(group, self._train([candidates[i] for i in group]), strict=True))
        trials = (found[i] for i in range(len(candidates)))
        by_batch = [list(islice(trials, len(batch.draws))) for batch in batches]
        for batch, new in zip(batches, by_batch, strict=True):
            batch.study.add_trials(new)
        return by_batch

    def curves(self, models: Sequence[GBGNNEstimator]) -> list[list[float]]:
        """Train models, and return the validation accuracy of each after every round."""
        curves: dict[int, list[float]] = {}
        for group in _group_models(models):
            own = [models[i] for i in group]
            if self._reason_apart(own) is not None:
                found = self._objective.data.curves(own)
            else:
                found = [each.val_scores for each in train_population(self._inputs_for(own[0]), own)]
            curves.update(zip(group, found, strict=True))
        return [curves[i] for i in range(len(models))]

    def _train(self, candidates: Sequence[_Candidate]) -> list[FrozenTrial]:
        """Train candidates of one group, and return what came of them."""
        models = [model for candidate in candidates for model in candidate.models]
        reason = self._reason_apart(models)
        if reason is not None and self._seeds_per_trial > 1:
            raise ParameterError(f"seeds_per_trial > 1 needs trials that a population can train: {reason}")
        ended = []
        if reason is not None:
            for candidate in candidates:
                study = in_memory_study(candidate.before)
                study.enqueue_trial(candidate.settings)
                batch = Batch(study, [candidate.draw])
                ended += run_one_by_one(self._distributions, self._objective, [batch])[0]
            return ended
        stopping = MedianStopping([candidate.limits for candidate in candidates], self._seeds_per_trial)
        results = iter(train_population(self._inputs_for(models[0]), models, on_round=stopping))
        for candidate in candidates:
            ended.append(self._conclude(candidate, list(islice(results, self._seeds_per_trial))))
        return ended

    def _conclude(self, candidate: _Candidate, results: Sequence[MemberResult]) -> FrozenTrial:
        """Return what came of a trial, as Optuna has it."""
        curve = mean_curve([result.val_scores for result in results]).tolist()
        state, value = TrialState.FAIL, None
        attrs: Settings = {DRAW: list(candidate.draw)}
        if not curve:
            attrs[ERROR] = f"round 1: {results[0].stop_reason.message}"
        elif any(result.stop_reason is StopReason.REQUESTED for result in results):
            state, value = TrialState.PRUNED, curve[-1]
        else:
            best = results[0].best_round if self._seeds_per_trial == 1 else 1 + curve.index(max(curve))
            state, value, attrs[BEST_ROUND] = TrialState.COMPLETE, curve[best - 1], best
        return create_trial(
            state=state,
            value=value,
            params=candidate.settings,
            distributions=self._distributions,
            user_attrs=attrs,
            intermediate_values=dict(enumerate(curve, 1)),
        )

    def _reason_apart(self, models: Sequence[GBGNNEstimator]) -> str | None:
        """Return why models cannot be trained together on these data; what no data could help comes first."""
        return reason_apart(models[:1]) or reason_apart(models, self._inputs_for(models[0]))

    def _inputs_for(self, model: GBGNNEstimator) -> PopulationInputs:
        """Return what a model is trained on; rows that were computed for one batch serve the next."""
        key = PopulationInputs.key(model)
        if key not in self._inputs:
            data = self._objective.data
            self._inputs[key] = PopulationInputs.from_model(
                model, data.nodes, data.y, graph=data.graph, validation=data.validation
            )
        return self._inputs[key]


def _group_models(models: Sequence[GBGNNEstimator]) -> list[list[int]]:
    """Return the places of models that can be trained together, group by group."""
    groups: list[list[int]] = []
    for i, model in enumerate(models):
        for group in groups:
            if reason_apart([models[group[0]], model]) is None:
                group.append(i)
                break
        else:  # nobody goes with it, or it cannot be in a population at all
            groups.append([i])
    return groups


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
