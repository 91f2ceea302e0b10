"""Graphs in one ``.npz`` file, under the names that published files give their arrays."""

from __future__ import annotations

import math
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gbgnn._memory import check_size
from gbgnn._stored import build_csr, check_text
from gbgnn.datasets.dataset import Dataset
from gbgnn.datasets.splits import SplitChoice, choose_split, find_seen, find_splits, split_keys
from gbgnn.datasets.targets import as_target
from gbgnn.errors import DataError
from gbgnn.graph import Graph
from gbgnn.tables.links import build_adjacency

Arrays = dict[str, NDArray[Any]]

_ADJACENCY, _FEATURES = ("", "adj_"), ("feat_", "attr_")
_LISTS = ("edges", "edge_index")
_WEIGHTS = ("edge_weight", "edge_weights")
_DENSE = ("feat", "features", "node_features", "attr", "x")
_LABELS = ("y", "labels", "node_labels", "label")
_NAMES = ("node_names", "class_names")
_COLUMN_NAMES = ("feat_names", "feature_names", "attr_names")
_CSR = ("data", "indices", "indptr", "shape")
_KNOWN = {
    *(f"{prefix}{part}" for prefix in (*_ADJACENCY, *_FEATURES) for part in _CSR),
    *("adj", "adj_matrix", "attr_matrix", "feat_matrix", *_LISTS, *_WEIGHTS, *_DENSE, *_LABELS, *_NAMES),
    *(*_COLUMN_NAMES, *split_keys()),
}
# What scipy.sparse.save_npz writes beside the matrix.
_MEANINGLESS = {"format", "_is_array"}


def read_npz(
    path: str | os.PathLike[str],
    *,
    features: Any = None,
    y: Any = None,
    task: str | None = None,
    split: SplitChoice = None,
    directed: bool = False,
    normalize_features: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> Dataset:
    """Read a graph from an ``.npz`` file; nothing in it is ever unpickled.

    Edges are ``indptr`` and ``indices`` (and maybe ``data``), the same with ``adj_``, or pairs of row
    numbers, ``edges`` (a row each) or ``edge_index`` (a column each), maybe with ``edge_weight``. Features
    are ``feat``, ``features``, ``node_features`` or ``x``, or the parts of a CSR matrix with ``feat_`` or
    ``attr_``, with a text per column in ``feat_names``, ``feature_names`` or ``attr_names`` as their names.
    Labels are ``y``, ``labels`` or ``node_labels``; ``node_names`` and ``class_names`` may be there. Splits
    are masks (``train_mask``, ``val_mask`` or ``valid_mask``, ``test_mask``, or ``train_masks`` ...) or row
    numbers (``train_idx`` ...), of one split or several. ``notes`` of the result names the arrays that were
    not understood. What ``scipy.sparse.save_npz`` wrote needs ``features`` and ``y`` besides.

    Parameters
    ----------
    path
        The file.
    features, y
        Features and labels, when the file has none or you have better ones.
    task
        ``"classification"`` or ``"regression"``; None finds out, see :func:`as_target`.
    split
        Number of one of several splits in the file, or as in :func:`read_tables`.
    directed
        Keep one-way edges, which lead from columns to rows, or from the first of a pair to the second;
        otherwise they are mirrored.
    normalize_features, seed, name
        As in :func:`read_tables`; the name is the file's when not given.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pair.npz")
    ...     arrays = dict(edges=[[0, 1]], node_features=[[0.5], [0.7]], node_labels=[0, 1])
    ...     np.savez(path, **arrays, train_idx=[0], latlon=[[52.5, 13.4], [48.1, 11.6]])
    ...     data = read_npz(path)
    >>> data
    Dataset('pair', n_nodes=2, n_edges=1, n_features=1, n_classes=2, train=1, val=0, test=0)
    >>> data.notes
    ('passed over latlon, which has no meaning here',)
    """
    path = Path(path)
    arrays, unknown = _load(path)
    is_ours = features is None  # what is read here nobody else can change
    ends, weights, n_nodes = _edges(arrays, unknown, path)
    features = _features(arrays, path) if features is None else features
    y = _first(arrays, _LABELS) if y is None else y
    for what, value in (("features", features), ("y", y)):
        if value is None:
            raise DataError(f"{path} holds edges but no {what}; give {what}=.")
    n_nodes = n_nodes or next(iter(np.shape(features)), 0)
    outside = [each[(each < 0) | (each >= n_nodes)] for each in ends]
    if any(map(len, outside)):
        wrong = np.concatenate(outside)[0]
        raise DataError(f"{path}: the edges name node {wrong}, but there are {n_nodes} rows of features.")
    adjacency, repairs = build_adjacency(ends, n_nodes, weights=weights, directed=directed)
    names: Any = arrays.get("class_names")
    if names is not None and names.ndim != 1:
        raise DataError(f"{path}: class_names has shape {names.shape}; expected a name for each class.")
    graph = Graph(
        adjacency,
        features,
        node_ids=arrays.get("node_names"),
        feature_names=_column_names(arrays, unknown, features) if is_ours else None,
        repairs=repairs,
        copy=not is_ours,
    )
    if normalize_features:
        graph = graph.with_row_normalized_features()
    own = find_splits(arrays.get, graph.n_nodes, str(path))
    seen = find_seen(split, own, graph.n_nodes) if len(np.shape(y)) and len(y) == graph.n_nodes else None
    target = as_target(y, f"{path}: y", task, seen=seen)
    chosen, how = choose_split(split, target.values, own, str(path), seed=seed)
    return Dataset(
        *(name or path.stem, graph, target.values, chosen, names),
        source=str(path),
        split_name=how,
        task=target.task,
        task_reason=target.reason,
        own_splits=own,
        notes=_name_unknown(unknown),
    )


def _load(path: Path) -> tuple[Arrays, list[str]]:
    """Return the arrays of known names, and the other names."""
    if not path.is_file():
        raise DataError(f"{path} is not a file.")
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path} is not an .npz archive, or only the first part of one.")
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            # Other arrays are left unread: some published files carry pickled notes beside the data.
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            known = {key: member for key, member in members.items() if key in _KNOWN}
            unpacked = sum(member.file_size for member in known.values())
            check_size(str(path), unpacked, path.stat().st_size)
            for key, member in known.items():
                try:
                    array = _read_member(archive, member)
                except ValueError as error:
                    if key in _COLUMN_NAMES:  # which a graph can do without
                        continue
                    raise DataError(
                        f"{path}: array {key!r} cannot be read without unpickling ({error}); "
                        "save it again with a plain dtype."
                    ) from error
                check_text(array, f"{path}: array {key!r}")
                arrays[key] = array
            unknown = [key for key in members if key not in {*arrays, *_MEANINGLESS}]
    except DataError:
        raise
    except Exception as error:  # zipfile, zlib, lzma and NumPy's headers have no root of what they raise
        raise DataError(f"{path} is not a readable .npz file: {error}.") from error
    return arrays, unknown


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Return an array, once its header claims no more than the archive has for it."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if math.prod(shape) * dtype.itemsize > member.file_size:
        raise ValueError(f"its header says {dtype} of shape {shape}, more than is there")
    with archive.open(member) as file:
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array


