"""Graph attention in torch alone: the layer of GAT, for whoever has no PyTorch Geometric."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from gbgnn_lab.baselines.convolutional import Dense

SLOPE = 0.2
"""Of the leaky ReLU that attention goes through."""


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

    def forward(self, edges: torch.Tensor, H: torch.Tensor) -> torch.Tensor:
        """Return what is heard over ``edges``, sources above targets, a self loop of every node included."""
        sources, targets = edges
        Z = self.dense(H)
        heads = Z.unflatten(1, (self.n_heads, -1))
        from_source = take_rows((heads * self.of_source).sum(dim=-1), sources)
        from_target = take_rows((heads * self.of_target).sum(dim=-1), targets)
        scores = functional.leaky_relu(from_source + from_target, SLOPE)
        weights = softmax_by_target(scores, targets, n_nodes=len(H))
        told = take_rows(Z, sources).unflatten(1, (self.n_heads, -1)) * weights[:, :, None]
        return sum_by_target(told.flatten(1), targets, n_nodes=len(H)) + self.bias


def softmax_by_target(scores: torch.Tensor, targets: torch.Tensor, *, n_nodes: int) -> torch.Tensor:
    """Return the softmax of a row of scores per edge, over the edges that have the same target."""
    # A softmax does not change when the same is taken off all of its scores; so exp cannot overflow.
    lowest = scores.new_full((n_nodes, scores.shape[1]), -torch.inf)
    largest = lowest.scatter_reduce(0, targets[:, None].expand_as(scores), scores.detach(), "amax")
    raised = (scores - take_rows(largest, targets)).exp()
    return raised / take_rows(sum_by_target(raised, targets, n_nodes=n_nodes), targets)


def take_rows(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Return rows by their number, in the way whose gradient is the faster: on a GPU the other one sorts."""
    return functional.embedding(ids, table) if table.device.type == "cpu" else table.index_select(0, ids)


def sum_by_target(rows: torch.Tensor, targets: torch.Tensor, *, n_nodes: int) -> torch.Tensor:
    """Return for every node the sum of the rows of the edges that lead to it."""
    return rows.new_zeros(n_nodes, rows.shape[1]).scatter_add(0, targets[:, None].expand_as(rows), rows)


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
