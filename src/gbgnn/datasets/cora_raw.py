"""Cora from its raw paper table, in Planetoid's node order: the same graph from another source."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gbgnn.datasets.edges import build_adjacency
from gbgnn.errors import DataError, MissingDependencyError
from gbgnn.graph import Graph, NodeSplit

# Planetoid's class number of each subject number in the raw table.
_CLASS_OF_SUBJECT = np.array([3, 6, 1, 4, 0, 2, 5])
_N_TRAIN, _N_VAL, _FIRST_TEST = 140, 500, 1708


def read_cora_raw(folder: Path) -> tuple[Graph, NDArray[np.int64], NodeSplit]:
    """Return Cora's graph, labels and public split from the two raw Parquet tables."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise MissingDependencyError("reading raw Cora", "pyarrow", "io") from error
    nodes = parquet.read_table(folder / "cora_nodes.parquet.gzip")
    citations = parquet.read_table(folder / "cora_rels.parquet.gzip")
    papers = nodes["nodeId"].to_numpy()
    order = planetoid_order()
    if not np.array_equal(np.sort(papers), np.sort(order)):
        raise DataError(f"{folder} does not hold the 2,708 papers of Cora.")
    by_paper = np.argsort(papers)
    rows = by_paper[np.searchsorted(papers, order, sorter=by_paper)]
    words = nodes["features"].combine_chunks().flatten().to_numpy().reshape(len(papers), -1)
    y = _CLASS_OF_SUBJECT[nodes["subject"].to_numpy()[rows]]

    by_order = np.argsort(order)
    heads, tails = (
        by_order[np.searchsorted(order, citations[end].to_numpy(), sorter=by_order)]
        for end in ("sourceNodeId", "targetNodeId")
    )
    adjacency, repairs = build_adjacency(heads, tails, len(papers))
    graph = Graph(adjacency, sp.csr_array(words[rows].astype(np.float32)), repairs=repairs)
    split = NodeSplit(
        np.arange(_N_TRAIN),
        np.arange(_N_TRAIN, _N_TRAIN + _N_VAL),
        np.arange(_FIRST_TEST, len(papers)),
    )
    return graph, y, split


def planetoid_order() -> NDArray[np.int64]:
    """Return the paper id of Planetoid's node 0, 1, ..., 2707."""
    text = resources.files("gbgnn.datasets").joinpath("cora_order.txt").read_text("ascii")
    return np.array(text.split(), dtype=np.int64)