def _name_unknown(unknown: list[str]) -> list[str]:
    has = "has" if len(unknown) == 1 else "have"
    return [f"passed over {', '.join(unknown)}, which {has} no meaning here"] if unknown else []


def _first(arrays: Arrays, names: tuple[str, ...]) -> NDArray[Any] | None:
    return next((arrays[name] for name in names if name in arrays), None)


def _edges(
    arrays: Arrays, unknown: list[str], path: Path
) -> tuple[tuple[NDArray[Any], NDArray[Any]], NDArray[Any] | None, int | None]:
    """Return sources and targets of the edges, their weights, and the number of nodes where that is known."""
    matrix = next((found for p in _ADJACENCY if (found := _matrix(arrays, p, path)) is not None), None)
    if matrix is not None:
        if np.ndim(matrix) != 2 or matrix.dtype.kind not in "biuf" or matrix.shape[0] != matrix.shape[1]:
            raise DataError(
                f"{path}: the adjacency matrix is {matrix.dtype} of shape {matrix.shape}; expected a square "
                "matrix of numbers."
            )
        coo = sp.csr_array(matrix).tocoo()
        return (coo.col, coo.row), None if np.all(coo.data == 1) else coo.data, coo.shape[0]
    name = next((name for name in _LISTS if name in arrays), None)
    if name is None:
        there = ", ".join([*sorted(arrays), *unknown]) or "nothing"
        raise DataError(
            f"{path} holds {there}, and no edges: expected indptr and indices, adj_indptr and adj_indices, "
            "or edges."
        )
    pairs = arrays[name]
    if pairs.ndim != 2 or 2 not in pairs.shape or pairs.dtype.kind not in "iu":
        raise DataError(
            f"{path}: {name} holds {pairs.dtype} of shape {pairs.shape}; expected pairs of row numbers."
        )
    is_columns = pairs.shape[1] != 2 if name == "edges" else pairs.shape[0] == 2
    sources, targets = pairs if is_columns else pairs.T
    weights = _first(arrays, _WEIGHTS)
    if weights is not None and weights.size != len(sources):
        raise DataError(f"{path} holds {weights.size} edge weights for {len(sources)} edges.")
    return (sources, targets), None if weights is None else weights.reshape(-1), None


def _features(arrays: Arrays, path: Path) -> Any:
    dense = _first(arrays, _DENSE)
    if dense is not None:
        return dense
    return next((found for p in _FEATURES if (found := _matrix(arrays, p, path)) is not None), None)


def _column_names(arrays: Arrays, unknown: list[str], features: Any) -> list[str] | None:
    """Return a name per column; names that are not such are none, and among the unknown."""
    for key in filter(arrays.__contains__, _COLUMN_NAMES):
        names = arrays[key]
        is_text = names.dtype.kind == "U" and names.shape == np.shape(features)[1:]
        if is_text and len(set(names)) == len(names) and all(names):
            return list(map(str, names))
        unknown.append(key)
    return None


def _matrix(arrays: Arrays, prefix: str, path: Path) -> Any:
    """Return the dense or CSR matrix under a prefix, or None."""
    for key in (prefix.removesuffix("_"), f"{prefix}matrix"):
        if key in arrays:
            return arrays[key]
    if f"{prefix}indptr" not in arrays:
        return None
    if f"{prefix}indices" not in arrays:
        raise DataError(f"{path} lacks the array '{prefix}indices'.")
    indices, indptr = arrays[f"{prefix}indices"], arrays[f"{prefix}indptr"]
    if indices.ndim != 1 or indptr.ndim != 1 or not len(indptr):
        raise DataError(f"{path}: {prefix}indices and {prefix}indptr must be flat arrays.")
    data = arrays.get(f"{prefix}data", np.ones(len(indices), np.float32))
    shape = arrays.get(f"{prefix}shape", (len(indptr) - 1,) * 2)
    what = f"{path}: the CSR parts {prefix}* do not fit together"
    return build_csr((data, indices, indptr), shape, what, full_check=True)
