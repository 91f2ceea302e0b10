"""Beside: the raw features, and what a node's neighbours have, as columns of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from gbgnn._checks import check_choice
from gbgnn.aggregation.base import Aggregation, Hop, HopSpace
from gbgnn.errors import ModelFileError, ParameterError
from gbgnn.origins import Origin, word_statistic
from gbgnn.problem import NodeInputs
from gbgnn.propagation import DenseRows, JoinedRows, Representation
from gbgnn.propagation.neighbours import ALONG, DIRECTIONS
from gbgnn.rounds import RoundContext

MEAN, MAX, SUM = STATISTICS = ("mean", "max", "sum")
_CHAINS = (MEAN, MAX)  # of which the next hop is made
_PREFIXES = dict(zip(DIRECTIONS, ("in-", "out-"), strict=True))


class Kind(NamedTuple):
    """A block of columns that a hop adds."""

    direction: str
    statistic: str


@dataclass(frozen=True)
class BesideHop(Hop):
    """Raw columns, those that the hop before made, and the same statistics of the neighbours' rows of these.

    ``directions`` are those in which neighbours are heard, and ``log_degrees`` the mean logarithm of one plus
    the degree in each, of the graph of the fit: other graphs are scaled by it too. None takes what the graph
    at hand has.
    """

    statistics: tuple[str, ...] = (MEAN,)
    previous: bool = True
    directions: tuple[str, ...] | None = None
    log_degrees: tuple[float, ...] | None = None
    keeps_width = False

    def settle(self, inputs: NodeInputs) -> BesideHop:
        """Return the hop with what is still None taken from a graph."""
        neighbours = inputs.neighbours
        directions = neighbours.directions() if self.directions is None else self.directions
        means = (float(neighbours[each].log_degrees.mean()) for each in directions)
        return replace(self, directions=directions, log_degrees=self.log_degrees or tuple(means))

    def __call__(self, X: Representation, inputs: NodeInputs) -> Representation:
        """Return the next representation."""
        if self.directions is None or self.log_degrees is None:
            return self.settle(inputs)(X, inputs)
        raw, beside = X, []
        if isinstance(X, JoinedRows):
            raw, own = X.parts[0], dict(zip(self._kinds, X.parts[-len(self._kinds) :], strict=True))
            beside = [own[kind] for kind in self._kinds if kind.statistic in _CHAINS and self.previous]
        else:  # the raw features, made dense once: every chain starts from them
            own = dict.fromkeys(self._kinds, DenseRows(X.dense()))
        return JoinedRows((raw, *beside, *map(DenseRows, self._hear(own, inputs).values())))

    @property
    def _kinds(self) -> list[Kind]:
        """The blocks that a hop adds, in order."""
        return [Kind(direction, name) for direction in self.directions or () for name in self.statistics]

    def _hear(self, own: dict[Kind, Representation], inputs: NodeInputs) -> dict[Kind, torch.Tensor]:
        """Return the statistics of the neighbours' rows, ``own`` those of the nodes themselves."""
        heard: dict[Kind, torch.Tensor] = {}
        for kind, size in zip(self._kinds, self._sizes(), strict=True):
            edges = inputs.neighbours[kind.direction]
            if kind.statistic == MEAN:
                heard[kind] = edges.walk(own[kind].dense())
            elif kind.statistic == MAX:
                heard[kind] = edges.maximum(own[kind].dense())
            else:
                factors = (edges.log_degrees / size).to(inputs.dtype)[:, None]
                heard[kind] = heard[kind._replace(statistic=MEAN)] * factors
        return heard

    def _sizes(self) -> list[float]:
        """Return the mean logarithm of degrees for each block; 1 where there are no edges."""
        by_direction = dict(zip(self.directions or (), self.log_degrees or (), strict=True))
        return [by_direction[kind.direction] or 1.0 for kind in self._kinds]

    def name_columns(self, before: Sequence[Origin], n_hops: int) -> list[Origin] | None:
        """Return the names of the columns after so many hops."""
        chains = [kind for kind in self._kinds if kind.statistic in _CHAINS]
        n_own = [len(chains) if self.previous and hop > 1 else 0 for hop in (n_hops - 1, n_hops)]
        n_blocks = 1 + n_own[0] + len(self._kinds) if n_hops > 1 else 1
        raw = before[: len(before) // n_blocks]

        def name_hop(hop: int, kinds: Sequence[Kind]) -> list[Origin]:
            return [
                Origin(
                    word_statistic(kind.statistic, each, hop, self._prefix(kind.direction)),
                    each.column,
                    scale=each.scale + hop if isinstance(each.scale, int) else each.scale,
                )
                for kind in kinds
                for each in raw
            ]

        own = name_hop(n_hops - 1, chains) if n_own[1] else []
        return [*raw, *own, *name_hop(n_hops, self._kinds)]

    def _prefix(self, direction: str) -> str:
        return _PREFIXES[direction] if self.directions != (ALONG,) else ""

    def record(self) -> dict[str, Any]:
        """Return the settings, and what was taken from the graph of the fit."""
        return {
            "statistics": list(self.statistics),
            "previous": self.previous,
            "directions": None if self.directions is None else list(self.directions),
            "log_degrees": None if self.log_degrees is None else list(self.log_degrees),
        }

    @classmethod
    def from_record(cls, record: dict[str, Any], state: dict[str, torch.Tensor]) -> BesideHop:
        """Build the hop again, of statistics and directions that there are."""
        names = ("statistics", "directions", "log_degrees")
        hop = cls(**record | {name: tuple(record[name]) for name in names if record[name] is not None})
        if not set(hop.statistics) <= set(STATISTICS) or not set(hop.directions or ()) <= set(DIRECTIONS):
            raise ModelFileError(
                f"its hop takes {hop.statistics} of neighbours {hop.directions}, which it cannot."
            )
        return hop


@dataclass(kw_only=True, eq=False, repr=False)
class Beside(Aggregation):
    r"""Keep the raw features beside what the neighbours have, and a node apart from its neighbours.

    Round t sees :math:`X^{(t)} = [X, g_{t-1}, g_t]`: the raw features, the node's own rows of the round
    before, and the neighbours' rows of these, by one block of columns for each of the ``statistics``. With
    :math:`W = D^{-1} A`, A without self loops, and :math:`g_1 = X`,

    - ``"mean"`` is :math:`W g_{t-1}`, so :math:`W^{t-1} X`;
    - ``"max"`` the largest value of any neighbour, column by column, whatever the weights;
    - ``"sum"`` the mean times :math:`\log(1 + d_i) / \delta`, with :math:`d_i` the sum of the node's weights
      and :math:`\delta` the mean of these logarithms over the nodes of the fit's graph: the scaled sums of
      principal neighbourhood aggregation (Corso et al., 2020). The next hop is made of the mean, not of
      this, which would grow with every hop.

    The statistics are those of the raw features at a distance, not of the blocks side by side, so that there
    are as many columns in round 20 as in round 3. In round 2 the node's own rows are the raw features, and
    are there once. A walk may come back: from the second hop on a node of an undirected graph hears itself
    too. A node that hears nobody has zeros.

    The neighbours are those of the matrix that ``propagation`` was given; the rest of P plays no part.

    Parameters
    ----------
    statistics
        Any of ``"mean"``, ``"max"``, ``"sum"``; the last needs the first.
    previous
        Whether a node's own rows of the round before are there.
    directions
        ``"along"``: a node hears from where its edges come. ``"both"``: also from where they lead, as blocks
        of their own. ``"auto"``: both where the adjacency matrix is not symmetric.

    Notes
    -----
    No label has a say in these columns, so that the bounds of the test error cover them as they cover
    given features. What is known of polynomials in P, such as how fast they smooth, does not speak of them.

    Examples
    --------
    >>> from gbgnn.testing import make_context, make_problem, path4
    >>> import numpy as np
    >>> context = make_context(make_problem(path4(), np.array([0, 1, 0, 1]), np.arange(2)))
    >>> hop, X = Beside(statistics=("mean", "max")).step(context)
    >>> X.dense().tolist()  # the features of the path, then those of the neighbours
    [[1.0, 2.0, 2.0], [2.0, 2.5, 4.0], [4.0, 5.0, 8.0], [8.0, 4.0, 4.0]]
    """

    statistics: Sequence[str] = ("mean",)
    previous: bool = True
    directions: str = "auto"

    def check(self) -> None:
        """Raise when a setting is out of range."""
        check_choice("Beside", "directions", self.directions, ("auto", "both", ALONG))
        names = self.statistics
        is_known = not isinstance(names, str) and len(names) and len(set(names)) == len(names)
        if not is_known or not set(names) <= set(STATISTICS) or (SUM in names and MEAN not in names):
            raise ParameterError(
                f"Beside.statistics must be one or more of {', '.join(STATISTICS)}, each once, as a sequence "
                f'such as ("mean", "max"), and "sum" only beside "mean"; got {names!r}.'
            )

    def hop(self) -> BesideHop:
        """Return the hop for any graph."""
        directions = {"auto": None, "both": DIRECTIONS, ALONG: (ALONG,)}[self.directions]
        ordered = tuple(name for name in STATISTICS if name in self.statistics)
        return BesideHop(ordered, self.previous, directions)

    def fit(self, context: RoundContext) -> Hop:
        """Return the hop for the graph at hand: there is nothing to learn from labels."""
        return self.hop().settle(context.inputs)

    @classmethod
    def step_many(
        cls, aggregations: Sequence[Beside], context: RoundContext
    ) -> tuple[Sequence[Hop], Representation]:
        """Return what all members have in common, computed once."""
        hop, X = aggregations[0].step(context.member(0))
        return [hop] * len(aggregations), X

    def hypothesis_space(self) -> HopSpace:
        """Return the one hop there is."""
        return HopSpace(self.hop())
