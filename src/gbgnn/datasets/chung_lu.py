"""Undirected graphs whose degrees follow a power law, drawn block by block of their rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq

from gbgnn.errors import ParameterError

_ENTRIES = 1 << 24  # of a block of rows, about: what is sorted at once
_DRAWS = 1 << 20  # ends drawn at once
_MOST_DRAWS = 16  # times as many as there shall be edges; three times where there is least room
_RANKS = 400  # points at which expected numbers of edges are computed


@dataclass(frozen=True)
class ChungLu:
    r"""Edges whose two ends are drawn by the weights of the nodes, as F. Chung and L. Lu do.

    The node of rank r weighs :math:`(r + o)^{-a}`, where :math:`a = 1 / (\gamma - 1)` gives degrees a tail
    :math:`P(d) \sim d^{-\gamma}`, and the offset o keeps the largest below a quarter of a class. An end is
    drawn in closed form, so that no table of all nodes is needed. Ranks are dealt out to blocks of rows, and
    within a block to its rows, so that a node's number says nothing about its degree. Classes are dealt out
    by rank too: the second end of an edge is moved to the nearest rank of the class that it shall have.

    The edges between two blocks have a generator of their own, and are drawn once for the rows of each. A
    block of rows holds about 16 million entries, for which 400 MB are needed.
    """

    n_nodes: int
    n_edges: int  # about so many distinct ones
    n_classes: int
    homophily: float  # the share of edges within classes
    exponent: float  # gamma
    seed: int
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Raise unless there is room for so many edges."""
        if self._most_neighbours <= 2 * self.n_edges / self.n_nodes:
            raise ParameterError(
                f"power_law gives no node more than a quarter of a class for neighbours, here "
                f"{self._most_neighbours:g}; lower mean_degree or raise n_nodes."
            )

    @property
    def _most_neighbours(self) -> float:
        return self.n_nodes / (4 * self.n_classes)

    @property
    def n_blocks(self) -> int:
        """Number of blocks of rows."""
        return max(1, round(2 * self.n_edges / _ENTRIES))

    def rows(self, block: int) -> range:
        """Return which nodes the rows of a block are."""
        whole, more = divmod(self.n_nodes, self.n_blocks)
        first = block * whole + min(block, more)
        return range(first, first + whole + (block < more))

    def classes(self) -> NDArray[np.int64]:
        """Return the class of every node."""
        found = np.empty(self.n_nodes, np.int64)
        for block in range(self.n_blocks):
            rows = self.rows(block)
            places = np.arange(len(rows), dtype=np.int64)
            found[self._number(torch.from_numpy(places), block).numpy()] = places % self.n_classes
        return found

    def entries(self, block: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return where each row of a block ends among the block's entries, and the sorted columns."""
        rows = self.rows(block)
        keys = torch.cat([key for other in range(self.n_blocks) for key in self._keys(block, other)])
        if keys.device.type == "cpu":
            keys.numpy().sort()  # several times faster than torch's
        else:
            keys = keys.sort().values
        keys = torch.unique_consecutive(keys)
        ends = torch.arange(1, len(rows) + 1, device=keys.device) * self.n_nodes
        columns = keys.remainder(self.n_nodes).to(torch.int32)
        return torch.searchsorted(keys, ends).cpu().numpy(), columns.cpu().numpy()

    def _keys(self, block: int, other: int) -> Iterator[torch.Tensor]:
        """Yield row times number of nodes plus column of the edges between two blocks, rows of the first."""
        first, second, start = min(block, other), max(block, other), self.rows(block).start
        for one, two in self._draw(first, second):
            one, two = self._number(one, first), self._number(two, second)
            if block == first:
                yield (one - start) * self.n_nodes + two
            if block == second:
                yield (two - start) * self.n_nodes + one

    def _draw(self, first: int, second: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the places in two blocks of both ends of their edges; some edges come more than once."""
        random = torch.Generator(self.device).manual_seed(derive_seed(self.seed, 0, first, second))
        share = (1 if first == second else 2) / self.n_blocks**2
        for is_within, n_draws in zip((True, False), self._n_draws, strict=True):
            left = round(share * n_draws)
            while left > 0:
                n, left = min(left, _DRAWS), left - _DRAWS
                one, two = (self._draw_ends(n, block, random) for block in (first, second))
                wanted = one % self.n_classes
                if not is_within:
                    steps = torch.randint(1, self.n_classes, (n,), generator=random, device=self.device)
                    wanted = (wanted + steps) % self.n_classes
                two += wanted - two % self.n_classes
                two -= self.n_classes * (two >= len(self.rows(second)))
                is_edge = (one != two) if first == second else slice(None)
                yield one[is_edge], two[is_edge]

    def _draw_ends(self, n: int, block: int, random: torch.Generator) -> torch.Tensor:
        """Return places in a block, drawn by the weights of their ranks."""
        low, high = self._power(np.array([0, self.n_nodes])).tolist()
        drawn = torch.rand(n, generator=random, dtype=torch.float64, device=self.device)
        ranks = drawn.mul_(high - low).add_(low).pow_(1 / (1 - self._slope)).sub_(self._offset)
        return ranks.div_(self.n_blocks).long().clamp_(0, len(self.rows(block)) - 1)

    def _number(self, places: torch.Tensor, block: int) -> torch.Tensor:
        """Return the nodes at places of a block: multiples of the golden section scatter neighbours."""
        rows = self.rows(block)
        n = len(rows)
        step = next(step for step in range(max(1, int(0.618 * n)), n + 1) if gcd(step, n) == 1)
        return (places * step).remainder_(n).add_(rows.start)

    @property
    def _slope(self) -> float:
        return 1 / (self.exponent - 1)

    @cached_property
    def _offset(self) -> float:
        """The offset with which the node of rank 0 has as many neighbours as any may have."""

        def excess(log_offset: float) -> float:
            offset = np.exp(log_offset)
            return float(
                2 * self.n_edges * self._chances(np.array([0, 1, self.n_nodes]), offset)[0]
                - self._most_neighbours
            )

        low, high = np.log(1e-6), np.log(1e3 * self.n_nodes)
        return float(np.exp(low if excess(low) <= 0 else brentq(excess, low, high)))

    def _power(self, ranks: NDArray[np.int64], offset: float | None = None) -> NDArray[np.float64]:
        moved = ranks + (self._offset if offset is None else offset)
        return np.asarray(moved ** (1 - self._slope), np.float64)

    def _chances(self, ranks: NDArray[np.int64], offset: float | None = None) -> NDArray[np.float64]:
        """Return how likely an end is to have a rank from each to the next, of all ranks."""
        powers = self._power(ranks, offset)
        return np.asarray(np.diff(powers) / (powers[-1] - powers[0]))

    @cached_property
    def _n_draws(self) -> tuple[float, float]:
        """How many edges to draw within classes and between them, so that enough distinct ones come."""
        ranks = np.unique(np.geomspace(1, self.n_nodes + 1, _RANKS).astype(np.int64)) - 1
        sizes = np.diff(ranks)
        chances = self._chances(ranks) / sizes
        rates = np.outer(chances, chances)
        pairs = (np.outer(sizes, sizes) - np.diag(sizes)) / 2

        def find(n_edges: float, share: float) -> float:
            """Return how many draws give so many distinct edges among that share of all pairs."""

            def excess(n_draws: float) -> float:
                return float((share * pairs * -np.expm1(-2 * n_draws * rates / share)).sum()) - n_edges

            return 0.0 if n_edges < 1 else float(brentq(excess, n_edges / 2, _MOST_DRAWS * n_edges))

        within = 1 / self.n_classes
        return (
            find(self.homophily * self.n_edges, within),
            find((1 - self.homophily) * self.n_edges, 1 - within),
        )


def derive_seed(seed: int, *path: int) -> int:
    """Return the seed of one of many generators."""
    sequence = np.random.SeedSequence(seed, spawn_key=path)
    return int(sequence.generate_state(1, dtype=np.uint64)[0] >> np.uint64(1))
