"""Members: the models of a population, what they share, and where they differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gbgnn._checks import check_integer
from gbgnn._devices import as_device, as_dtype
from gbgnn._random import Seeds, root_seed
from gbgnn.aggregation import (
    Adjacency,
    Aggregation,
    Identity,
    InputInjection,
    KernelTargetAlignment,
    Lazy,
)
from gbgnn.boosting import BoostingRule, FunctionalGradient, RoundSelection, Samme, SammeR
from gbgnn.errors import ParameterError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.finetuning import as_tuner
from gbgnn.fitting import resolve_rule
from gbgnn.learners import MLP
from gbgnn.population.inputs import COMPLEX, PopulationInputs
from gbgnn.registry import as_part
from gbgnn.tasks import Classification

_KINDS: dict[str, tuple[type[Any], ...]] = {
    "aggregation": (Adjacency, Identity, InputInjection, Lazy, KernelTargetAlignment),
    "learner": (MLP,),
    "rule": (Samme, SammeR, FunctionalGradient),
}
_TWO = "Train them in two populations."

# What members of one population may not differ in, by part; the rest of a part's settings may.
_SHARED = {
    "model": ("propagation", "feature_norm", "class_weight", "select"),
    "aggregation": ("degree", "rescale"),
    "learner": ("hidden_layers", "standardize", "basis"),
    "rule": ("loss", "target", "retries", "on_failure"),
}
# What only a model that is trained alone may have other than this.
_ALONE: dict[str, dict[str, Any]] = {
    "model": {"validation_fraction": None, "n_iter_no_change": None, "warm_start": False, "metric": "auto"},
    "aggregation": {"solver": "gradient"},
    "learner": {"patience": None},
    "rule": {"target": "gradient"},
}


@dataclass(frozen=True, eq=False)
class Members:
    """The parts of every member, checked.

    Parameters
    ----------
    aggregations, learners, rules
        One per member.
    seeds
        Where each draws from.
    n_rounds
        The most rounds of each.
    select
        Which round of a member counts, as in :class:`~gbgnn.GBGNNClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from gbgnn.testing import problem_of, two_blocks
    >>> inputs = PopulationInputs(problem_of(*two_blocks(40), np.arange(8)))
    >>> models = [GBGNNClassifier(learner=MLP(units=u), dtype="float64", device="cpu") for u in (8, 16)]
    >>> Members.of(models, inputs).of_learners("units", torch.int64)
    tensor([ 8, 16])
    """

    aggregations: Sequence[Any]
    learners: Sequence[MLP]
    rules: Sequence[Any]
    seeds: Sequence[Seeds]
    n_rounds: Sequence[int]
    select: str

    def __len__(self) -> int:
        return len(self.learners)

    @classmethod
    def of(cls, models: Sequence[GBGNNClassifier], inputs: PopulationInputs) -> Members:
        """Take models apart, and raise where they cannot be trained together on ``inputs``."""
        reason = reason_apart(models, inputs)
        if reason is not None:
            raise ParameterError(reason)
        parts = _resolve_parts(models)
        aggregations, learners, rules = (parts[family] for family in ("aggregation", "learner", "rule"))
        for model in models:
            check_integer("GBGNNClassifier", "n_rounds", model.n_rounds, 1)
            RoundSelection(model.select).check(has_validation=inputs.n_validation > 0)
        for aggregation, learner, rule in zip(aggregations, learners, rules, strict=True):
            aggregation.check()
            learner.check()
            rule.check(inputs.problem.task)
        penalties = [learner.penalty(inputs.n_train) for learner in learners]
        return cls(
            aggregations=aggregations,
            learners=[replace(each, weight_decay=w) for each, w in zip(learners, penalties, strict=True)],
            rules=rules,
            seeds=[Seeds(root_seed(model.random_state)) for model in models],
            n_rounds=[model.n_rounds for model in models],
            select=models[0].select,
        )

    @property
    def aggregation(self) -> Aggregation:
        """The first member's aggregation: all are of its kind."""
        first: Aggregation = self.aggregations[0]
        return first

    @property
    def rule(self) -> BoostingRule:
        """The first member's rule: all are of its kind."""
        first: BoostingRule = self.rules[0]
        return first

    def of_aggregations(self, name: str) -> torch.Tensor:
        """Return a setting of all aggregations, in double precision."""
        return _column(self.aggregations, name, torch.float64)

    def of_learners(self, name: str, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        """Return a setting of all learners."""
        return _column(self.learners, name, dtype)

    def of_rules(self, name: str) -> torch.Tensor:
        """Return a setting of all rules, in double precision."""
        return _column(self.rules, name, torch.float64)


def _column(parts: Sequence[Any], name: str, dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor([getattr(part, name) for part in parts], dtype=dtype)


def reason_apart(models: Sequence[Any], inputs: PopulationInputs | None = None) -> str | None:
    """Return why unfitted models cannot be trained as one population, or None if they can.

    Nothing is raised, and values that no model may have are no reason: training says so.

    Parameters
    ----------
    models
        The models.
    inputs
        What they would be trained on; None answers for data that every kind of model can be trained on.

    Examples
    --------
    >>> one, other = GBGNNClassifier(rule="samme"), GBGNNClassifier(rule="samme", n_rounds=3)
    >>> reason_apart([one, other]) is None
    True
    >>> reason_apart([one, GBGNNClassifier(rule="samme_r")])
    'members of a population share the kind of rule; member 0 has Samme(), member 1 SammeR(). Train them ...'
    """
    if not models:
        return "a population needs at least one model; got none."
    for i, model in enumerate(models):
        if not isinstance(model, GBGNNClassifier):
            return f"member {i} must be a GBGNNClassifier; got {type(model).__name__}."
    try:
        return next(_reasons(models, inputs), None)
    except ParameterError as error:  # of a name that stands for nothing, by which training would end as well
        return str(error)


def _resolve_parts(models: Sequence[GBGNNClassifier]) -> dict[str, list[Any]]:
    """Return the parts of all models, by family."""
    named = {family: [as_part(family, getattr(m, family)) for m in models] for family in ("task", *_KINDS)}
    return {**named, "rule": [resolve_rule(model) for model in models]}


def _reasons(models: Sequence[GBGNNClassifier], inputs: PopulationInputs | None) -> Iterator[str]:
    parts = _resolve_parts(models)
    places = [(as_dtype(model.dtype), as_device(model.device).type) for model in models]
    given = None if inputs is None else (inputs.dtype, inputs.device.type)
    for i, (model, place) in enumerate(zip(models, places, strict=True)):
        if as_tuner(model.fine_tune) is not None:
            yield f"member {i} has fine_tune; fine-tune after boosting, one model at a time."
        if model.callbacks:
            yield f"member {i} has callbacks; a population calls on_round instead."
        if model.select == "gradient":
            yield f'member {i} has select="gradient"; train that model alone, by fit().'
        if type(parts["task"][i]) is not Classification:
            yield f"member {i} has the task {parts['task'][i]!r}; train that model alone, by fit()."
        if given is not None and place != given:
            yield (
                f"member {i} asks for {_spelled(*place)}, but the inputs are {_spelled(*given)}; build them "
                "by PopulationInputs.of(model, ...)."
            )
        if place != places[0]:
            yield f"member {i} asks for {_spelled(*place)}, member 0 for {_spelled(*places[0])}. {_TWO}"
    for family, known in _KINDS.items():
        yield from _reasons_of_kind(family, parts[family], known)
    for family in _SHARED:
        yield from _reasons_of_settings(family, models if family == "model" else parts[family])
    learns_hops = isinstance(parts["aggregation"][0], KernelTargetAlignment)
    if learns_hops and inputs is not None and inputs.real_interval is None:
        yield COMPLEX


def _spelled(dtype: torch.dtype, device: str) -> str:
    return f"{str(dtype).removeprefix('torch.')} on {device}"


def _reasons_of_kind(family: str, parts: Sequence[Any], known: tuple[type[Any], ...]) -> Iterator[str]:
    for i, part in enumerate(parts):
        if type(part) not in known:
            names = ", ".join(kind.__name__ for kind in known)
            yield (
                f"member {i} has the {family} {part!r}; populations know {names}. Train that model alone, by "
                "fit()."
            )
        if type(part) is not type(parts[0]):
            yield (
                f"members of a population share the kind of {family}; member 0 has {parts[0]!r}, member {i} "
                f"{part!r}. {_TWO}"
            )


def _reasons_of_settings(family: str, parts: Sequence[Any]) -> Iterator[str]:
    for name in _SHARED[family]:
        for i, part in enumerate(parts):
            mine, first = (repr(getattr(p, name, None)) for p in (part, parts[0]))
            if mine != first:
                yield (
                    f"members of a population share {name}; member 0 has {first}, member {i} {mine}. {_TWO}"
                )
    for name, only in _ALONE[family].items():
        for i, part in enumerate(parts):
            got = getattr(part, name, only)
            if got != only:
                yield f"member {i} has {name}={got!r}; train that model alone, by fit()."
