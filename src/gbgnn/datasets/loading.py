"""load(): every data set, by name or by path; and the two small ones that need no file, made here."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gbgnn._checks import check_integer
from gbgnn._stored import is_stored
from gbgnn.datasets.arrays import load_dataset
from gbgnn.datasets.catalog import CATALOG
from gbgnn.datasets.dataset import Dataset
from gbgnn.datasets.frames import PathLike
from gbgnn.datasets.graphland import is_graphland, load_graphland
from gbgnn.datasets.npz import read_npz
from gbgnn.datasets.planetoid import load_planetoid
from gbgnn.datasets.splits import SIZES, SplitChoice, choose_split, random_split
from gbgnn.datasets.synthetic import csbm, power_law
from gbgnn.datasets.tables import find_tables, is_plain_table_folder, read_tables
from gbgnn.errors import DataError, DatasetNotFoundError, ParameterError, suggest
from gbgnn.graph import Graph
from gbgnn.labels import NodeSplit
from gbgnn.tables.links import build_adjacency

_KARATE_FRIENDS = """
    0-1 0-2 0-3 0-4 0-5 0-6 0-7 0-8 0-10 0-11 0-12 0-13 0-17 0-19 0-21 0-31 1-2 1-3 1-7 1-13 1-17 1-19
    1-21 1-30 2-3 2-7 2-8 2-9 2-13 2-27 2-28 2-32 3-7 3-12 3-13 4-6 4-10 5-6 5-10 5-16 6-16 8-30 8-32
    8-33 9-33 13-33 14-32 14-33 15-32 15-33 18-32 18-33 19-33 20-32 20-33 22-32 22-33 23-25 23-27 23-29
    23-32 23-33 24-25 24-27 24-31 25-31 26-29 26-33 27-33 28-31 28-33 29-32 29-33 30-32 30-33 31-32
    31-33 32-33
"""
_KARATE_OFFICERS = (9, 14, 15, 18, 20, *range(22, 34))


def load(
    name: str | os.PathLike[str] = "digits",
    *,
    nodes: PathLike | None = None,
    edges: PathLike | Sequence[PathLike] = (),
    data_dir: str | os.PathLike[str] | None = None,
    split: SplitChoice = None,
    seed: int = 0,
    normalize_features: bool | None = None,
    download: bool = True,
    **options: Any,
) -> Dataset:
    """Load a data set by name, or from a file or folder of your own.

    Parameters
    ----------
    name
        One of :func:`names`; or the path of an ``.npz`` file, of a folder with an ``edges`` and a ``nodes``
        table (or GraphLand's files), or of a ``.gbgraph`` folder. A ``Path`` is never taken for a name.
    nodes, edges
        A node table and one or more edge tables, in place of a name; see :func:`read_tables`.
    data_dir
        Folder to look in first for the files of a known data set; then come the environment variable
        ``GBGNN_DATA``, the cache, and the public sources.
    split
        ``"public"`` (what comes with the data), ``"random"`` (sizes ``per_class``, ``n_val``, ``n_test``),
        ``"stratified"`` (fractions ``train``, ``val``, ``test`` of every class), ``"uniform"`` (of all
        nodes, whatever their class), a number (one of the data's own splits, else one of five folds), a
        NodeSplit, or the column of a node table. None takes what comes with the data, and a stratified split
        where nothing does.
    seed
        Seed of everything that is drawn.
    normalize_features
        Scale feature rows to an absolute sum of one; None does so for cora, citeseer and pubmed.
    download
        Whether missing files may be fetched.
    **options
        Arguments of the generator or reader behind the name: ``load("csbm", n_nodes=500)``.

    Examples
    --------
    >>> load("karate", split="stratified", seed=1)
    Dataset('karate', n_nodes=34, n_edges=78, n_features=34, n_classes=2, train=20, val=8, test=6)
    """
    sizes = {size: options.pop(size) for size in SIZES.get(str(split), ()) if size in options}
    key = str(name).lower()
    is_known = isinstance(name, str) and key in CATALOG and nodes is None
    make: Callable[..., Dataset]
    if nodes is not None:
        name, make = nodes, partial(read_tables, edges, nodes)
    elif is_known:
        make = _MAKERS.get(key, partial(load_planetoid, CATALOG[key], data_dir, download))
    else:
        make = _reader_of_path(name)
    check_integer("load", "seed", seed, 0)
    known = list(inspect.signature(make).parameters)
    for option in options:
        if option not in known:
            _check_size(option, split, str(name))
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise ParameterError(
                f"load({str(name)!r}) has no option {option!r}; {takes}.{suggest(option, known)}"
            )
    # Some readers choose among the splits in their files. A drawn split comes after reading, because its
    # sizes are not the reader's business.
    is_drawn = isinstance(split, NodeSplit) or split in SIZES or (split is not None and "split" not in known)
    choices: dict[str, Any] = {"split": "auto" if split is None or is_drawn else split, "seed": seed}
    dataset = make(**options, **{choice: value for choice, value in choices.items() if choice in known})
    if is_drawn:
        chosen, how = choose_split(split, dataset.y, (dataset.split,), dataset.name, seed=seed, **sizes)
        dataset = dataset.with_split(chosen, how)
    if normalize_features is None:
        normalize_features = is_known and key not in _MAKERS
    if normalize_features:
        dataset = replace(dataset, graph=dataset.graph.with_row_normalized_features())
    return dataset


def _check_size(option: str, split: SplitChoice, name: str) -> None:
    """Raise where an option is the size of another kind of split than the one that was asked for."""
    for kind, sizes in SIZES.items():
        if option in sizes:
            raise ParameterError(
                f"{option} is a size of a {kind} split; draw one with split={kind!r} (--split {kind}). "
                f"load({name!r}) was asked for {'the split of the data' if split is None else repr(split)}."
            )


def _reader_of_path(name: str | os.PathLike[str]) -> Callable[..., Dataset]:
    """Return the reader of a file or folder, which takes options only."""
    path = Path(name).expanduser()
    if path.is_dir():
        if path.suffix == ".gbgraph" or is_stored(path):
            return partial(load_dataset, path)
        if is_graphland(path):
            return partial(load_graphland, path)
        if is_plain_table_folder(path):
            return partial(read_tables, *find_tables(path))
    elif path.is_file() and path.suffix.lower() == ".npz":
        return partial(read_npz, path)
    if path.exists():
        raise DataError(
            f"{path} is not a data set: give an .npz file, a folder with an edges and a nodes table "
            "(.csv, .parquet or .feather), or a .gbgraph folder."
        )
    raise DatasetNotFoundError(
        f"no data set or path is named {str(name)!r}.{suggest(str(name).lower(), CATALOG)} "
        f"Known: {', '.join(CATALOG)}; or give the path of an .npz file, of a folder with an edges and a "
        "nodes table, or of a .gbgraph folder."
    )


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
    pairs = np.array([pair.split("-") for pair in _KARATE_FRIENDS.split()], dtype=np.int64)
    adjacency, _ = build_adjacency(pairs.T, 34)
    y = np.zeros(34, np.int64)
    y[list(_KARATE_OFFICERS)] = 1
    graph = Graph(adjacency, np.eye(34, dtype=np.float32))
    split = NodeSplit(np.array([0, 33]), test=np.arange(1, 33))
    return Dataset.from_entry(CATALOG["karate"], graph, y, split)


_MAKERS: dict[str, Callable[..., Dataset]] = {
    "digits": digits,
    "karate": karate,
    "csbm": csbm,
    "power_law": power_law,
}
