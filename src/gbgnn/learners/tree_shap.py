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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gbgnn.learners.tree_arrays import LEAF, TreeArrays

Floats = NDArray[np.float64]

_ENTRIES_AT_ONCE = 2**22
"""Rows are taken so many at a time that about so many products are formed."""


class Paths(NamedTuple):
    """The ways from all leaves of a tree up to the root.

    A step, shape (leaves, steps), is at the split ``nodes``, -1 where the way has ended; ``turns`` says
    whether the way down goes left there, ``places`` which of the columns of the way its split is on.
    Of these there are ``columns`` and their ``shares``, z, shape (leaves, most columns of a way), padded with
    column 0 and share 1.
    """

    leaves: NDArray[np.int64]
    nodes: NDArray[np.int64]
    turns: NDArray[np.bool_]
    places: NDArray[np.int64]
    columns: NDArray[np.int64]
    shares: Floats


def find_paths(tree: TreeArrays) -> Paths:
    """Return the ways to the leaves of a tree whose covers are known."""
    inner = np.flatnonzero(tree.left != LEAF)
    left, right = tree.left[inner], tree.right[inner]
    parents, is_left = np.full(len(tree.left), -1), np.zeros(len(tree.left), dtype=bool)
    parents[left] = parents[right] = inner
    is_left[left] = True

    steps = [np.flatnonzero(tree.left == LEAF)]
    while (steps[-1] > 0).any():
        steps.append(np.where(steps[-1] > 0, parents[steps[-1]], steps[-1]))
    turned_to = np.stack(steps, axis=1)[steps[-1] == 0]  # without leaves that nothing leads to
    leaves, nodes = turned_to[:, 0], np.where(turned_to > 0, parents[turned_to], -1)

    padding = -1 - np.arange(nodes.shape[1])  # a column of its own for every step
    asked = np.where(nodes >= 0, tree.feature[nodes], padding)
    first = (asked[:, :, None] == asked[:, None, :]).argmax(axis=2)
    rank = np.cumsum(first == np.arange(nodes.shape[1]), axis=1) - 1
    places = np.take_along_axis(rank, first, axis=1)
    width = 1 + int(places[nodes >= 0].max(initial=0))
    places = np.minimum(places, width - 1)  # of padding, which changes nothing

    share, every = _shares_of_parents(tree, left, right), np.arange(len(leaves))
    columns, shares = np.zeros((len(leaves), width), dtype=np.int64), np.ones((len(leaves), width))
    for step in range(nodes.shape[1]):
        shares[every, places[:, step]] *= share[turned_to[:, step]]
        real = nodes[:, step] >= 0
        columns[every[real], places[real, step]] = asked[real, step]
    return Paths(leaves, nodes, is_left[turned_to], places, columns, shares)


def _shares_of_parents(tree: TreeArrays, left: NDArray[Any], right: NDArray[Any]) -> Floats:
    """Return how much of what came by a node's parent came by the node; of the root all."""
    assert tree.cover is not None
    share, cover = np.ones(len(tree.left)), tree.cover
    whole = cover[left] + cover[right]
    for child in (left, right):
        # Where nothing came by, as far as a library tells, both ways are alike.
        share[child] = np.where(whole > 0, cover[child] / np.where(whole > 0, whole, 1.0), 0.5)
    return share


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
    for _, alike in groupby(trees, key=lambda tree: id(tree.left)):  # of several outputs of one tree
        first, *others = alike
        paths = find_paths(first)
        outputs = [first.column, *(tree.column for tree in others)]
        of_leaves = np.stack(
            [tree.value[paths.leaves] for tree in (first, *others)], axis=1, dtype=np.float64
        )
        means[outputs] += paths.shares.prod(axis=1) @ of_leaves
        if len(of_leaves) == 1:
            continue
        size = max(1, _ENTRIES_AT_ONCE // max(paths.nodes.size, len(first.left)))
        for start in range(0, len(rows), size):
            some = slice(start, start + size)
            found = _weigh(paths, _takes(paths, first.goes_left(rows[some])))
            for output, value in zip(outputs, of_leaves.T, strict=True):
                by_column = values[some, :, output].T
                weighed = (found * value[:, None]).reshape(len(found), -1).T
                np.add.at(by_column, paths.columns.ravel(), weighed)
    return values, means


def _takes(paths: Paths, goes_left: NDArray[np.bool_]) -> Floats:
    """Return o, whether rows take a path at all splits on a column, (rows, leaves, columns of a way)."""
    takes, every = np.ones((len(goes_left), *paths.columns.shape)), np.arange(len(paths.leaves))
    for step in range(paths.nodes.shape[1]):
        node = paths.nodes[:, step]
        follows = (goes_left[:, node] == paths.turns[:, step]) | (node < 0)
        takes[:, every, paths.places[:, step]] *= follows
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
