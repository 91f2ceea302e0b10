"""Many trials at a time: drawn together, trained as one population, written down when all are done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from gbgnn.boosting import StopReason
from gbgnn.errors import ParameterError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.population import MemberResult, PopulationInputs, train_population
from gbgnn.population.members import Members
from gbgnn.tuning.objective import Task, train
from gbgnn.tuning.proposals import Draw, ask
from gbgnn.tuning.spaces import SearchSpace
from gbgnn.tuning.study import ERROR, desk_of, medians


class Batches:
    """Trains trials many at a time.

    A batch is drawn and trained on a copy of the study in memory, and added to the study as a whole: storing
    every accuracy of every round by itself would take longer than the training. What is interrupted is not
    in the study, and is drawn again.

    Parameters
    ----------
    space, task
        What trials may take, and what they are trained on.
    device
        Where to train.
    """

    def __init__(self, space: SearchSpace, task: Task, device: Any) -> None:
        self._space, self._task, self._device = space, task, device
        self._inputs: dict[str, PopulationInputs] = {}

    def can_train(self) -> bool:
        """Say whether a population can train any model of the space."""
        models = [self._model(corner, seed=0) for corner in self._space.corners()]
        return any(self._fit_together([model]) for model in models)

    def run(self, study: optuna.Study, draws: Sequence[Draw]) -> list[FrozenTrial]:
        """Draw trials, train them, and add them to the study."""
        desk = desk_of(study)
        trials = [ask(desk, self._space, draw) for draw in draws]
        models = [self._model(trial.params, draw[0]) for trial, draw in zip(trials, draws, strict=True)]
        limits = medians(desk)
        for group in self._groups(models):
            mine, members = [trials[i] for i in group], [models[i] for i in group]
            try:
                inputs = self._inputs_of(members[0])
                results = train_population(inputs, members, on_round=Reports(mine, limits))
            except ParameterError:  # what a population cannot train is trained one by one
                for trial, model in zip(mine, members, strict=True):
                    train(desk, trial, model, self._task)
                continue
            for trial, result in zip(mine, results, strict=True):
                tell(desk, trial, result)
        ended = desk.get_trials(deepcopy=False)[-len(draws) :]
        study.add_trials(ended)
        return ended

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
        key = repr((model.propagation, model.class_weight, model.dtype))
        if key not in self._inputs:
            task = self._task
            self._inputs[key] = PopulationInputs.of(
                model, task.nodes, task.y, graph=task.graph, validation=task.validation
            )
        return self._inputs[key]


class Reports:
    """Tells Optuna the accuracies after every round, and which members the median stopping rule gives up.

    Parameters
    ----------
    trials
        The trial of every member.
    limits
        Round by round, the least that the best accuracy so far must be.
    """

    def __init__(self, trials: Sequence[optuna.Trial], limits: Mapping[int, float]) -> None:
        self._trials, self._limits = trials, limits
        self._best = [0.0] * len(trials)

    def __call__(self, t: int, accuracies: Mapping[int, float | None]) -> list[int]:
        """Return the members to drop."""
        for member, accuracy in accuracies.items():
            assert accuracy is not None  # a search has validation nodes
            self._trials[member].report(accuracy, t)
            self._best[member] = max(self._best[member], accuracy)
        limit = self._limits.get(t, 0.0)
        return [member for member in accuracies if self._best[member] < limit]


def tell(study: optuna.Study, trial: optuna.Trial, result: MemberResult) -> FrozenTrial:
    """Tell the study what came of a member."""
    if not result.n_rounds:
        trial.set_user_attr(ERROR, f"round 1: {result.stop_reason.message}")
        return study.tell(trial, state=TrialState.FAIL)
    if result.stop_reason is StopReason.REQUESTED:
        return study.tell(trial, state=TrialState.PRUNED)
    trial.set_user_attr("best_round", result.best_round)
    return study.tell(trial, result.best_val_accuracy)
