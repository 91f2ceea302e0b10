r"""Shapley values of trees, exact: what each column adds to the output of every row.

A tree is asked with some columns S known and the others not: where it asks for a column that is not known,
both ways are taken, by how much of the training went there (Lundberg et al., 2020). A leaf of value v, whose
path asks for columns D, then gives :math:`v \prod_{d \in S} o_d \prod_{d \in D \setminus S} z_d` with
:math:`o_d` whether the row takes the path at all splits on d, and :math:`z_d` the product of the shares that
went there. Its Shapley value for d is an integral of a polynomial,

.. math:: v \, (o_d - z_d) \int_0^1 \prod_{e \in D, e \ne d} (y \, o_e + (1 - y) \, z_e) \, dy,

because :math:`\int y^s (1-y)^{n-1-s} dy = s! (n-1-s)! / n!` is the weight of sets of s columns. A few points
of Gauss and Legendre's rule give it exactly, of all leaves and rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gbgnn.learners.tree_arrays import LEAF, TreeArrays

Floats = NDArray[np.float64]

_ENTRIES_AT_ONCE = 2**22
"""Rows are taken so many at a time that about so many products are formed."""


class Paths(NamedTuple):
    """The ways from the root to all leaves of a tree, columns of a path once, padded at the end.

    ``columns`` and ``shares`` are z, shape (leaves, columns of a path). ``splits`` says for each leaf and
    node which place of the path its split belongs to, -1 where the node is not on the way; ``turns`` whether
    the way goes left there.
    """

    leaves: NDArray[np.int64]
    columns: NDArray[np.int64]
    shares: Floats
    splits: NDArray[np.int64]
    turns: NDArray[np.bool_]


def find_paths(tree: TreeArrays) -> Paths:
    """Return the ways to the leaves of a tree whose covers are known."""
    assert tree.cover is not None
    ways: dict[int, list[tuple[int, bool]]] = {0: []}
    leaves = []
    for node in range(len(tree.left)):  # children come after their parents
        way = ways.pop(node, None)
        if way is None:
            continue
        if tree.left[node] == LEAF:
            leaves.append((node, way))
        else:
            for child, is_left in ((tree.left[node], True), (tree.right[node], False)):
                ways[int(child)] = [*way, (node, is_left)]
    own = [list(dict.fromkeys(int(tree.feature[node]) for node, _ in way)) for _, way in leaves]
    width = max(1, *map(len, own))
    columns, shares = np.zeros((len(leaves), width), dtype=np.int64), np.ones((len(leaves), width))
    splits = np.full((len(leaves), len(tree.left)), -1)
    turns = np.zeros(splits.shape, dtype=bool)
    for i, ((_, way), names) in enumerate(zip(leaves, own, strict=True)):
        columns[i, : len(names)] = names
        for node, is_left in way:
            place = names.index(int(tree.feature[node]))
            child = tree.left[node] if is_left else tree.right[node]
            whole = tree.cover[tree.left[node]] + tree.cover[tree.right[node]]
            # Where nothing came by, as far as a library tells, both ways are alike.
            shares[i, place] *= tree.cover[child] / whole if whole > 0 else 0.5
            splits[i, node], turns[i, node] = place, is_left
    return Paths(np.array([leaf for leaf, _ in leaves]), columns, shares, splits, turns)


def shapley_values(
    trees: Sequence[TreeArrays], rows: NDArray[np.float32], n_columns: int
) -> tuple[Floats, Floats]:
    """Return what every column adds, shape (rows, columns, ``n_columns``), and the mean outputs of the trees.

    Examples
    --------
    >>> stump = TreeArrays(
    ...     feature=np.array([1, 0, 0]),
    ...     threshold=np.array([0.5, 0, 0]),
    ...     left=np.array([1, LEAF, LEAF]),
    ...     right=np.array([2, LEAF, LEAF]),
    ...     missing_left=np.array([True, False, False]),
    ...     value=np.array([0.0, -1.0, 1.0]),
    ...     cover=np.array([4.0, 3.0, 1.0]),
    ... )
    >>> values, mean = shapley_values([stump], np.array([[9.0, 0.0], [9.0, 1.0]]), 1)
    >>> values[..., 0].tolist(), mean.tolist()
    ([[0.0, -0.5], [0.0, 1.5]], [-0.5])
    """
    values, means = np.zeros((*rows.shape, n_columns)), np.zeros(n_columns)
    for tree in trees:
        paths = find_paths(tree)
        of_leaves = tree.value[paths.leaves].astype(np.float64)
        means[tree.column] += of_leaves @ paths.shares.prod(axis=1)
        if len(of_leaves) == 1:
            continue
        size = max(1, _ENTRIES_AT_ONCE // paths.splits.size)
        for first in range(0, len(rows), size):
            some = slice(first, first + size)
            found = of_leaves[:, None] * _weigh(paths, _takes(paths, tree.goes_left(rows[some])))
            by_column = values[some, :, tree.column].T
            np.add.at(by_column, paths.columns.ravel(), found.reshape(len(found), -1).T)
    return values, means


def _takes(paths: Paths, goes_left: NDArray[np.bool_]) -> Floats:
    """Return o, whether rows take a path at all splits on a column, (rows, leaves, columns of a path)."""
    takes = np.ones((len(goes_left), *paths.columns.shape))
    for leaf, node in zip(*np.nonzero(paths.splits >= 0), strict=True):
        takes[:, leaf, paths.splits[leaf, node]] *= goes_left[:, node] == paths.turns[leaf, node]
    return takes


def _weigh(paths: Paths, takes: Floats) -> Floats:
    """Return the Shapley values of leaves of value one."""
    width = paths.columns.shape[1]
    places, weights = np.polynomial.legendre.leggauss((width + 1) // 2)  # exact up to the degree width - 1
    total = np.zeros_like(takes)
    for place, weight in zip((places + 1) / 2, weights / 2, strict=True):
        factors = place * takes + (1 - place) * paths.shares
        total += weight * _products_of_others(factors)
    return total * (takes - paths.shares)


def _products_of_others(factors: Floats) -> Floats:
    """Return for each factor along the last axis the product of all others, none of which need be nonzero."""
    before, after = np.ones_like(factors), np.ones_like(factors)
    np.cumprod(factors[..., :-1], axis=-1, out=before[..., 1:])
    after[..., :-1] = np.cumprod(factors[..., :0:-1], axis=-1)[..., ::-1]
    return before * after
