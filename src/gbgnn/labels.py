"""Labelled nodes: which nodes are meant, how they are split, and what y is, all checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import type_of_target

from gbgnn.errors import GraphError

PARTS = ("train", "val", "test")
DRAWS = ("", "uniform", "per class", "strata")


@dataclass(frozen=True, eq=False)
class NodeSplit:
    """The training, validation and test nodes, as disjoint lists of node ids.

    Parameters
    ----------
    train, val, test
        Row numbers of nodes, each list without repeats, no node in two lists. ``val`` and ``test`` may
        be empty.
    draw
        How the nodes were drawn, for guarantees: ``"uniform"``, at random from all; ``"per class"``, so many
        training nodes of each class, the rest at random; ``"strata"``, the same shares of every class; ``""``
        where it is not known.

    Examples
    --------
    >>> NodeSplit([0, 1], val=[2], test=[3, 4])
    NodeSplit(train=2, val=1, test=2)
    """

    train: NDArray[np.int64]
    val: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    test: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    draw: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if self.draw not in DRAWS:
            raise GraphError(f"draw must be one of {', '.join(map(repr, DRAWS))}; got {self.draw!r}.")
        for name in PARTS:
            object.__setattr__(self, name, as_nodes(getattr(self, name), name))
        if not len(self.train):
            raise GraphError("train is empty; a split needs at least one training node.")
        for one, other in combinations(PARTS, 2):
            check_disjoint(one, getattr(self, one), other, getattr(self, other))

    @classmethod
    def from_masks(cls, train: ArrayLike, val: ArrayLike = (), test: ArrayLike = ()) -> Self:
        """Build a split from boolean masks over all nodes."""
        return cls(*(np.flatnonzero(np.asarray(mask, dtype=bool)) for mask in (train, val, test)))

    @property
    def holds_out_uniformly(self) -> bool | None:
        """Whether validation and test nodes are uniform draws from all that do not train; None: not known."""
        return None if self.draw == "" else self.draw in ("uniform", "per class")

    def check(self, n_nodes: int) -> None:
        """Raise unless every node of the split exists in a graph of ``n_nodes`` nodes."""
        for name in PARTS:
            check_range(getattr(self, name), n_nodes, name)

    def __repr__(self) -> str:
        return f"NodeSplit(train={len(self.train)}, val={len(self.val)}, test={len(self.test)})"


def labels_checksum(parts: Iterable[tuple[Any, Any]]) -> str:
    """Return a checksum of (nodes, labels) pairs: which nodes are labelled, and as what."""
    digest = hashlib.sha256()
    for nodes, labels in parts:
        digest.update(np.asarray(nodes, dtype=np.int64).tobytes())
        digest.update(repr(np.asarray(labels).tolist()).encode())
    return digest.hexdigest()


def as_nodes(nodes: Any, name: str = "nodes", *, unique: bool = True) -> NDArray[np.int64]:
    """Return node ids as a flat int64 array, without repeats if ``unique``, or say what is wrong.

    A column of shape (n, 1) and whole-numbered floats are accepted, because scikit-learn's pipelines
    make such things of a list of ids.
    """
    array = np.asarray(nodes)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise GraphError(f"{name} must be a list of node ids, shape (n,) or (n, 1); got shape {array.shape}.")
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype == bool:
        raise GraphError(f"{name} is a boolean mask; node ids are needed: np.flatnonzero({name}) gives them.")
    if not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise GraphError(f"{name} must be integers (row numbers of nodes); got dtype {array.dtype}.")
    with np.errstate(invalid="ignore"):
        ids = array.astype(np.int64)
    if not np.array_equal(ids, array):
        raise GraphError(
            f"{name} must be whole numbers (row numbers of nodes); got {array[ids != array][0]}."
        )
    if unique:
        distinct, counts = np.unique(ids, return_counts=True)
        if len(distinct) < len(ids):
            raise GraphError(
                f"{name} holds {len(ids) - len(distinct)} repeated node ids "
                f"(first: {distinct[counts > 1][0]}); each node may appear once."
            )
    return ids


def check_range(nodes: NDArray[np.int64], n_nodes: int, name: str = "nodes") -> None:
    """Raise unless all ids are rows of a graph of ``n_nodes`` nodes."""
    outside = nodes[(nodes < 0) | (nodes >= n_nodes)]
    if len(outside):
        raise GraphError(
            f"{name} holds node id {outside[0]}, but the graph has {n_nodes} nodes (0 to {n_nodes - 1})."
        )


def check_disjoint(one: str, nodes: NDArray[np.int64], other: str, others: NDArray[np.int64]) -> None:
    """Raise when two lists share a node."""
    shared = np.intersect1d(nodes, others)
    if len(shared):
        first = ", ".join(map(str, shared[:3]))
        raise GraphError(
            f"{other} shares {len(shared)} nodes with {one} (first: {first}); the sets must be disjoint."
        )


def as_table(y: ArrayLike, name: str) -> NDArray[Any]:
    """Return an array of one or two dimensions without missing entries."""
    try:
        labels = np.asarray(y)
    except ValueError as error:
        raise GraphError(f"{name} is not an array: {error}.") from error
    if labels.ndim not in (1, 2):
        raise GraphError(f"{name} must have one entry or one row per node; got shape {labels.shape}.")
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
    elif labels.dtype.kind in "OmM":
        missing = np.array([label is None or label != label for label in labels.ravel().tolist()], bool)
    else:
        return labels
    if missing.any():
        positions = np.flatnonzero(missing.reshape(len(labels), -1).any(axis=1))
        raise GraphError(
            f"{name} has {len(positions)} missing labels (first: position {positions[0]}); "
            "train on the labelled nodes only."
        )
    return labels


def as_labels(y: ArrayLike, name: str) -> NDArray[Any]:
    """Return one class per node, shape (n,)."""
    labels = as_table(y, name)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise GraphError(f"{name} must have one class per node, shape (n,); got shape {labels.shape}.")
    if labels.dtype == object:
        kinds = {isinstance(label, (str, bytes)) for label in labels}
        if len(kinds) > 1:
            raise GraphError(f"{name} mixes text and numbers; use one kind of label.")
        labels = np.array(labels.tolist())  # strings in an object array become a string array
    if labels.dtype.kind not in "biufU":
        raise GraphError(f"{name} must be text, numbers or truth values; got dtype {labels.dtype}.")
    if len(labels) and type_of_target(labels) not in ("binary", "multiclass"):
        raise GraphError(
            f"{name} must be classes; got continuous numbers such as {labels.tolist()[0]!r}. Bin them first, "
            "or predict them with GBGNNRegressor."
        )
    return labels


def check_marks(labels: NDArray[Any], name: str) -> None:
    """Raise where labels hold what data sets mark nodes without a label with: -1, or empty text."""
    if labels.dtype.kind not in "iufU":
        return
    mark: Any = "" if labels.dtype.kind == "U" else -1
    bare = np.flatnonzero(labels == mark)
    if len(bare):
        raise GraphError(
            f"{name} has {len(bare)} labels that are {mark!r} (first: position {bare[0]}), which stands for "
            f"'no label': leave those nodes out. If it is a class of yours, name it otherwise, "
            f"or name all of them: task=Classification(classes=[{mark!r}, ...])."
        )


def as_indicators(y: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return a 0/1 matrix, a column per label."""
    table = as_table(y, name)
    if table.ndim != 2 or table.shape[1] == 0:
        raise GraphError(f"{name} must be a 0/1 matrix with a row per node; got shape {table.shape}.")
    if table.dtype.kind not in "biuf" or not np.isin(table, (0, 1)).all():
        raise GraphError(f"{name} must be a matrix of 0 and 1, a column per label; got other entries.")
    return table.astype(np.float64)


