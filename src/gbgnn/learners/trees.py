"""BoostedTrees: gradient boosted trees of a library as the transformation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn.averaging import select_average
from gbgnn.errors import ParameterError
from gbgnn.learners.base import Head, Learner
from gbgnn.learners.tree_head import AveragedTrees, TreesHead, threads_for_trees
from gbgnn.learners.tree_libraries import LIBRARIES, Forest, Growth, TreeData, TreeModel, find_library
from gbgnn.losses import SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
from gbgnn.rounds import RoundContext, WeakTask

CrossEntropies = SoftmaxCrossEntropy | SigmoidCrossEntropy

MANY_ROWS = 20_000
"""With more labelled rows, groups of columns are compared on so many, and trees grown on the best alone."""

QUICK = {"learning_rate": 0.2, "max_bins": 63}
"""How trees are grown that are compared only."""

THIN_ROWS, THIN_COLUMNS = 0.7, 0.5
"""What a tree of a further variant sees of the rows and columns."""

FOREST = {"min_leaf": 1, "column_share": 1.0, "subsample": 1.0}
"""How the trees of a forest are grown."""

FEWEST_PER_LEAF, MOST_PER_LEAF, ROWS_PER_LEAF = 1, 20, 20
"""Of ``min_leaf=None``: a leaf has at least a 20th of the labelled rows, within these."""


@dataclass(kw_only=True, eq=False, repr=False)
class BoostedTrees(Learner):
    """Gradient boosted trees of LightGBM, scikit-learn, XGBoost or CatBoost, on the labelled rows.

    Every round grows up to ``n_trees`` on what the nodes see by then: on widening neighbourhoods, that is
    boosted trees on graphs. Classes are fitted with the round's sample weights; numbers by a model for each
    column. Missing values need no filling, and the scale of a column does not matter. Trees are saved in
    their library's own format, without pickle.

    Parameters
    ----------
    library
        ``"lightgbm"``, ``"sklearn"``, ``"xgboost"`` or ``"catboost"``; ``"auto"`` is LightGBM where it is
        installed, else scikit-learn.
    n_trees
        Trees of one round at most, for each class or column.
    learning_rate
        Shrinkage of every tree, in (0, 1].
    max_leaves
        Leaves of a tree at most.
    min_leaf
        Labelled rows in a leaf at least. None is a 20th of them, 20 at most. XGBoost goes by their curvature.
    l2
        Penalty on the squares of a leaf's values.
    subsample
        Share of the labelled rows that a tree sees, in (0, 1]. scikit-learn draws them once a round.
    column_share
        Share of the columns that a tree may split by, in (0, 1]; scikit-learn draws them anew for every
        split. Fewer make trees faster, and more different from each other.
    patience
        Stop when the validation nodes have gained nothing for so many trees, and go back to the best; None,
        or no validation nodes, grows all. scikit-learn can from its version 1.7 on.
    max_bins
        Bins of a column, of which a tree sees no more.
    columns
        Where columns come in groups (:class:`~gbgnn.Neighbourhood`), ``"average"`` grows trees on the first
        group, on the first two and so on, and averages those that make the loss of the validation nodes
        smallest together; of more than 20,000 labelled rows, a sample says which of them is best, and it
        alone is grown on all. ``"all"``, or no validation nodes, grows trees once, on all columns.
    n_variants
        How often trees are grown on every group, to be averaged; from the second time on a tree sees 70 % of
        the rows and half of the columns of the first. Without validation nodes, once.
    n_forest
        Trees of a forest on every group, each grown to the end by itself, to be averaged with the boosted
        ones. There is none without validation nodes, or where a round of classes builds on scores.

    Examples
    --------
    >>> from gbgnn.testing import learner_round
    >>> X = torch.tensor([[-1.0], [-2.0], [1.0], [float("nan")]])
    >>> learner = BoostedTrees(library="sklearn", n_trees=20)
    >>> learner.fit(learner_round(X, torch.tensor([0, 0, 1, 1])))(X).argmax(dim=1)
    tensor([0, 0, 1, 1])
    """

    library: str = "auto"
    n_trees: int = 50
    learning_rate: float = 0.1
    max_leaves: int = 31
    min_leaf: int | None = None
    l2: float = 1.0
    subsample: float = 1.0
    column_share: float = 1.0
    patience: int | None = 10
    max_bins: int = 255
    columns: str = "average"
    n_variants: int = 1
    n_forest: int = 0

    takes_gaps = True
    takes_offsets = True

    def check(self) -> None:
        """Raise when a setting is out of range, or the library is not installed."""
        check_choice("BoostedTrees", "library", self.library, ("auto", *LIBRARIES))
        check_integer("BoostedTrees", "n_trees", self.n_trees, 1)
        check_number("BoostedTrees", "learning_rate", self.learning_rate, 0, 1, open_low=True)
        check_integer("BoostedTrees", "max_leaves", self.max_leaves, 2)
        check_integer("BoostedTrees", "min_leaf", self.min_leaf, 1, optional=True)
        check_number("BoostedTrees", "l2", self.l2, 0)
        check_number("BoostedTrees", "subsample", self.subsample, 0, 1, open_low=True)
        check_number("BoostedTrees", "column_share", self.column_share, 0, 1, open_low=True)
        check_integer("BoostedTrees", "patience", self.patience, 1, optional=True)
        check_integer("BoostedTrees", "max_bins", self.max_bins, 2, 255)
        check_choice("BoostedTrees", "columns", self.columns, ("average", "all"))
        check_integer("BoostedTrees", "n_variants", self.n_variants, 1)
        check_integer("BoostedTrees", "n_forest", self.n_forest, 0)
        find_library(self.library).load_library()

    @property
    def watches_validation(self) -> bool:
        """Whether training stops early."""
        return self.patience is not None

    @property
    def is_differentiable(self) -> bool:
        """No: trees have no gradient."""
        return False

    def fit(self, context: RoundContext) -> Head:
        """Grow the trees of a round on the labelled rows."""
        counts, task = self._column_counts(context), context.weak_task
        if len(counts) > 1 and len(task.rows) > MANY_ROWS:
            few = replace(context, task=sample_task(task, MANY_ROWS, context.seed))
            quick: BoostedTrees = clone(self).set_params(**QUICK)
            best = max(_average(quick._grow(few, counts), few), key=lambda member: member.weight)
            counts = [best.n_features]
        grown = self._grow(context, counts)
        for i in range(1, self.n_variants if self._is_watched(task) else 1):
            thin: BoostedTrees = clone(self).set_params(
                subsample=THIN_ROWS * self.subsample, column_share=THIN_COLUMNS * self.column_share
            )
            grown += thin._grow(replace(context, seed=context.seed ^ i), counts)
        if self.n_forest and self._is_watched(task) and not builds_on_scores(task):
            forest: BoostedTrees = clone(self).set_params(n_trees=self.n_forest, **FOREST)
            grown += forest._grow(context, counts, Forest)
        return TreesHead(_average(grown, context), task.n_outputs, context.X.shape[1])

    def _grow(
        self, context: RoundContext, counts: Sequence[int], library: type[TreeModel] | None = None
    ) -> list[AveragedTrees]:
        """Return trees grown on the first columns, as many as each count says."""
        task, library = context.weak_task, library or find_library(self.library)
        rows, weights = context.X.rows(task.rows).cpu().numpy(), task.weights.cpu().numpy()
        val_rows = None
        if self._is_watched(task):
            assert task.val_rows is not None
            val_rows = context.X.rows(task.val_rows).cpu().numpy()
        parts = split_task(task, library)
        growth = self._growth(
            context.seed, len(rows), threads_for_trees(rows.size * self.n_trees * len(parts))
        )
        is_category, grown = find_categories(context), []
        for n_columns in counts:
            models = []
            for part in parts:
                watched = None
                if val_rows is not None and part.val_targets is not None:
                    watched = (val_rows[:, :n_columns], part.val_targets)
                data = TreeData(
                    rows[:, :n_columns],
                    part.targets,
                    weights * (len(weights) / weights.sum()),
                    part.n_classes,
                    watched,
                    None if is_category is None else is_category[:n_columns],
                    part.offsets,
                    None if watched is None else part.val_offsets,
                )
                models.append(library.fit(data, growth))
            grown.append(AveragedTrees(1.0, models))
        return grown

    def _is_watched(self, task: WeakTask) -> bool:
        return self.patience is not None and task.val_rows is not None and task.val_targets is not None

    def _column_counts(self, context: RoundContext) -> Sequence[int]:
        """Return how many columns trees are grown on, each time: those of one group more."""
        groups, n_columns = context.inputs.column_groups, context.X.shape[1]
        is_watched = self._is_watched(context.weak_task)
        if self.columns == "all" or not is_watched or not groups or n_columns != groups[-1]:
            return [n_columns]
        return groups

    def _growth(self, seed: int, n_rows: int, threads: int) -> Growth:
        least = min(max(n_rows // ROWS_PER_LEAF, FEWEST_PER_LEAF), MOST_PER_LEAF)
        settings = self.get_params(deep=False)
        for name in ("library", "columns", "n_variants", "n_forest"):
            del settings[name]
        settings["min_leaf"] = least if self.min_leaf is None else self.min_leaf
        return Growth(**settings, seed=seed, n_threads=threads)


def sample_task(task: WeakTask, n_rows: int, seed: int) -> WeakTask:
    """Return the task of some labelled rows and validation rows, so many of each at most, drawn at random."""
    random = np.random.default_rng(seed)

    def draw(n_all: int) -> torch.Tensor:
        chosen = np.sort(random.permutation(n_all)[:n_rows])
        return torch.from_numpy(chosen).to(task.rows.device)

    def take(values: torch.Tensor | None, places: torch.Tensor) -> Any:
        return None if values is None else values[places]

    own = draw(len(task.rows))
    val = own[:0] if task.val_rows is None else draw(len(task.val_rows))
    return replace(
        task,
        **{name: take(getattr(task, name), own) for name in ("rows", "targets", "weights", "offsets")},
        **{name: take(getattr(task, name), val) for name in ("val_rows", "val_targets", "val_offsets")},
    )


class Part(NamedTuple):
    """What one model fits: classes, or one column of numbers."""

    targets: NDArray[Any]
    n_classes: int | None
    val_targets: NDArray[Any] | None
    offsets: NDArray[Any] | None = None
    val_offsets: NDArray[Any] | None = None


def split_task(task: WeakTask, library: type[TreeModel]) -> list[Part]:
    """Return what the models of a round fit: all classes, or every column of numbers or labels by itself."""
    arrays = (task.targets, task.val_targets, task.offsets, task.val_offsets)
    targets, val_targets, offsets, val_offsets = (
        None if each is None else each.cpu().numpy() for each in arrays
    )
    assert targets is not None
    if offsets is not None and not offsets.any():
        offsets = val_offsets = None
    if isinstance(task.loss, SquaredError) and offsets is not None:
        targets, val_targets = _subtract(targets, offsets), _subtract(val_targets, val_offsets)
        offsets = val_offsets = None
    elif task.offsets is not None and not isinstance(task.loss, SquaredError | CrossEntropies):
        raise ParameterError(
            f"BoostedTrees minimise softmax, sigmoid and squared losses; for {type(task.loss).__name__} use "
            'FunctionalGradient(target="gradient").'
        )
    if offsets is not None and not library.takes_offsets:
        raise ParameterError(
            f"{library.library} cannot build on the scores of earlier rounds; use "
            'BoostedTrees(library="lightgbm"), one round, or FunctionalGradient(target="gradient").'
        )
    if task.loss.takes == "classes":
        if task.n_outputs == 2:  # the logit of the second class
            offsets, val_offsets = (
                None if each is None else each[:, 1] - each[:, 0] for each in (offsets, val_offsets)
            )
        return [Part(targets, task.n_outputs, val_targets, offsets, val_offsets)]
    if not task.is_regression:  # labels, which a node has or has not
        targets, val_targets = (None if each is None else each.astype(int) for each in (targets, val_targets))
    n_classes, others = None if task.is_regression else 2, (val_targets, offsets, val_offsets)
    return [
        Part(_column(targets, i), n_classes, *(_column(each, i) for each in others))
        for i in range(task.n_outputs)
    ]


def builds_on_scores(task: WeakTask) -> bool:
    """Return whether classes are to be fitted on top of scores; numbers are, less these."""
    return task.offsets is not None and bool(task.offsets.any()) and not isinstance(task.loss, SquaredError)


def _average(grown: Sequence[AveragedTrees], context: RoundContext) -> list[AveragedTrees]:
    """Return those that make the loss of the validation nodes smallest together, with their weights."""
    if len(grown) == 1:
        return list(grown)
    task = context.weak_task
    assert task.val_rows is not None
    assert task.val_targets is not None
    rows = context.X.rows(task.val_rows)
    outputs = torch.stack([TreesHead([each], task.n_outputs, rows.shape[1])(rows) for each in grown])
    weights = select_average(outputs, task.loss, task.val_targets, task.val_offsets)
    return [AveragedTrees(w, each.models) for w, each in zip(weights.tolist(), grown, strict=True) if w > 0]


def _column(values: NDArray[Any] | None, i: int) -> Any:
    """Return a column of an array, which may be its only one."""
    if values is None:
        return None
    return np.ascontiguousarray(np.reshape(values, (len(values), -1))[:, i])  # LightGBM warns of parts


def _subtract(values: NDArray[Any] | None, offsets: NDArray[Any] | None) -> Any:
    return None if values is None or offsets is None else values - offsets


def find_categories(context: RoundContext) -> NDArray[Any] | None:
    """Return which columns hold codes of categories, a boolean each; None where it is not known of any.

    The inputs of a graph may say so of their raw columns, as ``inputs.raw.categorical``. The first round sees
    these as they are; a hop makes numbers of them.
    """
    if context.inputs.raw_columns is None or context.t > 1:
        return None
    mask = context.inputs.raw.categorical
    return mask if len(mask) == context.X.shape[1] else None
