"""The library's own folder format: plain .npy arrays beside a JSON description."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gbgnn._version import __version__
from gbgnn.datasets.dataset import Dataset
from gbgnn.errors import DataError, GraphError
from gbgnn.graph import Graph, NodeSplit

FORMAT = "gbgnn dataset"
VERSION = 1
META = "meta.json"
_ARRAYS = {
    *("indptr", "indices", "weights", "features", "feature_data", "feature_indices", "feature_indptr"),
    *("y", "train", "val", "test", "node_ids"),
}
_TEXTS = ("name", "source", "licence", "split_name")


def save_dataset(dataset: Dataset, folder: str | os.PathLike[str]) -> Path:
    """Write a data set to a folder, by custom called ``something.gbgraph``; return the folder.

    The folder appears whole or not at all. One that holds an older data set is replaced; any other
    folder is left alone with an error.

    Examples
    --------
    >>> from gbgnn.datasets import karate
    >>> with tempfile.TemporaryDirectory() as place:
    ...     load_dataset(save_dataset(karate(), Path(place, "karate.gbgraph")))
    Dataset('karate', n_nodes=34, n_edges=78, n_features=34, n_classes=2, train=2, val=0, test=32)
    """
    target = Path(folder)
    if target.exists() and not is_stored(target):
        raise DataError(f"{target} exists and is not a gbgnn data set; choose another name.")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    fresh, old = scratch / "new", scratch / "old"
    try:
        fresh.mkdir()
        arrays = _arrays(dataset)
        for name, array in arrays.items():
            np.save(fresh / f"{name}.npy", array, allow_pickle=False)
        text = json.dumps(_meta(dataset, arrays), indent=2)
        (fresh / META).write_text(text, encoding="utf-8")
        if target.exists():
            target.rename(old)
        fresh.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def load_dataset(folder: str | os.PathLike[str]) -> Dataset:
    """Read a folder that :func:`save_dataset` wrote."""
    path = Path(folder)
    meta = _read_meta(path)
    try:
        stored = meta["arrays"]
        strange = sorted(set(stored) - _ARRAYS)
        if strange:
            raise DataError(f"{path} is damaged: {META} names the unknown array {strange[0]!r}.")
        arrays = {name: _read_array(path, name, stored[name]) for name in stored}
        return _assemble(meta, arrays)
    except (KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: {META} or an array lacks {error}.") from error


def is_stored(folder: Path) -> bool:
    """Whether a folder looks like one that :func:`save_dataset` wrote."""
    try:
        return bool(_read_meta(folder))
    except DataError:
        return False


def _arrays(dataset: Dataset) -> dict[str, NDArray[Any]]:
    graph, split = dataset.graph, dataset.split
    arrays = {"indptr": graph.adjacency.indptr, "indices": graph.adjacency.indices}
    if graph.is_weighted:
        arrays["weights"] = graph.adjacency.data
    X: Any = graph.features
    if sp.issparse(X):
        arrays |= {"feature_data": X.data, "feature_indices": X.indices, "feature_indptr": X.indptr}
    else:
        arrays["features"] = X
    ids = graph.node_ids if graph.node_ids.dtype.kind in "iuU" else graph.node_ids.astype(np.str_)
    return arrays | {
        "y": dataset.y,
        **{part: getattr(split, part) for part in ("train", "val", "test")},
        "node_ids": ids,
    }


def _meta(dataset: Dataset, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    graph = dataset.graph
    names = dataset.class_names
    return {
        "format": FORMAT,
        "version": VERSION,
        "gbgnn": __version__,
        **{key: getattr(dataset, key) for key in _TEXTS},
        **{count: getattr(graph, count) for count in ("n_nodes", "n_edges", "n_features")},
        "n_classes": dataset.n_classes,
        "dtype": str(graph.adjacency.dtype),
        "class_names": None if names is None else list(names),
        "repairs": list(graph.repairs),
        "arrays": {name: [str(array.dtype), list(array.shape)] for name, array in arrays.items()},
    }


def _read_meta(path: Path) -> dict[str, Any]:
    file = path / META
    if not file.is_file():
        raise DataError(f"{path} is not a gbgnn data set: it has no {META}.")
    try:
        meta = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{file} is damaged: {error}.") from error
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise DataError(f"{file} does not describe a gbgnn data set.")
    version = meta.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise DataError(
            f"{path} has format version {version}, written by gbgnn {meta.get('gbgnn')}; this gbgnn "
            f"({__version__}) reads up to version {VERSION}. Upgrade gbgnn or save it again."
        )
    return meta


def _read_array(path: Path, name: str, described: list[Any]) -> NDArray[Any]:
    file = path / f"{name}.npy"
    try:
        array: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{file} is missing or damaged: {error}.") from error
    if [str(array.dtype), list(array.shape)] != described:
        raise DataError(
            f"{file} holds {array.dtype} of shape {array.shape}, but {META} says {described[0]} of shape "
            f"{tuple(described[1])}."
        )
    return array


def _assemble(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Dataset:
    n_nodes = meta["n_nodes"]
    weights = arrays.get("weights")
    if weights is None:
        weights = np.ones(len(arrays["indices"]), dtype=meta["dtype"])
    adjacency = _csr(weights, arrays["indices"], arrays["indptr"], (n_nodes, n_nodes), "edges")
    if "features" in arrays:
        features: Any = np.asarray(arrays["features"])  # a plain array as it was saved, though on disk
    else:
        data, indices, indptr = (arrays[f"feature_{part}"] for part in ("data", "indices", "indptr"))
        features = _csr(data, indices, indptr, (n_nodes, meta["n_features"]), "features")
    try:  # the arrays are ours: nothing to copy, and what is mapped stays on disk
        graph = Graph(adjacency, features, node_ids=arrays["node_ids"], repairs=meta["repairs"], copy=False)
    except GraphError as error:
        what = str(error).split()[0].strip(":").replace("adjacency", "edges")  # it begins with the argument
        raise DataError(f"the stored {what} do not fit together: {error}") from error
    split = NodeSplit(*(np.array(arrays[part]) for part in ("train", "val", "test")))
    texts = {key: meta[key] for key in _TEXTS}
    return Dataset(graph=graph, y=arrays["y"], split=split, class_names=meta["class_names"], **texts)


def _csr(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    shape: tuple[int, int],
    what: str,
) -> sp.csr_array:
    try:
        return sp.csr_array((data, indices, indptr), shape=shape)  # Graph looks at the indices
    except ValueError as error:
        raise DataError(f"the stored {what} do not fit together: {error}.") from error
