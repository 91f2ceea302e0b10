"""ColumnMap: what nodes have of their own, as networks along the graph see it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn.errors import ParameterError
from gbgnn.learners.row_product import RowProduct
from gbgnn.problem import NodeInputs
from gbgnn.propagation import SparseRows
from gbgnn.tables.column_encoders import fit_knots, interpolate

_KNOTS = 256
_MOST_ROWS = 100_000  # of which quantiles are found
_LARGEST = 4.0  # to which entries of sparse columns are scaled at most: about as far as quantiles reach


class ColumnMap:
    """Columns by their quantiles, as those of a normal distribution: no unit and no outlier matters.

    The last column is the logarithm of a node's number of neighbours. ``knots`` and ``outputs``, a row per
    column, say where the piecewise linear maps go.

    Sparse features stay sparse: zeros stay zeros, and each column is multiplied by its entry of ``scales``,
    one over its standard deviation, or less where that would make its largest entry larger than 4. Then
    degrees alone have knots. Dense features have no scales.
    """

    def __init__(
        self,
        knots: NDArray[np.float64],
        outputs: NDArray[np.float64],
        scales: NDArray[np.float64] | None = None,
    ) -> None:
        self.knots, self.outputs, self.scales = knots, outputs, scales

    @classmethod
    def fit(cls, inputs: NodeInputs) -> ColumnMap:
        """Learn how the columns that nodes have of their own vary, and their degrees."""
        own = inputs.own
        scales = _fit_scales(own) if isinstance(own, SparseRows) else None
        raw = _dense_columns(inputs, is_sparse=scales is not None)
        some = raw[:: math.ceil(len(raw) / _MOST_ROWS)]
        maps = [_fit_column(column) for column in some.T]
        # The last knot again and again changes nothing.
        knots, outputs = (
            np.stack([np.pad(each[i], (0, _KNOTS - len(each[i])), mode="edge") for each in maps])
            for i in (0, 1)
        )
        return cls(knots, outputs, scales)

    @property
    def n_columns(self) -> int:
        """How many columns there are, that of the degrees included."""
        return len(self.knots) + (0 if self.scales is None else len(self.scales))

    def __call__(self, inputs: NodeInputs) -> Columns:
        """Return the columns of all nodes, mapped."""
        n_columns = inputs.own.shape[1]
        if n_columns != self.n_columns - 1:
            raise ParameterError(
                f"nodes have {n_columns} columns, but the network has seen {self.n_columns - 1}."
            )
        raw = _dense_columns(inputs, is_sparse=self.scales is not None)
        mapped = [interpolate(*each) for each in zip(raw.T, self.knots, self.outputs, strict=True)]
        dense = torch.tensor(np.stack(mapped, axis=1), dtype=inputs.dtype, device=inputs.device)
        if self.scales is None:
            return Columns(dense)
        own, scales = _as_sparse(inputs), torch.from_numpy(self.scales).to(inputs.device, inputs.dtype)
        scaled = replace(own, values=own.values * scales[own.columns.long()])
        return Columns(dense, RowProduct(scaled))


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of all nodes: sparse ones first, where there are some, then dense ones."""

    dense: torch.Tensor
    sparse: RowProduct | None = None

    def times(self, weight: torch.Tensor, bias: torch.Tensor, more: torch.Tensor | None) -> torch.Tensor:
        """Return the columns, and those of ``more`` beside them, in a linear layer, weight (out, in)."""
        X = self.dense if more is None else torch.cat([self.dense, more], dim=1)
        if self.sparse is None:
            return torch.addmm(bias, X, weight.t())
        n = self.sparse.rows.shape[1]
        return torch.addmm(bias, X, weight[:, n:].t()) + self.sparse(weight[:, :n].t().contiguous())

    def means(self) -> torch.Tensor:
        """Return the mean of every column."""
        found = self.dense.mean(dim=0)
        if self.sparse is None:
            return found
        n_rows = self.sparse.rows.shape[0]
        sums = self.sparse.transposed(found.new_ones(n_rows, 1))[:, 0]
        return torch.cat([sums / n_rows, found])


def _fit_column(values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if values.min() == values.max():
        return np.zeros(1), np.zeros(1)
    return fit_knots(values, _KNOTS)


def _fit_scales(own: SparseRows) -> NDArray[np.float64]:
    """Return by what sparse columns are multiplied: 0 where nothing varies."""
    n_rows, n_columns = own.shape
    columns, values = own.columns.cpu().numpy(), own.values.double().cpu().numpy()
    mean, square = (
        np.bincount(columns, weights=each, minlength=n_columns) / n_rows for each in (values, values**2)
    )
    largest = np.zeros(n_columns)
    np.maximum.at(largest, columns, np.abs(values))
    deviation = np.maximum(np.sqrt(np.maximum(square - mean**2, 0.0)), largest / _LARGEST)
    varies = square - mean**2 > 1e-12 * square
    return np.divide(1.0, deviation, out=np.zeros(n_columns), where=varies)


def _dense_columns(inputs: NodeInputs, *, is_sparse: bool) -> NDArray[Any]:
    """Return the columns that are mapped by quantiles: all, or the degrees alone."""
    degrees = np.log1p(inputs.P.operator.edges.row_starts.diff().cpu().numpy())
    return degrees[:, None] if is_sparse else np.column_stack([inputs.own.dense().cpu().numpy(), degrees])


def _as_sparse(inputs: NodeInputs) -> SparseRows:
    """Return the features as sparse rows, of another graph perhaps whose features are dense."""
    own = inputs.own
    if isinstance(own, SparseRows):
        return own
    sparse = own.dense().to_sparse_csr()
    return SparseRows(sparse.crow_indices(), sparse.col_indices(), sparse.values(), own.shape[1])
