"""train_best: models of several families, the weak ones given up early, the rest averaged (preset="best")."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import clone

from gbgnn._files import as_plain
from gbgnn._random import Seeds
from gbgnn.blend import BlendedModel, BlendMember
from gbgnn.callbacks import Callback, find_deadline, list_callbacks
from gbgnn.errors import GBGNNWarning, ParameterError
from gbgnn.families import FAMILIES, Family
from gbgnn.fitting import (
    FitPlan,
    Labels,
    check_weights,
    describe_part,
    resolve_metric,
)
from gbgnn.folds import Fold, split_folds
from gbgnn.graph import Graph
from gbgnn.judging import Judged, Panel
from gbgnn.labels import as_nodes, check_length, check_range
from gbgnn.model import FittedModel
from gbgnn.presets import Facts, adapt, find_touched
from gbgnn.tasks import Task
from gbgnn.training import train, train_seeds

N_SEEDS = 3
"""How often a candidate that is kept is trained, with different seeds; not where there are folds."""

OUT_OF_TIME = "out of time"

# What the families differ in. All other settings of the estimator are those of every candidate.
_CHOSEN_HERE = (
    *("aggregation", "learner", "rule", "propagation", "feature_norm", "neighbourhood"),
    *("n_rounds", "learning_rate", "fine_tune", "warm_start"),
)


@dataclass(eq=False)
class Candidate:
    """A variant of a family: how it is trained, and what has come of it so far."""

    family: Family
    variant: str
    model: Any  # the estimator with its settings
    fitted: list[list[FittedModel]] = field(default_factory=list)  # of every fold, one for each seed
    judged: Judged | None = None
    seconds: float = 0.0
    status: str = "not tried"

    @property
    def title(self) -> str:
        """What progress calls it."""
        return f"{self.family.name} ({self.variant})"

    @property
    def n_models(self) -> int:
        """How many models were trained."""
        return sum(map(len, self.fitted))

    def record(self, metric: str, weight: float) -> dict[str, Any]:
        """Return its row of the leaderboard."""
        judged = self.judged
        return {
            "family": self.family.name,
            "variant": self.variant,
            "settings": _as_text(self.family.variants[self.variant]),
            "models": self.n_models,
            "metric": metric,
            "score": None if judged is None else judged.score,
            "loss": None if judged is None else judged.loss,
            "temperature": None if judged is None else judged.temperature,
            "seconds": self.seconds,
            "weight": weight,
            "status": self.status,
        }


def train_best(
    estimator: Any,
    task: Task,
    nodes: ArrayLike,
    y: ArrayLike,
    graph: Graph,
    *,
    seed: int,
    validation: Labels | None = None,
    sample_weight: ArrayLike | None = None,
    families: Iterable[Family] | None = None,
    keep: Callable[[BlendedModel], None] | None = None,
) -> BlendedModel:
    """Return an average of models of ``families``, those of the catalogue where none are given.

    First the first variant of every family that suits is trained, the cheapest first. Families that are
    clearly worse than the best on the validation nodes are given up. Of the others the remaining variants are
    trained, and of those that a first choice would keep more seeds, boosted at once. Weights are then found
    by greedy selection. Under a time limit, what would not end in time is not begun, and rounds end when the
    time is up; at least one candidate is trained. An interrupted training hands ``keep`` what there is.
    """
    check_open(estimator)
    deadline = find_deadline(estimator)
    ids = as_nodes(nodes)
    check_range(ids, graph.n_nodes)
    check_length(y, len(ids), "y")
    weights = check_weights(sample_weight, len(ids))
    fitted_task = task.fit(y, weights=weights)
    folds = split_folds(estimator, fitted_task, ids, y, graph, weights, validation, seed)
    facts = Facts.of(graph, task, nodes, y, has_validation=True)
    candidates = list_candidates(estimator, fitted_task, facts, FAMILIES if families is None else families)
    panel = Panel(
        task=fitted_task,
        loss=fitted_task.default_loss,
        metric=resolve_metric(estimator.metric, fitted_task),
        groups=[fold.validation[0] for fold in folds],
        targets=torch.cat([torch.as_tensor(fitted_task.encode(fold.validation[1])) for fold in folds]),
    )
    if not candidates:
        raise ParameterError('preset="best" has nothing to try: no family suits this graph and its labels.')
    training = Training(estimator, graph, seed, folds, panel, candidates, deadline)
    try:
        training.run()
    except KeyboardInterrupt:
        if keep is not None and training.trained:
            keep(training.blend())
        raise
    return training.blend()


@dataclass(eq=False)
class Training:
    """Candidates that are trained one after another, while there is time."""

    estimator: Any
    graph: Graph
    seed: int
    folds: Sequence[Fold]
    panel: Panel
    candidates: Sequence[Candidate]
    deadline: float | None
    failure: tuple[Candidate, Exception] | None = None  # the first, as long as nothing is trained

    @property
    def trained(self) -> list[Candidate]:
        """Those that have models, in the order of the catalogue."""
        return [each for each in self.candidates if each.judged is not None]

    def run(self) -> None:
        """Train everything that is worth it; raise where nothing could be trained."""
        firsts = {each.family: each for each in reversed(self.candidates)}
        for candidate in reversed(firsts.values()):
            self.attempt(candidate, [0])
        if self.failure is not None:
            candidate, error = self.failure
            error.add_note(f'every candidate of preset="best" failed; this was the first, {candidate.title}.')
            raise error
        self.try_variants(firsts)
        if len(self.folds) == 1:
            self.repeat()

    def try_variants(self, firsts: Mapping[Family, Candidate]) -> None:
        """Train the other variants of the families whose first is not clearly worse than the best."""
        ranked = sorted(self.trained, key=_loss_of)
        going = [each.family for each in ranked if not _judged(each).is_weaker(_judged(ranked[0]))]
        later = [each for each in self.candidates if each is not firsts[each.family]]
        rest = [[each for each in later if each.family is own] for own in going]
        for variants in zip_longest(*rest):  # the second of every family, then the third
            for candidate in filter(None, variants):
                self.attempt(candidate, [0])
        for candidate in later:
            if firsts[candidate.family].status == OUT_OF_TIME:
                candidate.status = OUT_OF_TIME

    def repeat(self) -> None:
        """Train what is kept with more seeds, which may change who is."""
        repeated: set[Candidate] = set()
        while True:
            weights = self.choose_weights()
            kept = [each for each in self.trained if weights[each] > 0 and each not in repeated]
            if not kept:
                return
            for candidate in sorted(kept, key=lambda each: -weights[each]):
                self.attempt(candidate, range(1, N_SEEDS))
            repeated.update(kept)

    def attempt(self, candidate: Candidate, repeats: Sequence[int]) -> None:
        """Train a candidate with some seeds, if there is time; what goes wrong is recorded."""
        if not self.has_time(candidate, len(repeats) * len(self.folds)):
            candidate.status = candidate.status if candidate.judged else OUT_OF_TIME
            return
        started = time.perf_counter()
        try:
            found = [self.fit(candidate, fold, repeats) for fold in self.folds]
            had = candidate.fitted or [[]] * len(found)
            fitted = [[*old, *new] for old, new in zip(had, found, strict=True)]
            judged = self.panel.judge(fitted)
            if not np.isfinite(judged.losses).all():
                raise ParameterError("its predictions are no numbers.")
        except Exception as error:  # whatever a part raises, the others may still do
            if not self.trained:  # else nobody asks for it, and it would hold on to the memory of the fit
                self.failure = self.failure or (candidate, error)
            why = str(error).partition("\n")[0] or type(error).__name__
            candidate.status = candidate.status if candidate.judged else f"failed: {why}"
        else:
            candidate.fitted, candidate.judged, candidate.status = fitted, judged, "trained"
            self.failure = None
        candidate.seconds += time.perf_counter() - started

    def fit(self, candidate: Candidate, fold: Fold, repeats: Sequence[int]) -> list[FittedModel]:
        """Return the models of a candidate on one fold."""
        model, seeds = candidate.model, [Seeds(self.seed).repeat(i) for i in repeats]
        with warnings.catch_warnings():
            if self.trained or self.failure:
                warnings.simplefilter("ignore", GBGNNWarning)  # of the data, which the first has said
            plan = FitPlan.build(
                *(model, model.task_for(fold.y), fold.nodes, fold.y, self.graph),
                seed=seeds[0],
                validation=fold.validation,
                sample_weight=fold.sample_weight,
            )
        if len(seeds) == 1:
            return [train(plan, self._callbacks(model), candidate=candidate.title)]
        # The screen follows one of them.
        silent = clone(model).set_params(verbose=0)
        callbacks = [self._callbacks(model), *(list_callbacks(silent, self.deadline) for _ in seeds[1:])]
        return train_seeds(plan, seeds, callbacks, f"{candidate.title}, {len(seeds)} more seeds")

    def has_time(self, candidate: Candidate, n_models: int) -> bool:
        """Return whether training a candidate would end in time, by what others of its kind took."""
        if self.deadline is None or not self.trained:
            return True
        alike = [each for each in self.trained if each.family is candidate.family]
        paces = [each.seconds / (each.n_models * each.family.cost) for each in alike or self.trained]
        seconds = n_models * candidate.family.cost * float(np.median(paces))
        return time.monotonic() + seconds <= self.deadline

    def choose_weights(self) -> dict[Candidate, float]:
        """Return the weight of every candidate in the average."""
        trained = self.trained
        found = self.panel.choose_weights([_judged(each) for each in trained], self.seed)
        return dict.fromkeys(self.candidates, 0.0) | dict(zip(trained, found.tolist(), strict=True))

    def blend(self) -> BlendedModel:
        """Return the average of what was trained, and the record of all that was tried."""
        weights = self.choose_weights()
        best = _judged(min(self.trained, key=_loss_of))
        for candidate in self.trained:
            is_weak = _judged(candidate).is_weaker(best)
            candidate.status = "kept" if weights[candidate] else "weak" if is_weak else "not needed"
        outputs = sum(weights[each] * _judged(each).outputs for each in self.trained)
        assert isinstance(outputs, torch.Tensor)
        members = [
            BlendMember(each.family.name, model, weights[each] / each.n_models, _judged(each).temperature)
            for each in self.trained
            if weights[each]
            for own in each.fitted
            for model in own
        ]
        ranked = sorted(self.candidates, key=_loss_of)
        params = self.estimator.get_params(deep=False)
        return BlendedModel(
            task=self.panel.task,
            loss=self.panel.loss,
            metric=self.panel.metric,
            members=tuple(sorted(members, key=lambda own: -own.weight)),
            leaderboard=[each.record(self.panel.metric.name, weights[each]) for each in ranked],
            seed=self.seed,
            settings={name: copy.copy(value) for name, value in params.items()},
            validation_score=self.panel.score(outputs),
            validation_loss=float(self.panel.losses(outputs).mean()),
        )

    def _callbacks(self, model: Any) -> list[Callback]:
        return [*self.estimator.callbacks, *list_callbacks(model, self.deadline)]


def check_open(estimator: Any) -> None:
    """Raise where a setting was chosen that the families differ in."""
    touched = find_touched(estimator, _CHOSEN_HERE)
    if touched:
        name = touched[0]
        raise ParameterError(
            f'preset="best" tries several models and chooses {name} itself, but it is given: '
            f"{name}={getattr(estimator, name)!r}. Leave it out, or take another preset."
        )


def list_candidates(estimator: Any, task: Task, facts: Facts, families: Iterable[Family]) -> list[Candidate]:
    """Return the variants of families that suit, those of cheap families first, none of them twice."""
    fixed = find_touched(estimator, [name for name in estimator.get_params(deep=False) if name != "preset"])
    candidates: dict[str, Candidate] = {}
    for family in sorted(families, key=lambda each: each.cost):
        for variant, chosen in family.variants.items() if family.suits(facts) else ():
            model = clone(estimator).set_params(callbacks=(), time_limit=None, validation_fraction=None)
            if isinstance(estimator.task, str):
                model.set_params(task=type(estimator)().task)  # a preset is to find it untouched
            own = {name: value for name, value in chosen.items() if name not in fixed}
            model = adapt(model.set_params(**{"preset": "fast", **clone(own, safe=False)}), facts)
            model = clone(model).set_params(task=task)
            settings = model.get_params(deep=False)
            same = "; ".join(f"{k}={describe_part(v)}" for k, v in settings.items() if k != "preset")
            candidates.setdefault(same, Candidate(family, variant, model))
    return list(candidates.values())


def _as_text(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with parts, and whatever else a file could not hold, as text."""
    return {k: as_plain(v, unknown=lambda part: " ".join(repr(part).split())) for k, v in settings.items()}


def _judged(candidate: Candidate) -> Judged:
    assert candidate.judged is not None
    return candidate.judged


def _loss_of(candidate: Candidate) -> float:
    return np.inf if candidate.judged is None else candidate.judged.loss
