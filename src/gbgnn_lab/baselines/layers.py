"""Graph layers that are products: weights first, where rows are sparse or long, then mixing.

PyTorch Geometric has them too, and the tests hold these to its own; here they use
:class:`~gbgnn_lab.baselines.matrices.SparseMatrix`, which is several times as fast.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from gbgnn_lab.baselines.matrices import Matrix, SparseMatrix


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

    Parameters
    ----------
    n_units
        Width.
    restart
        Share of the first representation (the paper's alpha).
    strength
        How far the map is from the identity (the paper's beta of this layer).
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


def identity_strength(identity: float, layer: int) -> float:
    """Return GCNII's beta of a layer, counted from one: it falls with depth.

    Examples
    --------
    >>> round(identity_strength(0.5, 1), 4), round(identity_strength(0.5, 64), 4)
    (0.4055, 0.0078)
    """
    return math.log(identity / layer + 1)
