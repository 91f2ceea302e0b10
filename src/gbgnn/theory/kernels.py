"""The kernel of a wide ReLU network, and the rows that keep it from being positive definite."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike

from gbgnn.theory.weak_learning import as_real

# Up to here the kernel is computed: it is dense, and its eigenvalues take time with the cube of the rows.
MOST_ROWS = 5000
# Rows with a cosine beyond are parallel: single precision makes an angle of 1e-7 of none, at most 1e-6.
_PARALLEL = 1 - 1e-12
_NAMED = 20  # how many rows or pairs are listed; the rest is counted


def relu_kernel(X: torch.Tensor | ArrayLike) -> torch.Tensor:
    r"""Return :math:`H_{ij} = E_w[\langle x_i, x_j\rangle 1\{w \cdot x_i \ge 0\} 1\{w \cdot x_j \ge 0\}]`.

    With w from N(0, I) that is :math:`\langle x_i, x_j \rangle (\pi - \angle_{ij}) / (2 \pi)`. It rules
    gradient descent on the first layer of a wide ReLU network: the component of the error along an
    eigenvector falls at a rate of its eigenvalue. The smallest one is positive if and only if no row is zero
    and no two point the same way (Du et al., 2019, who rule out opposite rows too).
    """
    lengths, units = _lengths_and_units(as_real(X, "X"))
    return _kernel(lengths, _cosines(units))


@dataclass(frozen=True)
class RowSeparation:
    """Whether a wide ReLU network can tell rows apart: what the guarantee of its training rests on."""

    smallest_eigenvalue: float | None  # of the kernel of the rows; None where they were too many
    zero_rows: list[int]  # rows that are zero, where such a network is zero too; the first 20
    n_zero_rows: int  # how many there are
    # Pairs of rows that point the same way, on which the network's outputs are proportional, or opposite
    # ways; the first 20, or None where the rows were too many to be compared.
    parallel_rows: list[list[int]] | None
    n_parallel_pairs: int | None  # how many there are
    note: str | None = None  # why something was not looked for, or None

    @property
    def is_separated(self) -> bool:
        """Whether no row is known to be zero, and no two to be parallel."""
        return not self.n_zero_rows and not self.n_parallel_pairs


def separate_rows(
    X: torch.Tensor | ArrayLike, ids: torch.Tensor | ArrayLike, most_rows: int = MOST_ROWS
) -> RowSeparation:
    """Look for rows of ``X`` that are zero or parallel, and find the kernel's smallest eigenvalue.

    ``ids`` are what the rows are called in the answer. Of more than ``most_rows``, only zeros are looked for.
    """
    X, ids = as_real(X, "X"), as_real(ids, "ids")
    lengths, units = _lengths_and_units(X)
    zeros = ids[lengths == 0]
    named = zeros[:_NAMED].tolist()
    if len(X) > most_rows:
        note = f"kernel and angles are not computed for more than {most_rows} rows"
        return RowSeparation(None, named, len(zeros), None, None, note)
    cosines = _cosines(units)
    pairs = (cosines.abs().triu(diagonal=1) == 1).nonzero()
    # A negative one is the rounding of zero.
    smallest = max(0.0, float(torch.linalg.eigvalsh(_kernel(lengths, cosines))[0]))
    return RowSeparation(smallest, named, len(zeros), ids[pairs[:_NAMED]].tolist(), len(pairs))


def _lengths_and_units(X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the length of every row, and the rows divided by it; zero rows stay."""
    X = X.double()
    largest = X.abs().amax(dim=1, keepdim=True)
    X = X / torch.where(largest > 0, largest, 1.0)  # squares of tiny entries must not vanish
    lengths = X.norm(dim=1, keepdim=True)
    return (lengths * largest)[:, 0], X / torch.where(lengths > 0, lengths, 1.0)


def _cosines(units: torch.Tensor) -> torch.Tensor:
    cosines = units @ units.t()
    # Next to 1 an angle is the root of a rounding error; between parallel rows it is to be none.
    return torch.where(cosines.abs() >= _PARALLEL, cosines.sign(), cosines)


def _kernel(lengths: torch.Tensor, cosines: torch.Tensor) -> torch.Tensor:
    share = (math.pi - cosines.arccos()) / (2 * math.pi)
    return share * cosines * lengths[:, None] * lengths
