"""ConvolutionNetwork: a residual network of PyG's layers, by name, as a round's learner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gbgnn.learners.convolution_block import ConvolutionBlock, Recipe, check_options, find_layer
from gbgnn.learners.graph_blocks import Neighbours, start_scale
from gbgnn.learners.graph_learner import GraphLearner


@dataclass(kw_only=True, eq=False, repr=False)
class ConvolutionNetwork(GraphLearner):
    r"""A residual network of PyTorch Geometric's layers, trained as :class:`~gbgnn.GraphNetwork` is.

    After a linear layer, ``depth`` blocks :math:`H \leftarrow H + \mathrm{relu}(\mathrm{layer}(Z))`, with Z
    the rows of H standardised. Messages go along the graph's edges, with their weights where the layer takes
    an ``edge_weight``; the model's propagation does not matter. Needs PyTorch Geometric. On a GPU its sums
    are in any order, so that two fits may differ by rounding.

    Parameters
    ----------
    layer
        The name of a message passing layer of ``torch_geometric.nn`` that is built by in_channels and
        out_channels and needs nodes and edges alone, such as GCNConv, SAGEConv, GATConv or TransformerConv.
    layer_options
        Further options of the layer, words and numbers, such as ``{"heads": 4, "concat": False}``.
    depth
        Blocks, each a hop.
    grow
        Whether the network of round t has t blocks, until there are ``depth``.
    units
        Width.
    dropout
        Dropout of hidden units at each step, in [0, 1).
    label_share
        Share of the labelled nodes whose labels are heard at a step of training, in [0, 1); 0 hears none,
        ever.
    learning_rate
        Adam's largest step: it grows for a fifth of the epochs, and then falls to zero along a cosine.
    epochs
        Steps of training, all labelled nodes in each.
    patience
        Stop when the loss of the validation nodes has not fallen for this many epochs, and go back to the
        best. After a round that has said something, it says nothing where that is not better by a standard
        error. None, or no validation nodes, trains all ``epochs``.

    Examples
    --------
    >>> ConvolutionNetwork(layer="GATConv", layer_options={"heads": 4, "concat": False})
    ConvolutionNetwork(layer='GATConv', layer_options={'concat': False, 'heads': 4})
    """

    layer: str = "SAGEConv"
    layer_options: dict[str, Any] | None = None
    depth: int = 2
    units: int = 64

    def check_blocks(self) -> None:
        """Raise for options that cannot be written down, and a layer that is not there."""
        check_options(self._options)
        find_layer(self.layer)

    @property
    def _options(self) -> dict[str, Any]:
        return {} if self.layer_options is None else self.layer_options

    def recipe(self) -> Recipe:
        """Return the name and the options of the layers."""
        return Recipe(self.layer, self._options)

    @contextmanager
    def drawing(self, seed: int, device: torch.device) -> Iterator[None]:
        """Let layers draw by the seed from torch's own stream, which is then as it was."""
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(seed % 2**63)
            yield

    def start_blocks(self, depth: int, neighbours: Neighbours, seed: int) -> Sequence[nn.Module]:
        """Return blocks of PyG's layers, which draw their weights from torch's own stream."""
        recipe, blocks = self.recipe(), list[nn.Module]()
        for _ in range(depth):
            layer = recipe.build(self.units).to(neighbours.P.device, neighbours.P.dtype)
            recipe.try_out(layer.eval(), neighbours, self.units)
            blocks.append(ConvolutionBlock(layer, start_scale(self.units)))
        return blocks
