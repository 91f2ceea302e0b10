"""Tables of any size into the form on disk, a few rows at a time: what ``gbgnn convert`` does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gbgnn._arrays import are_all
from gbgnn._checks import as_bytes
from gbgnn._matrices import normalize_rows
from gbgnn.datasets.arrays import ArrayWriter, new_folder, open_array, write_dataset, write_meta
from gbgnn.datasets.columns import NumberCells
from gbgnn.datasets.dataset import Dataset
from gbgnn.datasets.edge_sorting import EdgeSorter, SortedEdges
from gbgnn.datasets.frames import PathLike
from gbgnn.datasets.node_index import EdgeEnd, IdCells, NodeIndex
from gbgnn.datasets.roles import (
    AUTO,
    Column,
    choose_features,
    decide,
    find_edge_columns,
    find_ends,
    find_label,
    find_split_column,
    no_ids,
)
from gbgnn.datasets.scratch import Scratch
from gbgnn.datasets.splits import SplitChoice
from gbgnn.datasets.streams import TableStream
from gbgnn.errors import DataError
from gbgnn.graph import Graph

_MOST_ROWS = 1 << 20
_COPIES = 3
"""Of labels, while it is found out what they are."""

_CELL = 256
"""Bytes of memory, about, that a cell of a batch takes on its way from a file to an array, text above all."""


class Watch(Protocol):
    """Is told how far a conversion has come."""

    def begin(self, noun: str, total: int) -> None:
        """Something else is counted now, such as nodes."""

    def update(self, done: int, words: str = "") -> None:
        """So many are done."""


class _Nobody:
    """Watches nothing."""

    def begin(self, noun: str, total: int) -> None: ...

    def update(self, done: int, words: str = "") -> None: ...


class EdgeTable(NamedTuple):
    """A table of edges, and which columns are the ends and the weight."""

    table: TableStream
    ends: tuple[str, str]
    weight: str | None


def convert_tables(
    edges: PathLike | Sequence[PathLike],
    nodes: PathLike,
    out: str | os.PathLike[str],
    *,
    source: Column | None = None,
    target: Column | None = None,
    weight: Column | None = AUTO,
    id: Column | None = None,
    label: Column = "label",
    features: Sequence[Column] | None = None,
    drop: Sequence[Column] = (),
    task: str | None = None,
    split: SplitChoice = None,
    directed: bool = False,
    normalize_features: bool = False,
    seed: int = 0,
    name: str | None = None,
    memory_limit: int | str | None = None,
    watch: Watch | None = None,
) -> Dataset:
    r"""Convert edge tables and a node table of any size into a ``.gbgraph`` folder; return what is in it.

    The folder holds what :func:`save_dataset` would write of what :func:`read_tables` reads, but neither
    edges nor features are ever in memory as a whole: Parquet files are read a few rows at a time, ids are
    looked up and edges are sorted on disk. Labels and the split are in memory. Features must be numbers
    without gaps.

    Parameters
    ----------
    edges, nodes
        As in :func:`read_tables`; each may also be a folder of Parquet files.
    out
        The folder, which appears whole or not at all. Beside it there must be room for the edges a few times
        over while they are sorted.
    source, target, weight, id, label, features, drop, task, split, directed, normalize_features, seed, name
        As in :func:`read_tables`; the name is by default that of ``out``.
    memory_limit
        Bytes that the process may take, such as ``"2GB"``; None leaves it at two gigabytes or half of what is
        free.
    watch
        What is told how far it has come.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     edges, nodes = Path(place, "edges.csv"), Path(place, "nodes.csv")
    ...     _ = edges.write_text("source,target\nann,bob\nbob,cat\n")
    ...     _ = nodes.write_text("id,label,age,split\nann,x,1,train\nbob,y,2,train\ncat,x,3,test\n")
    ...     convert_tables(edges, nodes, Path(place, "friends.gbgraph"))
    Dataset('friends', n_nodes=3, n_edges=2, n_features=1, n_classes=2, train=2, val=0, test=1)
    """
    limit = None if memory_limit is None else as_bytes("convert_tables", "memory_limit", memory_limit)
    watch = watch or _Nobody()
    with new_folder(out) as fresh:
        scratch = Scratch(fresh.parent, limit)
        scratch.room()  # or an error, before anything is read
        notes: list[str] = []
        edge_tables = _open_edges(edges, source, target, weight, notes)
        table, id_column = _open_nodes(nodes, id, label, edge_tables, scratch, notes)
        label = find_label(table, label)
        if not table.n_rows:
            raise DataError(f"{table.path} has a header but no rows.")
        chosen = choose_features(table, id_column, label=label, features=features, drop=drop, split=split)
        _check_kinds(table, chosen)
        index = _index_ids(table, id_column, fresh / "node_ids.npy", scratch)
        column = find_split_column(table, split)
        beside = _write_features(
            table,
            chosen,
            fresh,
            [label] if column is None else [label, column],
            normalize_features,
            scratch,
            watch,
        )
        words = None if column is None else beside[column]
        known = decide(table.path, label, beside[label], column, words, split=split, task=task, seed=seed)
        del beside, words
        sorted_edges = _write_edges(edge_tables, index, fresh, directed, scratch, watch)
        del index
        data = Dataset(
            *(name or Path(out).stem, _open_graph(fresh, sorted_edges), known.target.values, known.split),
            source=str(table.path.parent),
            split_name=known.split_name,
            task=known.target.task,
            task_reason=known.target.reason,
            notes=notes,
        )
        write_dataset(data, fresh)
    return data


def _open_edges(
    edges: PathLike | Sequence[PathLike],
    source: Column | None,
    target: Column | None,
    weight: Column | None,
    notes: list[str],
) -> list[EdgeTable]:
    paths = [edges] if isinstance(edges, (str, os.PathLike)) else list(edges)
    if not paths:
        raise DataError("there is no edge table; give at least one.")
    tables = []
    for path in paths:
        table = TableStream.open(path, text=lambda names: find_ends(names, source, target))
        tables.append(EdgeTable(table, *find_edge_columns(table, source, target, weight, notes)))
    return tables


def _open_nodes(
    nodes: PathLike,
    id: Column | None,
    label: Column,
    edges: list[EdgeTable],
    scratch: Scratch,
    notes: list[str],
) -> tuple[TableStream, str]:
    """Return the node table, and the column with the ids, which is looked for where nobody named it."""
    table = TableStream.open(nodes, text=("id" if id is None else id, label))
    if id is not None or "id" in table.columns:
        return table, table.find_column("id" if id is None else id, "node ids")
    names_kept = TableStream.open(nodes, text=lambda names: names)  # ids such as 007 are no numbers
    found = _find_ids(names_kept, edges, label, scratch)
    notes.insert(0, f"ids are column {found!r} of {table.path.name}")
    return TableStream.open(nodes, text=(found, label)), found


def _find_ids(table: TableStream, edges: list[EdgeTable], label: Column, scratch: Scratch) -> str:
    """Return the first column whose values are unique and that all ends of the edges are in."""
    for name in table.columns:
        if name == label or not table.n_rows:
            continue
        with suppress(DataError):
            index = _index_ids(table, name, scratch.path("ids.npy"), scratch)
            for each in edges:
                ends = [EdgeEnd(index, str(each.table.path)) for _ in each.ends]
                for batch in each.table.batches(each.ends, _rows_at_once(scratch, 2)):
                    for end, column in zip(ends, each.ends, strict=True):
                        end.rows(batch[column])
                        end.check()
            return name
    raise no_ids(table)


def _rows_at_once(scratch: Scratch, n_columns: int) -> int:
    """Return how many rows may be read at a time."""
    return max(1 << 10, min(_MOST_ROWS, scratch.room() // (_CELL * n_columns * 2)))


def _index_ids(table: TableStream, column: str, path: Path, scratch: Scratch) -> NodeIndex:
    """Write the ids of all nodes to a file, and return what finds their rows."""
    n_rows = _rows_at_once(scratch, 2)
    cells, kinds = IdCells(str(table.path)), []
    for batch in table.batches([column], n_rows):
        kinds.append(cells.take(batch[column]).dtype)
    cells.check()
    kind = np.result_type(*set(kinds))
    size, free = table.n_rows * kind.itemsize, shutil.disk_usage(path.parent).free
    if size > free:
        raise DataError(
            f"{table.path}: column {column!r} takes {size:,} bytes as an array, where each id has the "
            f"room of the longest, but {free:,} are free on the disk."
        )
    with ArrayWriter(path, kind) as writer:
        for batch in table.batches([column], max(1, min(n_rows, scratch.room() // (4 * kind.itemsize)))):
            writer.append(batch[column].astype(kind, copy=False))
    return NodeIndex(open_array(path), str(table.path), scratch)


def _check_kinds(table: TableStream, names: Collection[str]) -> None:
    """Raise where columns are not numbers, before anything is written."""
    words = [name for name in names if table.columns[name].kind not in "iufb"]
    if words:
        raise _not_stored(table.path, words, "hold text")


def _not_stored(path: Path, names: Sequence[str], what: str) -> DataError:
    alone = len(names) == 1
    these = f"{'column' if alone else 'columns'} {', '.join(map(repr, names))}"
    return DataError(
        f"{path}: {these} {what.replace('hold', 'holds') if alone else what}, and a .gbgraph folder holds "
        f"numbers without gaps. Leave them out with drop= (--drop {','.join(names)}), choose others with "
        "features= (--features), or encode them as numbers."
    )


def _write_features(
    table: TableStream,
    names: Sequence[str],
    folder: Path,
    beside: Sequence[str],
    normalize: bool,
    scratch: Scratch,
    watch: Watch,
) -> dict[str, NDArray[Any]]:
    """Write the features of all nodes to a file; return other columns, whole."""
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in beside}
    gaps: dict[str, None] = {}
    watch.begin("nodes", table.n_rows)
    with ArrayWriter(folder / "features.npy", np.float32, (len(names),)) as writer:
        for batch in table.batches([*names, *beside], _rows_at_once(scratch, len(names) + len(beside))):
            X = np.column_stack([batch[name].astype(np.float32) for name in names])
            gaps |= {names[i]: None for i in np.flatnonzero(~np.isfinite(X).all(axis=0)).tolist()}
            if not writer.n_rows:
                size = _COPIES * table.n_rows * sum(batch[name].itemsize for name in beside)
                scratch.check("labels and the split of all nodes", size)
            for name, found in parts.items():
                found.append(batch[name])
            writer.append(normalize_rows(X) if normalize else X)
            watch.update(writer.n_rows, "read")
    if gaps:
        raise _not_stored(table.path, list(gaps), "hold missing or infinite values")
    return {name: np.concatenate(found) for name, found in parts.items()}


def _write_edges(
    tables: list[EdgeTable],
    index: NodeIndex,
    folder: Path,
    directed: bool,
    scratch: Scratch,
    watch: Watch,
) -> SortedEdges:
    """Read all edges, sort them, and write the arrays of their matrix."""
    n_expected = sum(each.table.n_rows for each in tables)
    sorter = EdgeSorter(len(index.ids), n_expected, _weight_kind(tables), directed, scratch)
    n_rows, n_done = _rows_at_once(scratch, 3), 0
    watch.begin("edges", n_expected)
    for table, ends, weight in tables:
        columns = [EdgeEnd(index, f"{table.path}, column {name!r}") for name in ends]
        weights = None if weight is None else NumberCells(table.path, weight)
        for batch in table.batches([*ends, *([] if weight is None else [weight])], n_rows):
            sources, targets = (end.rows(batch[name]) for end, name in zip(columns, ends, strict=True))
            values = None if weights is None else weights.take(batch[weight or ""])
            if (sources >= 0).all() and (targets >= 0).all():  # else there will be an error
                sorter.add(sources, targets, values)
            n_done += len(sources)
            watch.update(n_done, "read")
        for end in columns:
            end.check()
        if weights is not None:
            weights.check()
    watch.begin("rows", 2 * len(index.ids))
    return sorter.finish(folder, lambda done, _: watch.update(done, "sorted"))


def _weight_kind(tables: list[EdgeTable]) -> np.dtype[Any] | None:
    """Return in what type weights are summed; None where all edges weigh one."""
    if not any(each.weight for each in tables):
        return None
    kinds = [np.dtype(np.float32) if w is None else table.columns[w] for table, _, w in tables]
    kind = np.result_type(*kinds)
    return kind if kind.kind == "f" and kind.itemsize >= 4 else np.dtype(np.float32)


def _open_graph(folder: Path, edges: SortedEdges) -> Graph:
    """Return the graph whose arrays have been written, which checks them."""
    kind = np.dtype(np.float32)
    if (file := folder / "weights.npy").exists():
        weights = open_array(file)
        kind = weights.dtype
        if are_all(weights, 1):  # which is not stored
            file.unlink()
    n_nodes = len(open_array(folder / "node_ids.npy"))
    facts = {"n_nodes": n_nodes, "dtype": str(kind), "directed": edges.is_directed, "repairs": edges.repairs}
    write_meta(folder, facts)
    return Graph.open(folder)
