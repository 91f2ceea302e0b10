"""The form of a graph on disk, a folder of NumPy's arrays and a description: read, checked, mapped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gbgnn._arrays import constant, release, split_blocks
from gbgnn._matrices import Features, csr_of_parts
from gbgnn._version import __version__
from gbgnn.errors import DataError, GBGNNError, GraphError

PathLike = str | os.PathLike[str]
Arrays = dict[str, NDArray[Any]]

FORMAT, VERSION, META = "gbgnn dataset", 1, "meta.json"
_OF_GRAPH = ("indptr", "indices", "weights", "features", "feature_data", "feature_indices", "feature_indptr")
_OF_NODES = ("y", "train", "val", "test", "node_ids", "arrivals")
_WRONG = "the stored {} do not fit together"
_LAST_SIGN, _SURROGATES = 0x10FFFF, (0xD800, 0xDFFF)  # of Unicode


class StoredGraph(NamedTuple):
    """What :class:`~gbgnn.Graph` is built of, mapped; ``is_directed`` is None where nobody noted it."""

    adjacency: sp.csr_array
    features: Features
    node_ids: NDArray[Any]
    repairs: list[str]
    is_directed: bool | None


def read_graph_folder(folder: PathLike) -> StoredGraph:
    """Return the parts of a stored graph; the indices are yet to be looked at, which ``Graph`` does."""
    path = Path(folder)
    meta = read_meta(path)
    with naming_damage(path):
        arrays = read_arrays(path, meta, (*_OF_GRAPH, "node_ids"))
        n_nodes, weights, indices = meta["n_nodes"], arrays.get("weights"), arrays["indices"]
        if weights is None:
            if meta["dtype"] not in ("float32", "float64"):
                raise DataError(f"{META} is damaged: weights cannot be {meta['dtype']!r}.")
            weights = constant(1, len(indices), meta["dtype"])
        edges = (weights, indices, arrays["indptr"])
        adjacency = build_csr(edges, (n_nodes, n_nodes), _WRONG.format("edges"), full_check=False)
        if "features" in arrays:
            features: Any = arrays["features"]
        else:
            data, columns, pointers = (arrays[f"feature_{part}"] for part in ("data", "indices", "indptr"))
            shape = (n_nodes, meta["n_features"])
            features = build_csr(
                (data, columns, pointers), shape, _WRONG.format("features"), full_check=False
            )
        directed = meta.get("directed")
        is_directed = directed if isinstance(directed, bool) else None
        return StoredGraph(adjacency, features, arrays["node_ids"], meta["repairs"], is_directed)


@contextmanager
def naming_damage(path: Path) -> Iterator[None]:
    """Say of what folder it is that something is missing or of another kind than it should be."""
    try:
        yield
    except GraphError as error:
        argument = str(error).split()[0].strip(":").replace("adjacency", "edges")  # it begins with that
        raise DataError(f"{path}: {_WRONG.format(argument)}: {error}") from error
    except GBGNNError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise DataError(f"{path} is damaged: {META} or an array lacks {error}.") from error


def is_stored(folder: Path) -> bool:
    """Whether a folder looks like one with a stored graph."""
    try:
        return bool(read_meta(folder))
    except DataError:
        return False


def read_meta(path: Path) -> dict[str, Any]:
    """Return the description of a stored graph, or say that there is none."""
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


def read_arrays(path: Path, meta: dict[str, Any], names: tuple[str, ...] = _OF_NODES) -> Arrays:
    """Map those of some arrays that are there, their headers and sizes checked."""
    described = meta["arrays"]
    strange = sorted(set(described) - {*_OF_GRAPH, *_OF_NODES})
    if strange:
        raise DataError(f"{path} is damaged: {META} names the unknown array {strange[0]!r}.")
    return {name: _read_array(path, name, described[name]) for name in names if name in described}


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
    return array.view(np.ndarray)  # a plain array as it was saved, though on disk


def build_csr(parts: tuple[Any, Any, Any], shape: Any, wrong: str, *, full_check: bool) -> sp.csr_array:
    """Return the matrix of data, indices and row pointers out of a file, or say that they are ``wrong``."""
    try:
        return csr_of_parts(parts, shape, "the matrix", look_at_indices=full_check)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{wrong}: {str(error).rstrip('.')}.") from error


def check_text(array: NDArray[Any], where: str) -> None:
    """Raise where text holds numbers that stand for no sign, of which Python makes no string."""
    if array.dtype.kind != "U" or not array.size or not array.dtype.itemsize:
        return
    code = np.dtype(np.uint32).newbyteorder(array.dtype.byteorder)
    rows = array.reshape(-1)
    for start, stop in split_blocks(rows):
        codes = np.ascontiguousarray(rows[start:stop]).view(code)
        is_wrong = codes.max() > _LAST_SIGN or ((codes >= _SURROGATES[0]) & (codes <= _SURROGATES[1])).any()
        release(rows)
        if is_wrong:
            raise DataError(f"{where} holds what is no text.")
