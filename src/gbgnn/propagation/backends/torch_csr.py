"""Products by torch's sparse CSR matrices, with values for every edge: any device, the fall-back."""

from __future__ import annotations

import warnings
from functools import cache
from typing import final

import torch

from gbgnn.propagation.backends.base import Backend, cast
from gbgnn.propagation.csr import Csr
from gbgnn.propagation.operator import Operator


@final
class TorchCsr(Backend):
    """Forms the values of L A R once, and adds what P has on its diagonal beside them."""

    name = "torch"

    @staticmethod
    def takes(device: torch.device, dtype: torch.dtype) -> bool:
        """Return whether torch's product exists: on the CPU not in half precision."""
        return dtype in (torch.float32, torch.float64) or device.type == "cuda"

    def __init__(self, operator: Operator, dtype: torch.dtype) -> None:
        A = operator.edges
        self._matrix = sparse_csr(A.row_starts, A.columns, _scaled_values(operator).to(dtype), A.shape)
        self._diagonal = cast(operator.diagonal_terms(), dtype)

    def multiply(self, X: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
        """Return P @ X."""
        result = torch.mm(self._matrix, X, out=out)
        return result if self._diagonal is None else result.addcmul_(X, self._diagonal)

    def tensors(self) -> list[torch.Tensor]:
        """Return the starts of rows, the values of the edges, and the diagonal."""
        parts = [self._matrix.crow_indices(), self._matrix.values()]
        return parts if self._diagonal is None else [*parts, self._diagonal]


def sparse_csr(
    row_starts: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, shape: tuple[int, int]
) -> torch.Tensor:
    """Return torch's own sparse CSR tensor, whose products torch.mm and torch.addmm compute."""
    _announce_csr()
    # Both of one type, the narrower where it suffices: as fast (benchmarks/results/kernels.md).
    fits = max(len(columns), *shape) <= torch.iinfo(torch.int32).max
    index = torch.int32 if fits else torch.int64
    return torch.sparse_csr_tensor(
        row_starts.to(index),
        columns.to(index),
        values,
        size=shape,
        device=values.device,
        check_invariants=False,  # the caller keeps them
    )


@cache
def _announce_csr() -> None:
    """Let torch give, with warnings switched off, the warnings that it gives once per process.

    They say that its CSR layout is a beta and, in some versions, that its checks are optional.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse", UserWarning)
        none = torch.empty(0, dtype=torch.int64)
        torch.sparse_csr_tensor(none.new_zeros(2), none, none, (1, 1), check_invariants=False)


def _scaled_values(operator: Operator) -> torch.Tensor:
    """Return the values of L A R in double precision, as rounding them early could cost a digit."""
    A: Csr = operator.edges
    if A.values is None:
        values = torch.ones(A.n_entries, dtype=torch.float64, device=A.device)
    else:
        values = A.values.double()
    if operator.left is not None:
        values = values * operator.left[A.rows_of_entries()]
    if operator.right is not None:
        values = values * operator.right[A.columns]
    return values
