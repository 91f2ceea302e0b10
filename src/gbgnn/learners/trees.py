"""BoostedTrees: gradient boosted trees of a library as the transformation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn._threads import LARGE, n_threads
from gbgnn.averaging import select_average
from gbgnn.errors import MissingDependencyError, ModelFileError, ParameterError
from gbgnn.learners.base import Head, Learner
from gbgnn.learners.estimator_bytes import as_bytes, as_tensor
from gbgnn.learners.tree_arrays import TreeArrays
from gbgnn.learners.tree_libraries import LIBRARIES, Growth, TreeData, TreeModel, find_library
from gbgnn.losses import SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
from gbgnn.rounds import RoundContext, WeakTask

CrossEntropies = SoftmaxCrossEntropy | SigmoidCrossEntropy

MANY_ROWS = 20_000
"""With more labelled rows, groups of columns are compared on so many, and trees grown on the best alone."""

QUICK = {"learning_rate": 0.2, "max_bins": 63}
"""How trees are grown that are compared only."""

FEWEST_PER_LEAF, MOST_PER_LEAF, ROWS_PER_LEAF = 1, 20, 20
"""Of ``min_leaf=None``: a leaf has at least a 20th of the labelled rows, within these."""


class AveragedTrees(NamedTuple):
    """Models that see the same first columns, one of all classes or one for each column, and their weight."""

    weight: float
    models: Sequence[TreeModel]

    @property
    def n_features(self) -> int:
        """How many columns they see."""
        return self.models[0].n_features

    def predict(self, rows: NDArray[Any], threads: int) -> NDArray[Any]:
        """Return raw outputs; of two classes it may be the logit of the second alone."""
        seen = rows[:, : self.n_features]
        return np.hstack([model.predict(seen, threads) for model in self.models])

    def trees(self) -> tuple[list[TreeArrays], NDArray[Any]]:
        """Return the trees with their leaves times the weight, and what is added to each column, as well."""
        trees: list[TreeArrays] = []
        base: list[float] = []
        for model in self.models:
            own, start = model.trees()
            trees += [
                replace(tree, value=self.weight * tree.value, column=len(base) + tree.column) for tree in own
            ]
            base += (self.weight * start).tolist()
        return trees, np.array(base)


class TreesHead(Head):
    """Fitted trees: the weighted mean of what members say that were grown on fewer or more columns."""

    def __init__(self, members: Sequence[AveragedTrees], n_outputs: int, n_features: int) -> None:
        super().__init__()
        self.members, self.n_outputs, self.n_features = list(members), n_outputs, n_features

    @property
    def models(self) -> list[TreeModel]:
        """The models of all members, one after another."""
        return [model for member in self.members for model in member.models]

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return logits of classes, or numbers."""
        if X.shape[1] != self.n_features:
            raise ParameterError(
                f"rows have {X.shape[1]} columns, but the trees have seen {self.n_features}."
            )
        rows = X.detach().cpu().numpy()
        threads = _threads_for(16 * rows.size)  # a row takes many steps through many trees
        output = np.sum([member.weight * member.predict(rows, threads) for member in self.members], axis=0)
        if output.shape[1] < self.n_outputs:  # two classes: the logit of the first is zero
            output = np.hstack([np.zeros_like(output), output])
        return torch.tensor(output, dtype=X.dtype, device=X.device)

    def trees(self) -> tuple[list[TreeArrays], NDArray[Any]]:
        """Return trees whose sum the outputs are, and what is added to it; of two classes to the second."""
        members = [member.trees() for member in self.members]
        return [tree for trees, _ in members for tree in trees], np.sum([base for _, base in members], axis=0)

    def importances(self) -> NDArray[np.float64]:
        """Return what splits on each column gained, of all trees, times the weights of the members."""
        total = np.zeros(self.n_features)
        for member in self.members:
            for model in member.models:
                total[: model.n_features] += member.weight * model.importances()
        return total

    def state(self) -> dict[str, torch.Tensor]:
        """Return the models in their library's own format, as bytes; weights only where there are several."""
        models = {f"model.{i}": as_tensor(model.to_bytes()) for i, model in enumerate(self.models)}
        library = as_tensor(self.models[0].library.encode())
        sizes = {"n_outputs": torch.tensor(self.n_outputs), "n_features": torch.tensor(self.n_features)}
        weights = torch.tensor([member.weight for member in self.members], dtype=torch.float64)
        return {"library": library} | sizes | models | ({"weights": weights} if len(weights) > 1 else {})

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> TreesHead:
        """Read the models again; anything that is not what :meth:`state` writes is a ModelFileError."""
        try:
            library = LIBRARIES[as_bytes(state["library"]).decode()]
            n_outputs, n_features = int(state["n_outputs"]), int(state["n_features"])
            weights = _read_weights(state["weights"]) if "weights" in state else [1.0]
            n_models = len(state) - 3 - ("weights" in state)
            models = [library.from_bytes(as_bytes(state[f"model.{i}"])) for i in range(n_models)]
            members = _share_out(models, weights)
            _check_members(members, n_outputs, n_features)
        except MissingDependencyError:
            raise
        except Exception as error:  # whatever a library makes of forged bytes
            raise ModelFileError(f"its boosted trees cannot be read: {error}") from error
        return cls(members, n_outputs, n_features)

    def report(self) -> dict[str, Any]:
        """Return the weights of the members by how many of the columns they see."""
        return {"columns": {str(member.n_features): member.weight for member in self.members}}


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
        return TreesHead(_average(self._grow(context, counts), context), task.n_outputs, context.X.shape[1])

    def _grow(self, context: RoundContext, counts: Sequence[int]) -> list[AveragedTrees]:
        """Return trees grown on the first columns, as many as each count says."""
        task, library = context.weak_task, find_library(self.library)
        rows, weights = context.X.rows(task.rows).cpu().numpy(), task.weights.cpu().numpy()
        val_rows = None
        if self._is_watched(task):
            assert task.val_rows is not None
            val_rows = context.X.rows(task.val_rows).cpu().numpy()
        parts = split_task(task, library)
        growth = self._growth(context.seed, len(rows), _threads_for(rows.size * self.n_trees * len(parts)))
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
        del settings["library"], settings["columns"]
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
    n_classes, others = None if task.is_regression else 2, (val_targets, offsets, val_offsets)
    return [
        Part(_column(targets, i), n_classes, *(_column(each, i) for each in others))
        for i in range(task.n_outputs)
    ]


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


