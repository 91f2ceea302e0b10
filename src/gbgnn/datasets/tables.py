"""Graphs from tables, CSV or Parquet: an edge and a node table of the user's own, or a GraphLand folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn.datasets.columns import MISSING, SUFFIXES, Table, as_integers, number_columns, read_table
from gbgnn.datasets.dataset import Dataset, NodeIndex, as_labels, build_adjacency, is_labelled, no_label
from gbgnn.datasets.splits import SplitChoice, choose_split, named_split
from gbgnn.errors import DataError
from gbgnn.graph import PARTS, Graph, NodeSplit

Column = str | int
_GRAPHLAND = ("edgelist.csv", "features.csv", "targets.csv")


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
    split: SplitChoice = None,
    directed: bool = False,
    normalize_features: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> Dataset:
    r"""Read a graph from an edge table and a node table, each CSV or Parquet.

    CSV files have a header and commas or tabs. Columns are given by name or position. Self loops are dropped
    and repeated edges merged; ``graph.repairs`` says how many.

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
        A column ``split`` is no feature, be it used or not, unless ``features`` names it.
    directed
        Whether an edge goes one way only.
    normalize_features
        Scale every feature row to an absolute sum of one.
    seed
        Seed of a drawn split.
    name
        Name of the data set; the folder's name when not given.

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
    table = read_table(nodes, text=(id, label))
    label = table.find_column(label, "labels")
    columns: Any = {"source": source, "target": target, "weight": weight, "id": id, "label": label}
    graph = read_graph(edges, table, **columns, features=features, split=split, directed=directed)
    if normalize_features:
        graph = graph.with_row_normalized_features()
    y = as_labels(_label_cells(table.columns[label]), f"{table.path}, column {label!r}")
    column = "split" if split in (None, "auto", "public") and "split" in table.columns else split
    if column in table.columns:
        chosen, how = named_split(table.columns[column], f"{table.path}, column {column!r}"), "public"
    else:
        chosen, how = choose_split(split, y, (), str(table.path), seed=seed)
    title = name or table.path.absolute().parent.name
    return Dataset(title, graph, y, chosen, source=str(table.path.parent), split_name=how)


def read_graph(
    edges: str | os.PathLike[str],
    nodes: str | os.PathLike[str] | Table,
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
    table = nodes if isinstance(nodes, Table) else read_table(nodes, text=(id, label))
    edge_table = read_table(edges, text=(source, target))
    id = table.find_column(id, "node ids")
    if not len(table.columns[id]):
        raise DataError(f"{table.path} has a header but no rows.")
    if features is None:
        roles = (id, number_columns(table.columns).get(label, label), split, "split")
        features = [column for column in table.columns if column not in roles]
    blocks = [table.numbers(column, "features").astype(np.float32) for column in features]
    if not blocks:
        raise DataError(f"{table.path} has no feature column; give each node at least one number.")
    index = NodeIndex(table.columns[id], str(table.path))
    names = [edge_table.find_column(source, "sources"), edge_table.find_column(target, "targets")]
    ends = [index.rows(edge_table.columns[end], f"{edge_table.path}, column {end!r}") for end in names]
    weights = None if weight is None else edge_table.numbers(weight, "weights")
    adjacency, repairs = build_adjacency(ends, len(index.ids), weights=weights, directed=directed)
    return Graph(adjacency, np.column_stack(blocks), node_ids=index.ids, repairs=repairs)


def _label_cells(cells: NDArray[Any]) -> NDArray[Any]:
    """Return text labels with gaps as ``""``, or as numbers if all the others are numbers."""
    if cells.dtype.kind != "U":
        return cells
    gaps = np.isin(cells, MISSING)
    present = as_integers(cells[~gaps])
    with suppress(ValueError):
        floats = present.astype(np.float64)
        # A table written with gaps often holds 1.0 for 1; 01 and 1e0 are names.
        if present.dtype.kind != "U" or np.array_equal(floats.astype(np.str_), present):
            numbers = np.full(len(cells), np.nan)
            numbers[~gaps] = floats
            return numbers
    return np.where(gaps, "", cells)


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
    if not Path(folder).is_dir():
        raise DataError(f"{folder} is not a folder.")
    if is_graphland(Path(folder)):
        return read_graphland(folder, **options)
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
                f"{folder} must hold one {stem} table ({stem}.csv or {stem}.parquet); found {there}."
            )
        tables += found
    return tables


def _tables(folder: Path, stem: str) -> list[Path]:
    candidates = (folder / f"{stem}{suffix}" for suffix in SUFFIXES)
    return [path for path in candidates if path.is_file()]


def is_graphland(folder: Path) -> bool:
    """Whether a folder holds the tables of a GraphLand data set."""
    return all((folder / name).is_file() for name in _GRAPHLAND)


