"""SearchSpace: what is searched of a model, and in which range; the spaces of the paper's variants.

Ranges are Optuna's distributions, under short names.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import ArrayLike
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from gbgnn._checks import check_choice, check_integer
from gbgnn._files import as_plain
from gbgnn._optimizers import OPTIMIZERS
from gbgnn.base_estimator import GBGNNEstimator
from gbgnn.errors import ParameterError, suggest
from gbgnn.finetuning import as_fine_tuner
from gbgnn.fitting import check_norm, resolve_metric, resolve_rule
from gbgnn.learners.mlp import FEW
from gbgnn.registry import as_part
from gbgnn.settings import WITH_TABLES, Settings, build_model, default_params

Integer, Real, Choice = IntDistribution, FloatDistribution, CategoricalDistribution
Range = IntDistribution | FloatDistribution | CategoricalDistribution

_SIMPLE = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class SearchSpace:
    """Settings of :class:`~gbgnn.GBGNNClassifier`, some fixed, some with a range.

    Every setting that the classifier has can be fixed or searched, under its scikit-learn name:
    ``n_rounds``, ``learner__units``, ``fine_tune__learning_rate``. What is in neither keeps its default.

    Parameters
    ----------
    base
        The fixed settings; a part is given by name.
    ranges
        Optuna's distribution of each setting that is searched: an integer, a real or a categorical one, for
        which ``Integer``, ``Real`` and ``Choice`` are short names.

    Examples
    --------
    >>> from gbgnn.search import Integer, Real
    >>> space = SearchSpace({"rule": "samme"}, {"n_rounds": Integer(1, 9), "learner__dropout": Real(0, 0.5)})
    >>> print(space)
    rule = samme
    n_rounds: 1 to 9
    learner__dropout: 0 to 0.5
    >>> space.build({"n_rounds": 3, "learner__dropout": 0.2}, seed=0)
    GBGNNClassifier(learner=MLP(dropout=0.2), n_rounds=3, random_state=0, rule='samme')
    """

    base: Mapping[str, Any] = field(default_factory=dict)
    ranges: Mapping[str, Range] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", dict(self.base))
        object.__setattr__(self, "ranges", dict(self.ranges))
        for name, given in self.ranges.items():
            if not isinstance(given, Range):
                raise ParameterError(
                    f"the range of {name} must be Integer(...), Real(...) or Choice(...); got {given!r}. A "
                    "fixed value goes into base."
                )
        both = sorted(self.base.keys() & self.ranges.keys())
        if both:
            raise ParameterError(f"{both[0]} is fixed in base and has a range; leave out one of them.")
        judged = sorted(self.ranges.keys() & {"metric", "task"})
        if judged:
            raise ParameterError(
                f"{judged[0]} has a range, but all trials must be judged alike; fix it in base."
            )
        of_numbers = {"rule__loss"} if self.base.get("task") == "regression" else set()
        losses = sorted(self.ranges.keys() & {"loss", "quantile", *of_numbers})
        if losses and self.base.get("metric", "auto") == "auto":
            raise ParameterError(
                f'{losses[0]} has a range, and metric="auto" goes by the loss, but all trials must be judged '
                "alike; fix the metric in base."
            )
        if "random_state" in {*self.base, *self.ranges}:
            raise ParameterError("random_state is no part of a space; give the search a seed.")

    def build(self, settings: Mapping[str, Any], seed: int) -> GBGNNEstimator:
        """Return the model with ``settings`` for the ranges."""
        model: GBGNNEstimator = build_model({**self.base, **settings, "random_state": seed})
        return model

    def changed(self, changes: Mapping[str, Any]) -> SearchSpace:
        """Return the space with some settings searched elsewhere, or fixed.

        Changes are, by name, a range, a table with ``low`` and ``high``, a list of options, or a value, which
        fixes. A part that is replaced by another takes its settings with it.

        Examples
        --------
        >>> space = SearchSpace({"rule": "samme", "rule__error_floor": 1e-7})
        >>> print(space.changed({"rule": "samme_r", "n_rounds": {"low": 1, "high": 5}}))
        rule = samme_r
        n_rounds: 1 to 5
        """
        known = self.kept(changes)
        return self.replaced({k: as_range(k, value, known.get(k)) for k, value in changes.items()})

    def replaced(self, values: Mapping[str, Any]) -> SearchSpace:
        """Return the space with some settings replaced, each by a range or by a value as it stands."""
        new = {**self.kept(values), **values}
        if values.get("learning_rate") is not None:  # goes before the rule's, which was searched in vain
            new["rule__learning_rate"] = new.pop("learning_rate")
        ranges = {name: value for name, value in new.items() if isinstance(value, Range)}
        return SearchSpace({k: v for k, v in new.items() if k not in ranges}, ranges)

    def kept(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings without those of a part that ``values`` replace by another."""
        fixed = {**default_params(), **self.base}
        parts = [part for part in WITH_TABLES if values.get(part, fixed[part]) != fixed[part]]
        old = {**self.base, **self.ranges}
        return {k: v for k, v in old.items() if "__" not in k or k.partition("__")[0] not in parts}

    def check(self, y: ArrayLike) -> None:
        """Raise when an end of a range is no value that a model of y takes, before a trial finds out."""
        for settings in self.corners():
            model = self.build(settings, seed=0)
            task = model.task_for(y).fit(y)
            check_integer("GBGNNClassifier", "n_rounds", model.n_rounds, 1)
            check_norm(model.feature_norm)
            for family in ("aggregation", "learner"):
                as_part(family, getattr(model, family)).check()
            resolve_rule(model).check(task)
            resolve_metric(model.metric, task)
            tuner = as_fine_tuner(model.fine_tune)
            if tuner is not None:
                tuner.check(has_validation=True)

    def corners(self) -> Iterator[Settings]:
        """Yield settings that take every range to its ends, and to each of its options."""
        ends = {name: extreme_values(given) for name, given in self.ranges.items()}
        for i in range(max(map(len, ends.values()), default=1)):
            yield {name: values[min(i, len(values) - 1)] for name, values in ends.items()}

    def distributions(self) -> dict[str, BaseDistribution]:
        """Return the ranges in the order of their names, so that what is drawn depends on no other."""
        return dict(sorted(self.ranges.items()))

    def to_document(self) -> dict[str, Any]:
        """Return the space in plain values, the same for the same space."""
        base = as_plain(dict(sorted(self.base.items())), unknown=repr)
        return {"base": base, "ranges": {k: range_document(given) for k, given in self.ranges.items()}}

    def checksum(self) -> str:
        """Return a checksum, the same for the same space."""
        text = json.dumps(self.to_document(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def __str__(self) -> str:
        fixed = [f"{name} = {value}" for name, value in self.base.items()]
        searched = [f"{name}: {describe_range(given)}" for name, given in self.ranges.items()]
        return "\n".join(fixed + searched)


def as_range(name: str, value: Any, current: Any = None) -> Any:
    """Return what a change of a setting means: a range, or the one value that is left.

    The value may be a range; a table such as ``{"low": 16, "high": 64}``, to which ``step`` and ``log`` may
    be added, else they are those of the current range; or a list of options, of which a single one is a fixed
    value, as is anything else.
    """
    try:
        if isinstance(value, Mapping):
            return _parse_table(value, current)
        if isinstance(value, (list, tuple)) and len(value) == 1:
            return value[0]
        if isinstance(value, (list, tuple)):
            wrong = [option for option in value if not isinstance(option, _SIMPLE)]
            if wrong:
                raise ParameterError(
                    f"options are strings, numbers, booleans or None; got {wrong[0]!r} among them."
                )
            if not value or len(set(value)) < len(value):
                raise ParameterError(f"options are one or more, each once; got {list(value)!r}.")
            return Choice(value)
    except ValueError as error:  # ours, and Optuna's of ends that are no range
        raise ParameterError(f"{name}: {error}") from error
    return value


def describe_range(given: Range) -> str:
    """Return a range in words."""
    if isinstance(given, Choice):
        *first, last = map(str, given.choices)
        return f"{', '.join(first)} or {last}" if first else last
    ends = f"{given.low:g} to {given.high:g}" if isinstance(given, Real) else f"{given.low} to {given.high}"
    steps = f" in steps of {given.step:g}" if _has_steps(given) else ""
    return f"{ends}{steps}{', log scale' if given.log else ''}"


def range_document(given: Range) -> dict[str, Any] | list[Any]:
    """Return a range in plain values, as :func:`as_range` reads it."""
    if isinstance(given, Choice):
        return list(given.choices)
    extra = {"step": given.step} if _has_steps(given) else {"log": True} if given.log else {}
    return {"low": given.low, "high": given.high, **extra}


def extreme_values(given: Range) -> tuple[Any, ...]:
    """Return the values at which a mistake would show: the ends, or every option."""
    return given.choices if isinstance(given, Choice) else (given.low, given.high)


def _has_steps(given: IntDistribution | FloatDistribution) -> bool:
    return given.step is not None and (isinstance(given, Real) or given.step > 1)


def _parse_table(table: Mapping[str, Any], current: Any) -> IntDistribution | FloatDistribution:
    known = ("low", "high", "step", "log")
    for key in table:
        if key not in known:
            raise ParameterError(
                f"a range has no {key!r}.{suggest(key, known)} Write {{low = 1, high = 10}}, with step = 2 "
                "or log = true."
            )
    missing = [key for key in ("low", "high") if key not in table]
    if missing:
        raise ParameterError(
            f"a range needs {missing[0]}; got {dict(table)!r}. Write {{low = 1, high = 10}}."
        )
    low, high = table["low"], table["high"]
    for end in (low, high):
        if isinstance(end, bool) or not isinstance(end, (int, float)) or not math.isfinite(end):
            raise ParameterError(
                f"the ends of a range are numbers; got {end!r}. Options are a list, such as [1, 2]."
            )
    is_whole = isinstance(low, int) and isinstance(high, int)
    if isinstance(current, Integer) and not is_whole:
        raise ParameterError(
            f"the ends must be whole numbers, as in {describe_range(current)}; got {low} and {high}."
        )
    extra = {key: table.get(key, getattr(current, key, None)) for key in ("step", "log")}
    kind = Integer if is_whole and not isinstance(current, Real) else Real
    with warnings.catch_warnings(action="ignore"):  # of an end that no step leads to, which is an error here
        found = kind(low, high, **{key: value for key, value in extra.items() if value is not None})
    if found.high != high:
        raise ParameterError(
            f"from {low} in steps of {found.step:g}, {high} is not reached; end at {found.high:g}, or choose "
            "another step."
        )
    return found


VARIANTS: dict[str, dict[str, Any]] = {
    "adj": {"aggregation": "adjacency", "rule": "samme"},
    "kta": {"aggregation": "kta", "aggregation__degree": 3, "rule": "samme"},
    "ii": {"aggregation": "injection", "rule": "samme"},
    "samme_r": {"aggregation": "adjacency", "rule": "samme_r"},
}
"""The parts of GB-GNN-Adj, -KTA, -II and -SAMME.R."""

# LogUnif[a, b] in the paper's table: the logarithm to base 10 is uniform from a to b.
_RATE, _TINY = Real(1e-5, 1e-1, log=True), Real(1e-10, 1e-1, log=True)
_OPTIMIZERS = Choice(list(OPTIMIZERS))
# Weights of several layers multiply: what regularises one hidden layer makes two or more constant.
_DECAY, _DECAY_DEEP = (8e-3, 2.5e-2), (2e-4, 3e-3)


def paper_space(
    variant: str, *, n_train: int, hidden_layers: int = 1, fine_tune: bool = False
) -> SearchSpace:
    """Return the ranges of the paper's table of hyper-parameters, for the paper's learner.

    Inputs are not standardised, and a fine-tuned model is taken whether it is better or not, as there.

    Parameters
    ----------
    variant
        ``"adj"``, ``"kta"``, ``"ii"`` or ``"samme_r"``.
    n_train
        Number of training nodes, the largest batch.
    hidden_layers
        The paper's L, 0 to 4.
    fine_tune
        Whether the model is fine-tuned.
    """
    check_integer("paper_space", "n_train", n_train, 1)
    base = _base("paper_space", variant, hidden_layers, fine_tune) | {"learner__standardize": False}
    ranges: dict[str, Range] = {
        "n_rounds": Integer(1, 40 if variant == "kta" and fine_tune else 100),
        "learner__batch_size": Integer(1, n_train),
        # The paper's clipping value.
        "rule__proba_floor" if variant == "samme_r" else "rule__error_floor": Real(1e-10, 1e-5, log=True),
        "learner__epochs": Integer(10, 100, step=10),
        "learner__optimizer": _OPTIMIZERS,
        "learner__learning_rate": _RATE,
        "learner__momentum": _TINY,
        "learner__weight_decay": _TINY,
        "learner__units": Integer(10, 200),
        "learner__dropout": Choice([0.0, 0.5]),
    }
    if variant == "ii":
        ranges["aggregation__mixing"] = Real(0.0, 1.0)
    if variant == "kta":
        ranges["aggregation__epochs"] = Integer(5, 30)
        ranges["aggregation__optimizer"] = _OPTIMIZERS
        ranges["aggregation__learning_rate"] = _RATE
    if fine_tune:
        base["fine_tune__keep"] = "tuned"
        ranges["fine_tune__epochs"] = Integer(1, 100)
        ranges["fine_tune__optimizer"] = _OPTIMIZERS
        ranges["fine_tune__learning_rate"] = _RATE
        ranges["fine_tune__momentum"] = _TINY
        ranges["fine_tune__weight_decay"] = _TINY
    return SearchSpace(base, ranges)


def default_space(
    variant: str, *, n_train: int = FEW, hidden_layers: int = 1, fine_tune: bool = False
) -> SearchSpace:
    """Return narrower ranges, for our standardised learner; most trials in them are good ones.

    Steps are small, so that the training nodes keep nearly even weights and every round has its say, and
    bounded, so that a learner without errors on the training nodes does not outvote all others. That is for
    few training nodes; many take larger steps as well, and the less weight decay the more they are.

    Neither rounds nor epochs of fine-tuning are searched: a model stopped at a round is the model that was
    asked for so many, so that choosing the round by validation, and the epoch, searches them already. All
    training nodes make one batch.

    Parameters
    ----------
    variant, hidden_layers
        As in :func:`paper_space`.
    n_train
        Number of training nodes; up to 200 are few.
    fine_tune
        Whether the model is fine-tuned; the better of the boosted and the fine-tuned model is taken.
    """
    check_integer("default_space", "n_train", n_train, 1)
    base = _base("default_space", variant, hidden_layers, fine_tune)
    times = max(1.0, n_train / FEW)
    least, most = (decay / times for decay in (_DECAY if hidden_layers < 2 else _DECAY_DEEP))
    base |= {"n_rounds": 40, "learner__basis": "rows", "feature_norm": "l2"}
    ranges: dict[str, Range] = {
        "learner__epochs": Integer(40, 100, step=10),
        "learner__learning_rate": Real(3e-3, 5e-2, log=True),
        "learner__weight_decay": Real(least, most, log=True),
        "learner__units": Integer(32, 128, log=True),
        "learner__dropout": Choice([0.0, 0.5]),
        "rule__learning_rate": Real(5e-3, 5e-2 if n_train <= FEW else 1.0, log=True),
    }
    if variant != "samme_r":
        ranges["rule__error_floor"] = Real(1e-3, 3e-2, log=True)
    if variant == "ii":
        ranges["aggregation__mixing"] = Real(0.8, 1.0)
    if variant == "kta":
        ranges["aggregation__epochs"] = Integer(5, 30)
        ranges["aggregation__learning_rate"] = Real(1e-3, 1e-2, log=True)
    if fine_tune:
        base["fine_tune__epochs"] = 100
        ranges["fine_tune__learning_rate"] = Real(1e-4, 1e-2, log=True)
        ranges["fine_tune__weight_decay"] = Real(1e-6, 1e-2, log=True)
    return SearchSpace(base, ranges)


def _base(owner: str, variant: str, hidden_layers: int, fine_tune: bool) -> dict[str, Any]:
    check_choice(owner, "variant", variant, VARIANTS)
    check_integer(owner, "hidden_layers", hidden_layers, 0, 4)
    parts = {**VARIANTS[variant], "learner": "mlp", "learner__hidden_layers": hidden_layers}
    return parts | {"fine_tune": True} if fine_tune else parts
