"""ConvolutionBlock: a message passing layer of PyG's, by its name, as a residual block."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.functional import layer_norm

from gbgnn.errors import ModelFileError, ParameterError, import_needed, suggest
from gbgnn.learners.estimator_bytes import as_bytes, as_tensor
from gbgnn.learners.graph_blocks import Dropout, Neighbours

Plain = bool | int | float | str | None


class ConvolutionBlock(nn.Module):
    """``H + dropout(relu(layer(Z)))`` with Z, the rows of H standardised."""

    def __init__(self, layer: nn.Module, scale: torch.Tensor) -> None:
        super().__init__()
        self.layer = layer
        self.scale = nn.Parameter(scale, requires_grad=False)
        self.takes_weights = "edge_weight" in inspect.signature(layer.forward).parameters

    def forward(self, neighbours: Neighbours, H: torch.Tensor, drop: Dropout) -> torch.Tensor:
        """Return the rows, with what the layer makes of them and of their neighbours added."""
        Z = layer_norm(H, H.shape[1:], self.scale[0], self.scale[1])
        further = {"edge_weight": neighbours.edge_weight} if self.takes_weights else {}
        told: torch.Tensor = self.layer(Z, neighbours.edge_index, **further)
        return H + drop(told.relu())


class Recipe:
    """Which layer a block has: the name of a class of ``torch_geometric.nn``, and its options."""

    def __init__(self, name: str, options: Mapping[str, Plain]) -> None:
        self.name, self.options = name, dict(options)

    def build(self, units: int) -> nn.Module:
        """Return a layer with random weights, from torch's own stream, or say why there is none."""
        kind = find_layer(self.name)
        try:
            layer: nn.Module = kind(units, units, **self.options)
        except Exception as error:  # whatever a layer of another package raises
            raise ParameterError(
                f"torch_geometric.nn.{self.name} cannot be built for {units} columns with the options "
                f"{self.options}: {error}"
            ) from error
        return layer

    def try_out(self, layer: nn.Module, neighbours: Neighbours, units: int) -> None:
        """Raise unless a layer works along edges alone and keeps the width."""
        rows = torch.zeros(neighbours.P.n_nodes, units, dtype=neighbours.P.dtype, device=neighbours.P.device)
        try:
            with torch.no_grad():
                told = layer(rows, neighbours.edge_index)
            shape = tuple(getattr(told, "shape", ()))
        except Exception as error:
            raise ParameterError(
                f"torch_geometric.nn.{self.name} does not work with nodes and edges alone: {error}"
            ) from error
        if shape != tuple(rows.shape):
            raise ParameterError(
                f"torch_geometric.nn.{self.name} makes outputs of shape {shape} of {tuple(rows.shape)}; a "
                "block must keep the width. For several heads, give layer_options={'concat': False, ...}."
            )

    def state(self) -> torch.Tensor:
        """Return the recipe as a tensor of bytes."""
        return as_tensor(json.dumps({"name": self.name, "options": self.options}).encode())

    @classmethod
    def from_state(cls, state: torch.Tensor) -> Recipe:
        """Read a recipe, whose name and options are checked before anything is built."""
        try:
            record = json.loads(as_bytes(state))
            recipe = cls(record["name"], record["options"])
            check_options(recipe.options)
            find_layer(recipe.name)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelFileError(f"the layers of its graph network cannot be read: {error}") from error
        return recipe

    def restore(
        self, units: int, scale: torch.Tensor, weights: Mapping[str, torch.Tensor]
    ) -> ConvolutionBlock:
        """Return a block with weights from a file, which must be those that the layer has."""
        try:
            with torch.device("meta"):  # nothing is drawn, and no memory taken for what a file only claims
                layer = self.build(units)
            layer.load_state_dict(dict(weights), strict=True, assign=True)
        except (ParameterError, RuntimeError) as error:
            raise ModelFileError(f"the layers of its graph network cannot be read: {error}") from error
        held = [*layer.parameters(), *layer.buffers()]
        if any(each.is_meta for each in held):
            raise ModelFileError(f"a file does not hold all of a {self.name}.")
        return ConvolutionBlock(layer.eval().requires_grad_(False), scale)


def find_layer(name: Any) -> Any:
    """Return the message passing layer of PyG's that a name stands for; no other class has one."""
    with warnings.catch_warnings():
        # It still compiles parts of itself by torch.jit when imported, which torch deprecates.
        warnings.simplefilter("ignore", DeprecationWarning)
        nn_of_pyg = import_needed("torch_geometric.nn", "ConvolutionNetwork", "lab")
    known = [
        each
        for each in dir(nn_of_pyg)
        if isinstance(found := getattr(nn_of_pyg, each), type)
        and issubclass(found, nn_of_pyg.MessagePassing)
        and {"in_channels", "out_channels"} <= set(inspect.signature(found).parameters)
    ]
    if name not in known:
        hint = suggest(name, known) if isinstance(name, str) else ""
        raise ParameterError(
            "ConvolutionNetwork.layer must be the name of a message passing layer of torch_geometric.nn with "
            f"in_channels and out_channels, such as GATConv; got {name!r}.{hint}"
        )
    return getattr(nn_of_pyg, name)


def check_options(options: Any) -> None:
    """Raise unless options are words and numbers, none of which ties a layer to one graph."""
    is_plain = isinstance(options, dict) and all(
        isinstance(name, str) and isinstance(value, bool | int | float | str | None)
        for name, value in options.items()
    )
    if not is_plain:
        raise ParameterError(
            "ConvolutionNetwork.layer_options must be a dictionary of words and numbers, such as "
            f"{{'heads': 4, 'concat': False}}; got {options!r}."
        )
    if options.get("cached"):
        raise ParameterError(
            "ConvolutionNetwork.layer_options must not have cached=True: the model would take every graph "
            "for that of the fit."
        )