def read_graphland(
    folder: str | os.PathLike[str],
    *,
    split: SplitChoice = None,
    directed: bool = False,
    standardize: bool = True,
    normalize_features: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> Dataset:
    """Read a classification data set in the layout of GraphLand.

    ``edgelist.csv`` holds pairs of node ids, ``features.csv`` and ``targets.csv`` one row per node with
    the id first, ``split_masks_RL.csv`` and its like the columns train, val and test, and ``info.yaml``
    the kinds of features. Missing numbers get the column's median, categories become one-hot columns;
    ``graph.repairs`` says so.

    Parameters
    ----------
    folder
        Where the files lie.
    split
        ``"RL"``, ``"RH"`` or ``"TH"`` for one of the masks that come with the data; or as in
        :func:`read_tables`. None takes RL, or else the first mask file there is.
    standardize
        Scale numerical features, other than fractions, to mean 0 and deviation 1 over all nodes.
    directed, normalize_features, seed, name
        As in :func:`read_tables`; the second node of a pair aggregates from the first.
    """
    folder = Path(folder)
    missing = [file for file in _GRAPHLAND if not (folder / file).is_file()]
    if missing:
        raise DataError(f"{folder} lacks {', '.join(missing)}.")
    info = read_info(folder / "info.yaml") if (folder / "info.yaml").is_file() else {}
    if info.get("task") == "regression":
        raise DataError(f"{folder} is a regression task; gbgnn classifies nodes.")
    table = read_table(folder / "features.csv", text=[0])
    index = NodeIndex(table.pick(0, "node ids"), str(table.path))
    features, repairs = _graphland_features(table, info, standardize)
    targets = read_table(folder / "targets.csv", text=[0])
    column = targets.find_column(info.get("target_name", 1), "targets")
    labels = as_labels(targets.columns[column], f"{targets.path}, column {column!r}")
    y = np.full(len(index.ids), no_label(labels), dtype=labels.dtype)
    y[index.rows(targets.pick(0, "node ids"), str(targets.path))] = labels
    edges = read_table(folder / "edgelist.csv", text=[0, 1])
    ends = [index.rows(edges.pick(end, "edges"), str(edges.path)) for end in (0, 1)]
    adjacency, mended = build_adjacency(ends, len(index.ids), directed=directed)
    graph = Graph(adjacency, features, node_ids=index.ids, repairs=[*repairs, *mended])
    if normalize_features:
        graph = graph.with_row_normalized_features()
    masks = sorted(folder.glob("split_masks_*.csv"), key=lambda path: (path.stem[-2:] != "RL", path))
    wanted = [path for path in masks if path.stem == f"split_masks_{split}"]
    if wanted or (masks and split in (None, "auto", "public")):
        path = (wanted or masks)[0]
        chosen, how = _graphland_split(path, index, is_labelled(y)), path.stem.removeprefix("split_masks_")
    else:
        chosen, how = choose_split(split, y, (), str(folder), seed=seed)
    return Dataset(name or folder.absolute().name, graph, y, chosen, source=str(folder), split_name=how)


def read_info(path: Path) -> dict[str, Any]:
    r"""Read the flat part of YAML that these files use: ``key: value``, and lists of plain words."""
    info: dict[str, Any] = {}
    key = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.split(" #")[0].strip()
        if not text or text.startswith(("#", "---")):
            continue
        if text.startswith("- ") and key is not None and isinstance(info[key], list):
            info[key].append(_word(text[2:]))
            continue
        key, colon, value = (part.strip() for part in text.partition(":"))
        if not colon or line[0].isspace():
            raise DataError(f"{path}, line {number}: expected 'key: value' or '- item'; got {line!r}.")
        if value.startswith("[") and value.endswith("]"):
            info[key] = [_word(item) for item in value[1:-1].split(",") if item.strip()]
        else:
            info[key] = _word(value) if value else []
    return info


def _word(text: str) -> str:
    return text.strip().strip("'\"")


def _graphland_features(
    table: Table, info: dict[str, Any], standardize: bool
) -> tuple[NDArray[np.float32], list[str]]:
    """Return the features, and what was filled or made on the way."""
    listed = {
        kind: [table.find_column(name, f"{kind} features") for name in info.get(f"{kind}_features_names", [])]
        for kind in ("numerical", "fraction", "categorical")
    }
    numeric = dict.fromkeys(listed["numerical"] + listed["fraction"]) if info else list(table.columns)[1:]
    blocks, repairs = [], []
    for name in numeric:
        values = table.columns[name]
        gaps = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        if gaps.all():
            raise DataError(f"{table.path}: column {name!r} has no value at all; leave it out.")
        if gaps.any():
            values = np.where(gaps, np.median(values[~gaps]), values)
            repairs.append(f"filled {gaps.sum()} gaps of feature {name!r} with its median")
        else:
            values = table.numbers(name, "features").astype(np.float64)
        if standardize and name not in listed["fraction"]:
            values = (values - values.mean()) / (values.std() or 1.0)
        blocks.append(values[:, None])
    for name in listed["categorical"]:
        categories = np.unique(table.columns[name])
        blocks.append(table.columns[name][:, None] == categories[None, :])
        repairs.append(f"made {len(categories)} one-hot columns of feature {name!r}")
    if not blocks:
        raise DataError(f"{table.path} has no feature column; give each node at least one number.")
    return np.hstack(blocks).astype(np.float32), repairs


def _graphland_split(path: Path, index: NodeIndex, labelled: NDArray[np.bool_]) -> NodeSplit:
    table = read_table(path, text=[0])
    rows = index.rows(table.pick(0, "node ids"), str(path))
    masks = np.zeros((3, len(labelled)), bool)
    for mask, part in zip(masks, PARTS, strict=True):
        cells = np.char.lower(table.pick(part, "masks").astype(np.str_))
        mask[rows] = np.isin(cells, ("true", "1", "1.0"))
    return NodeSplit.from_masks(*(masks & labelled))
