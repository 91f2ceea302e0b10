"""Graphs as NumPy arrays on disk, in the library's own folder, ``.gbgraph``."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gbgnn._version import __version__
from gbgnn.datasets.dataset import Dataset, build_csr, check_text
from gbgnn.errors import DataError, GBGNNError, GraphError
from gbgnn.graph import Graph
from gbgnn.labels import PARTS, NodeSplit

Arrays = dict[str, NDArray[Any]]
FORMAT = "gbgnn dataset"
VERSION = 1
META = "meta.json"
_STORED = {
    *("indptr", "indices", "weights", "features", "feature_data", "feature_indices", "feature_indptr"),
    *("y", *PARTS, "node_ids", "arrivals"),
}
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
    with new_folder(folder) as fresh:
        arrays, facts = _describe(dataset)
        for name, array in arrays.items():
            np.save(fresh / f"{name}.npy", array, allow_pickle=False)
        write_meta(fresh, facts)
    return Path(folder)


@contextmanager
def new_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Give an empty folder for a data set, which takes the place of ``folder`` in the end or not at all."""
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


def write_meta(fresh: Path, facts: Mapping[str, Any]) -> None:
    """Write what there is to say of the arrays in a folder, beside the facts that they do not tell."""
    files = {file.stem: np.load(file, mmap_mode="r") for file in sorted(fresh.glob("*.npy"))}
    stored = {name: (str(array.dtype), array.shape) for name, array in files.items()}
    meta = {"format": FORMAT, "version": VERSION, "gbgnn": __version__, **facts, "arrays": stored}
    (fresh / META).write_text(json.dumps(meta, indent=2), encoding="utf-8")


class ArrayWriter:
    """Writes an ``.npy`` file rows after rows, however many there will be; used in a ``with`` statement.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with ArrayWriter(Path(place, "x.npy"), np.float32, (2,)) as writer:
    ...         writer.append(np.zeros((3, 2)))
    ...         writer.append(np.ones((1, 2)))
    ...     np.load(Path(place, "x.npy")).shape
    (4, 2)
    """

    def __init__(self, path: Path, dtype: Any, row_shape: tuple[int, ...] = ()) -> None:
        self._path, self._dtype, self._row_shape, self._n_rows = path, np.dtype(dtype), row_shape, 0

    def __enter__(self) -> Self:
        self._file = self._path.open("wb")
        self._write_header()
        return self

    def append(self, rows: NDArray[Any]) -> None:
        """Write more rows."""
        self._n_rows += len(rows)
        self._file.write(np.ascontiguousarray(rows, self._dtype).data.cast("B"))

    def __exit__(self, *_: object) -> None:
        with self._file:
            self._file.seek(0)
            self._write_header()

    def _write_header(self) -> None:
        # NumPy leaves room in it for any number of rows.
        about = np.lib.format.header_data_from_array_1_0(np.empty((0, *self._row_shape), self._dtype))
        about["shape"] = (self._n_rows, *self._row_shape)
        np.lib.format.write_array_header_1_0(self._file, about)


def load_dataset(folder: str | os.PathLike[str]) -> Dataset:
    """Read a folder that :func:`save_dataset` wrote."""
    path = Path(folder)
    meta = _read_meta(path)
    try:
        strange = sorted(set(meta["arrays"]) - _STORED)
        if strange:
            raise DataError(f"{path} is damaged: {META} names the unknown array {strange[0]!r}.")
        arrays = {name: _read_array(path, name, described) for name, described in meta["arrays"].items()}
        graph = _stored_graph(meta, arrays)
        split = NodeSplit(*(np.array(arrays[part]) for part in PARTS), draw=meta.get("draw", ""))
        texts = {key: meta[key] for key in _TEXTS} | {key: meta[key] for key in _NEWER if key in meta}
        texts["arrivals"] = arrays.get("arrivals")
        return Dataset(graph=graph, y=arrays["y"], split=split, class_names=meta["class_names"], **texts)
    except GBGNNError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise DataError(f"{path} is damaged: {META} or an array lacks {error}.") from error


def is_stored(folder: Path) -> bool:
    """Whether a folder looks like one that :func:`save_dataset` wrote."""
    try:
        return bool(_read_meta(folder))
    except DataError:
        return False


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
        **{key: getattr(dataset, key) for key in (*_TEXTS, *_NEWER)},
        **{count: getattr(graph, count) for count in ("n_nodes", "n_edges", "n_features")},
        "draw": dataset.split.draw,
        "n_classes": dataset.n_classes,
        "dtype": str(graph.adjacency.dtype),
        "class_names": dataset.class_names,
        "repairs": graph.repairs,
    }


def _read_meta(path: Path) -> dict[str, Any]:
    file = path / META
    if not file.is_file():
        raise DataError(f"{path} is not a gbgnn data set: it has no {META}.")
    try:
        meta = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
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
        if not file.is_file():  # a pipe would keep its reader waiting for ever
            raise OSError("it is no file")
        array: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # NumPy reads headers with Python's own parser
        raise DataError(f"{file} is missing or damaged: {error}.") from error
    check_text(array, str(file))
    if not isinstance(described, list) or len(described) != 2:
        raise DataError(f"{path} is damaged: {META} does not say what {name} holds.")
    if [str(array.dtype), list(array.shape)] != described:
        raise DataError(
            f"{file} holds {array.dtype} of shape {array.shape}, but {META} says {described[0]} of shape "
            f"{described[1]}."
        )
    return array


def _stored_graph(meta: dict[str, Any], arrays: Arrays) -> Graph:
    n_nodes = meta["n_nodes"]
    weights = arrays.get("weights")
    if weights is None:
        if meta["dtype"] not in ("float32", "float64"):
            raise DataError(f"{META} is damaged: weights cannot be {meta['dtype']!r}.")
        weights = np.ones(len(arrays["indices"]), dtype=meta["dtype"])
    # Graph looks at the indices.
    what = "the stored {} do not fit together"
    edges = (weights, arrays["indices"], arrays["indptr"])
    adjacency = build_csr(edges, (n_nodes, n_nodes), what.format("edges"), full_check=False)
    if "features" in arrays:
        features: Any = np.asarray(arrays["features"])  # a plain array as it was saved, though on disk
    else:
        data, indices, indptr = (arrays[f"feature_{part}"] for part in ("data", "indices", "indptr"))
        shape = (n_nodes, meta["n_features"])
        features = build_csr((data, indices, indptr), shape, what.format("features"), full_check=False)
    try:  # the arrays are ours: nothing to copy, and what is mapped stays on disk
        return Graph(adjacency, features, node_ids=arrays["node_ids"], repairs=meta["repairs"], copy=False)
    except GraphError as error:
        argument = str(error).split()[0].strip(":").replace("adjacency", "edges")  # it begins with that
        raise DataError(f"{what.format(argument)}: {error}") from error