def as_numbers(y: ArrayLike, name: str) -> tuple[NDArray[np.float64], bool]:
    """Return finite numbers, shape (n, columns), and whether y was a vector."""
    table = as_table(y, name)
    if table.dtype.kind not in "biuf":
        raise GraphError(f"{name} must be numbers; got dtype {table.dtype}.")
    if not np.isfinite(table).all():
        raise GraphError(f"{name} must be finite numbers; got infinity.")
    is_flat = table.ndim == 1
    numbers = table.astype(np.float64)
    return (numbers[:, None] if is_flat else numbers), is_flat


def count_labels(y: Any) -> int:
    """Return for how many nodes y says something.

    Examples
    --------
    >>> count_labels([["red"], ["red", "blue"]])
    2
    """
    shape = getattr(y, "shape", None)  # a sparse matrix has no length
    return int(shape[0]) if shape else len(y) if hasattr(y, "__len__") and shape is None else int(np.size(y))


def check_length(y: Any, n_nodes: int, name: str) -> None:
    """Raise unless there are as many labels as nodes."""
    n_labels = count_labels(y)
    if n_labels != n_nodes:
        raise GraphError(f"{name} has {n_labels} labels for {n_nodes} nodes.")


FEWEST_EDGES = 30
"""With fewer edges between labelled nodes there is nothing to say of their homophily."""


def adjusted_homophily(adjacency: Any, nodes: NDArray[np.int64], classes: NDArray[np.int64]) -> float | None:
    r"""Return how alike neighbours are among labelled nodes; None where too few of them are neighbours.

    The share of the edges between nodes of the same class, less what chance would give edges with these ends,
    in relation to the most that it could be: :math:`(h - \sum_k p_k^2) / (1 - \sum_k p_k^2)`, with
    :math:`p_k` the share of class k among the ends of edges (Platonov et al. 2023). 1 is the most, 0 is
    chance, whatever the number and the sizes of the classes. Self loops do not count, weights neither.

    Examples
    --------
    >>> pairs = np.kron(np.eye(20), [[0, 1], [1, 0]])  # of two nodes each
    >>> alike, unlike = np.repeat([0, 1], 20), np.tile([0, 1], 20)
    >>> [adjusted_homophily(pairs, np.arange(40), classes) for classes in (alike, unlike)]
    [1.0, -1.0]
    """
    edges = sp.csr_array(adjacency)[nodes].tocoo()
    place = np.full(edges.shape[1], -1)
    place[nodes] = np.arange(len(nodes))
    one, other = edges.row, place[edges.col]
    is_known = (other >= 0) & (one != other)
    ends = classes[np.stack([one[is_known], other[is_known]])]
    if ends.shape[1] < FEWEST_EDGES:
        return None
    shares = np.bincount(ends.ravel()) / ends.size
    by_chance = float(np.square(shares).sum())
    if by_chance == 1:  # of one class
        return None
    return float((np.mean(ends[0] == ends[1]) - by_chance) / (1 - by_chance))
