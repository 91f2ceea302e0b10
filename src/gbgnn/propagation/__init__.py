"""P: how it is described from a graph, and how representations are multiplied by it and its polynomials."""

from gbgnn.propagation.operator import Csr, Operator
from gbgnn.propagation.polynomial import PolynomialRows, chebyshev_terms, powers
from gbgnn.propagation.propagator import Propagator
from gbgnn.propagation.recipes import (
    AugmentedAdjacency,
    GivenMatrix,
    NormalizedAdjacency,
    NormalizedLaplacian,
    Propagation,
    RandomWalk,
)
from gbgnn.propagation.rows import (
    DenseRows,
    MemberRows,
    Representation,
    SparseRows,
    as_rows,
    join_members,
)
from gbgnn.propagation.spectrum import Interval, spectral_interval

__all__ = [
    "AugmentedAdjacency",
    "Csr",
    "DenseRows",
    "GivenMatrix",
    "Interval",
    "MemberRows",
    "NormalizedAdjacency",
    "NormalizedLaplacian",
    "Operator",
    "PolynomialRows",
    "Propagation",
    "Propagator",
    "RandomWalk",
    "Representation",
    "SparseRows",
    "as_rows",
    "chebyshev_terms",
    "join_members",
    "powers",
    "spectral_interval",
]
