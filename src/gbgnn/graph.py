"""Graph and NodeSplit: what the user brings, checked once when built and never changed after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray

from gbgnn.errors import GraphError

Features: TypeAlias = "NDArray[np.floating[Any]] | sp.csr_array"


class Graph:
    """Nodes, weighted edges and node features; immutable.

    ``adjacency[i, j]`` is the weight with which node ``i`` hears node ``j``; an undirected graph has a
    symmetric matrix. Deliberately without ``__len__`` and ``shape``: scikit-learn would take a graph
    for a table and slice it.

    Parameters
    ----------
    adjacency
        N x N matrix: SciPy sparse, NumPy, or a torch tensor of any layout. Entries given twice are
        summed and explicit zeros dropped, as SciPy does; :attr:`repairs` says when that happened.
    features
        N x C matrix, dense or sparse, finite. Integers and booleans become float32.
    node_ids
        The user's own name of each node, kept for the way back; row numbers when not given.
    repairs
        What a reader mended on the way in, as sentences; this class adds its own.

    Examples
    --------
    >>> graph = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], [[1.0], [2.0], [3.0]])
    >>> graph
    Graph(n_nodes=3, n_edges=2, n_features=1)
    """

    def __init__(
        self,
        adjacency: Any,
        features: Any,
        *,
        node_ids: Sequence[Any] | NDArray[Any] | None = None,
        repairs: Sequence[str] = (),
    ) -> None:
        matrix, mended = _as_adjacency(adjacency)
        self._adjacency = matrix
        self._features = _as_features(features, matrix.shape[0])
        self._node_ids = _as_node_ids(node_ids, matrix.shape[0])
        self._repairs = (*repairs, *mended)

    @property
    def adjacency(self) -> sp.csr_array:
        """The N x N matrix of edge weights, read only."""
        return self._adjacency

    @property
    def features(self) -> Features:
        """The N x C features: a read-only NumPy array, or a SciPy CSR array when given sparse."""
        return self._features

    @property
    def node_ids(self) -> NDArray[Any]:
        """The user's name of each node, in row order."""
        return self._node_ids

    @property
    def repairs(self) -> tuple[str, ...]:
        """What was mended when the graph was built, one sentence each."""
        return self._repairs

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self._adjacency.shape[0])

    @property
    def n_features(self) -> int:
        """Number of feature columns."""
        return int(self._features.shape[1])

    @cached_property
    def n_self_loops(self) -> int:
        """Number of nodes with an edge to themselves."""
        return int(np.count_nonzero(self._adjacency.diagonal()))

    @cached_property
    def n_edges(self) -> int:
        """Distinct edges without self loops; the two directions of an undirected edge are one."""
        entries = self._adjacency.nnz - self.n_self_loops
        return int(entries if self.is_directed else entries // 2)

    @cached_property
    def n_isolated(self) -> int:
        """Number of nodes that neither hear nor are heard by another node."""
        matrix = self._adjacency.tocoo()
        outside = matrix.row != matrix.col
        is_touched = np.zeros(self.n_nodes, bool)
        is_touched[matrix.row[outside]] = is_touched[matrix.col[outside]] = True
        return self.n_nodes - int(is_touched.sum())

    @cached_property
    def is_directed(self) -> bool:
        """Whether some edge lacks its reverse, or has a reverse of another weight."""
        return bool((self._adjacency != self._adjacency.T.tocsr()).nnz)

    @cached_property
    def is_weighted(self) -> bool:
        """Whether some edge weight differs from one."""
        return bool(np.any(self._adjacency.data != 1))

    def with_row_normalized_features(self) -> Graph:
        """Return the graph with every feature row scaled to an absolute sum of one; zero rows stay zero.

        Examples
        --------
        >>> Graph([[0, 1], [1, 0]], [[1.0, 3.0], [0.0, 0.0]]).with_row_normalized_features().features
        array([[0.25, 0.75],
               [0.  , 0.  ]])
        """
        X = self._features
        totals: NDArray[Any] = np.asarray(abs(X).sum(axis=1)).ravel()
        scale = np.divide(1, totals, out=np.zeros_like(totals), where=totals > 0)
        scaled = sp.diags_array(scale) @ X if sp.issparse(X) else X * scale[:, None]
        return Graph(self._adjacency, scaled, node_ids=self._node_ids, repairs=self._repairs)

    def __repr__(self) -> str:
        traits = [
            f"n_nodes={self.n_nodes}",
            f"n_edges={self.n_edges}",
            f"n_features={self.n_features}",
            *(["directed"] if self.is_directed else []),
            *(["weighted"] if self.is_weighted else []),
        ]
        return f"Graph({', '.join(traits)})"


@dataclass(frozen=True, eq=False)
class NodeSplit:
    """Which nodes train, which choose, which judge; disjoint lists of node ids.

    Parameters
    ----------
    train, val, test
        Row numbers of nodes, each list without repeats, no node in two lists. ``val`` and ``test`` may
        be empty.

    Examples
    --------
    >>> NodeSplit([0, 1], val=[2], test=[3, 4])
    NodeSplit(train=2, val=1, test=2)
    """

    train: NDArray[np.int64]
    val: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    test: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        for name in ("train", "val", "test"):
            object.__setattr__(self, name, as_nodes(getattr(self, name), name))
        if not len(self.train):
            raise GraphError("train is empty; a split needs at least one training node.")
        for one, other in (("train", "val"), ("train", "test"), ("val", "test")):
            check_disjoint(one, getattr(self, one), other, getattr(self, other))

    @classmethod
    def from_masks(cls, train: ArrayLike, val: ArrayLike = (), test: ArrayLike = ()) -> Self:
        """Build a split from boolean masks over all nodes."""
        ids = (np.flatnonzero(np.asarray(mask, dtype=bool)) for mask in (train, val, test))
        return cls(*ids)

    def check(self, n_nodes: int) -> None:
        """Raise unless every node of the split exists in a graph of ``n_nodes`` nodes."""
        for name in ("train", "val", "test"):
            check_range(getattr(self, name), n_nodes, name)

    def __repr__(self) -> str:
        return f"NodeSplit(train={len(self.train)}, val={len(self.val)}, test={len(self.test)})"


def as_nodes(nodes: Any, name: str = "nodes", *, unique: bool = True) -> NDArray[np.int64]:
    """Return node ids as a flat int64 array, without repeats if ``unique``, or say what is wrong.

    A column of shape (n, 1) and whole-numbered floats are accepted, because scikit-learn's pipelines
    make such things of a list of ids.
    """
    array = np.asarray(nodes)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise GraphError(f"{name} must be a list of node ids, shape (n,) or (n, 1); got shape {array.shape}.")
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype == bool:
        raise GraphError(f"{name} is a boolean mask; node ids are needed: np.flatnonzero({name}) gives them.")
    if not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise GraphError(f"{name} must be integers (row numbers of nodes); got dtype {array.dtype}.")
    with np.errstate(invalid="ignore"):
        ids = array.astype(np.int64)
    if not np.array_equal(ids, array):
        raise GraphError(
            f"{name} must be whole numbers (row numbers of nodes); got {array[ids != array][0]}."
        )
    if unique:
        distinct, counts = np.unique(ids, return_counts=True)
        if len(distinct) < len(ids):
            raise GraphError(
                f"{name} holds {len(ids) - len(distinct)} repeated node ids "
                f"(first: {distinct[counts > 1][0]}); each node may appear once."
            )
    return ids


def check_range(nodes: NDArray[np.int64], n_nodes: int, name: str = "nodes") -> None:
    """Raise unless all ids are rows of a graph of ``n_nodes`` nodes."""
    outside = nodes[(nodes < 0) | (nodes >= n_nodes)]
    if len(outside):
        raise GraphError(
            f"{name} holds node id {outside[0]}, but the graph has {n_nodes} nodes (0 to {n_nodes - 1})."
        )


def check_disjoint(one: str, nodes: NDArray[np.int64], other: str, others: NDArray[np.int64]) -> None:
    """Raise when two lists share a node."""
    shared = np.intersect1d(nodes, others)
    if len(shared):
        first = ", ".join(map(str, shared[:3]))
        raise GraphError(
            f"{other} shares {len(shared)} nodes with {one} (first: {first}); the sets must be disjoint."
        )


def _as_adjacency(adjacency: Any) -> tuple[sp.csr_array, list[str]]:
    matrix = _from_torch(adjacency)
    if not sp.issparse(matrix):
        matrix = _numeric(matrix, "adjacency")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"adjacency must be a square matrix; got shape {matrix.shape}.")
    if matrix.shape[0] == 0:
        raise GraphError("adjacency is 0 x 0; a graph needs at least one node.")
    if np.iscomplexobj(matrix):
        raise GraphError("adjacency must be real; got complex weights.")
    result = sp.csr_array(matrix, copy=True)
    if not np.issubdtype(result.dtype, np.floating):
        result = result.astype(np.float32)
    given = matrix.nnz if sp.issparse(matrix) else result.nnz  # COO entries merge in the conversion
    result.sum_duplicates()
    summed = given - result.nnz
    result.eliminate_zeros()
    zeros = given - summed - result.nnz
    bad = np.flatnonzero(~np.isfinite(result.data))
    if len(bad):
        row = int(np.searchsorted(result.indptr, bad[0], side="right")) - 1
        raise GraphError(
            f"adjacency has {len(bad)} NaN or infinite weights (first: edge {row} -> "
            f"{result.indices[bad[0]]}); every weight must be finite."
        )
    for array in (result.data, result.indices, result.indptr):
        array.flags.writeable = False
    mended = [f"summed {summed} repeated adjacency entries"] if summed else []
    return result, mended + ([f"dropped {zeros} explicit zero weights"] if zeros else [])


