"""GraphNetworkHead: a fitted residual network along the graph, which hears the labels of other nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import layer_norm

from gbgnn._random import Purpose, derive_key, uniform
from gbgnn._threads import threads_for
from gbgnn.errors import ModelFileError, ParameterError
from gbgnn.learners.base import Head
from gbgnn.learners.network import LinearLayer
from gbgnn.problem import KnownLabels, NodeInputs
from gbgnn.propagation import Representation
from gbgnn.propagation.product import Mixing
from gbgnn.tables.column_encoders import fit_knots, interpolate

N_FOLDS = 2
"""The outputs of labelled nodes are computed in so many passes, in each of which some hear no label."""

_KNOTS = 256
_MOST_ROWS = 100_000  # of which quantiles are found


class ColumnMap:
    """Columns by their quantiles, as those of a normal distribution: no unit and no outlier matters.

    The last column is the logarithm of a node's number of neighbours. ``knots`` and ``outputs``, a row per
    column, say where the piecewise linear maps go.
    """

    def __init__(self, knots: NDArray[np.float64], outputs: NDArray[np.float64]) -> None:
        self.knots, self.outputs = knots, outputs

    @classmethod
    def fit(cls, inputs: NodeInputs) -> ColumnMap:
        """Learn the quantiles of the columns that nodes have of their own, and of their degrees."""
        raw = _own_columns(inputs)
        some = raw[:: math.ceil(len(raw) / _MOST_ROWS)]
        maps = [_fit_column(column) for column in some.T]
        # The last knot again and again changes nothing.
        knots, outputs = (
            np.stack([np.pad(each[i], (0, _KNOTS - len(each[i])), mode="edge") for each in maps])
            for i in (0, 1)
        )
        return cls(knots, outputs)

    def __call__(self, inputs: NodeInputs) -> torch.Tensor:
        """Return the columns of all nodes, mapped."""
        raw = _own_columns(inputs)
        if raw.shape[1] != len(self.knots):
            raise ParameterError(
                f"nodes have {raw.shape[1] - 1} columns, but the network has seen {len(self.knots) - 1}."
            )
        columns = [interpolate(*each) for each in zip(raw.T, self.knots, self.outputs, strict=True)]
        return torch.tensor(np.stack(columns, axis=1), dtype=inputs.dtype, device=inputs.device)


def _fit_column(values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if values.min() == values.max():
        return np.zeros(1), np.zeros(1)
    return fit_knots(values, _KNOTS)


def _own_columns(inputs: NodeInputs) -> NDArray[Any]:
    degrees = inputs.P.operator.edges.row_starts.diff().cpu().numpy()
    return np.column_stack([inputs.own.dense().cpu().numpy(), np.log1p(degrees)])


class Block(nn.Module):
    """``H + dropout(relu(Z U + P Z V + b))`` with Z, the rows of H standardised."""

    def __init__(self, own: LinearLayer, others: torch.Tensor, scale: torch.Tensor) -> None:
        super().__init__()
        self.own = own
        self.others, self.scale = (nn.Parameter(each, requires_grad=False) for each in (others, scale))

    def forward(self, mixing: Mixing, H: torch.Tensor, drop: Dropout) -> torch.Tensor:
        """Return the rows, with what they make of themselves and of their neighbours added."""
        Z = layer_norm(H, H.shape[1:], self.scale[0], self.scale[1])
        told: torch.Tensor = torch.addmm(self.own(Z), mixing(Z), self.others.t())
        return H + drop(told.relu())


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


class GraphNetworkHead(Head):
    """A fitted network, with the map of the columns it has seen.

    Its inputs are the columns of a node, and numbers that say what it is and that it is known, where it is.
    """

    sees_rows = False

    def __init__(
        self,
        columns: ColumnMap,
        enter: LinearLayer,
        blocks: Sequence[Block],
        leave: LinearLayer,
        scale: torch.Tensor,
    ) -> None:
        super().__init__()
        self.columns, self.enter, self.leave = columns, enter, leave
        self.blocks = nn.ModuleList(blocks)
        self.scale = nn.Parameter(scale, requires_grad=False)

    @classmethod
    def start(
        cls, columns: ColumnMap, n_labels: int, n_outputs: int, *, depth: int, units: int, seed: int
    ) -> GraphNetworkHead:
        """Return a network with random weights, except that its output is zero."""

        def draw(layer: int, n_in: int) -> LinearLayer:
            size = 2 / math.sqrt(n_in)  # as torch's own layers begin
            weight, bias = (
                size * (uniform(units, n, derive_key(seed, purpose, layer), torch.float32) - 0.5)
                for n, purpose in ((n_in, Purpose.WEIGHTS), (1, Purpose.BIASES))
            )
            return LinearLayer(weight, bias[:, 0].contiguous())

        def scale() -> torch.Tensor:
            return torch.tensor([[1.0], [0.0]]).expand(2, units).clone()

        pairs = [(draw(2 * i - 1, units), draw(2 * i, units)) for i in range(1, depth + 1)]
        blocks = [Block(own, others.weight.data, scale()) for own, others in pairs]
        zeros = torch.zeros(n_outputs, units)
        leave = LinearLayer(zeros, zeros[:, 0].clone())
        return cls(columns, draw(0, len(columns.knots) + n_labels), blocks, leave, scale())

    @property
    def n_labels(self) -> int:
        """How many columns say what a node is, the last of them whether that is known."""
        return self.enter.weight.shape[1] - len(self.columns.knots)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Rows alone are not enough: see :meth:`evaluate`."""
        raise ParameterError("a graph network needs the graph, not rows alone; use evaluate(X, inputs).")

    def outputs(
        self, X: torch.Tensor, mixing: Mixing, shown: KnownLabels | None, drop: Dropout | None = None
    ) -> torch.Tensor:
        """Return the outputs of all nodes, by their mapped columns and the labels that are shown."""
        drop = Dropout() if drop is None else drop
        if self.n_labels:
            labels = X.new_zeros(len(X), self.n_labels)
            if shown is not None:
                labels[shown.rows, :-1] = shown.codes
                labels[shown.rows, -1] = 1.0
            X = torch.cat([X, labels], dim=1)
        H = drop(self.enter(X).relu())
        for block in self.blocks:
            H = block(mixing, H, drop)
        output: torch.Tensor = self.leave(layer_norm(H, H.shape[1:], self.scale[0], self.scale[1]))
        return output

    @torch.no_grad()
    def evaluate(self, X: Representation, inputs: NodeInputs | None = None) -> torch.Tensor:
        """Return the outputs of all nodes of a graph; no node hears its own label."""
        assert inputs is not None
        rows, mixing, known = self.columns(inputs), Mixing(inputs.P), inputs.known
        with threads_for(work_of(inputs, len(self.enter.weight))):
            output = self.outputs(rows, mixing, known)
            if known is None or not self.n_labels:
                return output
            for fold in range(N_FOLDS):
                hidden = torch.arange(len(known.rows), device=output.device) % N_FOLDS == fold
                without = self.outputs(rows, mixing, hide(known, hidden))
                output[known.rows[hidden]] = without[known.rows[hidden]]
        return output

    def state(self) -> dict[str, torch.Tensor]:
        """Return the weights, and the maps of the columns."""
        maps = {"knots": self.columns.knots, "outputs": self.columns.outputs}
        return dict(self.state_dict()) | {f"columns.{k}": torch.from_numpy(v) for k, v in maps.items()}

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> GraphNetworkHead:
        """Build the network again; shapes say how deep and wide it is."""
        columns = ColumnMap(*(state[f"columns.{name}"].double().numpy() for name in ("knots", "outputs")))
        n_blocks = sum(name.endswith(".others") for name in state)

        def linear(name: str) -> LinearLayer:
            return LinearLayer(state[f"{name}.weight"], state[f"{name}.bias"])

        names = [f"blocks.{i}" for i in range(n_blocks)]
        blocks = [Block(linear(f"{n}.own"), state[f"{n}.others"], state[f"{n}.scale"]) for n in names]
        head = cls(columns, linear("enter"), blocks, linear("leave"), state["scale"])
        head._check()
        return head

    def _check(self) -> None:
        """Raise unless shapes fit each other."""
        units, knots = len(self.enter.weight), self.columns.knots
        shapes = {"own.weight": (units, units), "own.bias": (units,), "others": (units, units)}
        inner = [
            tuple(weight.shape) == {**shapes, "scale": (2, units)}[name.split(".", 2)[2]]
            for name, weight in self.state_dict().items()
            if name.startswith("blocks.")
        ]
        fits = (
            all(inner)
            and knots.ndim == 2
            and knots.shape == self.columns.outputs.shape
            and bool((np.diff(knots, axis=1) >= 0).all())
            and self.n_labels in (0, *range(2, self.enter.weight.shape[1]))
            and self.scale.shape == (2, units)
            and self.leave.weight.shape[1:] == (units,)
            and all(layer.bias.shape == (len(layer.weight),) for layer in (self.enter, self.leave))
        )
        if not fits:
            raise ModelFileError("its graph network cannot be read: the shapes of its weights do not fit.")


def hide(known: KnownLabels, hidden: torch.Tensor) -> KnownLabels:
    """Return the labels that are not hidden."""
    return KnownLabels(known.rows[~hidden], known.codes[~hidden])


def work_of(inputs: NodeInputs, units: int) -> float:
    """Return how much of a layer's work is worth several threads, which wait for each other every time."""
    return float(inputs.n_nodes) * units**2 / 16
