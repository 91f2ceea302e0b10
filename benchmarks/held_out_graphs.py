"""Graphs whose held-out nodes are drawn anew again and again: what calibration.py and coverage.py share.

Planetoid's graphs have their published training nodes; of the others half of the labelled nodes train, at
most 2,000. All other nodes with a known label are held out.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import PLANETOID

from gbgnn import Graph
from gbgnn.datasets import load

CLASSES = (*PLANETOID, "amazon_computers", "airport_hgcn", "chameleon_filtered", "minesweeper")
NUMBERS = ("county_election_2016", "california_housing_knn5")
MOST_TRAINING = 2_000
_SEED = 7  # not 0: the mines of minesweeper are the first 2,000 of that permutation


@dataclass(frozen=True, eq=False)
class HeldOutGraph:
    """A graph, what is known of its nodes, and which of them train; the others are held out."""

    graph: Graph
    y: np.ndarray
    train: np.ndarray
    held_out: np.ndarray


def read(name: str) -> HeldOutGraph:
    """Return a graph by name, of Planetoid's or of the folder graphs/ in GBGNN_DATA."""
    if name in PLANETOID:
        data = load(name)
        known = np.flatnonzero(data.y >= 0)
        return HeldOutGraph(data.graph, data.y, data.train, np.setdiff1d(known, data.train))
    path = Path(os.environ["GBGNN_DATA"]) / "graphs" / f"{name}.npz"
    data = load(str(path))
    known = np.arange(len(data.y))
    if not data.is_regression:
        known = known[data.y >= 0]
    with np.load(path) as arrays:
        if "vote_missing" in arrays:  # numbers that were filled in
            known = np.setdiff1d(known, np.flatnonzero(arrays["vote_missing"]))
    drawn = np.random.default_rng(_SEED).permutation(known)
    train = drawn[: min(len(drawn) // 2, MOST_TRAINING)]
    return HeldOutGraph(data.graph, data.y, train, np.setdiff1d(known, train))
