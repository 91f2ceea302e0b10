"""Propagator: multiplies representations by P, with a kernel for the device."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import scipy.sparse as sp
import torch

from gbgnn._checks import check_choice
from gbgnn.errors import ParameterError
from gbgnn.propagation.backends import Backend, Bag, TorchCsr
from gbgnn.propagation.operator import Operator


class Propagator:
    """Multiplies node representations by P on one device, never forming an N x N array.

    Parameters
    ----------
    matrix
        P, as a recipe of :mod:`gbgnn.propagation.recipes` describes it; a SciPy matrix also works.
    device, dtype
        Where the products are computed, and in which precision.
    backend
        Which kernel computes them. ``"auto"`` takes the first of these that can:

        - ``"triton"``: on a GPU where Triton is installed. It reads the bare pattern.
        - ``"bag"``: on the CPU, except in double precision, where torch has no fast kernel for it. It reads
          the bare pattern too: as fast as torch's CSR product or nearly so (benchmarks/results/kernels.md),
          without 4 bytes for every entry, and without threads that wait for each other.
        - ``"torch"``: everywhere else, torch's CSR product over values formed for every edge.
    """

    def __init__(
        self,
        matrix: Any,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        backend: str = "auto",
    ) -> None:
        check_choice("Propagator", "backend", backend, ("auto", "triton", "bag", "torch"))
        self._operator = Operator.from_matrix(matrix).to(device)
        self._dtype = dtype
        self._backend = _choose(backend, self._operator.device, dtype)(self._operator, dtype)

    def __call__(self, X: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return P @ X, written into ``out`` where given, which must not be X."""
        # Kernels read where indices point, so what they read from must have all the rows.
        if X.ndim != 2 or X.shape[0] != self.n_nodes or X.dtype != self._dtype or X.device != self.device:
            raise ParameterError(
                f"P multiplies {self.n_nodes} rows of {self._dtype} on {self.device}; got a tensor of shape "
                f"{tuple(X.shape)}, {X.dtype}, on {X.device}."
            )
        return self._backend.multiply(X, out)

    def transpose(self) -> Propagator:
        """Return what multiplies by the transpose of P, on the same device."""
        return Propagator(self._operator.transpose(), self.device, self._dtype, self.backend)

    def to_scipy(self) -> sp.csr_array:
        """Return P entry by entry, in double precision whatever that of the products."""
        return self._operator.to_scipy()

    @property
    def operator(self) -> Operator:
        """The description of P, on the device of the products."""
        return self._operator

    @property
    def backend(self) -> str:
        """The name of the kernel that computes the products."""
        return self._backend.name

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the products."""
        return self._dtype

    @property
    def device(self) -> torch.device:
        """Where the products are computed."""
        return self._operator.device

    @property
    def n_nodes(self) -> int:
        """Number of rows and columns of P."""
        return self._operator.n_nodes

    @property
    def nbytes(self) -> int:
        """Bytes that P occupies, description and kernel together."""
        edges = self._operator.edges
        parts = (edges.row_starts, edges.columns, edges.values, self._operator.left, self._operator.right)
        held = [*(part for part in parts if part is not None), *self._backend.tensors()]
        return sum({part.data_ptr(): part.nbytes for part in held if part.numel()}.values())


def _choose(name: str, device: torch.device, dtype: torch.dtype) -> type[Backend]:
    """Return the backend of that name, or for ``"auto"`` the first that takes device and precision."""
    candidates: list[type[Backend]] = [Bag, TorchCsr]
    # Importing Triton takes time, so only where it can be used.
    if device.type == "cuda" and find_spec("triton") is not None:
        from gbgnn.propagation.triton_pattern import TritonPattern

        candidates.insert(0, TritonPattern)
    for candidate in candidates:
        if name in ("auto", candidate.name) and candidate.takes(device, dtype):
            return candidate
    raise ParameterError(f"No backend of P computes products in {dtype} on {device} (backend={name!r}).")
