"""Folders as GraphLand publishes them: features, targets, edges, a description of the columns, masks."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn._checks import check_choice
from gbgnn.datasets.columns import Table, as_label_cells, read_table
from gbgnn.datasets.dataset import Dataset
from gbgnn.datasets.node_index import NodeIndex
from gbgnn.datasets.splits import SplitChoice, choose_split
from gbgnn.datasets.targets import CLASSIFICATION, REGRESSION, Target, as_target, is_labelled, no_label
from gbgnn.errors import DataError
from gbgnn.graph import Graph
from gbgnn.labels import PARTS, NodeSplit
from gbgnn.tables.links import build_adjacency

SETTINGS = ("RL", "RH", "TH", "THI")
_INDUCTIVE = "THI"
_FILES = ("edgelist.csv", "features.csv", "targets.csv")
_MASKS = "split_masks_"


def is_graphland(folder: Path) -> bool:
    """Whether a folder holds the tables of a GraphLand data set."""
    return all((folder / name).is_file() for name in _FILES)


def load_graphland(
    folder: str | os.PathLike[str],
    setting: str | None = None,
    *,
    split: SplitChoice = None,
    task: str | None = None,
    directed: bool = False,
    standardize: bool = True,
    normalize_features: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> Dataset:
    """Read a data set in the layout of GraphLand.

    ``edgelist.csv`` holds pairs of node ids, ``features.csv`` and ``targets.csv`` one row per node with
    the id first, ``split_masks_RL.csv`` and its like the columns train, val and test, and ``info.yaml``
    the kinds of features, the target and the task. Missing numbers get the column's median, categories become
    one-hot columns; ``graph.repairs`` says so.

    Parameters
    ----------
    folder
        Where the files lie.
    setting
        ``"RL"`` (random, few labels), ``"RH"`` (random, many), ``"TH"`` (by time, many) or ``"THI"``: the
        masks of TH, but training sees neither the validation nor the test nodes, see
        :meth:`Dataset.snapshot`, and medians, scales and categories are those of the training nodes. None
        takes RL, or else the first mask file there is.
    split
        Another split than a setting's, as in :func:`read_tables`.
    task
        ``"classification"`` or ``"regression"``; None is what ``info.yaml`` says, or else finds out.
    standardize
        Scale numerical features, other than fractions, to mean 0 and deviation 1 over all nodes.
    directed, normalize_features, seed, name
        As in :func:`read_tables`; the second node of a pair aggregates from the first.
    """
    folder = Path(folder)
    missing = [file for file in _FILES if not (folder / file).is_file()]
    if missing:
        raise DataError(f"{folder} lacks {', '.join(missing)}.")
    if setting is None and split in SETTINGS:
        setting, split = str(split), None
    if setting is not None:
        check_choice("load_graphland", "setting", setting, SETTINGS)
    info = read_info(folder / "info.yaml") if (folder / "info.yaml").is_file() else {}
    table = read_table(folder / "features.csv", text=[0])
    index = NodeIndex(table.pick(0, "node ids"), str(table.path))
    how, masks = _find_masks(folder, setting, split, index)
    arrivals = None
    if setting == _INDUCTIVE and masks is not None:
        arrivals = np.where(masks.any(axis=0), masks.argmax(axis=0), len(PARTS) - 1).astype(np.int8)
    seen = np.ones(len(index.ids), bool) if arrivals is None else arrivals == 0
    features, repairs = _build_features(table, info, standardize, seen)
    learned = None if masks is None else masks[0] | masks[1]
    target = _read_target(folder, info, index, task, learned)
    edges = read_table(folder / "edgelist.csv", text=[0, 1])
    ends = [index.rows(edges.pick(end, "edges"), str(edges.path)) for end in (0, 1)]
    adjacency, mended = build_adjacency(ends, len(index.ids), directed=directed)
    graph = Graph(adjacency, features, node_ids=index.ids, repairs=[*repairs, *mended])
    if normalize_features:
        graph = graph.with_row_normalized_features()
    if masks is None:
        chosen, how = choose_split(split, target.values, (), str(folder), seed=seed)
    else:
        chosen = NodeSplit.from_masks(*(masks & is_labelled(target.values)))
    return Dataset(
        *(name or folder.absolute().name, graph, target.values, chosen),
        source=str(folder),
        split_name=how,
        task=target.task,
        task_reason=target.reason,
        notes=[f"info.yaml judges by {info['metric']}"] if info.get("metric") else (),
        own_splits=() if masks is None else [chosen],
        arrivals=arrivals,
    )


def _read_target(
    folder: Path, info: dict[str, Any], index: NodeIndex, task: str | None, learned: NDArray[np.bool_] | None
) -> Target:
    """Return the target, a value per node of the features' table; ``learned`` nodes alone say what it is."""
    name = info.get("target_name", 1)
    table = read_table(folder / "targets.csv", text=[0, name])
    column = table.find_column(name, "targets")
    rows, where = index.rows(table.pick(0, "node ids"), str(table.path)), f"{table.path}, column {column!r}"
    seen = None if learned is None else learned[rows]
    cells = as_label_cells(table.columns[column], where, seen)
    named = str(info.get("task", ""))
    told = (REGRESSION if named == REGRESSION else CLASSIFICATION) if named else None
    found = as_target(cells, where, task or told, f"column {column!r}", seen)
    values = np.full(len(index.ids), no_label(found.values), dtype=found.values.dtype)
    values[rows] = found.values
    return replace(
        found, values=values, **({"reason": f"info.yaml says {named}"} if told and not task else {})
    )


