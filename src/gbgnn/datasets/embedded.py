"""Data sets that need no file from outside: digits and karate."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gbgnn._checks import check_integer
from gbgnn.datasets.catalog import CATALOG
from gbgnn.datasets.dataset import Dataset
from gbgnn.datasets.edges import build_adjacency
from gbgnn.datasets.splits import random_split
from gbgnn.graph import Graph, NodeSplit

# The friendships of each member with members of a higher number.
_KARATE_FRIENDS = {
    0: (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31),
    1: (2, 3, 7, 13, 17, 19, 21, 30),
    2: (3, 7, 8, 9, 13, 27, 28, 32),
    3: (7, 12, 13),
    4: (6, 10),
    5: (6, 10, 16),
    6: (16,),
    8: (30, 32, 33),
    9: (33,),
    13: (33,),
    14: (32, 33),
    15: (32, 33),
    18: (32, 33),
    19: (33,),
    20: (32, 33),
    22: (32, 33),
    23: (25, 27, 29, 32, 33),
    24: (25, 27, 31),
    25: (31,),
    26: (29, 33),
    27: (33,),
    28: (31, 33),
    29: (32, 33),
    30: (32, 33),
    31: (32, 33),
    32: (33,),
}
_KARATE_OFFICERS = (9, 14, 15, 18, 20, *range(22, 34))


def digits(labels_per_class: int = 5, n_neighbors: int = 8, n_val: int = 500, *, seed: int = 0) -> Dataset:
    """Return scikit-learn's 1,797 images of digits as a graph with few labels.

    Two images are joined when either is among the nearest neighbours of the other. Features are the
    64 pixels, scaled to [0, 1].

    Parameters
    ----------
    labels_per_class
        Training nodes of each digit.
    n_neighbors
        How many nearest images each image names.
    n_val
        Validation nodes; the rest test.
    seed
        Seed of the split; the graph is always the same.

    Examples
    --------
    >>> digits()
    Dataset('digits', n_nodes=1797, n_edges=..., n_features=64, n_classes=10, train=50, val=500,
    test=1247)
    """
    from sklearn.datasets import load_digits
    from sklearn.neighbors import kneighbors_graph

    check_integer("digits", "n_neighbors", n_neighbors, 1, 1796)
    bunch = load_digits()
    features = (bunch.data / 16).astype(np.float32)
    named = kneighbors_graph(bunch.data, n_neighbors, mode="connectivity")
    split = random_split(bunch.target, labels_per_class, n_val, None, seed=seed)
    graph = Graph(sp.csr_array(named.maximum(named.T)), features)
    return Dataset.from_entry(CATALOG["digits"], graph, bunch.target, split, f"random, seed {seed}")


def karate() -> Dataset:
    """Return Zachary's karate club: 34 members, 78 friendships, and the club each chose.

    Each node's only feature is its own number, one-hot. The two rivals (nodes 0 and 33) train, all
    others test.

    Examples
    --------
    >>> karate()
    Dataset('karate', n_nodes=34, n_edges=78, n_features=34, n_classes=2, train=2, val=0, test=32)
    """
    pairs = np.array([(low, high) for low, row in _KARATE_FRIENDS.items() for high in row])
    adjacency, _ = build_adjacency(pairs[:, 0], pairs[:, 1], 34)
    y = np.zeros(34, np.int64)
    y[list(_KARATE_OFFICERS)] = 1
    graph = Graph(adjacency, np.eye(34, dtype=np.float32))
    split = NodeSplit(np.array([0, 33]), test=np.arange(1, 33))
    return Dataset.from_entry(CATALOG["karate"], graph, y, split)
