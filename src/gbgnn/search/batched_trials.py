"""Many trials at a time, of one study or of several: trained as one population, written down when all are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from gbgnn.boosting import StopReason
from gbgnn.errors import ParameterError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.population import MemberResult, PopulationInputs, train_population
from gbgnn.population.members import Members
from gbgnn.search.objective import Task, train
from gbgnn.search.reevaluate import draw_seeds, mean_curve
from gbgnn.search.sampler import Draw
from gbgnn.search.spaces import SearchSpace, Settings
from gbgnn.search.study import ERROR, finished, in_memory_study, medians


@dataclass(frozen=True, eq=False)
class Batch:
    """Trials of a study that are to be trained.

    Parameters
    ----------
    study
        Where they belong.
    draws, settings
        What makes each this trial and no other, and what it is trained with.
    """

    study: optuna.Study
    draws: Sequence[Draw]
    settings: Sequence[Settings]


@dataclass(frozen=True, eq=False)
class Candidate:
    """One of them, its model with every seed that it gets, and the trials that were finished before it."""

    draw: Draw
    settings: Settings
    models: Sequence[GBGNNClassifier]
    before: Sequence[FrozenTrial]
    limits: Mapping[int, float]


class BatchedTrials:
    """Trains trials many at a time.

    A batch is added to its study as a whole: storing every accuracy of every round by itself would take
    longer than the training. What is interrupted is not in the study, and is drawn again.

    Parameters
    ----------
    space, task
        What trials may take, and what they are trained on.
    device
        Where to train.
    seeds_per_trial
        With how many seeds each trial is trained. With more than one it is judged by the mean of their
        accuracies, after the round where that is highest.
    """

    def __init__(self, space: SearchSpace, task: Task, device: Any, seeds_per_trial: int = 1) -> None:
        self._space, self._task, self._device, self._seeds_per_trial = space, task, device, seeds_per_trial
        self._inputs: dict[str, PopulationInputs] = {}

    def can_train(self) -> bool:
        """Say whether a population can train any model of the space."""
        models = [self._model(corner, seed=0) for corner in self._space.corners()]
        return any(self._fit_together([model]) for model in models)

    def run(self, batches: Sequence[Batch]) -> list[list[FrozenTrial]]:
        """Train the trials of all batches together, and add them to their studies; return them by batch."""
        candidates = [candidate for batch in batches for candidate in self._candidates(batch)]
        ended: dict[int, FrozenTrial] = {}
        for group in self._groups([candidate.models[0] for candidate in candidates]):
            ended |= zip(group, self._train([candidates[i] for i in group]), strict=True)
        trials = iter([ended[i] for i in range(len(candidates))])
        by_batch = [[next(trials) for _ in batch.draws] for batch in batches]
        for batch, new in zip(batches, by_batch, strict=True):
            batch.study.add_trials(new)
        return by_batch

    def curves(self, models: Sequence[GBGNNClassifier]) -> list[list[float]]:
        """Train models, and return the validation accuracy of each after every round."""
        found: dict[int, list[float]] = {}
        for model in models:
            model.set_params(device=self._device)
        for group in self._groups(models):
            members = [models[i] for i in group]
            try:
                results = train_population(self._inputs_of(members[0]), members)
            except ParameterError:
                found |= zip(group, self._task.curves(members), strict=True)
            else:
                found |= zip(group, [result.val_accuracy for result in results], strict=True)
        return [found[i] for i in range(len(models))]

    def _candidates(self, batch: Batch) -> Iterator[Candidate]:
        before = finished(batch.study)
        limits = medians(before)
        for draw, settings in zip(batch.draws, batch.settings, strict=True):
            models = [self._model(settings, seed) for seed in draw_seeds(draw[0], self._seeds_per_trial)]
            yield Candidate(draw, settings, models, before, limits)

    def _train(self, candidates: Sequence[Candidate]) -> list[FrozenTrial]:
        """Train together what fits together; what turns out not to, one by one."""
        models = [model for candidate in candidates for model in candidate.models]
        stopping = MedianStopping([candidate.limits for candidate in candidates], self._seeds_per_trial)
        try:
            results = iter(train_population(self._inputs_of(models[0]), models, on_round=stopping))
        except ParameterError:
            if self._seeds_per_trial > 1:
                raise
            return [self._train_alone(candidate) for candidate in candidates]
        return [self._trial(each, [next(results) for _ in each.models]) for each in candidates]

    def _train_alone(self, candidate: Candidate) -> FrozenTrial:
        desk = in_memory_study(candidate.before)
        desk.enqueue_trial(dict(candidate.settings))
        trial = desk.ask(self._space.distributions())
        trial.set_user_attr("draw", list(candidate.draw))
        return train(desk, trial, candidate.models[0], self._task)

    def _trial(self, candidate: Candidate, results: Sequence[MemberResult]) -> FrozenTrial:
        """Return what came of a trial, as Optuna has it."""
        curve = mean_curve([result.val_accuracy for result in results]).tolist()
        state, value = TrialState.FAIL, None
        said: Settings = {}
        if not curve:
            said = {ERROR: f"round 1: {results[0].stop_reason.message}"}
        elif any(result.stop_reason is StopReason.REQUESTED for result in results):
            state, value = TrialState.PRUNED, curve[-1]
        else:
            best = results[0].best_round if self._seeds_per_trial == 1 else 1 + curve.index(max(curve))
            state, value, said = TrialState.COMPLETE, curve[best - 1], {"best_round": best}
        return create_trial(
            state=state,
            value=value,
            params=dict(candidate.settings),
            distributions=self._space.distributions(),
            user_attrs={"draw": list(candidate.draw), **said},
            intermediate_values=dict(enumerate(curve, 1)),
        )

    def _model(self, settings: Mapping[str, Any], seed: int) -> GBGNNClassifier:
        return self._space.build(settings, seed).set_params(device=self._device)

    def _groups(self, models: Sequence[GBGNNClassifier]) -> Iterator[list[int]]:
        """Yield the numbers of models that can be trained together, and of those that cannot one by one."""
        groups: list[list[int]] = []
        for i, model in enumerate(models):
            for group in groups:
                if self._fit_together([models[group[0]], model]):
                    group.append(i)
                    break
            else:
                groups.append([i])
        yield from groups

    def _fit_together(self, models: Sequence[GBGNNClassifier]) -> bool:
        try:
            Members.of(models, self._inputs_of(models[0]))
        except ParameterError:
            return False
        return True

    def _inputs_of(self, model: GBGNNClassifier) -> PopulationInputs:
        """Return what a model is trained on; rows that were computed for one batch serve the next."""
        key = repr((model.propagation, model.feature_norm, model.class_weight, model.dtype))
        if key not in self._inputs:
            task = self._task
            self._inputs[key] = PopulationInputs.of(
                model, task.nodes, task.y, graph=task.graph, validation=task.validation
            )
        return self._inputs[key]


class MedianStopping:
    """Says after every round which members the median stopping rule gives up: all of a trial, or none.

    Parameters
    ----------
    limits
        For every trial, round by round, the least that its best accuracy so far must be.
    seeds_per_trial
        How many members in a row belong to a trial; its accuracy is their mean.
    """

    def __init__(self, limits: Sequence[Mapping[int, float]], seeds_per_trial: int = 1) -> None:
        self._limits, self._seeds_per_trial = limits, seeds_per_trial
        self._best, self._last = [0.0] * len(limits), [0.0] * (len(limits) * seeds_per_trial)

    def __call__(self, t: int, accuracies: Mapping[int, float | None]) -> list[int]:
        """Return the members to drop."""
        for member, accuracy in accuracies.items():
            assert accuracy is not None  # a search has validation nodes
            self._last[member] = accuracy
        n = self._seeds_per_trial
        for trial in {member // n for member in accuracies}:
            mean = sum(self._last[trial * n : (trial + 1) * n]) / n
            self._best[trial] = max(self._best[trial], mean)
        return [member for member in accuracies if self._is_hopeless(member // n, t)]

    def _is_hopeless(self, trial: int, t: int) -> bool:
        return self._best[trial] < self._limits[trial].get(t, 0.0)