def read_info(path: Path) -> dict[str, Any]:
    r"""Read the flat part of YAML that these files use: ``key: value``, and lists of plain words."""
    info: dict[str, Any] = {}
    key = None
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error}.") from error
    for number, line in enumerate(lines, start=1):
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


def _build_features(
    table: Table, info: dict[str, Any], standardize: bool, seen: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], list[str]]:
    """Return the features, and what was filled or made on the way; statistics are those of ``seen`` nodes."""
    listed = {
        kind: [table.find_column(name, f"{kind} features") for name in info.get(f"{kind}_features_names", [])]
        for kind in ("numerical", "fraction", "categorical")
    }
    numeric = dict.fromkeys(listed["numerical"] + listed["fraction"]) if info else list(table.columns)[1:]
    blocks, repairs = [], []
    for name in numeric:
        values = table.columns[name]
        gaps = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        if gaps[seen].all():
            raise DataError(f"{table.path}: column {name!r} has no value at all; leave it out.")
        if gaps.any():
            values = np.where(gaps, np.median(values[seen & ~gaps]), values)
            repairs.append(f"filled {gaps.sum()} gaps of feature {name!r} with its median")
        else:
            values = table.numbers(name, "features").astype(np.float64)
        if standardize and name not in listed["fraction"]:
            values = (values - values[seen].mean()) / (values[seen].std() or 1.0)
        blocks.append(values[:, None])
    for name in listed["categorical"]:
        cells = table.columns[name]
        categories = np.unique(cells[seen])
        categories = categories[categories == categories]  # a gap is no category
        blocks.append(cells[:, None] == categories[None, :])
        repairs.append(f"made {len(categories)} one-hot columns of feature {name!r}")
    if not blocks:
        raise DataError(f"{table.path} has no feature column; give each node at least one number.")
    return np.hstack(blocks).astype(np.float32), repairs


def _find_masks(
    folder: Path, setting: str | None, split: SplitChoice, index: NodeIndex
) -> tuple[str, NDArray[np.bool_] | None]:
    """Return the name of a setting and its masks, a row per part; no masks where a split is to be drawn."""
    known = {path.stem.removeprefix(_MASKS): path for path in sorted(folder.glob(f"{_MASKS}*.csv"))}
    if setting is None and (not known or split not in (None, "auto", "public")):
        return "", None
    chosen = setting or ("RL" if "RL" in known else next(iter(known)))
    path = known.get(chosen) or (known.get("TH") if chosen == _INDUCTIVE else None)
    if path is None:
        there = ", ".join(known) or "no masks"
        raise DataError(f"{folder} has no {_MASKS}{chosen}.csv, so no setting {chosen}; it has {there}.")
    table = read_table(path, text=[0])
    rows = index.rows(table.pick(0, "node ids"), str(path))
    masks = np.zeros((len(PARTS), len(index.ids)), bool)
    for mask, part in zip(masks, PARTS, strict=True):
        cells = np.char.lower(table.pick(part, "masks").astype(np.str_))
        mask[rows] = np.isin(cells, ("true", "1", "1.0"))
    return chosen, masks
