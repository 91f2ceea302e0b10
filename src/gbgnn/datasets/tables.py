"""Graphs from tables: one or more edge tables and a node table of the user's own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn.datasets.columns import Table, read_table
from gbgnn.datasets.dataset import Dataset
from gbgnn.datasets.frames import SUFFIXES, PathLike, number_columns, read_arrow
from gbgnn.datasets.graphland import is_graphland, load_graphland
from gbgnn.datasets.node_index import NodeIndex
from gbgnn.datasets.parts import is_part_folder
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
from gbgnn.datasets.splits import SplitChoice
from gbgnn.errors import DataError
from gbgnn.graph import Graph
from gbgnn.tables.links import build_adjacency


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of a graph, which columns are ids and ends, and what was decided or passed over."""

    nodes: Table
    edges: Sequence[Table]
    id: str
    ends: Sequence[tuple[str, str]]  # of each edge table
    weights: Sequence[str | None]
    notes: Sequence[str]


def read_tables(
    edges: PathLike | Sequence[PathLike],
    nodes: PathLike,
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
) -> Dataset:
    r"""Read a graph from edge tables and a node table.

    Each is a CSV file (with a header and commas or tabs), Parquet, Feather or Arrow, a folder of Parquet
    files, or a table of DuckDB's, ``file.duckdb::table``. Columns are given by name or position. Self loops
    are dropped and repeated edges merged; ``graph.repairs`` says how many, and ``notes`` which columns were
    taken for what.

    Parameters
    ----------
    edges, nodes
        The files; there may be several with edges.
    source, target
        Columns of the edge tables with the ids of both ends; None takes ``source`` and ``target``, or else
        the first two. In a directed graph the target aggregates from the source.
    weight
        Column of the edge tables with the weight. ``"auto"`` takes the column ``weight`` where there is one,
        None lets every edge weigh one.
    id
        Column of the node table with any integers or strings, kept as ``graph.node_ids``. None takes ``id``,
        or else the first column whose values are unique and that the edges refer to.
    label
        Column of the node table with the class, or the number, to be predicted; an empty cell means that it
        is not known.
    features
        Numeric columns of the node table; None takes all that have no other role.
    drop
        Columns of the node table that are no features.
    task
        ``"classification"`` or ``"regression"``; None finds out, see :func:`as_target`.
    split
        A column with the words train, val and test; or ``"random"``, ``"stratified"``, ``"uniform"``, the
        number of a fold, or a NodeSplit. None takes the column ``split``; ``"auto"`` too, and stratifies
        without one. A column ``split`` is no feature, be it used or not, unless ``features`` names it.
    directed
        Whether an edge goes one way only.
    normalize_features
        Scale every feature row to an absolute sum of one.
    seed
        Seed of a drawn split.
    name
        Name of the data set; when not given that of the node table, or of its folder if that is ``nodes``.

    Examples
    --------
    >>> import tempfile
    >>> from gbgnn import NodeSplit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     edges, nodes = Path(folder, "edges.csv"), Path(folder, "nodes.csv")
    ...     _ = edges.write_text("source,target\nann,bob\nbob,cat\n")
    ...     _ = nodes.write_text("who,label,age\nann,x,1\nbob,y,2\ncat,x,3\n")
    ...     data = read_tables(edges, nodes, split=NodeSplit([0, 1], test=[2]), name="friends")
    >>> data.graph.node_ids.tolist(), data.y.tolist(), data.notes
    (['ann', 'bob', 'cat'], ['x', 'y', 'x'], ("ids are column 'who' of nodes.csv",))
    """
    tables = open_tables(edges, nodes, source=source, target=target, weight=weight, id=id, label=label)
    table = tables.nodes
    label = find_label(table, label)
    words = table.columns[column] if (column := find_split_column(table, split)) else None
    known = decide(table.path, label, table.columns[label], column, words, split=split, task=task, seed=seed)
    graph = build_graph(tables, label=label, features=features, drop=drop, split=split, directed=directed)
    if normalize_features:
        graph = graph.with_row_normalized_features()
    stem = table.path.stem
    return Dataset(
        *(
            name or (table.path.absolute().parent.name if stem == "nodes" else stem),
            graph,
            known.target.values,
            known.split,
        ),
        source=str(table.path.parent),
        split_name=known.split_name,
        task=known.target.task,
        task_reason=known.target.reason,
        notes=tables.notes,
    )


def read_graph(
    edges: PathLike | Sequence[PathLike],
    nodes: PathLike,
    *,
    source: Column | None = None,
    target: Column | None = None,
    weight: Column | None = AUTO,
    id: Column | None = None,
    label: Column = "label",
    features: Sequence[Column] | None = None,
    drop: Sequence[Column] = (),
    task: str | None = None,
    split: Any = "split",
    directed: bool = False,
) -> Graph:
    r"""Read the graph of tables, whose nodes need no labels: for predicting them.

    The parameters are those of :func:`read_tables`; the columns ``label`` and ``split`` may be missing, and
    are no features where they are there, and so may those to ``drop``. ``task`` says nothing about a graph.
    """
    tables = open_tables(edges, nodes, source=source, target=target, weight=weight, id=id, label=label)
    there = [column for column in drop if column in number_columns(tables.nodes.columns)]
    return build_graph(tables, label=label, features=features, drop=there, split=split, directed=directed)


