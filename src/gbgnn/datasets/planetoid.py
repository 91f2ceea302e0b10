"""Cora, CiteSeer and PubMed in the Planetoid format, with the public split."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gbgnn.datasets.catalog import Entry, find_or_download
from gbgnn.datasets.dataset import Dataset
from gbgnn.datasets.node_index import NodeIndex
from gbgnn.datasets.pickles import read_pickle
from gbgnn.errors import DataError, import_needed
from gbgnn.graph import Graph
from gbgnn.labels import NodeSplit
from gbgnn.tables.links import build_adjacency

N_VAL = 500
_PARTS = ("y", "tx", "ty", "allx", "ally", "graph")


def load_planetoid(entry: Entry, data_dir: str | os.PathLike[str] | None, download: bool) -> Dataset:
    """Return a catalogued data set from verified files, features as stored."""
    found = find_or_download(entry, data_dir, download=download)
    if found.files.kind == "cora_raw":
        return Dataset.from_entry(entry, *read_cora_raw(found.folder))
    return Dataset.from_entry(entry, *_read(found.folder, entry.name))


def read_planetoid(folder: str | os.PathLike[str], name: str, *, normalize_features: bool = True) -> Dataset:
    """Read ``ind.NAME.*`` files of your own, without comparing checksums.

    The split is the public one: the labelled rows of ``x`` train, the next 500 nodes validate, those in
    ``test.index`` test. Nodes of the test range that are not listed there have zero features and no label.

    Parameters
    ----------
    folder
        Where the eight files lie.
    name
        The word between ``ind.`` and the last part of each file's name.
    normalize_features
        Scale every row of the bag of words to a sum of one.
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
    try:
        listed = np.array(paths["test.index"].read_text(encoding="ascii").split(), dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise DataError(f"{paths['test.index']} must hold one node number per line: {error}.") from error
    _check_parts(parts, listed, paths, name)
    n_known = parts["allx"].shape[0]
    # Test rows are stored in the order of test.index; ids the list skips get empty rows (CiteSeer).
    n_range = int(listed.max()) + 1 - n_known
    place = sp.csr_array(
        (np.ones(len(listed), np.float32), (listed - n_known, np.arange(len(listed)))),
        shape=(n_range, len(listed)),
    )
    features = sp.vstack([parts["allx"], place @ parts["tx"]], format="csr").astype(np.float32)
    y = np.full(n_known + n_range, -1)
    for rows, one_hot in ((slice(n_known), parts["ally"]), (listed, parts["ty"])):
        y[rows] = np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)
    adjacency, repairs = build_adjacency(_edges(parts["graph"], len(y), paths["graph"]), len(y))
    n_train = len(parts["y"])
    split = NodeSplit(np.arange(n_train), np.arange(n_train, min(n_train + N_VAL, n_known)), np.sort(listed))
    return Graph(adjacency, features, repairs=repairs), y, split


