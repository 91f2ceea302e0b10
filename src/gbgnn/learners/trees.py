"""BoostedTrees: gradient boosted trees of a library as the transformation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn._threads import LARGE, n_threads
from gbgnn.errors import MissingDependencyError, ModelFileError, ParameterError
from gbgnn.learners.base import Head, Learner
from gbgnn.learners.estimator_bytes import as_bytes, as_tensor
from gbgnn.learners.tree_libraries import LIBRARIES, Growth, TreeData, TreeModel, find_library
from gbgnn.rounds import RoundContext

FEWEST_PER_LEAF, MOST_PER_LEAF, ROWS_PER_LEAF = 1, 20, 20
"""Of ``min_leaf=None``: a leaf has at least a 20th of the labelled rows, within these."""


class TreesHead(Head):
    """Fitted trees: one model of all classes, or one for each column of numbers."""

    def __init__(self, models: Sequence[TreeModel], n_outputs: int) -> None:
        super().__init__()
        self.models, self.n_outputs = list(models), n_outputs

    @property
    def n_features(self) -> int:
        """Number of columns of a row."""
        return self.models[0].n_features

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return logits of classes, or numbers."""
        if X.shape[1] != self.n_features:
            raise ParameterError(
                f"rows have {X.shape[1]} columns, but the trees have seen {self.n_features}."
            )
        rows = X.detach().cpu().numpy()
        threads = _threads_for(16 * rows.size)  # a row takes many steps through many trees
        output = np.hstack([model.predict(rows, threads) for model in self.models])
        if output.shape[1] < self.n_outputs:  # two classes: the logit of the first is zero
            output = np.hstack([np.zeros_like(output), output])
        return torch.tensor(output, dtype=X.dtype, device=X.device)

    def state(self) -> dict[str, torch.Tensor]:
        """Return the models in their library's own format, as bytes."""
        models = {f"model.{i}": as_tensor(model.to_bytes()) for i, model in enumerate(self.models)}
        library = as_tensor(self.models[0].library.encode())
        return {"library": library, "n_outputs": torch.tensor(self.n_outputs)} | models

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> TreesHead:
        """Read the models again; anything that is not what :meth:`state` writes is a ModelFileError."""
        try:
            library = LIBRARIES[as_bytes(state["library"]).decode()]
            n_outputs, n_models = int(state["n_outputs"]), len(state) - 2
            models = [library.from_bytes(as_bytes(state[f"model.{i}"])) for i in range(n_models)]
            _check_models(models, n_outputs)
        except MissingDependencyError:
            raise
        except Exception as error:  # whatever a library makes of forged bytes
            raise ModelFileError(f"its boosted trees cannot be read: {error}") from error
        return cls(models, n_outputs)


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
    patience
        Stop when the validation nodes have gained nothing for so many trees, and go back to the best; None,
        or no validation nodes, grows all. scikit-learn can from its version 1.7 on.
    max_bins
        Bins of a column, of which a tree sees no more.

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
    patience: int | None = 10
    max_bins: int = 255

    def check(self) -> None:
        """Raise when a setting is out of range, or the library is not installed."""
        check_choice("BoostedTrees", "library", self.library, ("auto", *LIBRARIES))
        check_integer("BoostedTrees", "n_trees", self.n_trees, 1)
        check_number("BoostedTrees", "learning_rate", self.learning_rate, 0, 1, open_low=True)
        check_integer("BoostedTrees", "max_leaves", self.max_leaves, 2)
        check_integer("BoostedTrees", "min_leaf", self.min_leaf, 1, optional=True)
        check_number("BoostedTrees", "l2", self.l2, 0)
        check_number("BoostedTrees", "subsample", self.subsample, 0, 1, open_low=True)
        check_integer("BoostedTrees", "patience", self.patience, 1, optional=True)
        check_integer("BoostedTrees", "max_bins", self.max_bins, 2, 255)
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
        task, library = context.weak_task, find_library(self.library)
        rows, targets = context.X.rows(task.rows).cpu().numpy(), task.targets.cpu().numpy()
        validation = None
        if self.patience is not None and task.val_rows is not None and task.val_targets is not None:
            validation = (context.X.rows(task.val_rows).cpu().numpy(), task.val_targets.cpu().numpy())
        weights = task.weights.cpu().numpy()
        weights = weights * (len(weights) / weights.sum())
        n_models = task.n_outputs if task.is_regression else 1
        growth = self._growth(context.seed, len(rows), _threads_for(rows.size * self.n_trees * n_models))
        is_category = find_categories(context)
        if not task.is_regression:
            data = TreeData(rows, targets, weights, task.n_outputs, validation, is_category)
            return TreesHead([library.fit(data, growth)], task.n_outputs)
        models = []
        for i in range(n_models):
            watched = None if validation is None else (validation[0], validation[1][:, i])
            data = TreeData(rows, targets[:, i], weights, None, watched, is_category)
            models.append(library.fit(data, growth))
        return TreesHead(models, n_models)

    def _growth(self, seed: int, n_rows: int, threads: int) -> Growth:
        least = min(max(n_rows // ROWS_PER_LEAF, FEWEST_PER_LEAF), MOST_PER_LEAF)
        settings = self.get_params(deep=False)
        del settings["library"]
        settings["min_leaf"] = least if self.min_leaf is None else self.min_leaf
        return Growth(**settings, seed=seed, n_threads=threads)


def find_categories(context: RoundContext) -> NDArray[Any] | None:
    """Return which columns hold codes of categories, a boolean each; None where it is not known of any.

    The inputs of a graph may say so of their raw columns, as ``inputs.raw.categorical``. The first round sees
    these as they are; a hop makes numbers of them.
    """
    mask = getattr(getattr(context.inputs, "raw", None), "categorical", None)
    if mask is None or context.t > 1 or len(mask) != context.X.shape[1]:
        return None
    return np.asarray(mask, dtype=bool)


def _check_models(models: Sequence[TreeModel], n_outputs: int) -> None:
    """Raise unless models see the same columns, and return the outputs, or all but one of two."""
    n_columns = sum(model.n_columns for model in models)
    fits = n_columns == n_outputs or (n_columns, n_outputs) == (1, 2)
    if not fits or len({model.n_features for model in models}) != 1:
        raise ValueError(f"{len(models)} models with {n_columns} columns do not give {n_outputs} outputs")


def _threads_for(work: float) -> int:
    """Return how many threads a library may use: one where there is little to do."""
    return n_threads() if work >= LARGE else 1