def _read_weights(stored: torch.Tensor) -> list[float]:
    """Return the weights of several members."""
    weights = stored.tolist()
    if stored.dtype != torch.float64 or stored.ndim != 1 or len(weights) < 2:
        raise ValueError("the weights of its members are not a list of numbers")
    if min(weights) <= 0 or not math.isclose(sum(weights), 1):
        raise ValueError(f"the weights of its members, {weights}, are not positive with sum one")
    return weights


def _share_out(models: Sequence[TreeModel], weights: Sequence[float]) -> list[AveragedTrees]:
    """Return as many members as there are weights, all with as many of the models."""
    size, rest = divmod(len(models), len(weights))
    if rest or not size:
        raise ValueError(f"{len(models)} models cannot be shared out to {len(weights)} members")
    return [AveragedTrees(w, models[i * size : (i + 1) * size]) for i, w in enumerate(weights)]


def _check_members(members: Sequence[AveragedTrees], n_outputs: int, n_features: int) -> None:
    """Raise unless models see the same of the columns, and return the outputs, or all but one of two."""
    n_columns = {sum(model.n_columns for model in member.models) for member in members}
    fits = n_columns == {n_outputs} or (n_columns, n_outputs) == ({1}, 2)
    seen = [{model.n_features for model in member.models} for member in members]
    if not fits or any(len(each) != 1 or max(each) > n_features for each in seen):
        raise ValueError(f"models with {sorted(n_columns)} columns do not give {n_outputs} outputs")


def _threads_for(work: float) -> int:
    """Return how many threads a library may use: one where there is little to do."""
    return n_threads() if work >= LARGE else 1
