"""Graph, NodeSplit and y: what the user brings, checked once when built and never changed after."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gbgnn._arrays import Ends, are_all, freeze, release, scan_ends, split_blocks
from gbgnn._html import list_some, show_facts
from gbgnn._matrices import (
    Features,
    as_adjacency,
    as_array,
    as_feature_names,
    as_features,
    as_node_ids,
    check_rows,
    normalize_rows,
)
from gbgnn._stored import PathLike, naming_damage, read_graph_folder
from gbgnn.errors import GraphError
from gbgnn.tables import NodeTable, TableEncoder, as_node_table, is_table
from gbgnn.tables.links import link_tables
from gbgnn.tables.neighbors import link_neighbors
from gbgnn.tables.structure import STRUCTURAL, structural_columns

_MOST_COLUMNS = 1000  # of a matrix whose columns are measures, not words


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Graph:
    """Nodes, weighted edges and node features; immutable.

    ``adjacency[i, j]`` is the weight of the edge from node ``j`` to node ``i``, by which ``i`` aggregates
    from ``j``; an undirected graph has a symmetric matrix. Deliberately without ``__len__`` and ``shape``:
    scikit-learn would take a graph for a table and slice it.

    Parameters
    ----------
    adjacency
        N x N matrix: SciPy sparse, NumPy, or a torch tensor of any layout. Entries given twice are
        summed and explicit zeros dropped, as SciPy does; :attr:`repairs` says when that happened.
    features
        N x C matrix, dense or sparse, finite. Booleans, integers and half precision become float32,
        more than double precision becomes float64. Or a table with a row per node: a pandas, polars or Arrow
        frame, a mapping from names to arrays, a :class:`~gbgnn.NodeTable`; its columns may be text,
        categories and dates, and have gaps. None: what the edges alone say of each node.
    node_ids
        The user's own name of each node, kept for the way back; row numbers when not given.
    feature_names
        A name per column of a matrix; a table has its own.
    repairs
        What a reader mended on the way in, as sentences; this class adds its own.
    copy
        Whether to copy arrays that somebody could still write to. Read-only ones in float32 or float64,
        such as files mapped with ``np.load(path, mmap_mode="r")`` or the arrays of another graph, are
        shared in either case, and mapped features stay on disk. (A read-only view of a writable dense
        array is copied.) With ``False`` writable ones are shared too: then they must not be changed as
        long as the graph is in use.

    Examples
    --------
    >>> graph = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], [[1.0], [2.0], [3.0]])
    >>> graph
    Graph(n_nodes=3, n_edges=2, n_features=1)
    >>> people = {"age": [31, None, 58], "city": ["Oslo", "Rome", "Oslo"]}
    >>> Graph(graph.adjacency, people).feature_names
    ('age', 'age=missing', 'city=Oslo', 'city=Rome')
    """

    adjacency: sp.csr_array
    """The N x N matrix of edge weights, read only."""

    node_ids: NDArray[Any]
    """The user's name of each node, in row order."""

    features_from: str
    """What the features are made of: ``"matrix"``, ``"table"``, or ``"edges"`` where none were given."""

    is_named: bool
    """Whether columns have names of their own, and are not just x0, x1, ..."""

    repairs: tuple[str, ...]
    """What was mended when the graph was built, one sentence each."""

    def __init__(
        self,
        adjacency: Any,
        features: Any,
        *,
        node_ids: Sequence[Any] | NDArray[Any] | None = None,
        feature_names: Sequence[str] | None = None,
        repairs: Sequence[str] = (),
        copy: bool = True,
    ) -> None:
        matrix, mended = as_adjacency(adjacency, copy)
        n_nodes = matrix.shape[0]
        ids = as_node_ids(node_ids, n_nodes, copy)
        # What is not put here is made when it is first asked for.
        is_matrix = features is not None and not is_table(features)
        state: dict[str, Any] = {"adjacency": matrix, "node_ids": ids, "repairs": (*repairs, *mended)}
        state["is_named"] = not is_matrix or feature_names is not None
        if is_matrix:
            X = as_features(features, n_nodes, copy)
            state |= {"features_from": "matrix", "features": X, "table": None, "encoder": None}
            if feature_names is not None:
                state["feature_names"] = as_feature_names(feature_names, X.shape[1])
        elif feature_names is not None:
            raise GraphError("feature_names is for a matrix of features; a table has names of its own.")
        elif features is None:
            state["features_from"] = "edges"
        else:
            table = as_node_table(features)
            check_rows(table.n_rows, n_nodes)
            state |= {"features_from": "table", "table": table}
        self.__setstate__(state)

    @classmethod
    def open(cls, folder: PathLike) -> Self:
        """Open a graph in the form on disk that ``gbgnn convert`` writes, a folder ``something.gbgraph``.

        Its arrays are mapped, not read: however large they are, they take no memory until rows are looked at.
        They are gone through once, block by block, to check every index. Leave the files alone while the
        graph is in use.

        Examples
        --------
        >>> import tempfile
        >>> from gbgnn import datasets
        >>> with tempfile.TemporaryDirectory() as place:
        ...     Graph.open(datasets.save_dataset(datasets.karate(), f"{place}/karate.gbgraph"))
        Graph(n_nodes=34, n_edges=78, n_features=34)
        """
        parts = read_graph_folder(folder)
        with naming_damage(Path(folder)):
            graph = cls(
                parts.adjacency, parts.features, node_ids=parts.node_ids, repairs=parts.repairs, copy=False
            )
        if parts.is_directed is not None:  # found out when it was written, by sorting all edges the other way
            vars(graph)["is_directed"] = parts.is_directed
        return graph

    @classmethod
    def from_tables(
        cls,
        nodes: Any,
        edges: Any,
        *,
        id: str | None = None,
        source: str | None = None,
        target: str | None = None,
        weight: str | None = None,
        directed: bool = False,
        features: Iterable[str] | None = None,
        drop: Iterable[str] = (),
        exclude: Iterable[str] = (),
        kinds: Mapping[str, str] | None = None,
    ) -> Self:
        """Build the graph of a table of nodes and a table of edges; rows of the first are nodes, in order.

        Parameters
        ----------
        nodes
            A frame with a row per node: an id, and columns that describe it.
        edges
            A frame with a row per edge, or a list of such frames.
        id
            The column of the nodes' ids, numbers or text of any kind. None is ``"id"`` or, where there is
            none, the first column that holds what the edges name, each once; :attr:`repairs` says which.
        source, target
            The columns of the edges' ends. None is ``source`` and ``target``, ``src`` and ``dst``, ``from``
            and ``to``, or the first two columns.
        weight
            The column of weights, zero or more; None counts each edge as 1.
        directed
            Whether an edge leads from source to target only.
        features
            The columns that describe a node; None takes all but the id, ``drop`` and ``exclude``.
        drop
            Columns to leave out.
        exclude
            Columns to leave out because they are what is to be predicted.
        kinds
            The kinds of columns whose values do not tell, see :class:`~gbgnn.NodeTable`.

        Examples
        --------
        >>> people = {"name": ["Ada", "Bo", "Cy"], "age": [36, 41, 29], "churn": [0, 1, 0]}
        >>> calls = {"caller": ["Ada", "Bo"], "called": ["Bo", "Cy"]}
        >>> graph = Graph.from_tables(people, calls, exclude=["churn"])
        >>> graph, graph.repairs
        (Graph(n_nodes=3, n_edges=2, n_columns=1), ("took column 'name' for the ids of nodes",))
        """
        links = link_tables(
            nodes,
            edges,
            id=id,
            ends=(source, target),
            weight=weight,
            directed=directed,
            features=features,
            drop=drop,
            exclude=exclude,
            kinds=kinds,
        )
        return cls(links.adjacency, links.table, node_ids=links.ids, repairs=links.notes, copy=False)

    @classmethod
    def from_neighbors(cls, features: Any, k: int = 10, metric: str = "euclidean") -> Self:
        """Build the graph of a table without links: every row and its ``k`` nearest, in either direction.

        Rows are compared as :class:`~gbgnn.TableEncoder` encodes them: units do not matter. Those of a
        sparse matrix or of one with more than a thousand columns as they are. Large tables are
        searched approximately where pynndescent is installed.

        Examples
        --------
        >>> Graph.from_neighbors([[0.0], [1.0], [5.0], [7.0]], k=1)
        Graph(n_nodes=4, n_edges=2, n_columns=1)
        """
        if not is_table(features) and not sp.issparse(features):
            X = as_array(features, "features")
            if X.ndim == 2 and 0 < X.shape[1] <= _MOST_COLUMNS and X.dtype.kind in "iufb":
                features = {f"x{i}": column for i, column in enumerate(X.T)}
        if is_table(features):
            features = as_node_table(features)
            n_rows = features.n_rows
        else:
            n_rows, *_ = getattr(features, "shape", None) or as_array(features, "features").shape or (1,)
        alone = cls(sp.csr_array((n_rows, n_rows)), features)
        graph = cls.__new__(cls)
        graph.__setstate__(vars(alone) | {"adjacency": link_neighbors(alone.features, k, metric)})
        return graph

    @cached_property
    def table(self) -> NodeTable | None:
        """The features as the user's columns, or what the edges say; None where features are a matrix."""
        return NodeTable(structural_columns(self.adjacency))

    @cached_property
    def encoder(self) -> TableEncoder | None:
        """What makes :attr:`features` of :attr:`table`, fitted on it; None where features are a matrix."""
        return None if self.table is None else TableEncoder().fit(self.table)

    def encode(self, encoder: TableEncoder | None, *, keep: bool = True) -> Features:
        """Return the features as an encoder makes them, its own or one fitted on another graph's table.

        Those of its own are kept as :attr:`features`, unless ``keep`` is False: then they are made anew.
        """
        is_own = encoder is vars(self).get("encoder")
        if encoder is None or (is_own and (keep or "features" in vars(self))):
            return self.features
        X: Features = encoder.transform(self.table)
        return X

    @cached_property
    def features(self) -> Features:
        """The N x C features: a read-only NumPy array, or a SciPy CSR array when given sparse.

        Of a table, its columns as :class:`~gbgnn.TableEncoder` encodes them, when first asked for.
        """
        assert self.encoder is not None
        X: Features = self.encoder.transform(self.table)
        freeze(X)
        return X

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """The name of each column of :attr:`features`; x0, x1, ... where a matrix came without."""
        if self.encoder is not None:
            return tuple(self.encoder.get_feature_names_out())
        return tuple(f"x{i}" for i in range(self.n_features))

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the user's own columns: those of the table or, of a matrix, of its columns."""
        if self.features_from == "edges":
            return STRUCTURAL
        return self.feature_names if self.table is None else self.table.names

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.adjacency.shape[0])

    @property
    def n_features(self) -> int:
        """Number of feature columns, those of a table as they are encoded."""
        if self.encoder is not None:
            return len(self.feature_names)
        return int(self.features.shape[1])

    @cached_property
    def _ends(self) -> Ends:
        return scan_ends(self.adjacency.indices, self.adjacency.indptr)

    @property
    def n_self_loops(self) -> int:
        """Number of nodes with an edge to themselves."""
        return self._ends.n_loops

    @cached_property
    def n_edges(self) -> int:
        """Distinct edges without self loops; the two directions of an undirected edge are one."""
        entries = self.adjacency.nnz - self.n_self_loops
        return int(entries if self.is_directed else entries // 2)

    @cached_property
    def n_isolated(self) -> int:
        """Number of nodes without an edge to or from another node."""
        return self.n_nodes - int(np.count_nonzero(self._ends.has_neighbour))

    @cached_property
    def is_directed(self) -> bool:
        """Whether some edge lacks its reverse, or has a reverse of another weight."""
        there, back = self.adjacency, self.adjacency.T.tocsr()
        # Both are in canonical form without zeros, where equal matrices have equal arrays.
        parts = ("indptr", "indices", "data")
        return not all(np.array_equal(getattr(there, part), getattr(back, part)) for part in parts)

    @cached_property
    def is_weighted(self) -> bool:
        """Whether some edge weight differs from one."""
        return not are_all(self.adjacency.data, 1)

    @cached_property
    def checksum(self) -> str:
        """A SHA-256 of edges, features and node ids; computed once, as nothing can change."""
        digest = hashlib.sha256()
        *arrays, ids = self._arrays()
        # Ids are hashed as text. That of whole numbers is as long as any could be: made block by block.
        text = (ids[:0] if ids.dtype.kind in "iu" else ids).astype(np.str_, copy=False).dtype
        for array, dtype in ((ids, text), *((each, each.dtype) for each in arrays)):
            digest.update(f"{dtype}{array.shape}".encode())
            for start, stop in split_blocks(array):
                block = np.ascontiguousarray(array[start:stop].astype(dtype, copy=False))
                digest.update(block.data.cast("B"))
                release(array)
        if self.features_from == "table":
            assert self.table is not None
            digest.update(self.table.checksum.encode())
        return digest.hexdigest()

    def with_row_normalized_features(self) -> Graph:
        """Return the graph with every feature row scaled to an absolute sum of one; zero rows stay zero."""
        return Graph(
            self.adjacency,
            normalize_rows(self.features),
            node_ids=self.node_ids,
            feature_names=self.feature_names if self.is_named else None,
            repairs=self.repairs,
            copy=False,
        )

    def _arrays(self) -> list[NDArray[Any]]:
        """Return every array of the graph, the node ids last; a table is not among them."""
        is_matrix = self.features_from == "matrix"
        matrices: tuple[Any, ...] = (self.adjacency, self.features) if is_matrix else (self.adjacency,)
        parts = [(m.data, m.indices, m.indptr) if sp.issparse(m) else (m,) for m in matrices]
        return [*(array for arrays in parts for array in arrays), self.node_ids]

    def __getstate__(self) -> dict[str, Any]:
        # A mapped file travels as the numbers in it: the other side may not have the file.
        X = vars(self).get("features")
        return vars(self) | ({"features": np.asarray(X)} if isinstance(X, np.memmap) else {})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for array in self._arrays():  # they come out of a pickle writable, too
            freeze(array)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # immutable, like a string

    def _repr_html_(self) -> str:
        columns = self.column_names if self.is_named or self.features_from != "matrix" else ()
        facts = {
            "nodes": self.n_nodes,
            "edges": self.n_edges,
            "directed": self.is_directed,
            "weighted": self.is_weighted,
            "isolated nodes": self.n_isolated,
            "features": self.n_features if self.features_from == "matrix" else None,
            "columns": list_some(list(map(str, columns))) if columns else None,
            "features from": self.features_from,
            "repaired": "; ".join(self.repairs) or None,
        }
        return show_facts("Graph", facts)

    def __repr__(self) -> str:
        directed, weighted = ", directed" * self.is_directed, ", weighted" * self.is_weighted
        if self.features_from == "matrix":
            columns = f"n_features={self.n_features}"
        else:  # features are not made to be shown
            columns = f"n_columns={len(self.column_names)}"
        counts = f"n_nodes={self.n_nodes}, n_edges={self.n_edges}, {columns}"
        return f"Graph({counts}{directed}{weighted})"
