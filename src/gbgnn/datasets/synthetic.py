"""Graphs drawn at random: csbm with edges spread evenly, power_law with hubs and of any size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn._checks import check_integer, check_number
from gbgnn._matrices import csr_of_parts
from gbgnn.datasets.arrays import ArrayWriter, load_dataset, new_folder, write_meta
from gbgnn.datasets.catalog import CATALOG
from gbgnn.datasets.chung_lu import ChungLu, derive_seed
from gbgnn.datasets.dataset import Dataset
from gbgnn.datasets.splits import random_split, uniform_split
from gbgnn.errors import ParameterError
from gbgnn.graph import Graph
from gbgnn.labels import PARTS, NodeSplit
from gbgnn.tables.links import build_adjacency

_NUMBERS = 1 << 24  # features drawn at once


def csbm(
    n_nodes: int = 1000,
    n_classes: int = 2,
    homophily: float = 0.8,
    mean_degree: float = 10.0,
    n_features: int = 16,
    separation: float = 1.0,
    per_class: int = 20,
    n_val: int | None = None,
    n_test: int | None = None,
    *,
    seed: int = 0,
) -> Dataset:
    """Draw a graph whose edges and features both hint at the class of a node.

    Classes have equal sizes, give or take one. Distinct edges are drawn uniformly among the pairs of
    equal class and among the pairs of unequal class; features are Gaussian around the mean of the
    class. Time and memory grow with nodes plus edges.

    Parameters
    ----------
    n_nodes, n_classes, n_features
        Sizes; at least ``2 * n_classes`` nodes, 2 classes and 1 feature.
    homophily
        Share of edges that join nodes of one class, in [0, 1]. ``1 / n_classes`` says nothing about the
        class; below it, neighbours tend to differ.
    mean_degree
        Mean number of neighbours, >= 0.
    separation
        Distance of each class mean from the origin, in standard deviations of the noise; at 0 the
        features say nothing.
    per_class, n_val, n_test
        As in :func:`random_split`; ``n_val=None`` takes a fifth of the nodes, ``n_test=None`` the rest.
    seed
        Same seed, same data.

    Examples
    --------
    >>> csbm(n_nodes=200, mean_degree=6, seed=1)
    Dataset('csbm', n_nodes=200, n_edges=600, n_features=16, n_classes=2, train=40, val=40, test=120)
    """
    check_integer("csbm", "n_classes", n_classes, 2)
    check_integer("csbm", "n_nodes", n_nodes, 2 * n_classes)
    check_integer("csbm", "n_features", n_features, 1)
    check_number("csbm", "homophily", homophily, 0, 1)
    check_number("csbm", "mean_degree", mean_degree, 0)
    check_number("csbm", "separation", separation, 0)
    check_integer("csbm", "seed", seed, 0)
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_nodes) % n_classes)
    n_edges = round(n_nodes * mean_degree / 2)
    n_same = round(homophily * n_edges)
    same = _distinct_edges(n_same, y, True, rng)
    keys = np.concatenate([same, _distinct_edges(n_edges - n_same, y, False, rng)])
    adjacency, _ = build_adjacency(np.divmod(keys, n_nodes), n_nodes)
    means = rng.standard_normal((n_classes, n_features), dtype=np.float32)
    means *= separation / np.linalg.norm(means, axis=1, keepdims=True)
    features = rng.standard_normal((n_nodes, n_features), dtype=np.float32)
    features += means[y]
    val = n_nodes // 5 if n_val is None else n_val
    split = random_split(y, per_class, val, n_test, seed=seed)
    return Dataset.from_entry(CATALOG["csbm"], Graph(adjacency, features), y, split, f"random, seed {seed}")


def _distinct_edges(
    n_edges: int, y: NDArray[np.int64], same: bool, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw distinct edges between nodes of equal or unequal class, as ``low * n_nodes + high``."""
    n_nodes, sizes = len(y), np.bincount(y)
    n_within = int((sizes * (sizes - 1) // 2).sum())
    n_pairs = n_within if same else n_nodes * (n_nodes - 1) // 2 - n_within
    if n_edges > n_pairs // 2:
        raise ParameterError(
            f"csbm needs {n_edges} edges between nodes of {'equal' if same else 'unequal'} class, more than "
            f"half of the {n_pairs} such pairs; lower mean_degree or raise n_nodes."
        )
    # With the nodes sorted by class, a partner of equal or unequal class is one random number away.
    order, starts = np.argsort(y, kind="stable"), np.cumsum(sizes) - sizes
    keys = np.empty(0, np.int64)
    while len(keys) < n_edges:  # repeats are drawn again
        ends = rng.integers(n_nodes, size=(n_edges - len(keys)) * 5 // 4 + 16)
        start, size = starts[y[ends]], sizes[y[ends]]
        place = rng.integers(size if same else n_nodes - size)
        partners = order[start + place if same else np.where(place < start, place, place + size)]
        low, high = np.minimum(ends, partners), np.maximum(ends, partners)
        # Sorting beats np.unique, which hashes and is several times slower on millions of integers.
        keys = np.sort(np.concatenate([keys, (low * n_nodes + high)[low != high]]))
        keys = keys[np.diff(keys, prepend=-1) > 0]
    # Sorted keys cut at the end would favour low node numbers.
    return rng.permutation(keys)[:n_edges]


def power_law(
    n_nodes: int = 10_000,
    mean_degree: float = 20.0,
    n_features: int = 32,
    n_classes: int = 5,
    homophily: float = 0.7,
    exponent: float = 2.5,
    separation: float = 1.0,
    train: float = 0.1,
    val: float = 0.1,
    test: float | None = None,
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: str | os.PathLike[str] | None = None,
) -> Dataset:
    r"""Draw a graph of any size with hubs: degrees follow a power law, and labels need features and edges.

    Both ends of an edge are drawn by weights of the nodes (Chung and Lu's model), repeats and self loops
    left out; a share of the edges stays within a class. Features are Gaussian around the mean of the class,
    too spread out to tell it alone: a learner needs those of the neighbours as well.

    Beside the arrays of the data set, which take 8 bytes per node and 8 per entry (an edge has two) and 4 per
    feature of a node, drawing holds some 80 bytes per node, most of it for the split, and at most half a
    gigabyte. With a ``folder`` the edges and the features are written there as they are drawn, 4 bytes per
    entry and per feature, and read back as mapped files; only weights, which are all one, are made in memory
    then, 4 bytes per entry.

    Parameters
    ----------
    n_nodes, n_features, n_classes
        Sizes; at least 2 classes and 1 feature, at most two billion nodes.
    mean_degree
        Mean number of neighbours, above 0; the graph's own differs by a percent or less.
    homophily
        Share of edges that join nodes of one class, in [0, 1].
    exponent
        Of the tail of degrees, :math:`P(d) \sim d^{-\gamma}`, above 2. The smaller, the larger the hubs,
        which know at most a quarter as many nodes as a class has.
    separation
        Distance of each class mean from the origin, in standard deviations of the noise.
    train, val, test
        As in :func:`uniform_split`.
    seed
        Same seed, same bytes, in memory and in a folder; other devices draw other numbers.
    device
        Where numbers are drawn and sorted, ``"cpu"`` or ``"cuda"``.
    folder
        Where to write the data set, by custom called ``something.gbgraph``; None keeps it in memory.

    Examples
    --------
    >>> power_law(n_nodes=2000, mean_degree=10, seed=1)
    Dataset('power_law', n_nodes=2000, n_edges=..., n_features=32, n_classes=5, train=200, val=200, test=1600)
    """
    check_integer("power_law", "n_classes", n_classes, 2)
    check_integer("power_law", "n_nodes", n_nodes, 2 * n_classes, np.iinfo(np.int32).max)
    check_integer("power_law", "n_features", n_features, 1)
    check_number("power_law", "mean_degree", mean_degree, 0, open_low=True)
    check_number("power_law", "homophily", homophily, 0, 1)
    check_number("power_law", "exponent", exponent, 2, open_low=True)
    check_number("power_law", "separation", separation, 0)
    check_integer("power_law", "seed", seed, 0)
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ParameterError(f"power_law.device={device!r} cannot be used: {error}.") from error
    n_edges = max(1, round(n_nodes * mean_degree / 2))
    edges = ChungLu(n_nodes, n_edges, n_classes, homophily, exponent, seed, device)
    y = edges.classes()
    split = uniform_split(y, train, val, test, seed=seed)
    features = _draw_features(y, n_features, n_classes, separation, seed, device)
    if folder is None:
        graph = _keep(edges, features, n_features)
        return Dataset.from_entry(CATALOG["power_law"], graph, y, split, f"uniform, seed {seed}")
    _write(Path(folder), edges, features, n_features, y, split)
    return load_dataset(folder)


def _draw_features(
    y: NDArray[np.int64], n_features: int, n_classes: int, separation: float, seed: int, device: str
) -> Iterator[NDArray[np.float32]]:
    """Yield the features of all nodes, some rows at a time."""
    random = torch.Generator(device).manual_seed(derive_seed(seed, 1))
    means = torch.randn((n_classes, n_features), generator=random, device=device)
    means *= separation / torch.linalg.vector_norm(means, dim=1, keepdim=True)
    for classes in torch.from_numpy(y).split(max(1, _NUMBERS // n_features)):
        X = torch.randn((len(classes), n_features), generator=random, device=device)
        yield X.add_(means[classes.to(device)]).cpu().numpy()


def _keep(edges: ChungLu, features: Iterator[NDArray[np.float32]], n_features: int) -> Graph:
    """Return the graph in memory."""
    n_nodes = edges.n_nodes
    X = np.empty((n_nodes, n_features), np.float32)
    start = 0
    for drawn in features:
        X[start : start + len(drawn)] = drawn
        start += len(drawn)
    indptr, blocks = np.zeros(n_nodes + 1, np.int64), []
    for block in range(edges.n_blocks):
        rows = edges.rows(block)
        ends, columns = edges.entries(block)
        indptr[rows.start + 1 : rows.stop + 1] = indptr[rows.start] + ends
        blocks.append(columns)
    indices = np.concatenate(blocks)
    parts = (np.ones(len(indices), np.float32), indices, indptr)
    adjacency = csr_of_parts(parts, (n_nodes, n_nodes), "the drawn edges", look_at_indices=False)
    return Graph(adjacency, X, copy=False)


def _write(
    folder: Path,
    edges: ChungLu,
    features: Iterator[NDArray[np.float32]],
    n_features: int,
    y: NDArray[np.int64],
    split: NodeSplit,
) -> None:
    """Write the data set as :func:`~gbgnn.datasets.save_dataset` does, never all of it in memory."""
    n_nodes, entry, n_entries = edges.n_nodes, CATALOG["power_law"], 0
    with new_folder(folder) as fresh:
        with (
            ArrayWriter(fresh / "indptr.npy", np.int64) as pointers,
            ArrayWriter(fresh / "indices.npy", np.int32) as indices,
        ):
            pointers.append(np.zeros(1))
            for block in range(edges.n_blocks):
                ends, columns = edges.entries(block)
                pointers.append(n_entries + ends)
                indices.append(columns)
                n_entries += len(columns)
        with ArrayWriter(fresh / "features.npy", np.float32, (n_features,)) as table:
            for drawn in features:
                table.append(drawn)
        small: dict[str, Any] = {part: getattr(split, part) for part in PARTS}
        for name, array in (small | {"y": y, "node_ids": np.arange(n_nodes)}).items():
            np.save(fresh / f"{name}.npy", array, allow_pickle=False)
        facts: dict[str, Any] = {
            **{"name": entry.name, "source": entry.source, "licence": entry.licence},
            **{"split_name": f"uniform, seed {edges.seed}", "draw": split.draw},
            **{"n_nodes": n_nodes, "n_edges": n_entries // 2, "n_features": n_features, "directed": False},
            **{"n_classes": edges.n_classes, "class_names": None, "dtype": "float32", "repairs": []},
        }
        write_meta(fresh, facts)
