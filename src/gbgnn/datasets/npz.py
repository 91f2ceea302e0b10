"""Graphs in a single .npz file: plain CSR parts, or the layout of the gnn-benchmark files."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gbgnn.datasets.dataset import Dataset, as_labels, build_adjacency
from gbgnn.datasets.splits import choose_split, splits_of_masks
from gbgnn.errors import DataError
from gbgnn.graph import Graph, NodeSplit

Arrays = dict[str, NDArray[Any]]
# Other arrays are left unread: some published files carry pickled notes beside the data.
_KNOWN = re.compile(
    r"(adj_|attr_|feat_)?(data|indices|indptr|shape)|(adj|attr)_matrix|feat|y|labels"
    r"|(train|val|test)_mask|(node|class)_names"
)


def read_npz(
    path: str | os.PathLike[str],
    *,
    features: Any = None,
    y: Any = None,
    split: str | int | NodeSplit | None = None,
    directed: bool = False,
    normalize_features: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> Dataset:
    """Read a graph from an ``.npz`` file; nothing in it is ever unpickled.

    Three layouts are known. *Plain*: ``indptr``, ``indices`` and maybe ``data``; ``feat`` (dense) or
    ``feat_data``, ``feat_indices``, ``feat_indptr``, ``feat_shape``; ``y``; ``train_mask``, ``val_mask``,
    ``test_mask`` of shape (n,) or (n, k). *gnn-benchmark*: ``adj_data``, ``adj_indices``, ``adj_indptr``,
    ``adj_shape``, the same with ``attr_`` (or dense ``attr_matrix``), ``labels``, maybe ``node_names`` and
    ``class_names``. A matrix saved by ``scipy.sparse.save_npz`` needs ``features`` and ``y`` besides.

    Parameters
    ----------
    path
        The file.
    features, y
        Features and labels, when the file has none or you have better ones.
    split
        Number of one of several masks in the file, or as in :func:`read_tables`.
    directed
        Keep one-way edges, which lead from columns to rows; otherwise they are mirrored.
    normalize_features
        Scale every feature row to an absolute sum of one.
    seed
        Seed of a drawn split.
    name
        Name of the data set; the file's name when not given.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pair.npz")
    ...     arrays = dict(indptr=[0, 1, 2], indices=[1, 0], feat=[[0.5], [0.7]], y=[0, 1])
    ...     np.savez(path, **arrays, train_mask=[True, False])
    ...     read_npz(path)
    Dataset('pair', n_nodes=2, n_edges=1, n_features=1, n_classes=2, train=1, val=0, test=0)
    """
    path = Path(path)
    arrays = _load(path)
    if {"indptr", "indices"} <= arrays.keys():
        matrix = _csr(arrays, "", path)
        own_features = _matrix(arrays, "feat", path)
        labels: Any = arrays.get("y")
    elif "adj_indptr" in arrays or "adj_matrix" in arrays:
        matrix = _matrix(arrays, "adj", path)
        own_features = _matrix(arrays, "attr", path)
        labels = arrays.get("labels")
    else:
        raise DataError(
            f"{path} holds {', '.join(sorted(arrays)) or 'nothing'}; expected indptr and indices, "
            "or adj_indptr and adj_indices."
        )
    features = own_features if features is None else features
    labels = labels if y is None else y
    for what, value in (("features", features), ("y", labels)):
        if value is None:
            raise DataError(f"{path} holds an adjacency matrix but no {what}; give {what}=.")
    coo = matrix.tocoo()
    weights = None if np.all(coo.data == 1) else coo.data
    adjacency, repairs = build_adjacency(
        coo.col, coo.row, matrix.shape[0], weights=weights, directed=directed
    )
    graph = Graph(
        adjacency,
        features,
        node_ids=arrays.get("node_names"),
        repairs=repairs,
        copy=features is not own_features,  # what was read here nobody else can change
    )
    if normalize_features:
        graph = graph.with_row_normalized_features()
    codes = as_labels(labels, f"{path}: labels")
    own = splits_of_masks(arrays.get, graph.n_nodes, str(path))
    chosen, how = choose_split(split, codes, own, str(path), seed=seed)
    names = arrays.get("class_names")
    return Dataset(
        name or path.stem,
        graph,
        codes,
        chosen,
        None if names is None else [str(each) for each in names],
        source=str(path),
        split_name=how,
    )


def _load(path: Path) -> Arrays:
    if not path.is_file():
        raise DataError(f"{path} is not a file.")
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path} is not an .npz archive, or only the first part of one.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: _read_member(archive, key, path) for key in archive.files if _KNOWN.fullmatch(key)}
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a readable .npz file: {error}.") from error


def _read_member(archive: Any, key: str, path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = archive[key]
    except ValueError as error:
        raise DataError(
            f"{path}: array {key!r} cannot be read without unpickling ({error}); "
            "save it again with a plain dtype."
        ) from error
    return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array


def _matrix(arrays: Arrays, prefix: str, path: Path) -> Any:
    """Return the dense or CSR matrix under a prefix, or None."""
    for key in (prefix, f"{prefix}_matrix"):
        if key in arrays:
            dense = arrays[key]
            return sp.csr_array(dense) if prefix == "adj" else dense
    return _csr(arrays, f"{prefix}_", path) if f"{prefix}_indptr" in arrays else None


def _csr(arrays: Arrays, prefix: str, path: Path) -> sp.csr_array:
    try:
        indices, indptr = arrays[f"{prefix}indices"], arrays[f"{prefix}indptr"]
    except KeyError as error:
        raise DataError(f"{path} lacks the array {error}.") from None
    if indices.ndim != 1 or indptr.ndim != 1 or not len(indptr):
        raise DataError(f"{path}: {prefix}indices and {prefix}indptr must be flat arrays.")
    data = arrays.get(f"{prefix}data", np.ones(len(indices), np.float32))
    shape = arrays.get(f"{prefix}shape", (len(indptr) - 1,) * 2)
    try:
        matrix = sp.csr_array((data, indices, indptr), shape=tuple(int(n) for n in shape))
        matrix.check_format(full_check=True)
    except (TypeError, ValueError) as error:
        raise DataError(f"{path}: the CSR parts {prefix}* do not fit together: {error}.") from error
    return matrix