def open_tables(
    edges: PathLike | Sequence[PathLike],
    nodes: PathLike,
    *,
    source: Column | None,
    target: Column | None,
    weight: Column | None,
    id: Column | None,
    label: Column,
) -> Tables:
    """Read the tables of a graph, and find the columns that nobody named."""
    paths = [edges] if isinstance(edges, (str, os.PathLike)) else list(edges)
    if not paths:
        raise DataError("there is no edge table; give at least one.")
    notes: list[str] = []
    edge_tables, ends, weights = [], [], []
    for path in paths:
        table = read_table(path, text=lambda names: find_ends(names, source, target))
        pair, own = find_edge_columns(table, source, target, weight, notes)
        edge_tables.append(table)
        ends.append(pair)
        weights.append(own)
    chosen: Column = "id" if id is None else id
    table = read_table(nodes, text=(chosen, label))
    if id is None and "id" not in table.columns:
        names_kept = read_table(nodes, text=lambda names: names)  # ids such as 007 are not to become numbers
        chosen = _find_ids(names_kept, edge_tables, ends, label)
        notes.insert(0, f"ids are column {chosen!r} of {table.path.name}")
        table.columns[chosen] = names_kept.columns[chosen]
    return Tables(table, edge_tables, table.find_column(chosen, "node ids"), ends, weights, notes)


def build_graph(
    tables: Tables,
    *,
    label: Column,
    features: Sequence[Column] | None,
    drop: Sequence[Column],
    split: Any,
    directed: bool,
) -> Graph:
    """Return the graph of tables: numeric columns are features, ids become rows."""
    table = tables.nodes
    if not len(table.columns[tables.id]):
        raise DataError(f"{table.path} has a header but no rows.")
    chosen = choose_features(table, tables.id, label=label, features=features, drop=drop, split=split)
    index = NodeIndex(table.columns[tables.id], str(table.path))
    sources: list[NDArray[Any]] = []
    targets: list[NDArray[Any]] = []
    weights: list[NDArray[Any]] = []
    for edges, (source, target), weight in zip(tables.edges, tables.ends, tables.weights, strict=True):
        for side, column in ((sources, source), (targets, target)):
            side.append(index.rows(edges.columns[column], f"{edges.path}, column {column!r}"))
        ones = np.ones(len(sources[-1]), np.float32)
        weights.append(ones if weight is None else edges.numbers(weight, "weights"))
    adjacency, repairs = build_adjacency(
        (np.concatenate(sources), np.concatenate(targets)),
        len(index.ids),
        weights=np.concatenate(weights) if any(tables.weights) else None,
        directed=directed,
    )
    return Graph(adjacency, **read_features(table, chosen), node_ids=index.ids, repairs=repairs)


def read_features(table: Table, names: Sequence[str]) -> dict[str, Any]:
    """Return columns as a matrix of numbers; where one is no number or has gaps, all of them as a frame."""
    columns = [table.columns[name] for name in names]
    if all(column.dtype.kind in "iufb" and np.isfinite(column).all() for column in columns):
        matrix = np.column_stack([column.astype(np.float32) for column in columns])
        return {"features": matrix, "feature_names": names}
    return {"features": read_arrow(table.path).select(list(names))}  # whose types Arrow has kept


def _find_ids(table: Table, edges: Sequence[Table], ends: Sequence[tuple[str, str]], label: Column) -> str:
    """Return the first column whose values are unique and that all ends of the edges are in."""
    used = [(each, column) for each, pair in zip(edges, ends, strict=True) for column in pair]
    for name, cells in table.columns.items():
        if name == label or not len(cells):
            continue
        with suppress(DataError):
            index = NodeIndex(cells, str(table.path))
            for each, column in used:
                index.rows(each.columns[column], str(each.path))
            return name
    raise no_ids(table)


def read_folder(folder: str | os.PathLike[str], **options: Any) -> Dataset:
    r"""Read a folder with an ``edges`` and a ``nodes`` table, or one laid out as in GraphLand.

    ``options`` go to :func:`read_tables` or :func:`load_graphland`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "edges.csv").write_text("source,target\n1,2\n")
    ...     _ = Path(folder, "nodes.csv").write_text("id,label,x,split\n1,0,0.5,train\n2,1,0.7,test\n")
    ...     read_folder(folder, name="pair")
    Dataset('pair', n_nodes=2, n_edges=1, n_features=1, n_classes=2, train=1, val=0, test=1)
    """
    if not Path(folder).is_dir():
        raise DataError(f"{folder} is not a folder.")
    if is_graphland(Path(folder)):
        return load_graphland(folder, **options)
    return read_tables(*find_tables(Path(folder)), **options)


def read_folder_graph(folder: str | os.PathLike[str], **options: Any) -> Graph:
    """Read the graph of a folder with an ``edges`` and a ``nodes`` table, labelled or not."""
    return read_graph(*find_tables(Path(folder)), **options)


def is_plain_table_folder(folder: Path) -> bool:
    """Whether a folder holds an ``edges`` and a ``nodes`` table."""
    return all(_tables(folder, stem) for stem in ("edges", "nodes"))


def find_tables(folder: Path) -> list[Path]:
    """Return the edge and the node table of a folder."""
    tables = []
    for stem in ("edges", "nodes"):
        found = _tables(folder, stem)
        if len(found) != 1:
            there = " and ".join(path.name for path in found) or "none"
            raise DataError(
                f"{folder} must hold one {stem} table ({stem}.csv, {stem}.parquet or {stem}.feather, or a "
                f"folder {stem} of Parquet files); "
                f"found {there}."
            )
        tables += found
    return tables


def _tables(folder: Path, stem: str) -> list[Path]:
    files = [path for suffix in SUFFIXES if (path := folder / f"{stem}{suffix}").is_file()]
    return [*files, *([folder / stem] if is_part_folder(folder / stem) else [])]
