"""Aggregation (a family of g) and Hop (one fitted g)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from sklearn.base import BaseEstimator

from gbgnn.problem import NodeInputs, Problem


class Hop(ABC):
    """One fitted aggregation: a map of all N rows to all N rows, on any graph.

    Called once per round, and again wherever the model is applied. It may assume ``X`` to be the
    representation that the previous hop returned, and must leave it as it was.
    """

    @abstractmethod
    def __call__(self, X: torch.Tensor, inputs: NodeInputs) -> torch.Tensor:
        """Return the next representation."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return what was learned, as JSON-ready values: for the history and for the model file."""

    @classmethod
    @abstractmethod
    def from_record(cls, record: dict[str, Any]) -> Hop:
        """Build the hop again from :meth:`record`."""


class Aggregation(BaseEstimator, ABC):
    """How representations are mixed along the graph before each round but the first.

    ``check`` is called once before a fit and raises :class:`~gbgnn.errors.ParameterError` on a setting
    out of range. ``fit`` is called once per round from the second on; it may look at the current
    representation ``X`` (all nodes) and at ``problem``, draws from ``seed`` alone, and returns a
    :class:`Hop`. An aggregation of one's own is a few lines::

        @dataclass(kw_only=True, eq=False, repr=False)
        class TwoHops(Aggregation):
            def check(self):
                pass

            def fit(self, X, problem, seed):
                return PolynomialHop(powers=(2,), coefficients=(1.0,))
    """

    @abstractmethod
    def check(self) -> None:
        """Raise when a setting is out of range."""

    @abstractmethod
    def fit(self, X: torch.Tensor, problem: Problem, seed: int) -> Hop:
        """Choose g for this round."""
