"""Dataset: a graph with labels and a split; and ids, edges and labels as they arrive, made into arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from gbgnn.datasets.catalog import Entry
from gbgnn.errors import DataError
from gbgnn.graph import PARTS, Graph, NodeSplit


@dataclass(frozen=True, eq=False)
class Dataset:
    """A graph, one label per node, and the training, validation and test nodes.

    Parameters
    ----------
    name
        What to call it in reports.
    graph
        The nodes, edges and features.
    y
        One label per node, integers or strings. Nodes without a label hold -1 (or ``""``) and may not
        be in the split.
    split
        The training, validation and test nodes.
    class_names
        Names of the integer classes: ``class_names[k]`` is class ``k``.
    source, licence
        Where the data comes from and on which terms.
    split_name
        How the split was made, for reports: ``"public"``, ``"stratified, seed 0"``.

    Examples
    --------
    >>> graph = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], [[1.0], [2.0], [3.0]])
    >>> Dataset("path", graph, np.array([0, 1, 1]), NodeSplit([0, 1], test=[2]))
    Dataset('path', n_nodes=3, n_edges=2, n_features=1, n_classes=2, train=2, val=0, test=1)
    """

    name: str
    graph: Graph
    y: NDArray[Any]
    split: NodeSplit
    class_names: Sequence[str] | None = None
    source: str = ""
    licence: str = ""
    split_name: str = ""

    def __post_init__(self) -> None:
        y = as_labels(self.y, f"{self.name}: y").copy()
        y.flags.writeable = False
        object.__setattr__(self, "y", y)
        if self.class_names is not None:
            object.__setattr__(self, "class_names", tuple(map(str, self.class_names)))
        if len(y) != self.graph.n_nodes:
            raise DataError(
                f"{self.name}: y has {len(y)} labels but the graph has {self.graph.n_nodes} nodes; "
                "give one label per node."
            )
        self.split.check(self.graph.n_nodes)
        for part in PARTS:
            nodes = getattr(self, part)
            bare = nodes[~is_labelled(y[nodes])]
            if len(bare):
                raise DataError(
                    f"{self.name}: {part} holds {len(bare)} nodes without a label (first: node "
                    f"{bare[0]}); leave them out of the split."
                )
        if self.class_names is not None and y.dtype.kind == "i" and y.max() >= len(self.class_names):
            raise DataError(
                f"{self.name}: class_names has {len(self.class_names)} names but y holds class {y.max()}; "
                "give one name per class."
            )

    @classmethod
    def from_entry(
        cls, entry: Entry, graph: Graph, y: NDArray[Any], split: NodeSplit, split_name: str = "public"
    ) -> Dataset:
        """Return a data set of the catalogue, which knows its name, classes, source and licence."""
        return cls(entry.name, graph, y, split, entry.class_names, entry.source, entry.licence, split_name)

    @property
    def train(self) -> NDArray[np.int64]:
        """Ids of the training nodes."""
        return self.split.train

    @property
    def val(self) -> NDArray[np.int64]:
        """Ids of the validation nodes."""
        return self.split.val

    @property
    def test(self) -> NDArray[np.int64]:
        """Ids of the test nodes."""
        return self.split.test

    @property
    def classes(self) -> NDArray[Any]:
        """The distinct labels, sorted, without the mark for unlabelled nodes."""
        return np.unique(self.y[is_labelled(self.y)])

    @property
    def n_classes(self) -> int:
        """Number of distinct labels."""
        return len(self.classes)

    def with_split(self, split: NodeSplit, split_name: str = "") -> Dataset:
        """Return the same data with another split."""
        return replace(self, split=split, split_name=split_name)

    def without_test_labels(self) -> Dataset:
        """Return the same data with no label but those of the training and validation nodes.

        What is chosen with it cannot have been chosen by looking at the test nodes, which are in no part of
        its split.
        """
        y = np.full_like(self.y, no_label(self.y))
        seen = np.concatenate([self.train, self.val])
        y[seen] = self.y[seen]
        return replace(self, y=y, split=NodeSplit(self.train, self.val))

    def __repr__(self) -> str:
        graph = self.graph
        return (
            f"Dataset({self.name!r}, n_nodes={graph.n_nodes}, n_edges={graph.n_edges}, "
            f"n_features={graph.n_features}, n_classes={self.n_classes}, train={len(self.train)}, "
            f"val={len(self.val)}, test={len(self.test)})"
        )


def no_label(y: NDArray[Any]) -> Any:
    """Return the mark of nodes without a label, as such labels have it."""
    return "" if y.dtype.kind == "U" else -1


def is_labelled(y: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the nodes that have a label."""
    return np.asarray(y != no_label(y))


