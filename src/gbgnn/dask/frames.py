"""Dask's dataframes of nodes and edges as chunks of a graph: nothing of the size of the graph comes here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import dask
import numpy as np
import scipy.sparse as sp
from distributed import Client, Future
from numpy.typing import NDArray

from gbgnn.dask.blocks import EdgeRows
from gbgnn.dask.layout import Chunks, Layout
from gbgnn.errors import GraphError, import_needed

_SHUFFLE = {"dataframe.shuffle.method": "tasks"}
"""Merges of plain tasks, of which Dask computes again what is lost with a worker."""

_ROW, _END = "__row__", "__end__"


class NodeParts(NamedTuple):
    """Nodes in chunks: features, their names, and ids where they have any."""

    layout: Layout
    features: Chunks
    names: tuple[str, ...]
    ids: Chunks | None


@final
@dataclass(frozen=True, eq=False)
class FrameReader:
    """Reads frames whose columns have these names; ``name`` is that of the graph."""

    client: Client
    name: str
    id: str | None
    ends: tuple[str, str]
    weight: str | None
    directed: bool

    def read_nodes(self, nodes: Any, features: Iterable[str] | None, exclude: Iterable[str]) -> NodeParts:
        """Return the nodes, a chunk for each partition that has any."""
        left_out = [*exclude, *([] if self.id is None else [self.id])]
        _check_columns(nodes, left_out, "nodes")
        names = [str(c) for c in nodes.columns if c not in left_out] if features is None else list(features)
        _check_columns(nodes, names, "nodes")
        if not names:
            raise GraphError("the nodes have no columns to describe them; give features=.")
        frames = self._begin(nodes)
        lengths = np.array(self.client.gather(self.client.map(len, frames, pure=False)))
        frames = [frame for frame, length in zip(frames, lengths, strict=True) if length]
        if not frames:
            raise GraphError("the frame of nodes has no rows.")
        layout = Layout.build(self.client, [0, *np.cumsum(lengths[lengths > 0])])
        parts = [
            layout.settle(i, f"features-{self.name}-{i}", read_features, frame, names)
            for i, frame in enumerate(frames)
        ]
        ids = None
        if self.id is not None:
            ids = [
                layout.submit(f"ids-{self.name}-{i}", _read_column, frame, self.id)
                for i, frame in enumerate(frames)
            ]
        layout.wait(parts)
        return NodeParts(layout, parts, tuple(names), ids)

    def read_edges(self, edges: Any, nodes: NodeParts) -> tuple[Chunks, Chunks | None]:
        """Return rows of the adjacency matrix, and sums of its columns where they are not those of rows."""
        _check_columns(edges, [*self.ends, *([] if self.weight is None else [self.weight])], "edges")
        columns = list(self.ends) if self.weight is None else [*self.ends, self.weight]
        frames = self._begin(self._name_rows(edges[columns], nodes))
        layout, every = nodes.layout, range(nodes.layout.n_chunks)
        split = [
            self.client.submit(
                split_edges,
                frame,
                self.ends,
                self.weight,
                layout.bounds,
                self.directed,
                key=f"gbgnn-split-{self.name}-{p}",
            )
            for p, frame in enumerate(frames)
        ]
        pieces = [
            [layout.submit(f"piece-{self.name}-{p}-{i}", _take, part, i) for p, part in enumerate(split)]
            for i in every
        ]
        is_weighted = self.weight is not None
        both = [
            layout.settle(
                i,
                f"both-{self.name}-{i}",
                join_edges,
                layout.bounds,
                i,
                is_weighted,
                self.directed,
                *pieces[i],
            )
            for i in every
        ]
        layout.wait(both)
        are_same = True
        if is_weighted and not self.directed:
            are_same = all(self.client.gather(self.client.map(_is_symmetric, both, pure=False)))
        rows = [
            layout.submit(f"edges-{self.name}-{i}", merge_ways, both[i], is_weighted, are_same) for i in every
        ]
        if not self.directed:
            return rows, None
        shares = [
            [
                layout.submit(f"share-{self.name}-{i}-{j}", add_columns, rows[i], layout.bounds, j)
                for i in every
            ]
            for j in every
        ]
        return rows, [layout.submit(f"sums-{self.name}-{j}", _add, *shares[j]) for j in every]

    def _name_rows(self, edges: Any, nodes: NodeParts) -> Any:
        """Return edges between row numbers: the nodes' ids are merged in, on either end."""
        if nodes.ids is None:
            return edges
        dd = import_needed("dask.dataframe", "a graph of Dask's dataframes", "dask")
        with dask.config.set(_SHUFFLE):
            numbered = [
                self.client.submit(number_rows, own, start)
                for own, start in zip(nodes.ids, nodes.layout.bounds, strict=False)
            ]
            index = dd.from_delayed(
                numbered, meta=number_rows(self.client.submit(_first, nodes.ids[0]).result(), 0)
            )
            counts = index.groupby(_END).size(split_out=index.npartitions)
            if int(counts.max().compute()) > 1:
                raise GraphError(
                    f"column {self.id!r} of the nodes holds repeated ids; each node needs its own."
                )
            for end in self.ends:
                merged = edges.merge(index, how="left", left_on=end, right_on=_END)
                edges = merged.drop(columns=[end, _END]).rename(columns={_ROW: end})
            return edges

    def _begin(self, frame: Any) -> list[Future[Any]]:
        with dask.config.set(_SHUFFLE):
            futures: list[Future[Any]] = self.client.compute(frame.to_delayed())
        return futures


