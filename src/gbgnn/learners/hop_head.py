"""HopHead: a fitted network of one hidden layer, with hops along the graph before it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from gbgnn._threads import threads_for
from gbgnn.errors import ModelFileError, ParameterError
from gbgnn.learners.base import Head, Unfolded
from gbgnn.learners.batched import Layer
from gbgnn.learners.graph_blocks import draw_layer
from gbgnn.learners.network import LinearLayer, MLPHead
from gbgnn.learners.row_product import RowProduct
from gbgnn.problem import NodeInputs
from gbgnn.propagation import NORMS, Representation, SparseRows, normalised
from gbgnn.propagation.product import Mixing

_NO_NORM = 0


@dataclass(frozen=True, eq=False)
class RowMap:
    """How rows are brought to one length and one origin, before a linear layer.

    Rows are divided by their ``norm``, one of :data:`~gbgnn.propagation.NORMS` or None. Then ``centre`` is
    taken off, and what is left is multiplied by ``scale``.
    """

    norm: str | None
    centre: torch.Tensor  # one number per column
    scale: torch.Tensor

    @classmethod
    def fit(cls, inputs: NodeInputs, norm: str | None, *, standardize: bool) -> RowMap:
        """Learn the mean of all rows, and what brings the root mean square of their lengths to one."""
        rows = inputs.own if norm is None else normalised(inputs.own, norm)
        if not standardize:
            zeros = torch.zeros(rows.shape[1], dtype=rows.dtype, device=rows.device)
            return cls(norm, zeros, torch.ones_like(zeros[:1]))
        sums, squares = _moments(rows)
        centre = sums / rows.shape[0]
        left = squares / rows.shape[0] - centre.square().sum()
        scale = torch.where(left > 1e-12 * squares, left.clamp_min(1e-300).rsqrt(), 0.0)
        return cls(norm, centre.to(rows.dtype), scale.to(rows.dtype).reshape(1))

    @property
    def n_columns(self) -> int:
        """Of the rows."""
        return len(self.centre)

    def __call__(self, inputs: NodeInputs) -> Words:
        """Return the rows of a graph."""
        n_columns = inputs.own.shape[1]
        if n_columns != self.n_columns:
            raise ParameterError(
                f"nodes have {n_columns} columns, but the network has seen {self.n_columns}."
            )
        return Words(inputs.own if self.norm is None else normalised(inputs.own, self.norm), self)


def _moments(rows: Representation) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sum of all rows, and that of all squares, in double precision."""
    if isinstance(rows, SparseRows):
        values = rows.values.double()
        sums = torch.zeros(rows.shape[1], dtype=values.dtype, device=rows.device)
        return sums.index_add_(0, rows.columns.long(), values), values.square().sum()
    dense = rows.dense()
    return dense.sum(dim=0, dtype=torch.float64), dense.double().square().sum()


class Words:
    """What nodes have of their own, mapped, in a linear layer.

    Sparse rows stay sparse, and a gradient passes to the weights.
    """

    def __init__(self, rows: Representation, mapped_by: RowMap) -> None:
        self._map, self._times = mapped_by, RowProduct(rows)

    def __call__(self, weight: torch.Tensor) -> torch.Tensor:
        """Return the rows times a matrix of weights, shape (units, columns)."""
        scaled = (weight * self._map.scale).t()
        return self._times(scaled.contiguous()) - self._map.centre @ scaled


class HopHead(Head):
    r"""A fitted network: :math:`W_2 \, \mathrm{relu}(\sum_k c_k P^k X W_1 + b_1) + b_2`, X the mapped rows.

    The product with :math:`W_1` comes first, so that hops are as wide as the hidden layer, however wide X is.

    Parameters
    ----------
    enter, leave
        The layers.
    hops
        The coefficients :math:`c_0, c_1, \ldots`
    rows
        The map of the rows.
    """

    sees_rows = False

    def __init__(self, enter: LinearLayer, leave: LinearLayer, hops: torch.Tensor, rows: RowMap) -> None:
        super().__init__()
        self.enter, self.leave, self.norm = enter, leave, rows.norm
        self.hops, self.centre, self.scale = (
            nn.Parameter(each, requires_grad=False) for each in (hops, rows.centre, rows.scale)
        )

    @classmethod
    def start(cls, rows: RowMap, n_outputs: int, units: int, hops: torch.Tensor, seed: int) -> HopHead:
        """Return a network with random weights, except that its output is zero."""
        zeros = torch.zeros(n_outputs, units)
        leave = LinearLayer(zeros, zeros[:, 0].clone())
        return cls(draw_layer(seed, 0, rows.n_columns, units), leave, hops, rows)

    @property
    def rows(self) -> RowMap:
        """The map of the rows."""
        return RowMap(self.norm, self.centre, self.scale)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Rows alone are not enough: see :meth:`evaluate`."""
        raise ParameterError("a network with hops needs the graph, not rows alone; use evaluate(X, inputs).")

    def mix(self, mixing: Mixing, Z: torch.Tensor) -> torch.Tensor:
        """Return the weighted sum of the hops of Z."""
        return mixing.polynomial(self.hops.tolist(), Z)

    def outputs(self, words: Words, mixing: Mixing) -> torch.Tensor:
        """Return the outputs of all nodes."""
        output: torch.Tensor = self.leave(
            (self.mix(mixing, words(self.enter.weight)) + self.enter.bias).relu()
        )
        return output

    @torch.no_grad()
    def evaluate(self, X: Representation, inputs: NodeInputs | None = None) -> torch.Tensor:
        """Return the outputs of all nodes of a graph."""
        assert inputs is not None
        with threads_for(float(inputs.n_nodes) * inputs.own.shape[1] * len(self.enter.weight) / 16):
            return self.outputs(self.rows(inputs), Mixing(inputs.P))

    def unfold(self, inputs: NodeInputs) -> Unfolded:
        """Return the layers as a network of what hops make of a node's own rows."""
        own = inputs.own if self.norm is None else normalised(inputs.own, self.norm)
        layers: list[Layer] = [
            (self.enter.weight * self.scale, self.enter.bias),
            (self.leave.weight, self.leave.bias),
        ]
        return Unfolded(MLPHead.from_layers(layers), own, self.centre, self.hops.double().cpu().numpy())

    def state(self) -> dict[str, torch.Tensor]:
        """Return weights, coefficients and the order of the norm, 0 for none."""
        order = _NO_NORM if self.norm is None else NORMS[self.norm]
        return dict(self.state_dict()) | {"norm": torch.tensor(order)}

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> HopHead:
        """Build the network again."""
        norms = {_NO_NORM: None, **{order: name for name, order in NORMS.items()}}
        enter, leave = (
            LinearLayer(state[f"{name}.weight"], state[f"{name}.bias"]) for name in ("enter", "leave")
        )
        order, hops, centre, scale = (state[name] for name in ("norm", "hops", "centre", "scale"))
        fits = (
            order.numel() == 1
            and int(order) in norms
            and hops.ndim == 1
            and len(hops) > 0
            and enter.weight.ndim == leave.weight.ndim == 2
            and leave.weight.shape[1] == len(enter.weight)
            and centre.shape == enter.weight.shape[1:]
            and scale.shape == (1,)
            and all(layer.bias.shape == (len(layer.weight),) for layer in (enter, leave))
        )
        if not fits:
            raise ModelFileError("its network with hops cannot be read: shapes of its weights do not fit.")
        return cls(enter, leave, hops, RowMap(norms[int(order)], centre, scale))