def _as_features(features: Any, n_nodes: int) -> Features:
    X = _from_torch(features)
    if sp.issparse(X):
        X = sp.csr_array(X, copy=True)
        X.sum_duplicates()
    else:
        X = np.array(_numeric(X, "features"))
    if X.ndim != 2:
        raise GraphError(f"features must be a matrix with one row per node; got shape {X.shape}.")
    if X.shape[0] != n_nodes:
        raise GraphError(
            f"features has {X.shape[0]} rows but adjacency is {n_nodes} x {n_nodes}; "
            "both need one row per node."
        )
    if X.shape[1] == 0:
        raise GraphError("features has no columns; give each node at least one feature.")
    if np.iscomplexobj(X):
        raise GraphError("features must be real; got complex numbers.")
    if not np.issubdtype(X.dtype, np.floating) or X.dtype == np.float16:
        X = X.astype(np.float32)
    values = X.data if sp.issparse(X) else X
    n_bad = int(np.size(values) - np.isfinite(values).sum())
    if n_bad:
        where = np.argwhere(~np.isfinite(X.toarray() if sp.issparse(X) else X))[0]
        raise GraphError(
            f"features has {n_bad} NaN or infinite values (first: node {where[0]}, column {where[1]}); "
            "fill or drop them first."
        )
    for array in (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,):
        array.flags.writeable = False
    return X


def _as_node_ids(node_ids: Any, n_nodes: int) -> NDArray[Any]:
    ids = np.arange(n_nodes) if node_ids is None else np.array(node_ids)
    if ids.shape != (n_nodes,):
        raise GraphError(
            f"node_ids has shape {ids.shape} but the graph has {n_nodes} nodes; give one id per node."
        )
    if len(np.unique(ids)) < n_nodes:
        raise GraphError("node_ids holds repeated ids; each node needs a name of its own.")
    ids.flags.writeable = False
    return ids


def _numeric(values: Any, name: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of unequal length
        raise GraphError(f"{name} is not a matrix: {error}.") from error
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise GraphError(f"{name} must be numbers; got {type(values).__name__} of dtype {array.dtype}.")
    return array


def _from_torch(value: Any) -> Any:
    """Return a torch tensor as SciPy or NumPy; anything else as it came."""
    if not isinstance(value, torch.Tensor):
        return value
    tensor = value.detach().cpu()
    if tensor.layout == torch.strided:
        return tensor.numpy()
    coo = tensor.to_sparse_coo().coalesce()
    rows, cols = coo.indices().numpy()
    return sp.coo_array((coo.values().numpy(), (rows, cols)), shape=tuple(coo.shape))
