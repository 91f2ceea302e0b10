"""The gradient in the coefficients of polynomial hops, by back-propagation through all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from gbgnn.aggregation import PolynomialHop
from gbgnn.finetuning.representations import dense_columns
from gbgnn.problem import NodeInputs
from gbgnn.propagation import DenseRows, Propagator
from gbgnn.propagation.polynomial import powers


def backpropagate_hops(
    hops: Sequence[PolynomialHop],
    inputs: NodeInputs,
    transposed: Propagator,
    rows: torch.Tensor,
    gradients: torch.Tensor,
    n_columns: int,
) -> list[torch.Tensor]:
    r"""Return the gradient in the coefficients and, last, the injection of every hop, in double precision.

    With :math:`G_t` the gradient in :math:`X^{(t)}` of what follows at once, that of all that follows is
    :math:`A_t = G_t + h_{t+1}(P^\top) A_{t+1}`, and :math:`\langle A_t, P^p X^{(t-1)}\rangle` is that in the
    coefficient of the power p. Hops mix no columns, so these go one block after the other: narrow enough,
    the representations of all rounds fit in memory.

    Parameters
    ----------
    hops, inputs
        The hops from the first, and what they are applied to.
    transposed
        Multiplies by the transpose of P.
    rows, gradients
        Nodes, and :math:`G_t` of these nodes, shape (n_hops, n_rows, C); it is zero elsewhere.
    n_columns
        Columns at once.
    """
    found = [torch.zeros(len(hop.powers) + 1, dtype=torch.float64) for hop in hops]
    for start in range(0, inputs.features.shape[1], n_columns):
        columns = slice(start, start + n_columns)
        block = NodeInputs.from_tensor(dense_columns(inputs.features, columns), inputs.P)
        X = [block.features]
        for hop in hops[:-1]:
            X.append(hop(X[-1], block))
        A = torch.zeros_like(block.features.dense())
        for hop, gradient, total in zip(reversed(hops), gradients.flip(0), reversed(found), strict=True):
            A[rows] += gradient[:, columns]
            for j, Z in enumerate(powers(inputs.P, X.pop().dense(), hop.powers)):
                total[j] += _inner(A, Z)
            total[-1] += _inner(A, block.features.dense())
            # A hop's transpose is the same polynomial in the transpose of P; what it injects is constant.
            back = NodeInputs(DenseRows(A), transposed)
            A = replace(hop, injection=0.0)(back.features, back).dense()
    return found


def _inner(A: torch.Tensor, Z: torch.Tensor) -> float:
    return float((A * Z).sum(dtype=torch.float64))
