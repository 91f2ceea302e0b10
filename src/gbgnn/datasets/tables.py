"""A graph from two tables of the user's own: one of edges, one of nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn.datasets.columns import CSV_SUFFIXES, MISSING, PARQUET_SUFFIXES, Table, as_plain, read_table
from gbgnn.datasets.dataset import Dataset, NodeIndex, as_labels, build_adjacency
from gbgnn.datasets.graphland import is_graphland, read_graphland
from gbgnn.datasets.splits import choose_split, named_split
from gbgnn.errors import DataError
from gbgnn.graph import Graph, NodeSplit

Column = str | int


def read_tables(
    edges: str | os.PathLike[str],
    nodes: str | os.PathLike[str],
    *,
    source: Column = "source",
    target: Column = "target",
    weight: Column | None = None,
    id: Column = "id",
    label: Column = "label",
    features: Sequence[Column] | None = None,
    split: str | int | NodeSplit | None = None,
    directed: bool = False,
    normalize_features: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> Dataset:
    r"""Read a graph from an edge table and a node table, each CSV or Parquet.

    CSV files have a header and commas or tabs. Columns are given by name or position.

    Parameters
    ----------
    edges, nodes
        The two files.
    source, target, weight
        Columns of the edge table: ids of both ends, and the weight if there is one. In a directed graph
        the target aggregates from the source.
    id, label
        Columns of the node table: any integers or strings, kept as ``graph.node_ids``; and the class,
        an empty cell meaning no label.
    features
        Numeric columns of the node table; None takes all that have no other role.
    split
        A column with the words train, val and test; or ``"random"``, ``"stratified"``, the number of a
        fold, or a NodeSplit. None takes the column ``split``; ``"auto"`` too, and stratifies without one.
    directed
        Whether an edge goes one way only.
    normalize_features
        Scale every feature row to an absolute sum of one.
    seed
        Seed of a drawn split.
    name
        Name of the data set; the folder's name when not given.

    Returns
    -------
    Dataset
        Self loops are dropped and repeated edges merged; ``graph.repairs`` says how many.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     edges, nodes = Path(folder, "edges.csv"), Path(folder, "nodes.csv")
    ...     _ = edges.write_text("source,target\nann,bob\nbob,cat\n")
    ...     _ = nodes.write_text("id,label,age\nann,x,1\nbob,y,2\ncat,x,3\n")
    ...     data = read_tables(edges, nodes, split=NodeSplit([0, 1], test=[2]), name="friends")
    >>> data.graph.node_ids.tolist(), data.y.tolist()
    (['ann', 'bob', 'cat'], ['x', 'y', 'x'])
    """
    node_table = read_table(nodes, text=(id, label, *([split] if isinstance(split, str) else []), "split"))
    edge_table = read_table(edges, text=(source, target))
    if not node_table.n_rows:
        raise DataError(f"{node_table.path} has a header but no rows.")
    id_name, label_name = node_table.find_column(id, "node ids"), node_table.find_column(label, "labels")
    split_name = split if split in node_table.columns else None
    if split in (None, "auto", "public") and "split" in node_table.columns:
        split_name = "split"
    edge_columns = (source, target, weight)
    taken = (id_name, label_name, split_name)
    graph = _graph(edge_table, node_table, edge_columns, id_name, features, taken, directed)
    if normalize_features:
        graph = graph.with_row_normalized_features()
    y = as_labels(_label_cells(node_table.columns[label_name]), f"{node_table.path}, column {label_name!r}")
    if isinstance(split_name, str):
        where = f"{node_table.path}, column {split_name!r}"
        chosen, how = named_split(node_table.columns[split_name], where), "public"
    else:
        chosen, how = choose_split(split, y, (), str(node_table.path), seed=seed)
    title = name or node_table.path.absolute().parent.name
    return Dataset(title, graph, y, chosen, source=str(node_table.path.parent), split_name=how)


def read_graph(
    edges: str | os.PathLike[str],
    nodes: str | os.PathLike[str],
    *,
    source: Column = "source",
    target: Column = "target",
    weight: Column | None = None,
    id: Column = "id",
    label: Column = "label",
    features: Sequence[Column] | None = None,
    split: Any = "split",
    directed: bool = False,
) -> Graph:
    r"""Read the graph of two tables, whose nodes need no labels: for predicting them.

    The parameters are those of :func:`read_tables`; the columns ``label`` and ``split`` may be missing, and
    are no features where they are there.
    """
    node_table, edge_table = read_table(nodes, text=(id, label)), read_table(edges, text=(source, target))
    if not node_table.n_rows:
        raise DataError(f"{node_table.path} has a header but no rows.")
    id_name = node_table.find_column(id, "node ids")
    taken = (id_name, label, split, "split")
    return _graph(edge_table, node_table, (source, target, weight), id_name, features, taken, directed)


def _graph(
    edge_table: Table,
    node_table: Table,
    edge_columns: tuple[Column, Column, Column | None],
    id_name: str,
    features: Sequence[Column] | None,
    taken: tuple[Any, ...],
    directed: bool,
) -> Graph:
    if features is None:
        feature_names = [column for column in node_table.columns if column not in taken]
    else:
        feature_names = [node_table.find_column(column, "features") for column in features]
    index = NodeIndex(node_table.columns[id_name], str(node_table.path))
    adjacency, repairs = _adjacency(edge_table, index, *edge_columns, directed)
    return Graph(adjacency, _features(node_table, feature_names), node_ids=index.ids, repairs=repairs)


def _adjacency(
    table: Table, index: NodeIndex, source: Column, target: Column, weight: Column | None, directed: bool
) -> tuple[Any, list[str]]:
    heads, tails = (
        index.rows(table.columns[column], f"{table.path}, column {column!r}")
        for column in (table.find_column(source, "sources"), table.find_column(target, "targets"))
    )
    weights = None if weight is None else table.numbers(table.find_column(weight, "weights"))
    return build_adjacency(heads, tails, len(index.ids), weights=weights, directed=directed)


def _features(table: Table, columns: list[str]) -> NDArray[np.float32]:
    if not columns:
        raise DataError(f"{table.path} has no feature column; give each node at least one number.")
    return np.column_stack([table.numbers(column).astype(np.float32) for column in columns])


def _label_cells(cells: NDArray[Any]) -> NDArray[Any]:
    """Return text labels with gaps as ``""``, or as numbers if all the others are numbers."""
    if cells.dtype.kind != "U":
        return cells
    gaps = np.isin(cells, MISSING)
    present = as_plain(cells[~gaps])
    if present.dtype.kind == "U":
        try:  # a table written with gaps often holds 1.0 for 1
            present = present.astype(np.float64)
        except ValueError:
            return np.where(gaps, "", cells)
        if not np.array_equal(present.astype(np.str_), cells[~gaps]):
            return np.where(gaps, "", cells)
    numbers = np.full(len(cells), np.nan)
    numbers[~gaps] = present
    return numbers


def read_folder(folder: str | os.PathLike[str], **options: Any) -> Dataset:
    r"""Read a folder with an ``edges`` and a ``nodes`` table, or one laid out as in GraphLand.

    ``options`` go to :func:`read_tables` or :func:`read_graphland`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "edges.csv").write_text("source,target\n1,2\n")
    ...     _ = Path(folder, "nodes.csv").write_text("id,label,x,split\n1,0,0.5,train\n2,1,0.7,test\n")
    ...     read_folder(folder, name="pair")
    Dataset('pair', n_nodes=2, n_edges=1, n_features=1, n_classes=2, train=1, val=0, test=1)
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder.")
    if is_graphland(folder):
        return read_graphland(folder, **options)
    return read_tables(_only(folder, "edges"), _only(folder, "nodes"), **options)


def read_folder_graph(folder: str | os.PathLike[str], **options: Any) -> Graph:
    """Read the graph of a folder with an ``edges`` and a ``nodes`` table, labelled or not."""
    return read_graph(_only(Path(folder), "edges"), _only(Path(folder), "nodes"), **options)


def is_table_folder(folder: Path) -> bool:
    """Whether a folder holds tables that :func:`read_folder` can read."""
    return is_graphland(folder) or is_plain_table_folder(folder)


def is_plain_table_folder(folder: Path) -> bool:
    """Whether a folder holds an ``edges`` and a ``nodes`` table."""
    return bool(_tables(folder, "edges") and _tables(folder, "nodes"))


def _only(folder: Path, stem: str) -> Path:
    found = _tables(folder, stem)
    if len(found) != 1:
        there = " and ".join(path.name for path in found) or "none"
        raise DataError(f"{folder} must hold one {stem} table ({stem}.csv or {stem}.parquet); found {there}.")
    return found[0]


def _tables(folder: Path, stem: str) -> list[Path]:
    candidates = (folder / f"{stem}{suffix}" for suffix in CSV_SUFFIXES + PARQUET_SUFFIXES)
    return [path for path in candidates if path.is_file()]
