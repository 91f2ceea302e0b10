"""Seeded ways to divide labelled nodes into train, validation and test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gbgnn._checks import check_integer, check_number
from gbgnn.datasets.dataset import as_labels, is_labelled
from gbgnn.errors import DataError, ParameterError, suggest
from gbgnn.graph import PARTS, NodeSplit

SplitChoice = str | int | NodeSplit | None
N_FOLDS = 5
_PART_OF_WORD = {
    **{word: word for word in PARTS},
    **dict.fromkeys(("valid", "validation"), "val"),
    **dict.fromkeys(("", "none", "nan"), ""),
}
SIZES = {"random": ("per_class", "n_val", "n_test"), "stratified": PARTS}


def random_split(
    y: ArrayLike, per_class: int = 20, n_val: int = 500, n_test: int | None = 1000, *, seed: int = 0
) -> NodeSplit:
    """Draw ``per_class`` training nodes of every class, then validation and test nodes from the rest.

    Parameters
    ----------
    y
        One label per node; nodes marked -1 (or ``""``) are never drawn.
    per_class
        Training nodes of each class, at least 1.
    n_val, n_test
        How many of the remaining nodes validate and test; ``n_test=None`` takes all that are left.
    seed
        Same seed, same split.

    Examples
    --------
    >>> random_split([0, 1] * 50, per_class=5, n_val=20, n_test=None)
    NodeSplit(train=10, val=20, test=70)
    """
    check_integer("random_split", "per_class", per_class, 1)
    check_integer("random_split", "n_val", n_val, 0)
    check_integer("random_split", "n_test", n_test, 0, optional=True)
    rng = np.random.default_rng(seed)
    groups = _shuffled_by_class(y, rng, "per_class", per_class, " or use stratified_split")
    train = np.concatenate([group[:per_class] for group in groups])
    rest = rng.permutation(np.concatenate([group[per_class:] for group in groups]))
    wanted = n_val + (n_test or 0)
    if wanted > len(rest):
        raise ParameterError(
            f"n_val={n_val} and n_test={n_test} need {wanted} nodes, but {len(rest)} labelled nodes are "
            f"left after {len(train)} training nodes; lower them (n_test=None takes what is left)."
        )
    end = None if n_test is None else wanted
    return NodeSplit(np.sort(train), np.sort(rest[:n_val]), np.sort(rest[n_val:end]))


def stratified_split(
    y: ArrayLike, train: float = 0.6, val: float = 0.2, test: float | None = None, *, seed: int = 0
) -> NodeSplit:
    """Divide the nodes of every class by the same fractions.

    Parameters
    ----------
    y, seed
        As in :func:`random_split`.
    train, val, test
        Fractions of each class, together at most 1; ``test=None`` takes the rest. Every class keeps at
        least one training node.

    Examples
    --------
    >>> stratified_split([0] * 50 + [1] * 100)
    NodeSplit(train=90, val=30, test=30)
    """
    check_number("stratified_split", "train", train, 0, 1, open_low=True)
    check_number("stratified_split", "val", val, 0, 1)
    if test is not None:
        check_number("stratified_split", "test", test, 0, 1)
    total = train + val + (test or 0)
    if total > 1 + 1e-9:
        raise ParameterError(f"train, val and test add up to {total:g}; they may be at most 1.")
    pieces = []
    for group in _shuffled_by_class(y, np.random.default_rng(seed)):
        n = len(group)
        first = max(1, round(train * n))
        second = max(first, round((train + val) * n))
        last = n if test is None else max(second, round(total * n))
        pieces.append(np.split(group[:last], [first, second]))
    return NodeSplit(*(np.sort(np.concatenate(part)) for part in zip(*pieces, strict=True)))


def kfold_splits(
    y: ArrayLike, n_splits: int = N_FOLDS, val: float = 0.1, *, seed: int = 0
) -> list[NodeSplit]:
    """Return ``n_splits`` splits whose test sets are disjoint and together hold every labelled node.

    Parameters
    ----------
    y, seed
        As in :func:`random_split`.
    n_splits
        Number of folds, at least 2.
    val
        Fraction of the nodes outside a fold that validates, class by class; 0 gives no validation nodes.

    Examples
    --------
    >>> kfold_splits([0, 1] * 50, n_splits=4)[0]
    NodeSplit(train=67, val=8, test=25)
    """
    check_integer("kfold_splits", "n_splits", n_splits, 2)
    check_number("kfold_splits", "val", val, 0, 1, open_high=True)
    array = as_labels(y)
    rng = np.random.default_rng(seed)
    dealt = np.concatenate(_shuffled_by_class(array, rng, "n_splits", n_splits))
    splits = []
    for k, fold_seed in enumerate(rng.integers(2**32, size=n_splits)):
        # Dealing goes on where the previous class ended, so fold sizes differ by one at most.
        fold = dealt[k::n_splits]
        rest = np.setdiff1d(dealt, fold)
        inner = stratified_split(array[rest], 1 - val, val, 0.0, seed=int(fold_seed))
        splits.append(NodeSplit(rest[inner.train], rest[inner.val], np.sort(fold)))
    return splits


def choose_split(
    split: SplitChoice, y: NDArray[Any], own: Sequence[NodeSplit], where: str, *, seed: int = 0, **sizes: Any
) -> tuple[NodeSplit, str]:
    """Return the split that ``split`` asks for, and a name for it; ``own`` are those that came with the data.

    None and ``"public"`` take the first of them, ``"auto"`` too, or a stratified one where there is none;
    a number picks one of several, else one of five folds; words draw a new split with ``sizes``.
    """
    if isinstance(split, NodeSplit):
        return split, "given"
    if split == "auto":
        split = None if own else "stratified"
    if split is None or split == "public":
        if not own:
            raise DataError(
                f"{where} comes without a split; give split='stratified', split='random', "
                "a fold number or a NodeSplit."
            )
        return own[0], "public"
    if split == "random":
        return random_split(y, seed=seed, **sizes), f"random, seed {seed}"
    if split == "stratified":
        return stratified_split(y, seed=seed, **sizes), f"stratified, seed {seed}"
    if isinstance(split, str):
        known = ("auto", "public", "random", "stratified")
        raise ParameterError(
            f"split must be {', '.join(known)}, a fold number or a NodeSplit; "
            f"got {split!r}.{suggest(split, known)}"
        )
    n_known = len(own) if len(own) > 1 else N_FOLDS
    check_integer(where, "split", split, 0, n_known - 1)
    if len(own) > 1:
        return own[split], f"public {split} of {len(own)}"
    return kfold_splits(y, seed=seed)[split], f"fold {split} of {N_FOLDS}, seed {seed}"


def splits_of_masks(find: Callable[[str], NDArray[Any] | None], n_nodes: int, where: str) -> list[NodeSplit]:
    """Return one split per column of the masks that ``find`` finds; a flat mask serves every split."""
    found = {part: find(f"{part}_mask") for part in PARTS}
    masks = {part: mask for part, mask in found.items() if mask is not None}
    if "train" not in masks:
        return []
    for part, mask in masks.items():
        if mask.ndim not in (1, 2) or mask.shape[0] != n_nodes:
            raise DataError(
                f"{where}: {part}_mask has shape {mask.shape}; expected ({n_nodes},) or ({n_nodes}, k)."
            )
    counts = {mask.shape[1] for mask in masks.values() if mask.ndim == 2}
    if len(counts) > 1:
        raise DataError(f"{where}: the masks hold different numbers of splits: {sorted(counts)}.")
    return [
        NodeSplit.from_masks(**{part: mask[:, k] if mask.ndim == 2 else mask for part, mask in masks.items()})
        for k in range(max(counts, default=1))
    ]


def named_split(words: NDArray[Any], where: str) -> NodeSplit:
    """Return the split that a column of words gives; empty cells are in no part."""
    parts = np.array([_PART_OF_WORD.get(str(word).strip().lower(), "?") for word in words])
    unknown = np.flatnonzero(parts == "?")
    if len(unknown):
        raise DataError(
            f"{where}: data row {unknown[0] + 1} says {str(words[unknown[0]])!r}; "
            "use train, val, test, or leave it empty."
        )
    if "train" not in parts:
        raise DataError(f"{where} marks no node as train.")
    return NodeSplit.from_masks(*(parts == part for part in PARTS))


def _shuffled_by_class(
    y: ArrayLike, rng: np.random.Generator, name: str = "", least: int = 0, hint: str = ""
) -> list[NDArray[np.int64]]:
    """Return the labelled nodes of each class in random order; ``name`` asks for ``least`` in each."""
    array = as_labels(y)
    nodes = rng.permutation(np.flatnonzero(is_labelled(array)))
    if not len(nodes):
        raise DataError("y has no labelled node, so there is nothing to split.")
    labels, codes, counts = np.unique(array[nodes], return_inverse=True, return_counts=True)
    if counts.min() < least:
        rare = np.flatnonzero(counts < least)[0]
        raise ParameterError(
            f"class {labels[rare].item()!r} has {counts[rare]} labelled nodes, fewer than {name}={least}; "
            f"lower {name}{hint}."
        )
    return np.split(nodes[np.argsort(codes, kind="stable")], np.cumsum(counts)[:-1])
