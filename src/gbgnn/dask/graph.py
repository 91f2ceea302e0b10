"""DaskGraph: a graph whose edges and features are on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, final
from uuid import uuid4
from weakref import ref

import numpy as np
import scipy.sparse as sp
import torch
from distributed import Client, Future
from numpy.typing import ArrayLike, NDArray

from gbgnn._checks import check_integer
from gbgnn.dask.blocks import Block, EdgeRows, LocalEdges, as_chunk, pick
from gbgnn.dask.frames import FrameReader, find_ids, read_parquet
from gbgnn.dask.layout import Chunks, Layout, find_client, find_workers, take
from gbgnn.errors import GraphError
from gbgnn.graph import Graph
from gbgnn.propagation import Propagation
from gbgnn.propagation.operator import Csr
from gbgnn.propagation.rows import SPARSE_BELOW

_ROW_COST = 4
"""What a node costs a worker beside its edges, in edges: by both, chunks are about equal."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class DaskGraph:
    """Edges and features of a graph in chunks of consecutive nodes, on the workers of a Dask cluster.

    Build one with :meth:`from_graph`, :meth:`from_dask` or :meth:`from_parquet`; it stays on the workers
    as long as it, or a model that was fitted on it, is there.
    """

    layout: Layout
    name: str  # no other graph is called so
    edges: Chunks  # of LocalEdges
    wanted: Sequence[
        dict[int, Future[Any]]
    ]  # of each chunk, the ids of the rows that it borrows, by their chunk
    counts: Sequence[dict[int, int]]  # how many these are
    totals: Chunks  # sums of rows and columns of the adjacency matrix
    chunks: Chunks  # of features
    feature_names: tuple[str, ...]
    is_named: bool
    is_sparse: bool = False  # whether one machine would keep the features sparse
    node_ids: Chunks | None = None  # the user's own names of nodes; None are row numbers
    features_from = "matrix"
    table = None
    encoder = None
    source: Callable[[], Graph | None] = lambda: None  # the graph in memory that was sent, while it is there
    _blocks: dict[str, Chunks] = field(default_factory=dict)

    @classmethod
    def from_graph(
        cls, graph: Graph, *, client: Client | None = None, n_chunks: int | None = None, features: Any = None
    ) -> DaskGraph:
        """Send a graph in memory to the workers, a chunk for each of their threads.

        Parameters
        ----------
        graph
            Edges and features. The scheduler keeps what was sent, for workers that are lost.
        client
            The cluster; None is that of the program.
        n_chunks
            Number of chunks; None is one for each thread of the workers.
        features
            Its features as numbers; None are those of the graph.

        Examples
        --------
        >>> from distributed import Client
        >>> from gbgnn import datasets
        >>> with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
        ...     DaskGraph.from_graph(datasets.load("karate").graph, client=client)
        DaskGraph(n_nodes=34, n_features=34, n_chunks=2)
        """
        client = find_client(client)
        given = sum(find_workers(client).values()) if n_chunks is None else n_chunks
        check_integer("DaskGraph.from_graph", "n_chunks", given, 1)
        X: Any = graph.features if features is None else features
        A = graph.adjacency
        layout, name = Layout.build(client, _share_out(A.indptr, given)), uuid4().hex
        sums = Csr.from_scipy(A).column_sums().numpy()
        rows, totals, chunks = [], [], []
        for i, (start, stop) in enumerate(pairwise(layout.bounds)):
            own = EdgeRows.from_scipy(A[start:stop])
            rows.append(layout.settle(i, f"edges-{name}-{i}", take, own))
            totals.append(layout.settle(i, f"sums-{name}-{i}", take, sums[start:stop]))
            chunks.append(layout.settle(i, f"features-{name}-{i}", take, X[start:stop]))
        layout.wait([*rows, *totals, *chunks])
        return cls._build(
            layout,
            name,
            rows=rows,
            column_sums=totals,
            chunks=chunks,
            feature_names=graph.feature_names,
            is_named=graph.is_named,
            is_sparse=sp.issparse(X) and X.nnz <= SPARSE_BELOW * X.shape[0] * X.shape[1],
            source=ref(graph),
        )

    @classmethod
    def from_dask(
        cls,
        nodes: Any,
        edges: Any,
        *,
        client: Client | None = None,
        id: str | None = None,
        source: str = "source",
        target: str = "target",
        weight: str | None = None,
        directed: bool = False,
        features: Iterable[str] | None = None,
        exclude: Iterable[str] = (),
    ) -> DaskGraph:
        """Build a graph of Dask's dataframes; no machine ever holds all of it.

        Its edges are those of :meth:`Graph.from_tables <gbgnn.Graph.from_tables>`; its features are columns
        of numbers without gaps, taken as they are. Each partition of the nodes is a chunk.

        Parameters
        ----------
        nodes
            A dataframe with a row per node.
        edges
            A dataframe with a row per edge.
        client
            The cluster; None is that of the program.
        id
            The column of the nodes' ids, of any kind. None: edges name nodes by their row numbers.
        source, target
            The columns of the edges' ends.
        weight
            The column of weights; None counts each edge as 1.
        directed
            Whether an edge leads from source to target only.
        features
            The columns that describe a node; None takes all but the id and ``exclude``.
        exclude
            Columns to leave out, such as what is to be predicted.
        """
        client = find_client(client)
        find_workers(client)
        reader = FrameReader(client, uuid4().hex, id, (source, target), weight, directed)
        parts = reader.read_nodes(nodes, features, exclude)
        rows, column_sums = reader.read_edges(edges, parts)
        return cls._build(
            parts.layout,
            reader.name,
            rows=rows,
            column_sums=column_sums,
            chunks=parts.features,
            feature_names=parts.names,
            is_named=True,
            node_ids=parts.ids,
        )

    @classmethod
    def from_parquet(cls, nodes: Any, edges: Any, **options: Any) -> DaskGraph:
        """Build a graph of Parquet files, which the workers read; ``options`` are those of :meth:`from_dask`.

        Parameters
        ----------
        nodes, edges
            Folders or addresses of Parquet files that every worker reaches.
        options
            Which columns are what, and the cluster.
        """
        return cls.from_dask(*map(read_parquet, (nodes, edges)), **options)

    @classmethod
    def _build(
        cls, layout: Layout, name: str, *, rows: Chunks, column_sums: Chunks | None, **known: Any
    ) -> DaskGraph:
        """Let workers find what each chunk borrows of the others, once."""
        every = range(layout.n_chunks)

        def submit(key: str, *task: Any) -> Future[Any]:
            return layout.submit(f"{key}-{name}", *task)

        edges = [submit(f"local-{i}", LocalEdges.build, rows[i], layout.bounds, i) for i in every]
        counts = layout.client.gather([submit(f"counts-{i}", _count, edges[i]) for i in every])
        wanted = [{j: submit(f"wanted-{i}-{j}", _want, edges[i], j) for j in counts[i]} for i in every]
        sums = rows if column_sums is None else column_sums
        totals = [submit(f"totals-{i}", _sum_up, rows[i], sums[i]) for i in every]
        return cls(layout, name, edges, wanted, counts, totals, **known)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.layout.n_nodes

    @property
    def n_features(self) -> int:
        """Number of feature columns."""
        return len(self.feature_names)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.feature_names

    @property
    def checksum(self) -> str | None:
        """That of the graph in memory that was sent; None where nobody has seen all of it."""
        graph = self.source()
        return None if graph is None else graph.checksum

    @cached_property
    def features(self) -> _FeatureRows:
        """The features: ``graph.features[rows]`` are those of some nodes, fetched from the workers."""
        return _FeatureRows(self)

    def rows_of(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Return the row numbers of nodes by their ids, which the workers look up."""
        wanted = np.asarray(ids)
        if self.node_ids is None:
            return wanted.astype(np.int64)
        layout, starts = self.layout, self.layout.bounds
        found = layout.client.gather([layout.client.submit(find_ids, own, wanted) for own in self.node_ids])
        rows = np.full(len(wanted), -1, np.int64)
        for start, local in zip(starts, found, strict=False):
            rows[local >= 0] = start + local[local >= 0]
        if (rows < 0).any():
            unknown = wanted[rows < 0]
            raise GraphError(
                f"{len(unknown)} ids are of no node of the graph (first: {unknown.tolist()[0]!r}); give ids "
                "of its nodes."
            )
        return rows

    def borrow(self, chunks: Chunks, name: str) -> list[list[Future[Any]]]:
        """Return for each chunk the rows that it borrows of the others, in their order: all that travels."""
        return [
            [self.layout.submit(f"borrow-{name}-{i}-{j}", pick, chunks[j], ids) for j, ids in wanted.items()]
            for i, wanted in enumerate(self.wanted)
        ]

    def build_blocks(self, recipe: Propagation, about: str, dtype: torch.dtype) -> Chunks:
        """Return rows of P for every chunk, made once; ``about`` tells one recipe from another."""
        if about not in self._blocks:
            borrowed = self.borrow(self.totals, f"totals-{self.name}")
            self._blocks[about] = [
                self.layout.settle(
                    i, f"P-{self.name}-{about}-{i}", Block.build, own, recipe, dtype, sums, *lent
                )
                for i, (own, sums, lent) in enumerate(zip(self.edges, self.totals, borrowed, strict=True))
            ]
            self.layout.wait(self._blocks[about])
        return self._blocks[about]

    def build_chunks(self, dtype: torch.dtype, norm: str | None, name: str) -> list[Future[Any]]:
        """Return the features of every chunk in a precision, as they are or with rows of length one."""
        return [
            self.layout.submit(f"rows-{name}-{i}", as_chunk, own, dtype, norm)
            for i, own in enumerate(self.chunks)
        ]

    def bytes_per_product(self, n_columns: int, itemsize: int = 4) -> int:
        """Return how much travels between workers for one product of P with ``n_columns`` columns.

        It is the borrowed rows whose chunk is at home on another worker.
        """
        homes = self.layout.homes
        rows = sum(n for i, row in enumerate(self.counts) for j, n in row.items() if homes[i] != homes[j])
        return rows * n_columns * itemsize

    def __repr__(self) -> str:
        sizes = f"n_nodes={self.n_nodes}, n_features={self.n_features}, n_chunks={self.layout.n_chunks}"
        return f"DaskGraph({sizes})"


@final
@dataclass(frozen=True, eq=False)
class _FeatureRows:
    """The features of a graph on workers, of which some rows may be asked for."""

    graph: DaskGraph

    def __getitem__(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        layout, chunks = self.graph.layout, self.graph.chunks
        found = list(layout.locate(np.asarray(ids)))
        parts = layout.client.gather([layout.client.submit(_fetch, chunks[i], rows) for i, _, rows in found])
        result = np.empty((len(ids), self.graph.n_features), np.result_type(*parts))
        for (_, places, _), part in zip(found, parts, strict=True):
            result[places] = part
        return result


def _share_out(row_starts: NDArray[Any], n_chunks: int) -> tuple[int, ...]:
    """Return the bounds of chunks that cost about the same, none of them empty."""
    n_nodes = len(row_starts) - 1
    n_chunks = min(n_chunks, n_nodes)
    costs = row_starts.astype(np.int64) + _ROW_COST * np.arange(n_nodes + 1)
    wanted = np.arange(1, n_chunks) * (costs[-1] / n_chunks)
    cuts = np.searchsorted(costs, wanted)
    lowest = np.arange(1, n_chunks)
    cuts = np.maximum.accumulate(np.maximum(cuts, lowest) - lowest) + lowest  # strictly ascending
    return 0, *np.minimum(cuts, n_nodes - n_chunks + lowest).tolist(), n_nodes


def _count(edges: LocalEdges) -> dict[int, int]:
    return edges.counts


def _want(edges: LocalEdges, chunk: int) -> NDArray[np.int64]:
    return edges.borrowed[chunk]


def _sum_up(rows: EdgeRows, columns: Any) -> NDArray[np.float64]:
    """Return the sums of rows beside those of columns; given rows alone, columns have the same sums."""
    sums = rows.as_csr(0).row_sums().numpy()
    return np.column_stack([sums, sums if isinstance(columns, EdgeRows) else columns])


def _fetch(features: Any, ids: NDArray[np.int64]) -> NDArray[Any]:
    block = features[ids]
    return np.asarray(block.toarray() if sp.issparse(block) else block)
