"""GraphNetworkHead: a fitted residual network along the graph, which hears the labels of other nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn.functional import layer_norm

from gbgnn._threads import threads_for
from gbgnn.errors import ModelFileError, ParameterError
from gbgnn.learners.base import Entered, Head
from gbgnn.learners.columns import ColumnMap, Columns
from gbgnn.learners.convolution_block import Recipe
from gbgnn.learners.graph_blocks import (
    Block,
    Dropout,
    Neighbours,
    SmoothBlock,
    draw_layer,
    start_scale,
)
from gbgnn.learners.network import LinearLayer
from gbgnn.problem import KnownLabels, NodeInputs
from gbgnn.propagation import Representation

N_FOLDS = 2
"""The outputs of labelled nodes are computed in so many passes, in each of which some hear no label."""


class GraphNetworkHead(Head):
    """A fitted network, with the map of the columns it has seen.

    Its inputs are the columns of a node, and numbers that say what it is and that it is known, where it is.
    Its blocks are this library's own, or those of a ``recipe``.
    """

    sees_rows = False
    looks_at = "graph network"
    enters_graph = True

    def __init__(
        self,
        columns: ColumnMap,
        enter: LinearLayer,
        blocks: Sequence[nn.Module],
        leave: LinearLayer,
        scale: torch.Tensor,
        recipe: Recipe | None = None,
    ) -> None:
        super().__init__()
        self.columns, self.enter, self.leave, self.recipe = columns, enter, leave, recipe
        self.blocks = nn.ModuleList(blocks)
        self.scale = nn.Parameter(scale, requires_grad=False)

    @classmethod
    def start(
        cls,
        columns: ColumnMap,
        blocks: Sequence[nn.Module],
        n_labels: int,
        n_outputs: int,
        units: int,
        seed: int,
        recipe: Recipe | None = None,
    ) -> GraphNetworkHead:
        """Return a network around some blocks with random weights, except that its output is zero."""
        zeros = torch.zeros(n_outputs, units)
        leave = LinearLayer(zeros, zeros[:, 0].clone())
        enter = draw_layer(seed, 0, columns.n_columns + n_labels, units)
        return cls(columns, enter, blocks, leave, start_scale(units), recipe)

    @property
    def n_labels(self) -> int:
        """How many columns say what a node is, the last of them whether that is known."""
        return self.enter.weight.shape[1] - self.columns.n_columns

    @property
    def is_plain(self) -> bool:
        """Whether it is of dense columns and blocks of one product with P."""
        plain = (isinstance(block, Block) and block.symmetric is None for block in self.blocks)
        return self.columns.scales is None and all(plain)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Rows alone are not enough: see :meth:`evaluate`."""
        raise ParameterError("a graph network needs the graph, not rows alone; use evaluate(X, inputs).")

    def outputs(
        self, X: Columns, neighbours: Neighbours, shown: KnownLabels | None, drop: Dropout | None = None
    ) -> torch.Tensor:
        """Return the outputs of all nodes, by their mapped columns and the labels that are shown."""
        entered = X.times(self.enter.weight, self.enter.bias, self._label_columns(X, shown))
        return self._go_on(entered, neighbours, Dropout() if drop is None else drop)

    def _label_columns(self, X: Columns, shown: KnownLabels | None) -> torch.Tensor | None:
        """Return the columns that say what nodes are; None where the network has none."""
        if not self.n_labels:
            return None
        labels = X.dense.new_zeros(len(X.dense), self.n_labels)
        if shown is not None:
            labels[shown.rows, :-1] = shown.codes
            labels[shown.rows, -1] = 1.0
        return labels

    def _go_on(self, entered: torch.Tensor, neighbours: Neighbours, drop: Dropout) -> torch.Tensor:
        """Return the outputs of all nodes, by what comes out of the first layer."""
        H = drop(entered.relu())
        for block in self.blocks:
            H = block(neighbours, H, drop)
        output: torch.Tensor = self.leave(layer_norm(H, H.shape[1:], self.scale[0], self.scale[1]))
        return output

    def enter_graph(self, inputs: NodeInputs, node: int) -> Entered:
        """Return the first layer of all nodes, of average ones, and what follows, as it is for one node."""
        X, neighbours, shown = self.columns(inputs), Neighbours(inputs.P), inputs.known
        if shown is not None:
            at = (shown.rows == node).nonzero()[:, 0]
            if len(at):  # as when it is evaluated
                fold = torch.arange(len(shown.rows), device=at.device) % N_FOLDS
                shown = hide(shown, fold == fold[at[0]])
        labels, weight = self._label_columns(X, shown), self.enter.weight
        dense = X.dense if labels is None else torch.cat([X.dense, labels], dim=1)
        means = torch.cat([X.means(), dense.new_zeros(self.n_labels)])
        n_dense = dense.shape[1]

        def split(integrals: torch.Tensor) -> torch.Tensor:
            sums = integrals.sum(dim=0) @ weight
            own = torch.einsum("ju,jc,uc->c", integrals, dense, weight[:, -n_dense:])
            if X.sparse is not None:
                of_words = (X.sparse.transposed(integrals) * weight[:, :-n_dense].t()).sum(dim=1)
                own = torch.cat([of_words, own])
            return merge_last(own - means * sums, self.n_labels)

        return Entered(
            start=(self.enter.bias + weight @ means).expand(inputs.n_nodes, -1),
            end=X.times(weight, self.enter.bias, labels),
            rest=lambda entered: self._go_on(entered, neighbours, Dropout()),
            split=split,
        )

    @torch.no_grad()
    def evaluate(self, X: Representation, inputs: NodeInputs | None = None) -> torch.Tensor:
        """Return the outputs of all nodes of a graph; no node hears its own label."""
        assert inputs is not None
        rows, neighbours, known = self.columns(inputs), Neighbours(inputs.P), inputs.known
        with threads_for(work_of(inputs, len(self.enter.weight))):
            output = self.outputs(rows, neighbours, known)
            if known is None or not self.n_labels:
                return output
            for fold in range(N_FOLDS):
                hidden = torch.arange(len(known.rows), device=output.device) % N_FOLDS == fold
                without = self.outputs(rows, neighbours, hide(known, hidden))
                output[known.rows[hidden]] = without[known.rows[hidden]]
        return output

    def state(self) -> dict[str, torch.Tensor]:
        """Return the weights, the maps of the columns, and the names of layers of another library's."""
        maps = {"knots": self.columns.knots, "outputs": self.columns.outputs, "scales": self.columns.scales}
        further = {} if self.recipe is None else {"layer": self.recipe.state()}
        arrays = {
            f"columns.{name}": torch.from_numpy(each) for name, each in maps.items() if each is not None
        }
        return dict(self.state_dict()) | arrays | further

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> GraphNetworkHead:
        """Build the network again; shapes say how deep and wide it is."""
        names = [name for name in ("knots", "outputs", "scales") if f"columns.{name}" in state]
        columns = ColumnMap(*(state[f"columns.{name}"].double().numpy() for name in names))
        recipe = Recipe.from_state(state["layer"]) if "layer" in state else None
        enter, leave = (_linear(state, name) for name in ("enter", "leave"))
        n_blocks = len({name.split(".")[1] for name in state if name.startswith("blocks.")})
        blocks = [_restore_block(state, f"blocks.{i}", recipe, len(enter.weight)) for i in range(n_blocks)]
        head = cls(columns, enter, blocks, leave, state["scale"], recipe)
        head._check()
        return head

    def _check(self) -> None:
        """Raise unless shapes fit each other."""
        units, knots, scales = len(self.enter.weight), self.columns.knots, self.columns.scales
        shapes = {"own.weight": (units, units), "own.bias": (units,), "scale": (2, units)}
        shapes |= dict.fromkeys(("others", "symmetric"), (units, units))
        inner = [
            tuple(weight.shape) == shapes[name.split(".", 2)[2]]
            for name, weight in self.state_dict().items()
            if name.startswith("blocks.") and ".layer." not in name  # which their own class has checked
        ]
        fits = (
            all(inner)
            and knots.ndim == 2
            and knots.shape == self.columns.outputs.shape
            and bool((np.diff(knots, axis=1) >= 0).all())
            and (scales is None or (scales.ndim == 1 and len(knots) == 1))
            and self.n_labels in (0, *range(2, self.enter.weight.shape[1]))
            and self.scale.shape == (2, units)
            and self.leave.weight.shape[1:] == (units,)
            and all(layer.bias.shape == (len(layer.weight),) for layer in (self.enter, self.leave))
        )
        if not fits:
            raise ModelFileError("its graph network cannot be read: the shapes of its weights do not fit.")


