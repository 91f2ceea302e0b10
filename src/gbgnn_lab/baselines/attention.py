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
        Z = self.dense(H).unflatten(1, (self.n_heads, -1))
        from_source = (Z * self.of_source).sum(dim=-1).index_select(0, sources)
        from_target = (Z * self.of_target).sum(dim=-1).index_select(0, targets)
        weights = softmax_by_target(
            functional.leaky_relu(from_source + from_target, SLOPE), targets, n_nodes=len(H)
        )
        told = Z.index_select(0, sources) * weights[:, :, None]
        heard = torch.zeros_like(Z).index_add(0, targets, told)
        return heard.flatten(1) + self.bias


def softmax_by_target(scores: torch.Tensor, targets: torch.Tensor, *, n_nodes: int) -> torch.Tensor:
    """Return the softmax of a row of scores per edge, over the edges that have the same target."""
    groups = targets[:, None].expand_as(scores)
    # A softmax does not change when the same is taken off all of its scores; so exp cannot overflow.
    lowest = scores.new_full((n_nodes, scores.shape[1]), -torch.inf)
    largest = lowest.scatter_reduce(0, groups, scores.detach(), "amax")
    raised = (scores - largest.index_select(0, targets)).exp()
    totals = scores.new_zeros(lowest.shape).index_add(0, targets, raised)
    return raised / totals.index_select(0, targets)


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
