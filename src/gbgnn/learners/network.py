"""The fitted networks: MLPHead, and MLPHeads of several members."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gbgnn._threads import map_threads
from gbgnn.learners.base import Head, Heads, Split
from gbgnn.learners.batched import Layer, activate_, apply_layers
from gbgnn.learners.inputs import InputMap
from gbgnn.problem import NodeInputs
from gbgnn.propagation import Representation

_UNITS_AT_ONCE = 2**26
"""Rows are evaluated in blocks that give about this many hidden units."""


class LinearLayer(nn.Module):
    """x -> x W^T + b with given weights; torch's own layer draws some first, which takes longer."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        super().__init__()
        self.weight, self.bias = (nn.Parameter(each, requires_grad=False) for each in (weight, bias))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the outputs of the rows ``X``, which may be sparse."""
        return torch.addmm(self.bias, X, self.weight.t())


class MLPHead(Head):
    """A fitted network: linear layers with ReLU between them, and a report of the training, not in files.

    Where it ``is_normed``, rows of hidden units are standardised before ReLU.
    """

    def __init__(
        self, layers: Iterable[Layer], report: dict[str, Any] | None = None, *, is_normed: bool = False
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(LinearLayer(*layer) for layer in layers)
        self.is_normed = is_normed
        self._report = report

    takes_sparse = True
    runs_in_threads = True
    passes_gradient = True

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the outputs of the rows ``X``; there is no dropout at prediction."""
        return self._go_on(self.layers[0](X))

    def _go_on(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the outputs by what comes out of the first layer, which is changed in place."""
        for layer in list(self.layers)[1:]:
            hidden = layer(activate_(hidden, self.is_normed))
        return hidden

    def split(self) -> Split:
        """Return the first layer, and the others."""
        weight, bias = (self.get_parameter(name) for name in self.first_layer)
        return Split(weight, bias, lambda hidden: self._go_on(hidden.clone()))

    @property
    def first_layer(self) -> tuple[str, str]:
        """Names of the weight and the bias of the first layer."""
        return "layers.0.weight", "layers.0.bias"

    @property
    def hidden_layers(self) -> tuple[tuple[str, str], ...]:
        """Names of the weights and biases of all layers but the last."""
        return tuple((f"layers.{i}.weight", f"layers.{i}.bias") for i in range(len(self.layers) - 1))

    def relu_layers(self) -> list[tuple[torch.Tensor, torch.Tensor]] | None:
        """Return the layers, unless hidden units are standardised."""
        if self.is_normed:
            return None
        names = [f"layers.{i}" for i in range(len(self.layers))]
        return [(self.get_parameter(f"{name}.weight"), self.get_parameter(f"{name}.bias")) for name in names]

    importances_per_unit = True

    def importances(self) -> NDArray[np.float64] | None:
        r"""Return :math:`|W_L| \cdots |W_1|`, summed over outputs: the most that a change by one can do.

        None where hidden units are standardised: then what a change does depends on all other columns.
        """
        if self.is_normed:
            return None
        weights = [self.get_parameter(f"layers.{i}.weight").cpu() for i in range(len(self.layers))]
        paths = torch.ones(len(weights[-1]), dtype=torch.float64)
        for weight in reversed(weights):
            paths = paths @ weight.double().abs()
        return np.asarray(paths)

    def report(self) -> dict[str, Any] | None:
        """Return what the learner had to say, while the head has not been through a file."""
        return self._report

    def state(self) -> dict[str, torch.Tensor]:
        """Return weights and biases, and whether hidden units are standardised, where they are."""
        return dict(self.state_dict()) | ({"is_normed": torch.tensor(True)} if self.is_normed else {})

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor], report: dict[str, Any] | None = None) -> MLPHead:
        """Build the network again; the shapes of the weights say how deep and wide it is."""
        n_layers = sum(name.endswith(".weight") for name in state)
        names = [f"layers.{i}" for i in range(n_layers)]
        layers = [(state[f"{name}.weight"], state[f"{name}.bias"]) for name in names]
        shapes = [tuple(weight.shape) for weight, _ in layers]
        fit = all(bias.shape == shape[:1] for (_, bias), shape in zip(layers, shapes, strict=True))
        if (
            not fit
            or any(len(shape) != 2 for shape in shapes)
            or any(after[1] != before[0] for before, after in pairwise(shapes))
        ):
            raise ValueError(f"weights of the shapes {shapes} and their biases are no layers of a network")
        return cls(layers, report, is_normed="is_normed" in state)

    @classmethod
    def from_layers(
        cls, layers: list[Layer], report: dict[str, Any] | None = None, *, is_normed: bool = False
    ) -> MLPHead:
        """Build the network from copies of weights, shape (out, in), and biases."""
        dense = torch.contiguous_format
        copies = [(w.clone(memory_format=dense), b.clone(memory_format=dense)) for w, b in layers]
        return cls(copies, report, is_normed=is_normed)


@dataclass(frozen=True, eq=False)
class Trained:
    """Networks that were trained together: whose they are, and their layers for mapped rows.

    ``inputs`` is one map for all, or one for each. After the first ``units`` of a member there is padding.
    """

    positions: Sequence[int]
    layers: list[Layer]
    inputs: InputMap
    units: Sequence[int]
    is_normed: bool = False

    def head(self, place: int) -> MLPHead:
        """Return the network of one member, on raw rows and without padding."""
        kept = [self.units[place]] * (len(self.layers) - 1)
        first, *rest = [
            (weight[place, :n_out, :n_in], bias[place, :n_out])
            for (weight, bias), n_out, n_in in zip(self.layers, [*kept, None], [None, *kept], strict=True)
        ]
        layers = [self.inputs.member(place).fold(*first), *rest]
        if len(self.positions) == 1:  # else a head would hold on to the weights of all
            return MLPHead([(weight.contiguous(), bias) for weight, bias in layers], is_normed=self.is_normed)
        return MLPHead.from_layers(layers, is_normed=self.is_normed)

    def evaluate(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the outputs for rows that are mapped already, block by block."""
        n_rows = max(1, _UNITS_AT_ONCE // self.layers[0][0].shape[:2].numel())
        blocks = rows.split(n_rows, dim=-2)
        return torch.cat(
            [apply_layers(self.layers, each, is_normed=self.is_normed) for each in blocks], dim=1
        )


@dataclass(frozen=True, eq=False)
class MLPHeads(Heads):
    """The networks of several members, by those that were trained together."""

    parts: Sequence[Trained]
    _built: dict[int, MLPHead] = field(default_factory=dict)

    @cached_property
    def _places(self) -> dict[int, tuple[Trained, int]]:
        return {i: (part, place) for part in self.parts for place, i in enumerate(part.positions)}

    def head(self, i: int) -> MLPHead:
        """Return the network of one member."""
        if i not in self._built:
            part, place = self._places[i]
            self._built[i] = part.head(place)
        return self._built[i]

    def report(self, i: int) -> None:
        """Return None: there is nothing to say of the training."""

    def evaluate(self, X: Representation, inputs: NodeInputs | None = None) -> torch.Tensor:
        """Return the outputs of all nodes; those of many members from rows that are mapped once for all."""
        n_members = sum(len(part.positions) for part in self.parts)
        if n_members == 1:
            return self.head(0).evaluate(X.member(0), inputs)[None]
        shared = self.parts[0].inputs(X.dense()) if X.is_shared else None

        def evaluate(part: Trained) -> torch.Tensor:
            rows = part.inputs(X.members(part.positions).dense()) if shared is None else shared
            return part.evaluate(rows)

        on_cpu = X.device.type == "cpu"
        found = map_threads(evaluate, self.parts, work=n_members * X.shape[0] * X.shape[1] * on_cpu)
        order = torch.tensor([i for part in self.parts for i in part.positions], device=X.device)
        return torch.cat(found)[order.argsort()]
