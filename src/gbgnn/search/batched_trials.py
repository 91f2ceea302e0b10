"""Many trials at a time, of one study or of several: trained as one population, written down when all are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from optuna.trial import FrozenTrial, TrialState, create_trial

from gbgnn.boosting import StopReason
from gbgnn.errors import ParameterError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.population import MemberResult, PopulationInputs, reason_apart, train_population
from gbgnn.search.loop import DRAW, Batch, Draw, Propose, ask
from gbgnn.search.objective import FitObjective, MedianStopping, medians, run_trial
from gbgnn.search.results import draw_seeds, mean_curve
from gbgnn.search.study import BEST_ROUND, ERROR, in_memory_study
from gbgnn.settings import Settings

Item = TypeVar("Item")
Found = TypeVar("Found")


class _Candidate(NamedTuple):
    """A trial to train, its model with every seed that it gets, and what came before it."""

    draw: Draw
    settings: Settings
    models: Sequence[GBGNNClassifier]
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
        proposed = zip(batches, propose(batches), strict=True)
        candidates = [each for batch, settings in proposed for each in self._candidates(batch, settings)]
        trials = iter(_train_groups([each.models[0] for each in candidates], candidates, self._train))
        by_batch = [[next(trials) for _ in batch.draws] for batch in batches]
        for batch, new in zip(batches, by_batch, strict=True):
            batch.study.add_trials(new)
        return by_batch

    def curves(self, models: Sequence[GBGNNClassifier]) -> list[list[float]]:
        """Train models, and return the validation accuracy of each after every round."""

        def train(group: Sequence[GBGNNClassifier]) -> list[list[float]]:
            if self._reason_apart(group) is not None:
                return self._objective.data.curves(group)
            return [each.val_scores for each in train_population(self._inputs_for(group[0]), group)]

        return _train_groups(models, models, train)

    def _candidates(self, batch: Batch, settings: Sequence[Settings]) -> Iterator[_Candidate]:
        limits = medians(batch.before)
        for draw, own in zip(batch.draws, settings, strict=True):
            models = [self._objective.build(own, seed) for seed in draw_seeds(draw[0], self._seeds_per_trial)]
            yield _Candidate(draw, own, models, batch.before, limits)

    def _train(self, candidates: Sequence[_Candidate]) -> list[FrozenTrial]:
        """Train candidates of one group, and return what came of them."""
        models = [model for candidate in candidates for model in candidate.models]
        reason = self._reason_apart(models)
        if reason is not None and self._seeds_per_trial > 1:
            raise ParameterError(f"seeds_per_trial > 1 needs trials that a population can train: {reason}")
        if reason is not None:
            return [self._train_alone(candidate) for candidate in candidates]
        stopping = MedianStopping([candidate.limits for candidate in candidates], self._seeds_per_trial)
        results = iter(train_population(self._inputs_for(models[0]), models, on_round=stopping))
        return [self._conclude(each, [next(results) for _ in each.models]) for each in candidates]

    def _train_alone(self, candidate: _Candidate) -> FrozenTrial:
        study = in_memory_study(candidate.before)
        study.enqueue_trial(candidate.settings)
        return run_trial(study, ask(study, self._distributions, candidate.draw), self._objective)

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

    def _reason_apart(self, models: Sequence[GBGNNClassifier]) -> str | None:
        """Return why models cannot be trained together on these data; what no data could help comes first."""
        return reason_apart(models[:1]) or reason_apart(models, self._inputs_for(models[0]))

    def _inputs_for(self, model: GBGNNClassifier) -> PopulationInputs:
        """Return what a model is trained on; rows that were computed for one batch serve the next."""
        key = repr((model.propagation, model.feature_norm, model.class_weight, model.dtype))
        if key not in self._inputs:
            data = self._objective.data
            self._inputs[key] = PopulationInputs.from_model(
                model, data.nodes, data.y, graph=data.graph, validation=data.validation
            )
        return self._inputs[key]


def _train_groups(
    models: Sequence[GBGNNClassifier], items: Sequence[Item], train: Callable[[list[Item]], Sequence[Found]]
) -> list[Found]:
    """Train items in groups whose models can be trained together, and return what was found of each."""
    groups: list[list[int]] = []
    for i, model in enumerate(models):
        for group in groups:
            if reason_apart([models[group[0]], model]) is None:
                group.append(i)
                break
        else:  # nobody goes with it, or it cannot be in a population at all
            groups.append([i])
    found = {
        i: each for group in groups for i, each in zip(group, train([items[i] for i in group]), strict=True)
    }
    return [found[i] for i in range(len(models))]
