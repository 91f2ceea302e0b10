"""What networks along the graph are made of: residual blocks, dropout, and what blocks hear of others."""

from __future__ import annotations

import math
from functools import cached_property

import torch
from torch import nn
from torch.nn.functional import layer_norm

from gbgnn._random import Purpose, derive_key, uniform
from gbgnn.learners.network import LinearLayer
from gbgnn.propagation import AugmentedAdjacency, Propagation, Propagator, RandomWalk
from gbgnn.propagation.product import Mixing

MIXINGS = ("mean", "both", "symmetric")


class Neighbours:
    """What blocks hear of other nodes, by the model's P and its edges; each is built when first asked for."""

    def __init__(self, P: Propagator) -> None:
        self.P = P

    @cached_property
    def given(self) -> Mixing:
        """Products with P."""
        return Mixing(self.P)

    @cached_property
    def walk(self) -> Mixing:
        """Means of the neighbours along the edges."""
        return self._build(RandomWalk())

    @cached_property
    def symmetric(self) -> Mixing:
        """Products with the symmetrically normalised adjacency with self loops."""
        return self._build(AugmentedAdjacency())

    def _build(self, recipe: Propagation) -> Mixing:
        return Mixing(Propagator(recipe.build(self.P.operator.edges), self.P.device, self.P.dtype))

    @cached_property
    def edge_index(self) -> torch.Tensor:
        """Edges as PyG has them, from whom and to whom, shape (2, edges): a node hears those of its row."""
        edges = self.P.operator.edges
        return torch.stack([edges.columns.long(), edges.rows_of_entries().long()])

    @cached_property
    def edge_weight(self) -> torch.Tensor | None:
        """The weights of the edges, None where all are one."""
        values = self.P.operator.edges.values
        return None if values is None else values.to(self.P.dtype)


class Dropout:
    """Sets a share of the entries to zero, the rest scaled up; ``random`` None leaves all as they are."""

    def __init__(self, share: float = 0.0, random: torch.Generator | None = None) -> None:
        self.random = random
        self.threshold = round(256 * share)  # bytes are drawn, which is ten times as fast as numbers

    def __call__(self, H: torch.Tensor) -> torch.Tensor:
        """Return H, thinned out."""
        if not self.threshold or self.random is None:
            return H
        words = torch.empty(H.numel() // 8 + 1, dtype=torch.int64, device=H.device)
        draws = words.random_(-(2**63), None, generator=self.random).view(torch.uint8)
        kept = draws[: H.numel()].view(H.shape) >= self.threshold
        return H * kept.to(H.dtype).mul_(256 / (256 - self.threshold))


class Block(nn.Module):
    """``H + dropout(relu(Z U + P Z V + b))`` with Z, the rows of H standardised.

    With weights W for ``symmetric``, P is the mean of the neighbours, and S Z W is added, S the symmetrically
    normalised adjacency with self loops.
    """

    def __init__(
        self,
        own: LinearLayer,
        others: torch.Tensor,
        scale: torch.Tensor,
        symmetric: torch.Tensor | None = None,
    ) -> None:
        super().__init__()
        self.own = own
        self.others, self.scale = (nn.Parameter(each, requires_grad=False) for each in (others, scale))
        self.symmetric = None if symmetric is None else nn.Parameter(symmetric, requires_grad=False)

    def forward(self, neighbours: Neighbours, H: torch.Tensor, drop: Dropout) -> torch.Tensor:
        """Return the rows, with what they make of themselves and of their neighbours added."""
        Z = layer_norm(H, H.shape[1:], self.scale[0], self.scale[1])
        mixing = neighbours.given if self.symmetric is None else neighbours.walk
        told: torch.Tensor = torch.addmm(self.own(Z), mixing(Z), self.others.t())
        if self.symmetric is not None:
            told = torch.addmm(told, neighbours.symmetric(Z), self.symmetric.t())
        return H + drop(told.relu())


class SmoothBlock(nn.Module):
    """``H + dropout(relu(S Z W + b))``: a node and its neighbours are told apart by nothing."""

    def __init__(self, own: LinearLayer, scale: torch.Tensor) -> None:
        super().__init__()
        self.own = own
        self.scale = nn.Parameter(scale, requires_grad=False)

    def forward(self, neighbours: Neighbours, H: torch.Tensor, drop: Dropout) -> torch.Tensor:
        """Return the rows, with what they and their neighbours make together added."""
        Z = layer_norm(H, H.shape[1:], self.scale[0], self.scale[1])
        told: torch.Tensor = self.own(neighbours.symmetric(Z))
        return H + drop(told.relu())


def start_blocks(depth: int, units: int, seed: int, mixing: str = "mean") -> list[Block | SmoothBlock]:
    """Return blocks with random weights."""
    blocks: list[Block | SmoothBlock] = []
    for i in range(1, depth + 1):
        own, others = (draw_layer(seed, 2 * i - n, units, units) for n in (1, 0))
        if mixing == "symmetric":
            blocks.append(SmoothBlock(own, start_scale(units)))
            continue
        # Numbers that no other layer has.
        symmetric = draw_layer(seed, 2 * depth + i, units, units).weight.data if mixing == "both" else None
        blocks.append(Block(own, others.weight.data, start_scale(units), symmetric))
    return blocks


def start_scale(units: int) -> torch.Tensor:
    """Return by what standardised rows are multiplied, ones, and what is added to them, zeros."""
    return torch.tensor([[1.0], [0.0]]).expand(2, units).clone()


def draw_layer(seed: int, layer: int, n_in: int, n_out: int) -> LinearLayer:
    """Return a linear layer with random weights, as torch's own begin."""
    size = 2 / math.sqrt(n_in)
    weight, bias = (
        size * (uniform(n_out, n, derive_key(seed, purpose, layer), torch.float32) - 0.5)
        for n, purpose in ((n_in, Purpose.WEIGHTS), (1, Purpose.BIASES))
    )
    return LinearLayer(weight, bias[:, 0].contiguous())
