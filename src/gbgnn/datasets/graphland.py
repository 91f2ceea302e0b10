"""Folders laid out as in the GraphLand benchmark: CSV tables described by a small YAML file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn.datasets.columns import Table, read_table
from gbgnn.datasets.dataset import Dataset, NodeIndex, as_labels, build_adjacency, is_labelled
from gbgnn.datasets.splits import choose_split
from gbgnn.errors import DataError
from gbgnn.graph import Graph, NodeSplit

_NEEDED = ("edgelist.csv", "features.csv", "targets.csv")


def is_graphland(folder: Path) -> bool:
    """Whether a folder holds the tables of a GraphLand data set."""
    return all((folder / name).is_file() for name in _NEEDED)


def read_graphland(
    folder: str | os.PathLike[str],
    *,
    split: str | int | NodeSplit | None = None,
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
    directed
        Whether an edge goes one way only; then the second node aggregates from the first.
    standardize
        Scale numerical features, other than fractions, to mean 0 and deviation 1 over all nodes.
    normalize_features
        Scale every feature row to an absolute sum of one.
    seed
        Seed of a drawn split.
    name
        Name of the data set; the folder's name when not given.
    """
    folder = Path(folder)
    missing = [file for file in _NEEDED if not (folder / file).is_file()]
    if missing:
        raise DataError(f"{folder} lacks {', '.join(missing)}.")
    info = read_info(folder / "info.yaml") if (folder / "info.yaml").is_file() else {}
    if info.get("task") == "regression":
        raise DataError(f"{folder} is a regression task; gbgnn classifies nodes.")
    table = read_table(folder / "features.csv", text=[0])
    index = NodeIndex(table.columns[table.find_column(0, "node ids")], str(table.path))
    features, repairs = _features(table, info, standardize)
    y = _targets(read_table(folder / "targets.csv", text=[0]), index, info)
    edges = read_table(folder / "edgelist.csv", text=[0, 1])
    heads, tails = (
        index.rows(edges.columns[edges.find_column(position, "edges")], str(edges.path))
        for position in (0, 1)
    )
    adjacency, mended = build_adjacency(heads, tails, len(index.ids), directed=directed)
    graph = Graph(adjacency, features, node_ids=index.ids, repairs=[*repairs, *mended])
    if normalize_features:
        graph = graph.with_row_normalized_features()
    masks = sorted(folder.glob("split_masks_*.csv"), key=lambda path: (path.stem[-2:] != "RL", path))
    wanted = [path for path in masks if path.stem == f"split_masks_{split}"]
    if wanted or (masks and split in (None, "auto", "public")):
        path = (wanted or masks)[0]
        chosen, how = _masks(path, index, is_labelled(y)), path.stem.removeprefix("split_masks_")
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


def _names(info: dict[str, Any], kind: str, table: Table) -> list[str]:
    listed = info.get(f"{kind}_features_names", [])
    return [table.find_column(name, f"{kind} features") for name in listed]


def _features(table: Table, info: dict[str, Any], standardize: bool) -> tuple[NDArray[np.float32], list[str]]:
    categorical = _names(info, "categorical", table)
    fractions = _names(info, "fraction", table)
    if info:
        numeric = list(dict.fromkeys([*_names(info, "numerical", table), *fractions]))
    else:
        numeric = list(table.columns)[1:]
    blocks, repairs = [], []
    for name in numeric:
        column, n_filled = _filled(table, name)
        if n_filled:
            repairs.append(f"filled {n_filled} gaps of feature {name!r} with its median")
        if standardize and name not in fractions:
            column = (column - column.mean()) / (column.std() or 1.0)
        blocks.append(column[:, None])
    for name in categorical:
        values = np.unique(table.columns[name])
        blocks.append(table.columns[name][:, None] == values[None, :])
        repairs.append(f"made {len(values)} one-hot columns of feature {name!r}")
    if not blocks:
        raise DataError(f"{table.path} has no feature column; give each node at least one number.")
    return np.hstack(blocks).astype(np.float32), repairs


def _filled(table: Table, name: str) -> tuple[NDArray[Any], int]:
    values = table.columns[name]
    if values.dtype.kind != "f" or not np.isnan(values).any():
        return table.numbers(name).astype(np.float64), 0
    gaps = np.isnan(values)
    if gaps.all():
        raise DataError(f"{table.path}: column {name!r} has no value at all; leave it out.")
    return np.where(gaps, np.median(values[~gaps]), values), int(gaps.sum())


def _targets(table: Table, index: NodeIndex, info: dict[str, Any]) -> NDArray[Any]:
    column = table.find_column(info.get("target_name", 1), "targets")
    labels = as_labels(table.columns[column], f"{table.path}, column {column!r}")
    y = np.full(len(index.ids), "" if labels.dtype.kind == "U" else -1, dtype=labels.dtype)
    y[index.rows(table.columns[table.find_column(0, "node ids")], str(table.path))] = labels
    return y


def _masks(path: Path, index: NodeIndex, labelled: NDArray[np.bool_]) -> NodeSplit:
    table = read_table(path, text=[0])
    rows = index.rows(table.columns[table.find_column(0, "node ids")], str(path))
    parts = []
    for part in ("train", "val", "test"):
        cells = table.columns[table.find_column(part, "masks")]
        inside = rows[np.isin(np.char.lower(cells.astype(np.str_)), ("true", "1", "1.0"))]
        parts.append(np.sort(inside[labelled[inside]]))
    return NodeSplit(*parts)
