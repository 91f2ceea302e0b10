"""What a network is trained on: rows of one size (InputMap) and in coordinates of their own (RowBasis)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from gbgnn._threads import gram, threads_for
from gbgnn.rounds import map_tensors

BASES = ("features", "rows")
SCALES = ("rows", "columns")

_RIDGE = 1e-5
"""Of the mean square of a row, added to the Gram matrix: centred rows are linearly dependent."""


@dataclass(frozen=True, eq=False)
class RowBasis:
    r"""An orthonormal basis of the span of some rows, turned so that no coordinate is special.

    Training sees nothing but the labelled rows :math:`A`, so the gradient of a first layer lies in their
    span, and what a weight does outside of it is chance. Of M rows with C > M columns the span has at most M
    dimensions, in which an epoch costs M columns instead of C. With :math:`A A^\top = L L^\top`, the
    columns of :math:`B = A^\top L^{-\top} R` are orthonormal for every orthogonal R. A random R makes
    coordinates alike, as features are to an optimiser that scales each of them by its own past.

    ``rows`` are A, shape (..., M, C), and ``transform`` is :math:`L^{-\top} R`, shape (..., M, M).

    Examples
    --------
    >>> A = torch.tensor([[1.0, 2.0, 0.0, 2.0], [0.0, 3.0, 4.0, 0.0]])
    >>> basis = RowBasis.of(A)
    >>> Z = basis.coordinates(A)  # inner products stay what they are
    >>> torch.allclose(Z @ Z.T, A @ A.T, rtol=1e-4), Z.shape
    (True, torch.Size([2, 2]))
    >>> weight = torch.ones(2, 1)
    >>> torch.allclose(A @ basis.unfold(weight), Z @ weight)
    True
    """

    rows: torch.Tensor
    transform: torch.Tensor

    @classmethod
    def of(cls, rows: torch.Tensor) -> RowBasis:
        """Return the basis of rows; leading dimensions are so many sets of rows."""
        products, n_rows = gram(rows).double(), rows.shape[-2]
        size = products.diagonal(dim1=-2, dim2=-1).mean(dim=-1)[..., None, None]
        ridge = _RIDGE * torch.where(size > 0, size, 1.0)
        # What is no number stays so, for the boosting rule to refuse; no error is raised here.
        products.diagonal(dim1=-2, dim2=-1).add_(ridge[..., 0])
        with threads_for(n_rows**3 / 8):
            factor = torch.linalg.cholesky_ex(products).L
            turn = _rotation(n_rows, products.device).expand_as(products)
            transform = torch.linalg.solve_triangular(factor.mT, turn, upper=True)
        return cls(rows, transform.to(rows.dtype))

    def coordinates(self, X: torch.Tensor) -> torch.Tensor:
        """Return the coordinates of rows, shape (..., rows, M)."""
        return (X @ self.rows.mT) @ self.transform

    def unfold(self, weight: torch.Tensor) -> torch.Tensor:
        """Return weights for the columns that do what ``weight``, shape (M, units), does for coordinates."""
        return self.rows.mT @ (self.transform @ weight)


@dataclass(frozen=True, eq=False)
class InputMap:
    """Rows without what they have in common, of size one, and in coordinates of the labelled rows' own space.

    That is x -> (x - shift) / size, then its coordinates in a basis; None leaves rows or columns as they are.
    The size is one number, or one for each column, infinite for one that does not vary.
    All are affine maps, so that a first layer for their result is one for raw rows. Dimensions in front are
    so many sets of rows.

    Examples
    --------
    >>> rows = torch.tensor([[1.0, 5.0], [3.0, 5.0]])
    >>> InputMap.fit(rows, standardize=True, basis="features")(rows).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """

    shift: torch.Tensor | None = None
    size: torch.Tensor | None = None
    basis: RowBasis | None = None

    @classmethod
    def fit(cls, rows: torch.Tensor, *, standardize: bool, basis: str, scale_by: str = "rows") -> InputMap:
        """Return the map that suits labelled rows, shape (..., M, C)."""
        scaling = cls()
        if standardize:
            shift = rows.mean(dim=-2, keepdim=True)
            squares = (rows - shift).square()
            if scale_by == "columns":
                size = squares.mean(dim=-2, keepdim=True).sqrt()
                # What rounding makes of a constant does not vary.
                varies = size > 4 * torch.finfo(size.dtype).eps * shift.abs()
                scaling = cls(shift, torch.where(varies, size, torch.inf))
            else:
                size = squares.sum(dim=-1).mean(dim=-1).sqrt()[..., None, None]
                scaling = cls(shift, torch.where(size > 0, size, 1.0))
        if not is_smaller(basis, *rows.shape[-2:]):
            return scaling
        return cls(scaling.shift, scaling.size, RowBasis.of(scaling(rows)))

    def member(self, i: int) -> InputMap:
        """Return the map of one member, which may be that of all."""
        own: InputMap = map_tensors(lambda part: part[i] if part.ndim > 2 else part, self)
        return own

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows, mapped."""
        if self.shift is not None and self.size is not None:
            rows = (rows - self.shift) / self.size
        return rows if self.basis is None else self.basis.coordinates(rows)

    def fold(self, weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a first layer, (..., out, in), that does for raw rows what this one does for mapped ones."""
        if self.basis is not None:
            weight = self.basis.unfold(weight.mT).mT
        if self.shift is not None and self.size is not None:
            weight = weight / self.size
            bias = bias - (weight @ self.shift.mT)[..., 0]
        return weight, bias


def is_smaller(basis: str, n_rows: int, n_columns: int) -> bool:
    """Say whether a learner with this ``basis`` is trained on coordinates: where there are fewer of them."""
    return basis == "rows" and n_rows < n_columns


def norm(values: torch.Tensor) -> float:
    """Return the root of the sum of squares; squares of tiny numbers do not vanish."""
    largest = values.abs().max().double()
    return float(largest * (values.double() / largest).norm()) if largest > 0 else 0.0


def largest_eigenvalue(
    product: Callable[[torch.Tensor], torch.Tensor], start: torch.Tensor, n_steps: int
) -> float:
    """Return the largest eigenvalue of a positive semi-definite operator, by power iteration.

    ``start`` is random, so that no eigenvector is missed. The value comes from below, and slowly where the
    next eigenvalues are near. Gradient descent forgives that: it diverges only with steps of more than twice
    the inverse.
    """
    vector, size = start, start.norm()
    for _ in range(n_steps):
        if not size > 0:  # the operator is zero
            break
        vector = product(vector / size)
        size = vector.norm()
    return float(size)


@lru_cache(maxsize=8)
def _rotation(n: int, device: torch.device) -> torch.Tensor:
    """Return an orthogonal matrix, for every n always the same."""
    normal = np.random.default_rng(n).standard_normal((n, n))
    q, r = np.linalg.qr(normal)
    return torch.from_numpy(q * np.sign(np.diag(r))).to(device)
