"""Seeded ways to divide labelled nodes into train, validation and test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gbgnn._checks import check_integer, check_number
from gbgnn.datasets.targets import REGRESSION, as_strata, as_target, is_labelled
from gbgnn.errors import DataError, ParameterError, suggest
from gbgnn.labels import PARTS, NodeSplit

SplitChoice = str | int | NodeSplit | None
N_FOLDS = 5
_PART_OF_WORD = {
    **{word: word for word in PARTS},
    **dict.fromkeys(("valid", "validation"), "val"),
    **dict.fromkeys(("", "none", "nan"), ""),
}
_NO_PART = len(PARTS)
_WORDS_OF_PART = {"train": ("train",), "val": ("val", "valid", "validation"), "test": ("test",)}
_KINDS = ("mask", "masks", "idx", "index", "indices")
SIZES = {"random": ("per_class", "n_val", "n_test"), "stratified": PARTS, "uniform": PARTS}


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
    if as_target(y).task == REGRESSION and np.asarray(y).dtype.kind == "f":
        raise ParameterError(
            "random_split draws per_class nodes of every class, but y holds numbers to be predicted; "
            "use stratified_split, whose sizes are fractions."
        )
    rng = _generator("random_split", seed)
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
    return NodeSplit(np.sort(train), np.sort(rest[:n_val]), np.sort(rest[n_val:end]), draw="per class")


def uniform_split(
    y: ArrayLike, train: float = 0.6, val: float = 0.2, test: float | None = None, *, seed: int = 0
) -> NodeSplit:
    """Draw training, validation and test nodes uniformly from all nodes with a label.

    It is the draw that the bounds of the test error speak of, where other splits even out the classes. A
    class with few nodes may be missing among those that train.

    Parameters
    ----------
    y, seed
        As in :func:`random_split`.
    train, val, test
        Fractions of the labelled nodes, together at most 1; ``test=None`` takes the rest.

    Examples
    --------
    >>> uniform_split([0] * 50 + [1] * 100)
    NodeSplit(train=90, val=30, test=30)
    """
    total = _check_shares("uniform_split", train, val, test)
    nodes = _generator("uniform_split", seed).permutation(np.flatnonzero(is_labelled(as_target(y).values)))
    if not len(nodes):
        raise DataError("y has no labelled node, so there is nothing to split.")
    first, second, last = _cut(len(nodes), train, train + val, 1.0 if test is None else total)
    return NodeSplit(
        np.sort(nodes[:first]), np.sort(nodes[first:second]), np.sort(nodes[second:last]), draw="uniform"
    )


def stratified_split(
    y: ArrayLike, train: float = 0.6, val: float = 0.2, test: float | None = None, *, seed: int = 0
) -> NodeSplit:
    """Divide the nodes of every class by the same fractions.

    Parameters
    ----------
    y, seed
        As in :func:`random_split`. Numbers with fractions are divided tenth by tenth, by their size.
    train, val, test
        Fractions of each class, together at most 1; ``test=None`` takes the rest. Every class keeps at
        least one training node.

    Examples
    --------
    >>> stratified_split([0] * 50 + [1] * 100)
    NodeSplit(train=90, val=30, test=30)
    """
    total = _check_shares("stratified_split", train, val, test)
    pieces = []
    for group in _shuffled_by_class(y, _generator("stratified_split", seed)):
        first, second, last = _cut(len(group), train, train + val, 1.0 if test is None else total)
        pieces.append(np.split(group[:last], [first, second]))
    return NodeSplit(*(np.sort(np.concatenate(part)) for part in zip(*pieces, strict=True)), draw="strata")


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
    array = as_strata(y)
    rng = _generator("kfold_splits", seed)
    dealt = np.concatenate(_shuffled_by_class(array, rng, "n_splits", n_splits))
    splits = []
    for k, fold_seed in enumerate(rng.integers(2**32, size=n_splits)):
        # Dealing goes on where the previous class ended, so fold sizes differ by one at most.
        fold = dealt[k::n_splits]
        rest = np.setdiff1d(dealt, fold)
        inner = stratified_split(array[rest], 1 - val, val, 0.0, seed=int(fold_seed))
        splits.append(NodeSplit(rest[inner.train], rest[inner.val], np.sort(fold), draw="strata"))
    return splits


def choose_split(
    split: SplitChoice, y: NDArray[Any], own: Sequence[NodeSplit], where: str, *, seed: int = 0, **sizes: Any
) -> tuple[NodeSplit, str]:
    """Return the split that ``split`` asks for, and a name for it; ``own`` are those that came with the data.

    None and ``"public"`` take the first of them, ``"auto"`` too, or a stratified one where there is none;
    a number picks one of several, else one of five folds; words draw a new split with ``sizes``.
    """
    check_integer(where, "seed", seed, 0)
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
        return own[0], "public" if len(own) == 1 else f"public 0 of {len(own)}"
    if split == "random":
        return random_split(y, seed=seed, **sizes), f"random, seed {seed}"
    if split == "stratified":
        return stratified_split(y, seed=seed, **sizes), f"stratified, seed {seed}"
    if split == "uniform":
        return uniform_split(y, seed=seed, **sizes), f"uniform, seed {seed}"
    if isinstance(split, str):
        known = ("auto", "public", "random", "stratified", "uniform")
        raise ParameterError(
            f"split must be {', '.join(known)}, a fold number or a NodeSplit; "
            f"got {split!r}.{suggest(split, known)}"
        )
    n_known = len(own) if len(own) > 1 else N_FOLDS
    check_integer(where, "split", split, 0, n_known - 1)
    if len(own) > 1:
        return own[split], f"public {split} of {len(own)}"
    return kfold_splits(y, seed=seed)[split], f"fold {split} of {N_FOLDS}, seed {seed}"


def find_seen(split: SplitChoice, own: Sequence[NodeSplit], n_nodes: int) -> NDArray[np.bool_] | None:
    """Return which nodes train or validate in the split that is asked for, None where it is yet to be drawn.

    The rest of the labels is for tests: whoever reads the data must not go by them.
    """
    chosen = split if isinstance(split, NodeSplit) else None
    if own and split in (None, "public", "auto"):
        chosen = own[0]
    elif len(own) > 1 and isinstance(split, int) and 0 <= split < len(own):
        chosen = own[split]
    if chosen is None:
        return None
    chosen.check(n_nodes)
    seen = np.zeros(n_nodes, bool)
    seen[np.concatenate([chosen.train, chosen.val])] = True
    return seen


def find_splits(find: Callable[[str], NDArray[Any] | None], n_nodes: int, where: str) -> list[NodeSplit]:
    """Return the splits of the masks or lists of nodes that ``find`` finds, by the names people give them.

    ``train_mask``, ``val_mask`` (or ``valid_mask``) and ``test_mask``, also as ``train_masks``, are of shape
    (n,), or have a column or a row per split. ``train_idx`` and its like hold row numbers, several splits as
    rows or columns of equal length. What is flat serves every split.
    """
    found = {part: _find_part(find, part) for part in PARTS}
    given = {part: each for part, each in found.items() if each is not None}
    if "train" not in given:
        if given:
            names = ", ".join(name for name, _ in given.values())
            raise DataError(f"{where} holds {names} but no train_mask or train_idx.")
        return []
    masks = {}
    for part, (name, array) in given.items():
        if array.dtype.kind not in "biuf":
            raise DataError(f"{where}: {name} holds {array.dtype}; expected truth values or row numbers.")
        is_list = "mask" not in name and array.dtype.kind != "b"
        others = [each.shape for _, each in given.values() if each.ndim == 2]
        masks[part] = (_from_lists if is_list else _from_mask)(array, n_nodes, f"{where}: {name}", others)
    counts = {len(mask) for mask in masks.values() if len(mask) > 1}
    if len(counts) > 1:
        raise DataError(f"{where}: the masks hold different numbers of splits: {sorted(counts)}.")
    return [
        NodeSplit.from_masks(**{part: mask[k if len(mask) > 1 else 0] for part, mask in masks.items()})
        for k in range(max(counts, default=1))
    ]


def split_keys() -> list[str]:
    """Return every name under which :func:`find_splits` looks."""
    return [f"{word}_{kind}" for words in _WORDS_OF_PART.values() for word in words for kind in _KINDS]


def _find_part(find: Callable[[str], NDArray[Any] | None], part: str) -> tuple[str, NDArray[Any]] | None:
    names = [f"{word}_{kind}" for word in _WORDS_OF_PART[part] for kind in _KINDS]
    return next(((name, array) for name in names if (array := find(name)) is not None), None)


def _from_mask(
    array: NDArray[Any], n_nodes: int, where: str, _others: Sequence[tuple[int, ...]]
) -> NDArray[np.bool_]:
    """Return a mask as a row per split."""
    if array.ndim not in (1, 2) or n_nodes not in array.shape:
        raise DataError(
            f"{where} has shape {array.shape}; expected ({n_nodes},), ({n_nodes}, k) or (k, {n_nodes})."
        )
    strange = array[(array != 0) & (array != 1)]
    if strange.size:
        raise DataError(
            f"{where} holds {strange.flat[0]}; a mask is true or false (a list is called ..._idx)."
        )
    mask = array.astype(bool)
    return np.atleast_2d(mask.T if mask.ndim == 2 and mask.shape[0] == n_nodes else mask)


def _from_lists(
    array: NDArray[Any], n_nodes: int, where: str, others: Sequence[tuple[int, ...]]
) -> NDArray[np.bool_]:
    """Return lists of row numbers as masks, a row per split; ``others`` are the shapes of all such lists."""
    if array.ndim not in (1, 2):
        raise DataError(f"{where} has shape {array.shape}; expected row numbers, one list per split.")
    lists = np.atleast_2d(array)
    if array.ndim == 2:
        # Parts are of different sizes and splits are as many in each: their axis is the one that agrees.
        shared = [axis for axis in (0, 1) if len({shape[axis] for shape in others}) == 1]
        lists = array.T if min(shared or (0, 1), key=lambda axis: array.shape[axis]) == 1 else array
    wrong = lists[(lists != np.round(lists)) | (lists < 0) | (lists >= n_nodes)]
    if wrong.size:
        raise DataError(f"{where} holds {wrong.flat[0]}; row numbers go from 0 to {n_nodes - 1}.")
    masks = np.zeros((len(lists), n_nodes), bool)
    np.put_along_axis(masks, lists.astype(np.int64), True, axis=1)
    return masks


def named_split(words: NDArray[Any], where: str) -> NodeSplit:
    """Return the split that a column of words gives; empty cells are in no part."""
    places = {word: PARTS.index(part) if part else _NO_PART for word, part in _PART_OF_WORD.items()}
    # A byte for each: there may be many millions.
    parts = np.fromiter((places.get(str(word).strip().lower(), -1) for word in words), np.int8, len(words))
    unknown = np.flatnonzero(parts == -1)
    if len(unknown):
        raise DataError(
            f"{where}: data row {unknown[0] + 1} says {str(words[unknown[0]])!r}; "
            "use train, val, test, or leave it empty."
        )
    if not (parts == PARTS.index("train")).any():
        raise DataError(f"{where} marks no node as train.")
    return NodeSplit.from_masks(*(parts == place for place in range(len(PARTS))))


def _generator(owner: str, seed: int) -> np.random.Generator:
    check_integer(owner, "seed", seed, 0)
    return np.random.default_rng(seed)


def _check_shares(owner: str, train: float, val: float, test: float | None) -> float:
    """Return what the shares add up to, checked."""
    check_number(owner, "train", train, 0, 1, open_low=True)
    check_number(owner, "val", val, 0, 1)
    if test is not None:
        check_number(owner, "test", test, 0, 1)
    total = train + val + (test or 0)
    if total > 1 + 1e-9:
        raise ParameterError(f"train, val and test add up to {total:g}; they may be at most 1.")
    return total


def _cut(n_nodes: int, *ends: float) -> list[int]:
    """Return where shares of so many nodes end; at least one node trains."""
    return [min(n_nodes, max(1, round(end * n_nodes))) for end in ends]


def _shuffled_by_class(
    y: ArrayLike, rng: np.random.Generator, name: str = "", least: int = 0, hint: str = ""
) -> list[NDArray[np.int64]]:
    """Return the labelled nodes of each class in random order; ``name`` asks for ``least`` in each."""
    array = as_strata(y)
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
