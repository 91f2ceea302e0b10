"""Aggregation (a family of g) and Hop (one fitted g)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from gbgnn.origins import Origin
from gbgnn.problem import NodeInputs
from gbgnn.propagation import Representation, join_members
from gbgnn.rounds import RoundContext


class Hop(ABC):
    """One fitted aggregation: a map of all N rows to all N rows, on any graph.

    Called once per round, and again wherever the model is applied. It may assume ``X`` to be the
    representation that the previous hop returned, and must leave it as it was.
    """

    keeps_columns: ClassVar[bool] = False
    """Whether a column of the result is made of the same column alone, so that it may keep its name."""

    keeps_width: ClassVar[bool] = True
    """Whether the result has as many columns as the input."""

    caveat: ClassVar[str | None] = None
    """What a certificate of the model must say of it: what the theory does not cover."""

    @abstractmethod
    def __call__(self, X: Representation, inputs: NodeInputs) -> Representation:
        """Return the next representation."""

    def name_columns(self, before: Sequence[Origin], n_hops: int) -> list[Origin] | None:
        """Return what the columns of the result are, ``before`` those of the input; None where nobody knows.

        ``n_hops`` counts the hops so far, this one included, that of round 1 left out.
        """
        return list(before) if self.keeps_columns else None

    def extend_walks(self, before: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return how much of the result comes along walks of 0, 1, ... steps, ``before`` of the input.

        Of a polynomial in P these are its coefficients. None where the result is no sum over walks.
        """
        return None

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return what was learned, as JSON-ready values: for the history and for the model file."""

    def state(self) -> dict[str, torch.Tensor]:
        """Return what was learned and is too large for :meth:`record`, for the model file."""
        return {}

    @classmethod
    @abstractmethod
    def from_record(cls, record: dict[str, Any], state: dict[str, torch.Tensor]) -> Hop:
        """Build the hop again from :meth:`record` and :meth:`state`."""


@dataclass(frozen=True)
class HopSpace:
    r"""All hops that an aggregation could have chosen, whatever the labels; what a bound must cover.

    They are :math:`X \mapsto E(X) W`, followed by a ReLU where not ``is_linear``, with every column of W
    in an L1 ball.
    """

    envelope: Hop  # E, which no label has touched
    max_norm: float = 1.0  # radius of the ball; a hop that mixes no columns has W = I, with columns of norm 1
    is_linear: bool = True


class Aggregation(BaseEstimator, ABC):
    """How representations are mixed along the graph before each round but the first.

    ``check`` is called once before a fit and raises :class:`~gbgnn.errors.ParameterError` on a setting
    out of range. ``fit`` is called once per round from the second on; it may look at all that the context
    holds, draws from its seed alone, and returns a :class:`Hop`. What the round goes on with is what
    ``step`` returns: the hop and the next representation. It calls both, and is overridden where fitting has
    computed the products already that applying needs. An aggregation of one's own is a few lines::

        @dataclass(kw_only=True, eq=False, repr=False)
        class TwoHops(Aggregation):
            def check(self):
                pass

            def fit(self, context):
                return PolynomialHop(powers=(2,), coefficients=(1.0,))
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Let a class that chooses its own hops be asked to, also where its parent chooses many at once."""
        super().__init_subclass__(**options)
        if {"fit", "step"} & set(vars(cls)) and "step_many" not in vars(cls):
            cls.step_many = classmethod(Aggregation.step_many.__func__)  # type: ignore[assignment,attr-defined]

    is_polynomial: ClassVar[bool] = False
    """Whether every hop is a polynomial in P, a :class:`~gbgnn.aggregation.PolynomialHop`. A population then
    computes products once for all members and keeps the rows of a few nodes alone: ``fit`` may look at rows
    of labelled nodes, not multiply by P."""

    max_power: int = 1
    """The highest power of P in such a hop; no hop may have a higher one."""

    may_cancel: ClassVar[bool] = False
    """Whether such a hop may have negative coefficients."""

    @abstractmethod
    def check(self) -> None:
        """Raise when a setting is out of range."""

    def check_learner(self, learner: BaseEstimator) -> None:
        """Raise when a learner does not go with it; called once before a fit, after ``check``."""

    @abstractmethod
    def fit(self, context: RoundContext) -> Hop:
        """Choose g for this round."""

    def step(self, context: RoundContext) -> tuple[Hop, Representation]:
        """Choose g for this round, and apply it."""
        hop = self.fit(context)
        return hop, hop(context.X, context.inputs)

    @classmethod
    def step_many(
        cls, aggregations: Sequence[Any], context: RoundContext
    ) -> tuple[Sequence[Hop], Representation]:
        """Choose and apply the hops of several members, whose aggregations are of this class.

        One after another; overridden where several can be chosen at once. The context has an axis of members.
        """
        taken = [each.step(context.member(i)) for i, each in enumerate(aggregations)]
        return [hop for hop, _ in taken], join_members([X for _, X in taken])

    def hypothesis_space(self) -> HopSpace | None:
        """Return what ``fit`` chooses from, or None where no norm bounds it."""
        return None
