"""Graph attention in torch alone: the layer of GAT, for whoever has no PyTorch Geometric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gbgnn_lab.baselines.convolutional import Dense

SLOPE = 0.2
"""Of the leaky ReLU that attention goes through."""


@dataclass(frozen=True, eq=False)
class HeadedEdges:
    """Who hears whom in which head: edges between pairs of a node and a head, sorted by who hears.

    Node i in head h is pair ``i * n_heads + h``. Every head then is a graph of its own, and all of them
    are one sparse matrix, so that no row is ever made per edge.
    """

    hearers: torch.Tensor
    sources: torch.Tensor
    forward: tuple[torch.Tensor, torch.Tensor]  # starts of rows and columns, as sparse products want them
    backward: tuple[torch.Tensor, torch.Tensor]  # of the transpose
    by_source: torch.Tensor  # positions of the edges in the transpose
    n_pairs: int

    @classmethod
    def build(cls, edges: torch.Tensor, n_nodes: int, n_heads: int) -> HeadedEdges:
        """Take edges, sources above targets."""
        heads, n_pairs = torch.arange(n_heads, device=edges.device), n_nodes * n_heads
        sources, hearers = (edges[:, :, None] * n_heads + heads).flatten(1)
        order = (hearers * n_pairs + sources).argsort()
        sources, hearers = sources[order], hearers[order]
        by_source = sources.argsort(stable=True)
        ways = [(hearers, sources), (sources[by_source], hearers[by_source])]
        # Indices of 32 bits, which sparse products are fastest with.
        forward, backward = ((_row_starts(rows, n_pairs).int(), columns.int()) for rows, columns in ways)
        return cls(hearers, sources, forward, backward, by_source, n_pairs)

    def matrix(self, weights: torch.Tensor, *, transposed: bool = False) -> torch.Tensor:
        """Return the sparse matrix with these weights of the edges, or its transpose."""
        starts, columns = self.backward if transposed else self.forward
        values = weights[self.by_source] if transposed else weights
        return torch.sparse_csr_tensor(starts, columns, values, (self.n_pairs,) * 2, check_invariants=False)

    def softmax(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the softmax of a score per edge, over the edges with the same hearer."""
        # A softmax does not change when the same is taken off all of its scores; so exp cannot overflow.
        lowest = scores.new_full((self.n_pairs,), -torch.inf)
        largest = lowest.scatter_reduce(0, self.hearers, scores.detach(), "amax")
        raised = (scores - largest.index_select(0, self.hearers)).exp()
        sums = raised.new_zeros(self.n_pairs).index_add(0, self.hearers, raised)
        return raised / sums.index_select(0, self.hearers)


def _row_starts(rows: torch.Tensor, n_rows: int) -> torch.Tensor:
    return torch.searchsorted(rows, torch.arange(n_rows + 1, device=rows.device))


class AttentionConvolution(nn.Module):
    r"""GAT's layer [Velickovic et al. 2018], heads side by side; ``n_out`` is the width of all together.

    With rows :math:`z = H W`, a node i hears its neighbours and itself, each j with the weight
    :math:`\mathrm{softmax}_j(\mathrm{leaky}(a \cdot z_j + b \cdot z_i))` of every head.
    """

    def __init__(self, n_in: int, n_out: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.dense = Dense(n_in, n_out, bias=False)
        self.of_source = nn.Parameter(torch.empty(n_heads, n_out // n_heads))
        self.of_target = nn.Parameter(torch.empty(n_heads, n_out // n_heads))
        self.bias = nn.Parameter(torch.zeros(n_out))
        nn.init.xavier_uniform_(self.of_source)
        nn.init.xavier_uniform_(self.of_target)

    def forward(self, edges: HeadedEdges, H: torch.Tensor) -> torch.Tensor:
        """Return what is heard over ``edges``, a self loop of every node included."""
        Z = self.dense(H)
        heads = Z.unflatten(1, (self.n_heads, -1))
        from_source = (heads * self.of_source).sum(dim=-1).flatten().index_select(0, edges.sources)
        from_target = (heads * self.of_target).sum(dim=-1).flatten().index_select(0, edges.hearers)
        weights = edges.softmax(functional.leaky_relu(from_source + from_target, SLOPE))
        heard = _WeightedSum.apply(weights, heads.flatten(0, 1), edges)  # type: ignore[no-untyped-call]
        told: torch.Tensor = heard.view_as(Z) + self.bias
        return told


class _WeightedSum(torch.autograd.Function):
    """The sparse product of weights and rows, whose gradients are products of that kind as well."""

    @staticmethod
    def forward(context: Any, weights: torch.Tensor, Z: torch.Tensor, edges: HeadedEdges) -> torch.Tensor:
        context.save_for_backward(weights, Z)
        context.edges = edges
        return edges.matrix(weights) @ Z

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        (weights, Z), edges, gradient = context.saved_tensors, context.edges, gradients[0].contiguous()
        # Of the dense product gradient @ Z.T the entries on edges alone.
        on_edges = torch.sparse.sampled_addmm(edges.matrix(weights), gradient, Z.t(), beta=0.0)
        return on_edges.values(), edges.matrix(weights, transposed=True) @ gradient, None


def add_self_loops(edges: torch.Tensor, n_nodes: int) -> torch.Tensor:
    """Return the edges with exactly one self loop per node, last.

    Examples
    --------
    >>> add_self_loops(torch.tensor([[0, 1, 1], [1, 1, 0]]), 2).tolist()
    [[0, 1, 0, 1], [1, 0, 0, 1]]
    """
    between = edges[:, edges[0] != edges[1]]
    loops = torch.arange(n_nodes, device=edges.device).expand(2, -1)
    return torch.cat([between, loops], dim=1)
