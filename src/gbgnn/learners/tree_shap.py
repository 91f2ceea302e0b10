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
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gbgnn.learners.tree_arrays import LEAF, TreeArrays

Floats = NDArray[np.float64]

_ENTRIES_AT_ONCE = 2**22
"""Rows are taken so many at a time that about so many products are formed."""


class Paths(NamedTuple):
    """The ways from the root to all leaves of a tree, columns of a path once, padded at the end.

    ``columns`` and ``shares`` are z, shape (leaves, columns of a path). ``nodes`` are the splits on the
    paths, those of a leaf and a column side by side, from each of ``starts`` on, and ``turns`` whether the
    path goes left there. ``places`` say where in the flat ``columns`` these leaves and columns are.
    """

    leaves: NDArray[np.int64]
    columns: NDArray[np.int64]
    shares: Floats
    nodes: NDArray[np.int64]
    turns: NDArray[np.bool_]
    starts: NDArray[np.int64]
    places: NDArray[np.int64]


def find_paths(tree: TreeArrays) -> Paths:
    """Return the ways to the leaves of a tree whose covers are known."""
    assert tree.cover is not None
    inner = np.flatnonzero(tree.left != LEAF)
    parent, is_left = np.full(len(tree.left), -1), np.zeros(len(tree.left), dtype=bool)
    ratio = np.ones(len(tree.left))
    whole = tree.cover[tree.left[inner]] + tree.cover[tree.right[inner]]
    for children in (tree.left[inner], tree.right[inner]):
        parent[children] = inner
        # Where nothing came by, as far as a library tells, both ways are alike.
        ratio[children] = np.where(whole > 0, tree.cover[children] / np.where(whole > 0, whole, 1.0), 0.5)
    is_left[tree.left[inner]] = True
    reached = np.arange(len(parent)) == 0
    while (grown := reached | ((parent >= 0) & reached[parent])).sum() > reached.sum():
        reached = grown
    leaves = np.flatnonzero((tree.left == LEAF) & reached)
    number, at, climbed = np.arange(len(leaves)), leaves, [np.zeros((2, 0), dtype=np.int64)]
    while len(at):
        has_parent = parent[at] >= 0
        number, at = number[has_parent], at[has_parent]
        climbed.append(np.stack([number, at]))
        at = parent[at]
    leaf, child = np.concatenate(climbed, axis=1)
    order = np.lexsort((tree.feature[parent[child]], leaf))
    leaf, child = leaf[order], child[order]
    feature = tree.feature[parent[child]].astype(np.int64)
    is_first = np.ones(len(leaf), dtype=bool)
    is_first[1:] = (np.diff(leaf) != 0) | (np.diff(feature) != 0)
    starts = np.flatnonzero(is_first)
    n_columns = np.bincount(leaf[starts], minlength=len(leaves))
    width = max(1, int(n_columns.max()))
    place = np.arange(len(starts)) - np.repeat(np.cumsum(n_columns) - n_columns, n_columns)
    places = leaf[starts] * width + place
    columns, shares = np.zeros((len(leaves), width), dtype=np.int64), np.ones((len(leaves), width))
    columns.ravel()[places] = feature[starts]
    if len(starts):
        shares.ravel()[places] = np.multiply.reduceat(ratio[child], starts)
    return Paths(leaves, columns, shares, parent[child], is_left[child], starts, places)


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
    # Trees of several outputs are the same but for their values.
    for _, group in groupby(trees, key=lambda tree: id(tree.left)):
        alike = list(group)
        paths = find_paths(alike[0])
        for tree in alike:
            means[tree.column] += tree.value[paths.leaves] @ paths.shares.prod(axis=1)
        if not len(paths.starts):
            continue
        flat = paths.columns.ravel()
        order = np.argsort(flat, kind="stable")
        names, firsts = np.unique(flat[order], return_index=True)
        size = max(1, _ENTRIES_AT_ONCE // max(flat.size, paths.nodes.size))
        for start in range(0, len(rows), size):
            some = slice(start, start + size)
            weights = _weigh(paths, _takes(paths, alike[0].goes_left(rows[some])))
            for tree in alike:
                found = (weights * tree.value[paths.leaves].astype(np.float64)[:, None]).reshape(
                    -1, flat.size
                )
                values[some, names, tree.column] += np.add.reduceat(found[:, order], firsts, axis=1)
    return values, means


def _takes(paths: Paths, goes_left: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return o, whether rows take a path at all splits on a column, (rows, leaves, columns of a path)."""
    agrees = goes_left[:, paths.nodes] == paths.turns
    takes = np.ones((len(goes_left), paths.columns.size), dtype=bool)
    takes[:, paths.places] = np.logical_and.reduceat(agrees, paths.starts, axis=1)
    return takes.reshape(len(goes_left), *paths.columns.shape)


def _weigh(paths: Paths, takes: NDArray[np.bool_]) -> Floats:
    """Return the Shapley values of leaves of value one, those with as long paths together."""
    total = np.zeros(takes.shape)
    n_columns = np.bincount(paths.places // takes.shape[2], minlength=takes.shape[1])
    for width in np.unique(n_columns[n_columns > 0]).tolist():
        some = np.flatnonzero(n_columns == width)
        taken, shares = takes[:, some, :width], paths.shares[some, :width]
        places, weights = np.polynomial.legendre.leggauss(
            (width + 1) // 2
        )  # exact up to the degree width - 1
        found = np.zeros(taken.shape)
        for place, weight in zip((places + 1) / 2, weights / 2, strict=True):
            left_out = (1 - place) * np.maximum(shares, _SMALLEST)
            factors = np.where(taken, place + left_out, left_out)
            found += weight * factors.prod(axis=-1, keepdims=True) / factors
        total[:, some, :width] = found * (taken - shares)
    return total


_SMALLEST = 1e-30
"""Shares of no training at all are taken for this, so that a product may be divided by its factors."""
