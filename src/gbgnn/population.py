"""train_population: many models boosted at once, on the rows of a few nodes alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gbgnn._random import root_seed
from gbgnn._threads import one_thread
from gbgnn.aggregation import Aggregation
from gbgnn.base_estimator import GBGNNEstimator
from gbgnn.boosting import Boosted, StopReason, boost_many
from gbgnn.errors import ParameterError
from gbgnn.finetuning import as_fine_tuner
from gbgnn.fitting import Labels, build_problem, describe_part, resolve_member
from gbgnn.graph import Graph
from gbgnn.labels import as_nodes, check_range
from gbgnn.learners.base import LABELLED
from gbgnn.model import check_graph
from gbgnn.presets import Facts, adapt
from gbgnn.problem import Problem
from gbgnn.propagation import Interval, PolynomialRows, chebyshev_terms, spectral_interval
from gbgnn.propagation.polynomial import Basis, ChebyshevBasis, PowerBasis, TermRows
from gbgnn.registry import as_device, as_dtype, as_part
from gbgnn.rounds import shared_settings

Listener = Callable[[int, Mapping[int, float | None]], Collection[int]]
"""Is told of the validation scores after a round, by member, and says which members to drop."""

_DATA = (
    "task",
    "loss",
    "quantile",
    "propagation",
    "feature_norm",
    "neighbourhood",
    "class_weight",
    "dtype",
)  # of a Problem
_SHARED = (*_DATA, "metric", "device")
_ALONE = {
    "validation_fraction": None,
    "n_iter_no_change": None,
    "time_limit": None,
    "warm_start": False,
    "fine_tune": None,
}


@dataclass(frozen=True, eq=False)
class MemberResult:
    """What came of a member: its model, without the learners, and scores of the further nodes.

    These are of ``best_round``, shape (n, outputs); None where none were asked for, or no round was trained.
    """

    boosted: Boosted
    scores: NDArray[Any] | None

    @property
    def n_rounds(self) -> int:
        """Number of rounds that were trained."""
        return len(self.boosted.ensemble)

    @property
    def best_round(self) -> int:
        """The round that predicts; 0 where not even one round could be trained."""
        return 0 if self.boosted.best is None else self.boosted.best.t

    @property
    def stop_reason(self) -> StopReason:
        """Why boosting ended; ``REQUESTED`` for a member that was dropped."""
        return self.boosted.stop

    @property
    def seconds(self) -> float:
        """The member's share of the time that its rounds took."""
        return float(sum(self.boosted.history["seconds"]))

    @property
    def val_scores(self) -> list[float]:
        """The metric on the validation nodes after every round; empty where there are none."""
        history = self.boosted.history
        found = history[f"val_{history.metric}"]
        return [] if None in found else found

    @property
    def best_val_score(self) -> float | None:
        """The metric on the validation nodes at ``best_round``; None without such nodes or rounds."""
        return self.val_scores[self.best_round - 1] if self.val_scores else None


