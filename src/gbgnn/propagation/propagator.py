"""Propagator: the one door through which representations are multiplied by P."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp
import torch


class Propagator:
    """Multiplies node representations by P on one device, never forming an N x N array.

    Parameters
    ----------
    matrix
        P, as a recipe of :mod:`gbgnn.propagation.recipes` builds it.
    device, dtype
        Where the products are computed, and in which precision.

    Examples
    --------
    >>> P = Propagator(sp.csr_array([[0.5, 0.5], [0.5, 0.5]]))
    >>> P(torch.tensor([[2.0], [4.0]]))
    tensor([[3.],
            [3.]])
    """

    def __init__(
        self,
        matrix: sp.csr_array,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        P = sp.csr_array(matrix)
        P.sort_indices()
        # 32-bit indices where they suffice: the product is as fast (benchmarks/results/kernels.md).
        index = np.int32 if max(P.nnz, *P.shape) <= np.iinfo(np.int32).max else np.int64
        parts = (P.indptr.astype(index), P.indices.astype(index), P.data)
        row_starts, columns, values = (torch.tensor(part) for part in parts)
        with warnings.catch_warnings():
            # Once per process torch calls its CSR layout a beta, and some versions its checks optional.
            warnings.filterwarnings("ignore", "Sparse", UserWarning)
            self._matrix = torch.sparse_csr_tensor(
                row_starts,
                columns,
                values.to(dtype),
                size=P.shape,
                device=device,
                check_invariants=False,  # SciPy keeps them
            )

    def __call__(self, X: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return P @ X, written into ``out`` where given."""
        return torch.mm(self._matrix, X, out=out)

    def transpose(self) -> Propagator:
        """Return what multiplies by the transpose of P, on the same device."""
        return Propagator(self.to_scipy().T.tocsr(), self._matrix.device, self.dtype)

    def to_scipy(self) -> sp.csr_array:
        """Return P, in the precision of its products."""
        parts = (self._matrix.values(), self._matrix.col_indices(), self._matrix.crow_indices())
        return sp.csr_array(tuple(part.cpu().numpy() for part in parts), shape=tuple(self._matrix.shape))

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the products."""
        return self._matrix.dtype

    @property
    def n_nodes(self) -> int:
        """Number of rows and columns of P."""
        return int(self._matrix.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes that P occupies."""
        parts = (self._matrix.crow_indices(), self._matrix.col_indices(), self._matrix.values())
        return sum(part.nbytes for part in parts)
