"""Graphs as NumPy arrays on disk, in the library's own folder, ``.gbgraph``."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gbgnn._stored import FORMAT, META, VERSION, Arrays, is_stored, naming_damage, read_arrays, read_meta
from gbgnn._version import __version__
from gbgnn.datasets.dataset import Dataset
from gbgnn.errors import DataError
from gbgnn.graph import Graph
from gbgnn.labels import PARTS, NodeSplit

_TEXTS = ("name", "source", "licence", "split_name")
_NEWER = ("task", "task_reason", "notes")  # which the first folders did not have


def save_dataset(dataset: Dataset, folder: str | os.PathLike[str]) -> Path:
    """Write a data set to a folder, by custom called ``something.gbgraph``; return the folder.

    The folder appears whole or not at all. One that holds an older data set is replaced, or stays as it is
    if that fails; any other folder is left alone with an error.

    Examples
    --------
    >>> from gbgnn.datasets import karate
    >>> with tempfile.TemporaryDirectory() as place:
    ...     load_dataset(save_dataset(karate(), Path(place, "karate.gbgraph")))
    Dataset('karate', n_nodes=34, n_edges=78, n_features=34, n_classes=2, train=2, val=0, test=32)
    """
    with replacing(folder) as fresh:
        write_dataset(dataset, fresh)
    return Path(folder)


@contextmanager
def replacing(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Give an empty folder to write to, beside ``folder``, of which it takes the place on success.

    The folder that it is in is there for anything else, and goes with all that is left in it.
    """
    target = Path(folder)
    if target.exists() and not is_stored(target):
        raise DataError(f"{target} exists and is not a gbgnn data set; choose another name.")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    fresh, old = scratch / "new", scratch / "old"
    try:
        fresh.mkdir()
        yield fresh
        if target.exists():
            target.rename(old)
        fresh.rename(target)
    finally:
        if old.exists() and not target.exists():
            old.rename(target)  # if even this fails, the old data set stays where the error says it is
        shutil.rmtree(scratch, ignore_errors=True)


def write_dataset(dataset: Dataset, folder: Path) -> None:
    """Write the arrays of a data set that are not yet in a folder, and the description of them all."""
    arrays, meta = _describe(dataset)
    for name, array in arrays.items():
        if not (folder / f"{name}.npy").exists():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
    (folder / META).write_text(json.dumps(meta, indent=2), encoding="utf-8")


def load_dataset(folder: str | os.PathLike[str]) -> Dataset:
    """Read a folder that :func:`save_dataset` or ``gbgnn convert`` wrote."""
    path = Path(folder)
    meta = read_meta(path)
    with naming_damage(path):
        arrays = read_arrays(path, meta)
        graph = Graph.open(path)
        split = NodeSplit(*(np.array(arrays[part]) for part in PARTS), draw=meta.get("draw", ""))
        texts = {key: meta[key] for key in _TEXTS} | {key: meta[key] for key in _NEWER if key in meta}
        texts["arrivals"] = arrays.get("arrivals")
        return Dataset(graph=graph, y=arrays["y"], split=split, class_names=meta["class_names"], **texts)


def _describe(dataset: Dataset) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of a data set, and all the rest."""
    graph = dataset.graph
    arrays = {"indptr": graph.adjacency.indptr, "indices": graph.adjacency.indices}
    if graph.is_weighted:
        arrays["weights"] = graph.adjacency.data
    if graph.features_from == "table":
        raise DataError(
            "a .gbgraph folder holds numbers; this graph has a table, whose text, categories and "
            "gaps would be lost. Keep the tables, or give Graph(adjacency, graph.features)."
        )
    X: Any = graph.features
    if sp.issparse(X):
        arrays |= {f"feature_{part}": getattr(X, part) for part in ("data", "indices", "indptr")}
    else:
        arrays["features"] = X
    ids = graph.node_ids if graph.node_ids.dtype.kind in "iuU" else graph.node_ids.astype(np.str_)
    arrays |= {"y": dataset.y, **{part: getattr(dataset, part) for part in PARTS}, "node_ids": ids}
    if dataset.arrivals is not None:
        arrays["arrivals"] = dataset.arrivals
    return arrays, {
        "format": FORMAT,
        "version": VERSION,
        "gbgnn": __version__,
        **{key: getattr(dataset, key) for key in (*_TEXTS, *_NEWER)},
        **{count: getattr(graph, count) for count in ("n_nodes", "n_edges", "n_features")},
        "directed": graph.is_directed,
        "draw": dataset.split.draw,
        "n_classes": dataset.n_classes,
        "dtype": str(graph.adjacency.dtype),
        "class_names": dataset.class_names,
        "repairs": graph.repairs,
        "arrays": {name: (str(array.dtype), array.shape) for name, array in arrays.items()},
    }