class PopulationInputs:
    """A problem, and the rows of its labelled, validation and further nodes in every representation so far.

    Rows are computed once and kept, so that the populations of a study should share one such object.

    Parameters
    ----------
    problem
        What all members are trained on.
    predict_nodes
        Further nodes whose scores are wanted; None for none. Their labels are never asked for.
    facts
        What presets choose the parts of members by; None leaves members as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from gbgnn.testing import make_problem, two_blocks
    >>> inputs = PopulationInputs(make_problem(*two_blocks(40), np.arange(8), np.arange(8, 20)))
    >>> len(inputs.nodes)
    20
    """

    def __init__(
        self, problem: Problem, predict_nodes: ArrayLike | None = None, facts: Facts | None = None
    ) -> None:
        self.facts = facts
        self.problem, device = problem, problem.inputs.device
        further = as_nodes([] if predict_nodes is None else predict_nodes, unique=False)
        check_range(further, problem.inputs.n_nodes)
        self.further = torch.as_tensor(further, device=device)
        self.nodes = torch.cat([problem.known_rows, self.further])

    @classmethod
    def from_model(
        cls,
        model: GBGNNEstimator,
        nodes: ArrayLike,
        y: ArrayLike,
        *,
        graph: Graph,
        validation: Labels | None = None,
        sample_weight: ArrayLike | None = None,
        predict_nodes: ArrayLike | None = None,
    ) -> PopulationInputs:
        """Build what ``model.fit`` would be trained on, from the arguments of ``fit``.

        Examples
        --------
        >>> from gbgnn import GBGNNClassifier, datasets
        >>> data = datasets.load("karate")
        >>> model = GBGNNClassifier(dtype="float64", device="cpu")
        >>> inputs = PopulationInputs.from_model(model, data.train, data.y[data.train], graph=data.graph)
        >>> inputs.problem.inputs.dtype
        torch.float64
        """
        reason = _why_alone(model)
        if reason is not None:
            raise ParameterError(f"this model {reason}")
        if model.validation_fraction is not None:
            raise ParameterError(
                "validation_fraction sets other nodes aside for every seed, but a population shares its "
                "nodes; pass validation=(nodes, y)."
            )
        labels: dict[str, Any] = {"validation": validation, "sample_weight": sample_weight}
        check_graph(graph)
        task = model.task_for(y)
        facts = Facts.of(graph, task, nodes, y, has_validation=validation is not None)
        problem = build_problem(adapt(model, facts), task, nodes, y, graph, **labels, seed=0)
        return cls(problem, predict_nodes, facts)

    @staticmethod
    def key(model: GBGNNEstimator) -> str:
        """Return text that is the same for models which :meth:`from_model` builds the same inputs for."""
        params = model.get_params(deep=False)
        return repr([params.get(name) for name in _DATA])

    def restrict(self, aggregation: Aggregation, n_rounds: int) -> Problem | None:
        """Return the problem on the kept nodes alone; None where hops of an aggregation need all nodes."""
        if not aggregation.is_polynomial:
            return None
        basis: Basis = self._powers
        if aggregation.may_cancel:
            if self._interval is None:
                return None
            degree = aggregation.max_power * max(1, n_rounds - 1)
            basis = ChebyshevBasis(self._chebyshev, self._interval, degree)
        features = PolynomialRows(basis, basis.one)
        return self.problem.on_known_rows(replace(self.problem.inputs, features=features))

    @cached_property
    def _powers(self) -> PowerBasis:
        inputs = self.problem.inputs
        return PowerBasis.build(inputs.P, inputs.features, self.nodes)

    @cached_property
    def _interval(self) -> Interval | None:
        """Where the eigenvalues of P are; None where they are not all real."""
        return spectral_interval(self.problem.inputs.P)

    @cached_property
    def _chebyshev(self) -> TermRows:
        inputs, interval = self.problem.inputs, self._interval
        assert interval is not None
        return TermRows(chebyshev_terms(inputs.P, inputs.features.dense(), sys.maxsize, interval), self.nodes)


@one_thread()
def train_population(
    inputs: PopulationInputs, models: Sequence[GBGNNEstimator], *, on_round: Listener | None = None
) -> list[MemberResult]:
    """Train many models at once, on the rows of labelled, validation and further nodes alone.

    Every member equals the same model trained alone by ``fit``, up to rounding; :func:`reason_apart` says
    what they must share. Where a part needs more than those rows, they are trained one after another.

    Parameters
    ----------
    inputs
        What they are trained on; hold on to it between the populations of a study.
    models
        The members, unfitted; they stay as they are.
    on_round
        Called after every round with its number and the validation score of every member that took it
        (None without validation nodes); members it returns are dropped.

    Examples
    --------
    >>> from gbgnn import MLP, GBGNNClassifier, datasets
    >>> data = datasets.load("karate")
    >>> models = [
    ...     GBGNNClassifier(rule="samme", learner=MLP(units=u, epochs=20), n_rounds=3, random_state=u)
    ...     for u in (8, 16)
    ... ]
    >>> inputs = PopulationInputs.from_model(models[0], data.train, data.y[data.train], graph=data.graph)
    >>> [result.n_rounds for result in train_population(inputs, models)]
    [3, 3]
    """
    if inputs.facts is not None:
        models = [adapt(each, inputs.facts) if isinstance(each, GBGNNEstimator) else each for each in models]
    reason = reason_apart(models, inputs)
    if reason is not None:
        raise ParameterError(reason)
    members = [
        resolve_member(model, inputs.problem, root_seed(model.random_state), keep_learners=False)
        for model in models
    ]
    problem = None
    if members[0].learner.uses == LABELLED:
        problem = inputs.restrict(members[0].aggregation, max(member.n_rounds for member in members))
    if problem is not None:
        trained = boost_many(problem, members, listen=_listen(on_round))
        first = len(inputs.nodes) - len(inputs.further)
        further = torch.arange(first, len(inputs.nodes), device=inputs.nodes.device)
    else:
        further, trained = inputs.further, []
        for i, member in enumerate(members):
            trained += boost_many(inputs.problem, [member], listen=_listen(on_round, i))
    return [MemberResult(each, _scores(each, further)) for each in trained]


