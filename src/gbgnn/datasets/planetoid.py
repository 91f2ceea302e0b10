"""Cora, CiteSeer and PubMed in the Planetoid format, with the public split."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gbgnn.datasets.catalog import Entry
from gbgnn.datasets.cora_raw import read_cora_raw
from gbgnn.datasets.dataset import Dataset
from gbgnn.datasets.download import find_or_download
from gbgnn.datasets.edges import build_adjacency
from gbgnn.datasets.unpickle import read_pickle
from gbgnn.errors import DataError
from gbgnn.graph import Graph, NodeSplit

N_VAL = 500
_PARTS = ("y", "tx", "ty", "allx", "ally", "graph")


def load_planetoid(
    entry: Entry, data_dir: str | os.PathLike[str] | None = None, *, download: bool = True
) -> Dataset:
    """Return a catalogued data set from verified files, features as stored."""
    found = find_or_download(entry, data_dir, download=download)
    if found.files.kind == "cora_raw":
        graph, y, split = read_cora_raw(found.folder)
    else:
        graph, y, split = _read(found.folder, entry.name)
    return Dataset.from_entry(entry, graph, y, split)


def read_planetoid(folder: str | os.PathLike[str], name: str, *, normalize_features: bool = True) -> Dataset:
    """Read ``ind.NAME.*`` files of your own, without comparing checksums.

    Parameters
    ----------
    folder
        Where the eight files lie.
    name
        The word between ``ind.`` and the last part of each file's name.
    normalize_features
        Scale every row of the bag of words to a sum of one.

    Returns
    -------
    Dataset
        With the public split: the labelled rows of ``x`` train, the next 500 nodes validate, those in
        ``test.index`` test. Nodes of the test range that are not listed there have zero features and
        no label.

    Examples
    --------
    >>> read_planetoid("nowhere", "cora")
    Traceback (most recent call last):
    gbgnn.errors.DataError: nowhere lacks ind.cora.y, ...
    """
    graph, y, split = _read(Path(folder), name)
    if normalize_features:
        graph = graph.with_row_normalized_features()
    return Dataset(name, graph, y, split, source=str(folder), split_name="public")


def _read(folder: Path, name: str) -> tuple[Graph, NDArray[np.int64], NodeSplit]:
    paths = {part: folder / f"ind.{name}.{part}" for part in (*_PARTS, "test.index")}
    missing = [path.name for path in paths.values() if not path.is_file()]
    if missing:
        raise DataError(f"{folder} lacks {', '.join(missing)}.")
    parts = {part: read_pickle(paths[part]) for part in _PARTS}
    listed = _read_index(paths["test.index"])
    _check_parts(parts, listed, folder, name)
    n_known = parts["allx"].shape[0]
    # Test rows are stored in the order of test.index; ids the list skips get empty rows (CiteSeer).
    n_range = max(int(listed.max()) + 1 - n_known, 0)
    place = sp.csr_array(
        (np.ones(len(listed), np.float32), (listed - n_known, np.arange(len(listed)))),
        shape=(n_range, len(listed)),
    )
    features = sp.vstack([parts["allx"], place @ parts["tx"]], format="csr").astype(np.float32)
    y = np.full(n_known + n_range, -1)
    y[:n_known] = _classes(parts["ally"])
    y[listed] = _classes(parts["ty"])
    heads, tails = _edges(parts["graph"], len(y), paths["graph"])
    adjacency, repairs = build_adjacency(heads, tails, len(y))
    n_train = len(parts["y"])
    split = NodeSplit(np.arange(n_train), np.arange(n_train, min(n_train + N_VAL, n_known)), np.sort(listed))
    return Graph(adjacency, features, repairs=repairs), y, split


def _edges(
    neighbours: Mapping[int, list[int]], n_nodes: int, path: Path
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    try:
        lengths = [len(row) for row in neighbours.values()]
        heads = np.repeat(np.array(list(neighbours), dtype=np.int64), lengths)
        tails = np.array([node for row in neighbours.values() for node in row], dtype=np.int64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{path} must map node numbers to lists of node numbers: {error}.") from error
    ends = np.concatenate([heads, tails])
    if len(ends) and not 0 <= ends.min() <= ends.max() < n_nodes:
        raise DataError(f"{path} names a node beyond the {n_nodes} nodes of the features.")
    return heads, tails


def _read_index(path: Path) -> NDArray[np.int64]:
    try:
        listed = np.array(path.read_text(encoding="ascii").split(), dtype=np.int64)
    except ValueError as error:
        raise DataError(f"{path} must hold one node number per line: {error}.") from error
    if not len(listed):
        raise DataError(f"{path} is empty; it must list the test nodes.")
    return listed


def _check_parts(parts: Mapping[str, Any], listed: NDArray[np.int64], folder: Path, name: str) -> None:
    kinds = dict.fromkeys(("tx", "allx"), sp.csr_array) | dict.fromkeys(("y", "ty", "ally"), np.ndarray)
    for part, kind in {**kinds, "graph": dict}.items():
        if not isinstance(parts[part], kind) or (kind is np.ndarray and parts[part].ndim != 2):
            raise DataError(
                f"{folder / f'ind.{name}.{part}'} holds a {type(parts[part]).__name__}, "
                f"not the {kind.__name__} of the Planetoid format."
            )
    n_known, n_listed = parts["allx"].shape[0], parts["tx"].shape[0]
    widths_agree = parts["tx"].shape[1] == parts["allx"].shape[1]
    rows_agree = len(parts["ally"]) == n_known and len(parts["ty"]) == n_listed
    if not widths_agree or not rows_agree or len(parts["y"]) > n_known:
        raise DataError(f"{folder}: the ind.{name} files disagree about the size of the data.")
    if len(listed) != n_listed or listed.min() < n_known or len(np.unique(listed)) < n_listed:
        raise DataError(
            f"{folder / f'ind.{name}.test.index'} must list {n_listed} distinct nodes, all after the "
            f"{n_known} of ind.{name}.allx."
        )


def _classes(one_hot: NDArray[Any]) -> NDArray[np.int64]:
    return np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)
