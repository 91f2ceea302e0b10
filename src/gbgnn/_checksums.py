"""Checksums of what a model is trained on, for telling whether data has changed since."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from gbgnn.graph import Graph


def graph_checksum(graph: Graph) -> str:
    """Return a checksum of edges, features and node ids."""
    return graph.checksum


def labels_checksum(parts: Iterable[tuple[Any, Any]]) -> str:
    """Return a checksum of (nodes, labels) pairs: which nodes are labelled, and as what."""
    digest = hashlib.sha256()
    for nodes, labels in parts:
        digest.update(np.asarray(nodes, dtype=np.int64).tobytes())
        digest.update(repr(np.asarray(labels).tolist()).encode())
    return digest.hexdigest()
