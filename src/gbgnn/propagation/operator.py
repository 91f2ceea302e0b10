"""Operator: the description of P that a recipe returns and a Propagator multiplies by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from gbgnn.errors import GraphError
from gbgnn.propagation.csr import Csr


@dataclass(frozen=True, eq=False)
class Operator:
    r"""P as its parts, :math:`P = \iota I + L (A + \sigma I) R` with diagonal L and R.

    Nothing of the size of the edges is formed beside A itself, which has no values where every edge weighs
    one.
    """

    edges: Csr  # A, square
    # left, right: the diagonals of L and R, one float64 number per node, on the device of A; None stands for
    # ones.
    left: torch.Tensor | None = None
    right: torch.Tensor | None = None
    self_loop: float = 0.0  # sigma, the weight of the self loop that each node is given
    identity: float = 0.0  # iota, the share of the identity

    def __post_init__(self) -> None:
        """Raise unless A is square."""
        n_rows, n_columns = self.edges.shape
        if n_rows != n_columns:
            raise GraphError(f"P must be a square matrix; got {n_rows} x {n_columns}.")

    @classmethod
    def from_matrix(cls, matrix: Any) -> Operator:
        """Return an Operator as it is, and a SciPy matrix or a Csr as one."""
        return matrix if isinstance(matrix, cls) else cls(Csr.from_matrix(matrix))

    @property
    def n_nodes(self) -> int:
        """Number of rows and columns of P."""
        return self.edges.n_columns

    @property
    def device(self) -> torch.device:
        """Where the parts are."""
        return self.edges.device

    @property
    def nbytes(self) -> int:
        """Bytes that the description occupies, A included."""
        scalings = {id(part): part.nbytes for part in (self.left, self.right) if part is not None}
        return self.edges.nbytes + sum(scalings.values())

    def to(self, device: torch.device | str) -> Operator:
        """Return the description on ``device``; parts that are there are shared."""
        return replace(
            self,
            edges=self.edges.to(device),
            left=None if self.left is None else self.left.to(device),
            right=None if self.right is None else self.right.to(device),
        )

    def transpose(self) -> Operator:
        """Return the description of the transpose of P."""
        return replace(self, edges=self.edges.transpose(), left=self.right, right=self.left)

    def diagonal_terms(self) -> torch.Tensor | None:
        r"""Return what P has on its diagonal beside L A R, :math:`\iota + \sigma L R`; None if nothing."""
        if not self.self_loop and not self.identity:
            return None
        loops = torch.full((self.n_nodes,), self.self_loop, dtype=torch.float64, device=self.device)
        for scaling in (self.left, self.right):
            if scaling is not None:
                loops *= scaling
        return loops.add_(self.identity)

    def to_scipy(self) -> sp.csr_array:
        """Return P entry by entry in double precision, sorted; what spectra and bounds are computed from."""
        P = self.edges.to_scipy()
        P.sum_duplicates()
        if self.self_loop:
            P = sp.csr_array(P + self.self_loop * sp.eye_array(self.n_nodes))
        if self.left is not None:
            P.data *= np.repeat(self.left.cpu().numpy(), np.diff(P.indptr))
        if self.right is not None:
            P.data *= self.right.cpu().numpy()[P.indices]
        if self.identity:
            P = sp.csr_array(P + self.identity * sp.eye_array(self.n_nodes))
        P.sort_indices()
        return P

    def toarray(self) -> NDArray[np.float64]:
        """Return P as an N x N array, for graphs of a few nodes."""
        dense: NDArray[np.float64] = self.to_scipy().toarray()
        return dense