def as_labels(values: ArrayLike, where: str = "y") -> NDArray[Any]:
    """Return one label per node as a flat integer array, -1 for "no label", or text, ``""`` for that.

    Whole-numbered floats become integers, NaN among them -1; None among strings becomes ``""``.
    """
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{where} must hold one label per node, shape (n,); got shape {array.shape}.")
    if array.dtype.kind == "O":
        is_text = all(value is None or isinstance(value, str) for value in array)
        try:  # None becomes NaN among numbers
            array = np.array([label or "" for label in array], str) if is_text else array.astype(float)
        except (TypeError, ValueError):
            kinds = sorted({type(value).__name__ for value in array if value is not None})
            raise DataError(f"{where} mixes labels of types {', '.join(kinds)}; use one kind.") from None
    if array.dtype.kind == "f":
        whole = np.where(np.isnan(array), -1, array)
        bad = np.flatnonzero(~np.isfinite(whole) | (whole != np.round(whole)))
        if len(bad):
            raise DataError(
                f"{where} holds {array[bad[0]]} at node {bad[0]}; classes must be whole numbers or strings."
            )
        array = whole.astype(np.int64)
    if array.dtype.kind == "U":
        return array
    if array.dtype.kind not in "iub":
        raise DataError(
            f"{where} must hold integers or strings, one class per node; got dtype {array.dtype}."
        )
    array = array.astype(np.int64)
    if np.array_equal(np.unique(array), [-1, 1]):
        raise DataError(
            f"{where} holds only -1 and 1, and -1 means 'no label' here; "
            "name the classes 0 and 1, or use strings."
        )
    return array


class NodeIndex:
    """Looks up rows by the user's ids: integers or strings, no gaps, no repeats; from ``where``."""

    def __init__(self, ids: NDArray[Any], where: str) -> None:
        self.ids = _whole(ids, where)
        self.where = where
        self._order = np.argsort(self.ids, kind="stable")
        ranked = self.ids[self._order]
        repeats = np.flatnonzero(ranked[1:] == ranked[:-1])
        if len(repeats):
            first, second = self._order[repeats[0]], self._order[repeats[0] + 1]
            raise DataError(
                f"{where}: id {ranked[repeats[0]].item()!r} stands in data rows {first + 1} and "
                f"{second + 1}; each node needs a row of its own ({len(repeats)} repeated ids)."
            )

    def rows(self, values: NDArray[Any], where: str) -> NDArray[np.int64]:
        """Return the row of each id, or say which id is unknown."""
        ids, order = self.ids, self._order
        wanted = _whole(values, where) if len(values) else values.astype(ids.dtype)
        if (ids.dtype.kind == "U") != (wanted.dtype.kind == "U"):
            # One file may hold only number-like ids, the other also words.
            ids, wanted = ids.astype(np.str_), wanted.astype(np.str_)
            order = np.argsort(ids, kind="stable")
        place = np.searchsorted(ids, wanted, sorter=order)
        rows = order[np.minimum(place, len(ids) - 1)]
        unknown = np.flatnonzero(ids[rows] != wanted)
        if len(unknown):
            raise DataError(
                f"{where}: data row {unknown[0] + 1} names node {wanted[unknown[0]].item()!r}, which is "
                f"not an id in {self.where} ({len(unknown)} such rows)."
            )
        return rows


def _whole(ids: NDArray[Any], where: str) -> NDArray[Any]:
    """Return ids as integers or text; a gap or a fraction is an error."""
    gaps = np.flatnonzero(ids == "" if ids.dtype.kind == "U" else np.isnan(ids))
    if len(gaps):
        raise DataError(f"{where}: data row {gaps[0] + 1} has no id ({len(gaps)} such rows).")
    if ids.dtype.kind != "f":
        return ids
    fractions = np.flatnonzero(ids != np.round(ids))
    if len(fractions):
        bad = fractions[0]
        raise DataError(f"{where}: data row {bad + 1} has id {ids[bad]}; ids are whole numbers or text.")
    return ids.astype(np.int64)


def build_adjacency(
    ends: Iterable[NDArray[Any]], n_nodes: int, *, weights: NDArray[Any] | None = None, directed: bool = False
) -> tuple[sp.csr_array, list[str]]:
    """Return the matrix of edges, given as sources and targets, and what was mended on the way.

    ``adjacency[target, source]`` is an edge. Self loops are dropped; edges given more than once become one,
    their weights summed. Undirected lists may name an edge in either direction or both; a list that holds
    *every* edge both ways with equal weights means each pair as one edge.
    """
    sources, targets = ends
    proper = sources != targets
    n_given = int(np.count_nonzero(proper))
    values = np.ones(n_given, np.float32) if weights is None else weights[proper]
    if values.dtype.kind != "f":
        values = values.astype(np.float32)
    matrix = sp.coo_array((values, (targets[proper], sources[proper])), shape=(n_nodes, n_nodes)).tocsr()
    if weights is None:
        matrix.data[:] = 1
    n_kept = matrix.nnz
    if not directed and (matrix != (mirrored := matrix.T.tocsr())).nnz:
        # For weights, a line and its reverse are two contributions to one edge.
        matrix = matrix.maximum(mirrored) if weights is None else (matrix + mirrored).tocsr()
        n_kept = matrix.nnz // 2
    n_loops, n_repeated = len(sources) - n_given, n_given - n_kept
    mended = [f"dropped {n_loops} self loops"] if n_loops else []
    if n_repeated:
        mended.append(f"merged {n_repeated} repeated edges{'' if weights is None else ', weights summed'}")
    return matrix, mended


def build_csr(parts: tuple[Any, Any, Any], shape: Any, wrong: str, *, full_check: bool) -> sp.csr_array:
    """Return the matrix of data, indices and row pointers out of a file, or say that they are ``wrong``."""
    try:
        matrix = sp.csr_array(tuple(map(np.asarray, parts)), shape=tuple(map(int, shape)))
        matrix.check_format(full_check)
    except (TypeError, ValueError) as error:
        raise DataError(f"{wrong}: {error}.") from error
    return matrix