def read_parquet(path: Any) -> Any:
    """Return Parquet files as a dataframe of Dask's, which the workers read."""
    return import_needed("dask.dataframe", "a graph of Parquet files on workers", "dask").read_parquet(path)


def read_features(frame: Any, names: Sequence[str]) -> NDArray[Any]:
    """Return columns of numbers as a matrix, or say which is none."""
    odd = [name for name in names if frame[name].dtype.kind not in "biuf"]
    if odd:
        raise GraphError(
            f"column {odd[0]!r} of the nodes holds {frame[odd[0]].dtype}; workers take columns of numbers: "
            "encode it first, or leave it out with exclude=."
        )
    X = frame[list(names)].to_numpy()
    X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float32)
    gaps = ~np.isfinite(X).all(axis=0)
    if gaps.any():
        raise GraphError(
            f"column {names[int(np.flatnonzero(gaps)[0])]!r} of the nodes has NaN or infinite values; fill "
            "them first, or leave it out with exclude=."
        )
    return np.ascontiguousarray(X)


Piece = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any], NDArray[np.bool_]]
"""Edges of a chunk: rows, columns, weights, and whether each is as it was given, not its reverse."""


def split_edges(
    frame: Any, ends: tuple[str, str], weight: str | None, bounds: Sequence[int], directed: bool
) -> list[Piece]:
    """Return the edges of a part of the table for each chunk that they lead into, self loops left out."""
    sides = []
    for end in ends:
        column = frame[end]
        missing = int(column.isna().sum())
        if missing or column.dtype.kind not in "iuf":
            raise GraphError(
                f"column {end!r} of the edges names nodes that are not there, in {missing} rows of a part; "
                "add them to the nodes, or leave these edges out. Ids other than row numbers need id=."
            )
        rows = column.to_numpy().astype(np.int64)
        if len(rows) and (rows.min() < 0 or rows.max() >= bounds[-1]):
            raise GraphError(
                f"column {end!r} of the edges has row numbers from {rows.min()} to {rows.max()}, but there "
                f"are {bounds[-1]} nodes; give id= where these are ids."
            )
        sides.append(rows)
    values = np.ones(len(frame), np.float32) if weight is None else frame[weight].to_numpy()
    values = values if values.dtype.kind == "f" else values.astype(np.float32)
    if not np.isfinite(values).all():
        raise GraphError(f"column {weight!r} of the edges has NaN or infinite weights; fill them first.")
    sources, targets = sides
    is_proper = sources != targets
    sources, targets, values = sources[is_proper], targets[is_proper], values[is_proper]
    is_given = np.ones(len(sources), bool)
    if not directed:
        sources, targets = np.concatenate([sources, targets]), np.concatenate([targets, sources])
        values, is_given = np.tile(values, 2), np.concatenate([is_given, ~is_given])
    chunks = np.searchsorted(bounds, targets, side="right") - 1
    return [
        tuple(each[chunks == i] for each in (targets - bounds[i], sources, values, is_given))
        for i in range(len(bounds) - 1)
    ]


