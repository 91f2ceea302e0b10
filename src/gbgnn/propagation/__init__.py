"""P: how it is described from a graph, and how representations are multiplied by it and its polynomials."""

from gbgnn.propagation.columns_on_disk import GivenColumns
from gbgnn.propagation.disk_rows import DiskRows, Workspace
from gbgnn.propagation.graph_rows import GraphRows, mix
from gbgnn.propagation.mixable import KeptRows, Mixable
from gbgnn.propagation.neighbours import NeighbourEdges
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
    NORMS,
    DenseRows,
    JoinedRows,
    MemberRows,
    Representation,
    SparseRows,
    as_rows,
    join_members,
    normalised,
)
from gbgnn.propagation.spectrum import Interval, spectral_interval

__all__ = [
    "NORMS",
    "AugmentedAdjacency",
    "Csr",
    "DenseRows",
    "DiskRows",
    "GivenColumns",
    "GivenMatrix",
    "GraphRows",
    "Interval",
    "JoinedRows",
    "KeptRows",
    "MemberRows",
    "Mixable",
    "NeighbourEdges",
    "NormalizedAdjacency",
    "NormalizedLaplacian",
    "Operator",
    "PolynomialRows",
    "Propagation",
    "Propagator",
    "RandomWalk",
    "Representation",
    "SparseRows",
    "Workspace",
    "as_rows",
    "chebyshev_terms",
    "join_members",
    "mix",
    "normalised",
    "powers",
    "spectral_interval",
]
