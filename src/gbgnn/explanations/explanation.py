"""Explanation: all that is known of how some nodes came to their scores, computed when asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse.csgraph import dijkstra

from gbgnn.errors import AbsentError
from gbgnn.explanations.attributions import (
    Attributions,
    NeighbourContributions,
    by_name,
    by_user_column,
    order_by_size,
)
from gbgnn.explanations.contributions import Contributions
from gbgnn.explanations.rounds import Rounds


@dataclass(frozen=True, eq=False)
class Explanation(ABC):
    """How nodes came to their scores, or to what an average says of them.

    Parameters
    ----------
    outputs
        Names of the columns of scores, or of probabilities.
    is_choice
        Whether the output with the largest score is what is predicted.
    """

    outputs: Sequence[str]
    is_choice: bool

    @property
    @abstractmethod
    def contributions(self) -> Contributions:
        """What rounds or members, and distances, added."""

    @property
    @abstractmethod
    def attributions(self) -> Attributions:
        """What columns added; AbsentError where that is not known."""

    @property
    @abstractmethod
    def neighbours(self) -> list[NeighbourContributions]:
        """What the nodes that each node hears of added; AbsentError where that is not known."""


@dataclass(frozen=True, eq=False)
class RoundsExplanation(Explanation):
    """How nodes came to the scores of one model.

    Parameters
    ----------
    rounds
        The rounds of the model, on a graph, and the nodes.
    columns
        The user's columns.
    """

    rounds: Rounds
    columns: Sequence[str]

    @cached_property
    def contributions(self) -> Contributions:
        """What rounds and distances added."""
        rounds, why = self.rounds, None
        keys, values, remainder = None, None, 0.0
        try:
            keys, values, remainder = rounds.by_scale()
        except AbsentError as error:
            why = str(error)
        return Contributions(
            nodes=rounds.nodes.cpu().numpy(),
            outputs=self.outputs,
            parts=[f"round {look.trained.t}" for look in rounds.looks],
            by_round=rounds.added.cpu().numpy(),
            base=np.zeros(len(self.outputs)),
            scale_keys=keys,
            values=values,
            why_no_scales=why,
            quantity="score",
            is_choice=self.is_choice,
            remainder=remainder,
        )

    @cached_property
    def attributions(self) -> Attributions:
        """What columns added; AbsentError where that is not known."""
        found = self.rounds.by_column()
        columns, values = by_user_column(found.origins, found.values, self.columns)
        seen, seen_values = by_name(found.origins, found.values)
        return Attributions(
            nodes=self.rounds.nodes.cpu().numpy(),
            outputs=self.outputs,
            columns=columns,
            values=values,
            seen=seen,
            seen_values=seen_values,
            base=found.base,
            quantity="score",
            is_choice=self.is_choice,
            remainder=found.remainder,
        )

    @cached_property
    def neighbours(self) -> list[NeighbourContributions]:
        """What the nodes that each node hears of added; AbsentError where that is not known."""
        return [self._rank_senders(i) for i in range(len(self.rounds.nodes))]

    def _rank_senders(self, i: int) -> NeighbourContributions:
        node, found = int(self.rounds.nodes[i]), self.rounds.by_sender(i)
        heard = np.flatnonzero(found.values.any(axis=1))
        values = found.values[heard]
        order = order_by_size(found.base + found.rest + values.sum(axis=0), values, self.is_choice)
        # An entry of P leads from a node to one that it hears.
        away = dijkstra(self.rounds.inputs.P.to_scipy(), unweighted=True, indices=node)[heard[order]]
        return NeighbourContributions(
            node=node,
            outputs=self.outputs,
            neighbours=heard[order],
            steps=np.where(np.isfinite(away), away, -1).astype(np.int64),
            values=values[order],
            base=found.base,
            rest=found.rest,
            rest_parts=[f"round {self.rounds.looks[t].trained.t}" for t in found.silent],
            quantity="score",
            is_choice=self.is_choice,
        )