def _check_parts(
    parts: Mapping[str, Any], listed: NDArray[np.int64], paths: Mapping[str, Path], name: str
) -> None:
    kinds = dict.fromkeys(("tx", "allx"), sp.csr_array) | dict.fromkeys(("y", "ty", "ally"), np.ndarray)
    for part, kind in {**kinds, "graph": dict}.items():
        if not isinstance(parts[part], kind) or (kind is np.ndarray and parts[part].ndim != 2):
            raise DataError(
                f"{paths[part]} holds a {type(parts[part]).__name__}, "
                f"not the {kind.__name__} of the Planetoid format."
            )
    n_known, n_listed = parts["allx"].shape[0], parts["tx"].shape[0]
    widths_agree = parts["tx"].shape[1] == parts["allx"].shape[1]
    widths_agree &= parts["y"].shape[1] == parts["ty"].shape[1] == parts["ally"].shape[1] > 0
    rows_agree = len(parts["ally"]) == n_known and len(parts["ty"]) == n_listed
    if not widths_agree or not rows_agree or len(parts["y"]) > n_known:
        raise DataError(f"{paths['y'].parent}: the ind.{name} files disagree about the size of the data.")
    if not len(listed):
        raise DataError(f"{paths['test.index']} is empty; it must list the test nodes.")
    if len(listed) != n_listed or listed.min() < n_known or len(np.unique(listed)) < n_listed:
        raise DataError(
            f"{paths['test.index']} must list {n_listed} distinct nodes, all after the {n_known} of "
            f"ind.{name}.allx."
        )
    # Every node has features, a list of neighbours, or both: that bounds the numbers that are believed.
    n_nodes, n_most = int(listed.max()) + 1, n_known + n_listed + len(parts["graph"])
    if n_nodes > n_most:
        raise DataError(
            f"{paths['test.index']} names node {n_nodes - 1}, but the other files describe at most {n_most}."
        )
    for part in ("y", "ty", "ally"):
        labels = parts[part]
        if not np.isin(labels, (0, 1)).all() or (np.count_nonzero(labels, axis=1) > 1).any():
            raise DataError(f"{paths[part]} must hold rows of zeros with at most one 1, that of the class.")


def _edges(
    neighbours: Mapping[int, list[int]], n_nodes: int, path: Path
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    try:
        lengths = [len(row) for row in neighbours.values()]
        # One list may stand in a file for many nodes; every number takes a byte of it where it does not.
        if sum(lengths) > path.stat().st_size:
            raise ValueError("its lists are longer than the file")
        heads = np.repeat(np.array(list(neighbours), dtype=np.int64), lengths)
        tails = np.array([node for row in neighbours.values() for node in row], dtype=np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{path} must map node numbers to lists of node numbers: {error}.") from error
    ends = np.concatenate([heads, tails])
    if len(ends) and not 0 <= ends.min() <= ends.max() < n_nodes:
        raise DataError(f"{path} names a node beyond the {n_nodes} nodes of the features.")
    return heads, tails


# Planetoid's class number of each subject number in the raw table.
_CLASS_OF_SUBJECT = np.array([3, 6, 1, 4, 0, 2, 5])
_N_TRAIN, _FIRST_TEST = 140, 1708


def read_cora_raw(folder: Path) -> tuple[Graph, NDArray[np.int64], NodeSplit]:
    """Return Cora's graph, labels and public split from the two raw Parquet tables."""
    import_needed("pyarrow", "reading raw Cora", "io")
    from pyarrow import parquet

    nodes = parquet.read_table(folder / "cora_nodes.parquet.gzip")
    citations = parquet.read_table(folder / "cora_rels.parquet.gzip")
    papers = nodes["nodeId"].to_numpy()
    order = planetoid_order()
    if not np.array_equal(np.sort(papers), np.sort(order)):
        raise DataError(f"{folder} does not hold the 2,708 papers of Cora.")
    rows = NodeIndex(papers, str(folder)).rows(order, str(folder))
    words = nodes["features"].combine_chunks().flatten().to_numpy().reshape(len(papers), -1)
    y = _CLASS_OF_SUBJECT[nodes["subject"].to_numpy()[rows]]
    index = NodeIndex(order, str(folder))
    cited = (citations[name].to_numpy() for name in ("sourceNodeId", "targetNodeId"))
    adjacency, repairs = build_adjacency((index.rows(ids, str(folder)) for ids in cited), len(order))
    graph = Graph(adjacency, sp.csr_array(words[rows].astype(np.float32)), repairs=repairs)
    train, val = np.split(np.arange(_N_TRAIN + N_VAL), [_N_TRAIN])
    return graph, y, NodeSplit(train, val, np.arange(_FIRST_TEST, len(order)))


def planetoid_order() -> NDArray[np.int64]:
    """Return the paper id of Planetoid's node 0, 1, ..., 2707."""
    text = resources.files("gbgnn.datasets").joinpath("cora_order.txt").read_text("ascii")
    return np.array(text.split(), dtype=np.int64)
