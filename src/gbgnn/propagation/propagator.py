"""Propagator: multiplies representations by P, with a kernel for the device."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, final

import scipy.sparse as sp
import torch
from torch.nn.functional import embedding_bag

from gbgnn._checks import check_choice
from gbgnn._threads import map_threads, one_thread
from gbgnn.errors import ParameterError
from gbgnn.propagation.operator import Operator

_FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


class Propagator:
    """Multiplies node representations by P on one device, never forming an N x N array.

    P is what a recipe of :mod:`gbgnn.propagation.recipes` returns, or a SciPy matrix. Of the kernels,
    ``backend="auto"`` takes the first of these that can:

    - ``"triton"``: on a GPU where Triton is installed. It reads the bare pattern.
    - ``"bag"``: on the CPU, except in double precision, where torch has no fast kernel for it. Faster than
      the CSR products of torch and SciPy at every size (benchmarks/results/propagation.md), and without
      threads that wait for each other: any number of them gives the same bytes.
    - ``"torch"``: everywhere else, torch's CSR product over values formed for every edge.

    Between kernels results differ by rounding: by up to 1e-5 in float32, 1e-12 in float64, 0.004 in float16
    and 0.03 in bfloat16, times what the row of P would make of the largest number in X without its signs.
    """

    def __init__(
        self,
        matrix: Any,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        backend: str = "auto",
    ) -> None:
        check_choice("Propagator", "backend", backend, ("auto", "triton", "bag", "torch"))
        self.operator = Operator.from_matrix(matrix).to(device)  # the description of P
        self.n_nodes, self.device, self.dtype = self.operator.n_nodes, self.operator.device, dtype
        able = able_backends(self.device, dtype)
        if not able or backend not in ("auto", *able):
            raise ParameterError(
                f"No backend of P computes products in {dtype} on {self.device} (backend={backend!r})."
            )
        self.backend = able[0] if backend == "auto" else backend
        self._backend = _build_backend(self.backend, self.operator, dtype)

    def __call__(self, X: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return P @ X, written into ``out`` where given, which must not be X."""
        # Kernels read where indices point, so what they read from must have all the rows.
        if X.ndim != 2 or X.shape[0] != self.n_nodes or X.dtype != self.dtype or X.device != self.device:
            raise ParameterError(
                f"P multiplies {self.n_nodes} rows of {self.dtype} on {self.device}; got a tensor of shape "
                f"{tuple(X.shape)}, {X.dtype}, on {X.device}."
            )
        return self._backend.multiply(X, out)

    def transpose(self) -> Propagator:
        """Return what multiplies by the transpose of P, on the same device."""
        return Propagator(self.operator.transpose(), self.device, self.dtype, self.backend)

    def to_scipy(self) -> sp.csr_array:
        """Return P entry by entry, in double precision whatever that of the products."""
        return self.operator.to_scipy()

    @property
    def nbytes(self) -> int:
        """Bytes that P occupies, description and kernel together."""
        held = [*self.operator.tensors(), *self._backend.tensors()]
        return sum({part.data_ptr(): part.nbytes for part in held if part.numel()}.values())


def able_backends(device: torch.device, dtype: torch.dtype) -> list[str]:
    """Return the kernels that compute products in this precision there, the best first."""
    able = {
        "triton": device.type == "cuda" and dtype in _FLOATS and find_spec("triton") is not None,
        "bag": device.type == "cpu" and dtype in _FLOATS and dtype != torch.float64,
        "torch": device.type == "cuda" or dtype in (torch.float32, torch.float64),
    }
    return [name for name, is_able in able.items() if is_able]


def _build_backend(name: str, operator: Operator, dtype: torch.dtype) -> Backend:
    if name == "triton":
        from gbgnn.propagation.triton_pattern import TritonPattern  # takes time, so only where it is used

        return TritonPattern(operator, dtype)
    return Bag(operator, dtype) if name == "bag" else TorchCsr(operator, dtype)