def join_edges(
    bounds: Sequence[int], chunk: int, is_weighted: bool, directed: bool, *pieces: Piece
) -> tuple[Any, Any]:
    """Return rows of the matrix of the edges as they were given, and of that of their reverses."""
    shape = (bounds[chunk + 1] - bounds[chunk], bounds[-1])
    rows, columns, values, is_given = (np.concatenate(each) for each in zip(*pieces, strict=True))
    order = np.lexsort((values, columns, rows))  # in whatever order the pieces came, sums are the same
    rows, columns, values, is_given = rows[order], columns[order], values[order], is_given[order]
    ways = []
    for chosen in (is_given,) if directed else (is_given, ~is_given):
        matrix = sp.coo_array((values[chosen], (rows[chosen], columns[chosen])), shape=shape).tocsr()
        matrix.sum_duplicates()
        if not is_weighted:
            matrix.data[:] = 1
        ways.append(matrix)
    return ways[0], ways[-1]


def merge_ways(ways: tuple[Any, Any], is_weighted: bool, are_same: bool) -> EdgeRows:
    """Return the rows of the adjacency matrix: see :meth:`Graph.from_tables <gbgnn.Graph.from_tables>`."""
    there, back = ways
    if not (is_weighted and are_same):  # of directed edges both are the same
        there = (there + back).tocsr() if is_weighted else there.maximum(back).tocsr()
    there.sum_duplicates()
    there.eliminate_zeros()
    return EdgeRows.from_scipy(there)


def add_columns(rows: EdgeRows, bounds: Sequence[int], chunk: int) -> NDArray[np.float64]:
    """Return what some rows add to the sums of the columns that are a chunk's nodes."""
    start, stop = bounds[chunk], bounds[chunk + 1]
    chosen = (rows.columns >= start) & (rows.columns < stop)
    weights = None if rows.values is None else rows.values[chosen]
    return np.bincount(rows.columns[chosen] - start, weights, minlength=stop - start).astype(np.float64)


def number_rows(ids: Any, start: int) -> Any:
    """Return a frame of ids and row numbers."""
    return import_needed("pandas", "a graph of Dask's dataframes", "dask").DataFrame(
        {_END: ids, _ROW: np.arange(start, start + len(ids))}
    )


def find_ids(own: Any, wanted: NDArray[Any]) -> NDArray[np.int64]:
    """Return where ids are among a chunk's own, -1 for those that are not."""
    index = import_needed("pandas", "a graph of Dask's dataframes", "dask").Index(own)
    return np.asarray(index.get_indexer(wanted), np.int64)


def _check_columns(frame: Any, names: Iterable[str], what: str) -> None:
    unknown = [name for name in names if name not in frame.columns]
    if unknown:
        known = ", ".join(map(repr, list(frame.columns)[:10]))
        raise GraphError(f"the {what} have no column {unknown[0]!r}; they have {known}.")


def _read_column(frame: Any, name: str) -> Any:
    column = frame[name]
    if column.isna().any():
        raise GraphError(f"column {name!r} of the nodes has missing ids; each node needs one.")
    return column.reset_index(drop=True)  # of whatever type: those of edges must be the same


def _first(ids: Any) -> Any:
    return ids[:1]


def _take(pieces: Sequence[Piece], chunk: int) -> Piece:
    return pieces[chunk]


def _is_symmetric(ways: tuple[Any, Any]) -> bool:
    return bool((ways[0] != ways[1]).nnz == 0)


def _add(*parts: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.sum(parts, axis=0))
