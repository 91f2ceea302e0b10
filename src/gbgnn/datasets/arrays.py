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
    with new_folder(folder) as fresh:
        write_dataset(dataset, fresh)
    return Path(folder)


@contextmanager
def new_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Give an empty folder for a data set, which takes the place of ``folder`` in the end or not at all.

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
    """Write the arrays of a data set that are not yet in a folder, and what there is to say of all."""
    arrays, facts = _describe(dataset)
    for name, array in arrays.items():
        if not (folder / f"{name}.npy").exists():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
    write_meta(folder, facts)


def write_meta(fresh: Path, facts: Mapping[str, Any]) -> None:
    """Write what there is to say of the arrays in a folder, beside the facts that they do not tell."""
    files = {file.stem: open_array(file) for file in sorted(fresh.glob("*.npy"))}
    stored = {name: (str(array.dtype), array.shape) for name, array in files.items()}
    meta = {"format": FORMAT, "version": VERSION, "gbgnn": __version__, **facts, "arrays": stored}
    (fresh / META).write_text(json.dumps(meta, indent=2), encoding="utf-8")


def open_array(path: Path) -> NDArray[Any]:
    """Map an array of ours."""
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array.view(np.ndarray)


class ArrayWriter:
    """Writes an ``.npy`` file rows after rows, however many there will be.

    It is used in a ``with`` statement, or closed.

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
        self.path, self.dtype, self.n_rows = path, np.dtype(dtype), 0
        self._row_shape = row_shape
        self._file = path.open("wb")
        self._write_header()

    def append(self, rows: NDArray[Any]) -> None:
        """Write more rows."""
        self.n_rows += len(rows)
        np.ascontiguousarray(rows, self.dtype).tofile(self._file)

    def close(self) -> None:
        """Note how many rows there are."""
        with self._file:
            self._file.seek(0)
            self._write_header()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write_header(self) -> None:
        # NumPy leaves room in it for any number of rows.
        about = np.lib.format.header_data_from_array_1_0(np.empty((0, *self._row_shape), self.dtype))
        about["shape"] = (self.n_rows, *self._row_shape)
        np.lib.format.write_array_header_1_0(self._file, about)


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
        **{key: getattr(dataset, key) for key in (*_TEXTS, *_NEWER)},
        **{count: getattr(graph, count) for count in ("n_nodes", "n_edges", "n_features")},
        "directed": graph.is_directed,
        "draw": dataset.split.draw,
        "n_classes": dataset.n_classes,
        "dtype": str(graph.adjacency.dtype),
        "class_names": dataset.class_names,
        "repairs": graph.repairs,
    }