class Backend(ABC):
    """Multiplies dense matrices by the P that an :class:`~gbgnn.propagation.Operator` describes.

    It is built once, by a :class:`~gbgnn.propagation.Propagator`, from a description that is on its device;
    products may then run in several threads at the same time, so they change nothing of it.
    """

    @abstractmethod
    def multiply(self, X: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
        """Return P @ X, in ``out`` where given; X is (N, C), of the precision of the products, and stays."""

    @abstractmethod
    def tensors(self) -> list[torch.Tensor]:
        """Return what is held beside the description."""


def cast(scaling: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """Return the diagonal of a scaling in the precision of the products, as a column."""
    return None if scaling is None else scaling.to(dtype)[:, None]


@final
class TorchCsr(Backend):
    """Forms the values of L A R once, and adds what P has on its diagonal beside them."""

    def __init__(self, operator: Operator, dtype: torch.dtype) -> None:
        A, values = operator.edges, operator.values(dtype)
        values = torch.ones_like(A.columns, dtype=dtype) if values is None else values
        self._matrix = sparse_csr(A.row_starts, A.columns, values, A.shape)
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
    """Return torch's own sparse CSR tensor, whose products torch.mm and torch.addmm compute, unchecked."""
    _announce_csr()
    # Both of one type, the narrower where it suffices: as fast.
    fits = max(len(columns), *shape) <= torch.iinfo(torch.int32).max
    index = torch.int32 if fits else torch.int64
    parts = (row_starts.to(index), columns.to(index), values)
    return torch.sparse_csr_tensor(*parts, shape, device=values.device, check_invariants=False)


@cache
def _announce_csr() -> None:
    """Let torch give, with warnings switched off, the warnings that it gives once per process.

    They say that its CSR layout is a beta and, in some versions, that its checks are optional.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse", UserWarning)
        none = torch.empty(0, dtype=torch.int64)
        torch.sparse_csr_tensor(none.new_zeros(2), none, none, (1, 1), check_invariants=False)


_SUMS = 2**20
"""About so many sums are computed at a time, by one thread: they are still in its cache when written."""

_FEWEST_ROWS, _MOST_ROWS = 256, 16_384

_INT32 = torch.iinfo(torch.int32).max

Piece = tuple[slice, torch.Tensor, torch.Tensor, torch.Tensor | None]
"""Rows, and their starts, columns and values."""


@final
class Bag(Backend):
    """Sums the rows of X over the neighbours of a node, each times the value of L A R.

    In half precision sums are kept in float32, and rounded before and after the diagonal is added.
    """

    def __init__(self, operator: Operator, dtype: torch.dtype) -> None:
        self._edges, self._values = operator.edges, operator.values(dtype)
        self._diagonal = cast(operator.diagonal_terms(), dtype)
        self._pieces: dict[int, list[Piece]] = {}

    def multiply(self, X: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
        """Return P @ X, block by block of rows, which several threads share where there is much to do."""
        result = torch.empty(X.shape, dtype=X.dtype) if out is None else out.resize_(X.shape)
        n_rows = min(_MOST_ROWS, max(_FEWEST_ROWS, 2 ** (_SUMS // max(1, X.shape[1])).bit_length() // 2))
        with one_thread():
            add_up = partial(self._add_up, X.contiguous(), result)
            map_threads(add_up, self._split(n_rows), (self._edges.n_entries + 2 * len(X)) * X.shape[1])
        return result

    def _add_up(self, X: torch.Tensor, result: torch.Tensor, piece: Piece) -> None:
        """Write the product of a block of rows of P with X."""
        rows, row_starts, columns, values = piece
        options: dict[str, Any] = {"mode": "sum", "include_last_offset": True, "per_sample_weights": values}
        sums = embedding_bag(columns, X, row_starts, **options)
        if self._diagonal is None:
            result[rows] = sums
        else:
            torch.addcmul(sums, X[rows], self._diagonal[rows], out=result[rows])

    def _split(self, n_rows: int) -> list[Piece]:
        """Return blocks of so many rows, found once.

        Their starts count from the first of the block, so that they have the columns' type, which the kernel
        demands, in a matrix of any number of entries.
        """
        if n_rows not in self._pieces:
            edges, pieces = self._edges, []
            for first in range(0, len(edges.row_starts) - 1, n_rows):
                starts = edges.row_starts[first : first + n_rows + 1]
                entries = slice(int(starts[0]), int(starts[-1]))
                index = edges.columns.dtype if entries.stop - entries.start <= _INT32 else torch.int64
                own = None if self._values is None else self._values[entries]
                rows = slice(first, first + len(starts) - 1)
                pieces.append((rows, (starts - starts[0]).to(index), edges.columns[entries].to(index), own))
            self._pieces[n_rows] = pieces
        return self._pieces[n_rows]

    def tensors(self) -> list[torch.Tensor]:
        """Return the values of the edges, the diagonal, and the starts of rows counted per block."""
        starts = [row_starts for pieces in self._pieces.values() for _, row_starts, _, _ in pieces]
        return [part for part in (self._values, self._diagonal, *starts) if part is not None]