def _linear(state: dict[str, torch.Tensor], name: str) -> LinearLayer:
    return LinearLayer(state[f"{name}.weight"], state[f"{name}.bias"])


def _restore_block(state: dict[str, torch.Tensor], name: str, recipe: Recipe | None, units: int) -> nn.Module:
    scale = state[f"{name}.scale"]
    if recipe is None:
        own, others = _linear(state, f"{name}.own"), state.get(f"{name}.others")
        if others is None:
            return SmoothBlock(own, scale)
        return Block(own, others, scale, state.get(f"{name}.symmetric"))
    prefix = f"{name}.layer."
    weights = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
    return recipe.restore(units, scale, weights)


def merge_last(values: torch.Tensor, n: int) -> torch.Tensor:
    """Return values, the last ``n`` of them as one sum, if there are some."""
    return torch.cat([values[:-n], values[-n:].sum(dim=0, keepdim=True)]) if n else values


def hide(known: KnownLabels, hidden: torch.Tensor) -> KnownLabels:
    """Return the labels that are not hidden."""
    return KnownLabels(known.rows[~hidden], known.codes[~hidden])


def work_of(inputs: NodeInputs, units: int) -> float:
    """Return how much of a layer's work is worth several threads, which wait for each other every time."""
    return float(inputs.n_nodes) * units**2 / 16