def _scores(boosted: Boosted, nodes: torch.Tensor) -> NDArray[Any] | None:
    if boosted.best is None or not len(nodes):
        return None
    return np.asarray(boosted.best.scores[nodes].cpu())


def _listen(on_round: Listener | None, first: int = 0) -> Any:
    """Return what boosting tells of its rounds; members are numbered from ``first``."""
    if on_round is None:
        return None

    def listen(t: int, models: Mapping[int, Boosted]) -> dict[int, StopReason]:
        last = {first + i: model.history[-1] for i, model in models.items()}
        scores = {i: row[f"val_{models[i - first].history.metric}"] for i, row in last.items()}
        dropped = on_round(t, scores) if scores else ()
        strangers = sorted(set(dropped) - set(scores))
        if strangers:
            raise ParameterError(
                f"on_round asked to drop member {strangers[0]}, who did not take part in round {t}; members "
                f"in training: {', '.join(map(str, scores))}."
            )
        return {i - first: StopReason.REQUESTED for i in dropped}

    return listen


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
    >>> from gbgnn import GBGNNClassifier
    >>> one, other = GBGNNClassifier(rule="samme"), GBGNNClassifier(rule="samme", n_rounds=3)
    >>> reason_apart([one, other]) is None
    True
    >>> print(reason_apart([one, GBGNNClassifier(rule="samme_r")]))
    members of a population share the rule; member 0 has 'Samme', member 1 'SammeR'. Train them apart.
    """
    if not models:
        return "a population needs at least one model; got none."
    for i, model in enumerate(models):
        if not isinstance(model, GBGNNEstimator):
            return f"member {i} must be a GBGNNClassifier or a GBGNNRegressor; got {type(model).__name__}."
    try:
        return next(_reasons(models, inputs), None)
    except ParameterError as error:  # of a name that stands for nothing, by which training would end as well
        return str(error)


def _reasons(models: Sequence[GBGNNEstimator], inputs: PopulationInputs | None) -> Iterator[str]:
    for i, model in enumerate(models):
        reason = _why_alone(model)
        if reason is not None:
            yield f"member {i} {reason}"
        for name, only in _ALONE.items():
            got = as_fine_tuner(model.fine_tune) if name == "fine_tune" else getattr(model, name)
            if got != only:
                yield f"member {i} has {name}={got!r}; train that model alone, by fit()."
        if model.callbacks:
            yield f"member {i} has callbacks; a population calls on_round instead."
        place = as_dtype(model.dtype), as_device(model.device).type
        given = None if inputs is None else (inputs.problem.inputs.dtype, inputs.problem.inputs.device.type)
        if given is not None and place != given:
            yield (
                f"member {i} asks for {place[0]} on {place[1]}, but the inputs are {given[0]} on {given[1]}; "
                "build them by PopulationInputs.from_model(model, ...)."
            )
    first = _shared_values(models[0])
    for i, model in enumerate(models[1:], start=1):
        for name, value in _shared_values(model).items():
            is_same = value is first.get(name) or describe_part(value) == describe_part(first.get(name))
            # A metric's name is not all of it.
            is_same &= name != "metric" or getattr(value, "__dict__", None) == getattr(
                first[name], "__dict__", None
            )
            if not is_same:
                yield (
                    f"members of a population share the {name}; member 0 has "
                    f"{describe_part(first.get(name))}, member {i} {describe_part(value)}. Train them apart."
                )


def _why_alone(model: GBGNNEstimator) -> str | None:
    """Return why a model is no member of any population."""
    is_several = model.preset == "best"
    return 'has preset="best", which trains several models by itself; fit it alone.' if is_several else None


def _shared_values(model: GBGNNEstimator) -> dict[str, Any]:
    """Return what a model must have in common with other members, by name."""
    params = model.get_params(deep=False)
    shared = {name: params[name] for name in _SHARED if name in params}
    for family in ("aggregation", "learner", "rule"):
        part = as_part(family, getattr(model, family))
        shared[family] = type(part).__name__
        shared |= {f"{family}.{name}": value for name, value in shared_settings(part).items()}
    return shared
