"""Graph layers that are products: weights first, where rows are sparse or long, then mixing.

PyTorch Geometric has them too, and the tests hold these to its own. torch differentiates a product with a
sparse matrix by transposing that matrix anew at every step; here the transpose is made once, which trains a
graph convolutional network twice as fast on Cora and five times as fast on PubMed.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn


def dropout(X: torch.Tensor, share: float) -> torch.Tensor:
    """Return ``X`` with a share of its entries set to zero at random, the others scaled up.

    By comparing uniform numbers: on a CPU three times as fast as torch's own, which draws from Bernoulli.
    """
    return X * torch.rand_like(X).ge_(share).mul_(1 / (1 - share)) if share else X


class Matrix(ABC):
    """A matrix that is multiplied with trained weights and has no gradient itself."""

    @abstractmethod
    def __matmul__(self, right: torch.Tensor) -> torch.Tensor:
        """Return the product, through which gradients flow to ``right``."""

    @abstractmethod
    def dropped(self, share: float) -> Matrix:
        """Return the matrix with a share of what it holds set to zero at random, the rest scaled up."""

    @property
    @abstractmethod
    def tensor(self) -> torch.Tensor:
        """The matrix as torch has it, dense or in CSR layout."""

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.tensor.shape[1])


class DenseMatrix(Matrix):
    """A matrix that holds all of its entries."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def __matmul__(self, right: torch.Tensor) -> torch.Tensor:
        return self._tensor @ right

    def dropped(self, share: float) -> DenseMatrix:
        """Return the matrix with a share of its entries set to zero."""
        return DenseMatrix(dropout(self._tensor, share))

    @property
    def tensor(self) -> torch.Tensor:
        """The matrix itself."""
        return self._tensor


@dataclass(frozen=True, eq=False)
class _Pattern:
    """Where the entries of a matrix are, by rows."""

    row_starts: torch.Tensor
    columns: torch.Tensor
    shape: tuple[int, int]

    def fill(self, values: torch.Tensor) -> torch.Tensor:
        with warnings.catch_warnings():
            # Once per process torch calls its CSR layout a beta, and some versions its checks optional.
            warnings.filterwarnings("ignore", "Sparse", UserWarning)
            return torch.sparse_csr_tensor(
                self.row_starts, self.columns, values, size=self.shape, check_invariants=False
            )


class SparseMatrix(Matrix):
    """A matrix that holds its non-zero entries, and its transpose for the way back."""

    def __init__(
        self, values: torch.Tensor, pattern: _Pattern, transpose: _Pattern, order: torch.Tensor
    ) -> None:
        self._values, self._pattern, self._transpose, self._order = values, pattern, transpose, order

    @classmethod
    def from_scipy(cls, matrix: sp.csr_array, device: torch.device | str = "cpu") -> SparseMatrix:
        """Build the matrix on ``device``, in single precision."""
        matrix = sp.csr_array(matrix)
        matrix.sort_indices()
        index = np.int32 if max(matrix.nnz, *matrix.shape) <= np.iinfo(np.int32).max else np.int64
        places = sp.csr_array((np.arange(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
        turned = places.T.tocsr()
        pattern, transpose = (
            _Pattern(
                torch.as_tensor(part.indptr.astype(index), device=device),
                torch.as_tensor(part.indices.astype(index), device=device),
                part.shape,
            )
            for part in (matrix, turned)
        )
        values = torch.tensor(matrix.data, dtype=torch.float32, device=device)
        return cls(values, pattern, transpose, torch.as_tensor(turned.data, device=device))

    def __matmul__(self, right: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = _Product.apply(right, self)  # type: ignore[no-untyped-call]
        return product

    def dropped(self, share: float) -> SparseMatrix:
        """Return the matrix with a share of its non-zero entries set to zero."""
        if not share:
            return self
        values = dropout(self._values, share)
        return SparseMatrix(values, self._pattern, self._transpose, self._order)

    @cached_property
    def tensor(self) -> torch.Tensor:
        """The matrix in CSR layout."""
        return self._pattern.fill(self._values)

    @cached_property
    def transposed(self) -> torch.Tensor:
        """The transpose in CSR layout."""
        return self._transpose.fill(self._values[self._order])


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, right: torch.Tensor, matrix: SparseMatrix) -> torch.Tensor:
        context.matrix = matrix
        return torch.mm(matrix.tensor, right)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return torch.mm(context.matrix.transposed, gradients[0]), None


class Dense(nn.Module):
    """``H W + b``, for rows in memory or a fixed matrix; uniform Glorot weights, zero bias."""

    def __init__(self, n_in: int, n_out: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        self.bias = nn.Parameter(torch.zeros(n_out)) if bias else None
        nn.init.xavier_uniform_(self.weight)

    def forward(self, H: torch.Tensor | Matrix) -> torch.Tensor:
        """Return ``H W + b``."""
        product = H @ self.weight
        return product if self.bias is None else product + self.bias


class GraphConvolution(nn.Module):
    """GCN's layer ``P H W + b`` [Kipf and Welling 2017]."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.dense = Dense(n_in, n_out, bias=False)
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, P: SparseMatrix, H: torch.Tensor | Matrix) -> torch.Tensor:
        """Return ``P H W + b``."""
        mixed: torch.Tensor = P @ self.dense(H) + self.bias
        return mixed


class PolynomialConvolution(nn.Module):
    """TAGCN's layer ``sum_k S^k H W_k + b``, k up to ``degree`` [Du et al. 2017]."""

    def __init__(self, n_in: int, n_out: int, degree: int) -> None:
        super().__init__()
        self.terms = nn.ModuleList(Dense(n_in, n_out, bias=False) for _ in range(degree + 1))
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, S: SparseMatrix, H: torch.Tensor | Matrix) -> torch.Tensor:
        """Return the sum by Horner's rule, so that only outputs are mixed."""
        *lower, highest = self.terms
        total: torch.Tensor = highest(H)
        for term in reversed(lower):
            total = S @ total + term(H)
        return total + self.bias


class MeanConvolution(nn.Module):
    """GraphSAGE's layer with the mean aggregator, ``H W + M H V + b`` [Hamilton et al. 2017]."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.own = Dense(n_in, n_out)
        self.neighbours = Dense(n_in, n_out, bias=False)

    def forward(self, M: SparseMatrix, H: torch.Tensor | Matrix) -> torch.Tensor:
        """Return the sum of what a node and the mean of its neighbours say."""
        total: torch.Tensor = self.own(H) + M @ self.neighbours(H)
        return total


class ResidualConvolution(nn.Module):
    """GCNII's layer [Chen et al. 2020]: mix, add a share of the start, then a map near the identity.

    ``restart`` is the paper's alpha, ``strength`` its beta of this layer.
    """

    def __init__(self, n_units: int, restart: float, strength: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_units, n_units))
        nn.init.xavier_uniform_(self.weight)
        self.restart, self.strength = restart, strength

    def forward(self, P: SparseMatrix, H: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        """Return ``(1 - beta) Z + beta Z W`` with ``Z = (1 - alpha) P H + alpha H_0``."""
        Z = torch.lerp(P @ H, start, self.restart)
        return torch.addmm(Z, Z, self.weight, beta=1 - self.strength, alpha=self.strength)
