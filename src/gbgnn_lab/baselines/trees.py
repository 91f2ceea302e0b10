"""Boosted trees on columns made of the graph: LightGBM and scikit-learn's; residuals passed on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import KFold

from gbgnn._threads import n_threads
from gbgnn.errors import ParameterError, import_needed
from gbgnn.features import GraphFeatures
from gbgnn.problem import LabelledNodes
from gbgnn.propagation import Propagator, RandomWalk, powers
from gbgnn.tasks import Task
from gbgnn_lab.baselines.base import BaselineFit, BaselineModel, count, step
from gbgnn_lab.baselines.data import TrainingData

Floats = NDArray[np.floating[Any]]
Rows = tuple[Floats, NDArray[Any]]
"""Rows of a table, and their targets."""
_SMALLEST = 1e-15  # a probability that has a logarithm


@dataclass(frozen=True, eq=False)
class Forest:
    """Grown trees: what they predict of rows, shape (n, K), probabilities or numbers; and their size."""

    predict: Callable[[Floats], Floats]
    n_trees: int
    n_leaves: int


@dataclass(frozen=True, kw_only=True)
class TreeModel(BaselineModel):
    """Boosted trees on the nodes' own columns and, from a depth of one on, on those of their neighbourhood.

    The number of trees is chosen by the loss on validation nodes; without, it is ``few_trees``.
    """

    predicts_numbers = True

    depth: int = count(0, low=0)  # hops of neighbours whose columns are looked at; 0 is none
    learning_rate: float = step(0.05)
    n_trees: int = count(1000)  # the most
    patience: int = count(50)  # trees without a lower validation loss before growing stops
    few_trees: int = count(100)  # where there are no validation nodes
    leaves: int = count(31, low=2)  # the most of a tree
    leaf_nodes: int = count(10)  # the fewest training nodes of a leaf

    @abstractmethod
    def grow(self, rows: Rows, task: Task, seed: int, n_trees: int, held_out: Rows | None) -> Forest:
        """Return trees, at most ``n_trees``; their number is chosen by rows that are held out, if any."""

    def fit(self, data: TrainingData) -> BaselineFit:
        """Make the table, grow the trees, and predict all nodes."""
        table = self.tabulate(data)
        forest = self.grow_chosen(table, data, draw_seed())
        return BaselineFit(as_scores(forest.predict(table), data), forest.n_trees, forest.n_leaves)

    def tabulate(self, data: TrainingData) -> Floats:
        """Return the table of all nodes."""
        if data.n_outputs > 1 and not data.task.has_classes:
            raise ParameterError(
                f"{type(self).__name__} predicts one number; y has {data.n_outputs} columns."
            )
        structure = ("degree",) if self.depth else ()
        features = GraphFeatures(hops=self.depth, structure=structure, encodings=())
        return np.asarray(features.fit_transform(np.arange(data.graph.n_nodes), graph=data.graph))

    def grow_chosen(self, table: Floats, data: TrainingData, seed: int) -> Forest:
        """Return trees for all training nodes, as many as the validation nodes ask for."""
        held_out = None if data.validation is None else take_rows(table, data.validation)
        n_trees = self.few_trees if held_out is None else self.n_trees
        return self.grow(take_rows(table, data.train), data.task, seed, n_trees, held_out)


def take_rows(table: Floats, nodes: LabelledNodes) -> Rows:
    """Return the rows of nodes, and their targets: indices of classes, or numbers."""
    targets = nodes.targets.cpu().numpy()
    return table[nodes.rows.cpu().numpy()], targets if targets.ndim == 1 else targets[:, 0]


def as_scores(predicted: Floats, data: TrainingData) -> torch.Tensor:
    """Return what was predicted as scores: numbers as they are, probabilities as their logarithms."""
    scores = np.log(np.clip(predicted, _SMALLEST, 1)) if data.task.has_classes else predicted
    return torch.as_tensor(scores, dtype=torch.float32, device=data.device)


def draw_seed() -> int:
    """Return a seed from torch's random numbers, for what draws its own."""
    return int(torch.randint(2**31 - 1, (1,)))


def _column(n_columns: int, predicted: NDArray[Any]) -> Floats:
    """Return predictions with a column per class or number; of two classes one chance was predicted."""
    if predicted.ndim == 2:
        return predicted
    return np.stack([1 - predicted, predicted] if n_columns == 2 else [predicted], axis=1)


@dataclass(frozen=True, kw_only=True)
class LightGBM(TreeModel):
    """LightGBM; each tree sees 0.8 of the nodes and 0.7 of the columns."""

    def grow(self, rows: Rows, task: Task, seed: int, n_trees: int, held_out: Rows | None) -> Forest:
        """Return LightGBM's trees."""
        lightgbm = import_needed("lightgbm", "the baseline lightgbm", "lab")
        settings: dict[str, Any] = {
            "objective": "l2",
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.leaf_nodes,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "feature_fraction": 0.7,
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": n_threads(),
            "verbosity": -1,
        }
        if task.has_classes and task.n_columns == 2:
            settings["objective"] = "binary"
        elif task.has_classes:
            settings |= {"objective": "multiclass", "num_class": task.n_columns}
        train = lightgbm.Dataset(*rows)
        stop = lightgbm.early_stopping(self.patience, verbose=False)
        watched = {} if held_out is None else {"valid_sets": [train.create_valid(*held_out)]}
        callbacks = [] if held_out is None else [stop]
        booster = lightgbm.train(settings, train, n_trees, callbacks=callbacks, **watched)
        best = booster.best_iteration if held_out is not None else booster.current_iteration()
        leaves = sum(tree["num_leaves"] for tree in booster.dump_model(num_iteration=best)["tree_info"])
        n_columns = task.n_columns if task.has_classes else 1

        def predict(table: Floats) -> Floats:
            return _column(n_columns, np.asarray(booster.predict(table, num_iteration=best)))

        return Forest(predict, int(best), int(leaves))


@dataclass(frozen=True, kw_only=True)
class HistGradientBoosting(TreeModel):
    """scikit-learn's histogram-based gradient boosting."""

    learning_rate: float = step(0.1)
    n_trees: int = count(500)
    patience: int = count(20)

    def grow(self, rows: Rows, task: Task, seed: int, n_trees: int, held_out: Rows | None) -> Forest:
        """Return scikit-learn's trees."""
        kind = HistGradientBoostingClassifier if task.has_classes else HistGradientBoostingRegressor
        model = kind(
            learning_rate=self.learning_rate,
            max_iter=n_trees,
            max_leaf_nodes=self.leaves,
            min_samples_leaf=self.leaf_nodes,
            early_stopping=held_out is not None,
            n_iter_no_change=self.patience,
            random_state=seed,
        )
        X, targets = rows
        some = ~np.isnan(X).all(axis=0)  # scikit-learn cannot bin a column without any value
        watched = {} if held_out is None else {"X_val": held_out[0][:, some], "y_val": held_out[1]}
        model.fit(X[:, some], targets, **watched)
        leaves = sum(tree.get_n_leaf_nodes() for stage in model._predictors for tree in stage)
        predict = model.predict_proba if task.has_classes else model.predict
        return Forest(lambda table: _column(1, predict(table[:, some])), model.n_iter_, leaves)


SHARES = (0.5, 0.7, 0.9, 1.0)
SHRINKAGES = (0.1, 0.3, 1.0)


@dataclass(frozen=True, kw_only=True)
class PropagatedResiduals(BaselineModel):
    r"""LightGBM on two-hop columns, and what it gets wrong at labelled nodes passed on to those around them.

    Residuals are out of fold: those of a node are by trees that were grown without it, as those of nodes
    without a label are. With residuals r of the labelled nodes, of which m marks the places, a node gets
    :math:`\sum_k s^k (P^k r)_i / (\lambda + \sum_k s^k (P^k m)_i)` for a random walk P. Nodes that are judged
    have no residual of their own to hear. Share s and shrinkage :math:`\lambda` are chosen by the validation
    nodes (AUC of two classes, hits of more, loss of numbers), and so is whether to pass on anything at all.
    """

    predicts_numbers = True

    depth: int = count(16)  # steps that residuals travel
    hops: int = count(2)  # of neighbours whose columns the trees look at
    folds: int = count(5, low=2)

    def fit(self, data: TrainingData) -> BaselineFit:
        """Grow trees, find their residuals, and add what arrives of them."""
        trees, seed = LightGBM(depth=self.hops), draw_seed()
        table = trees.tabulate(data)
        forest = trees.grow_chosen(table, data, seed)
        predicted = np.asarray(forest.predict(table), np.float64)
        grow = partial(trees.grow, task=data.task, seed=seed, n_trees=forest.n_trees, held_out=None)
        residuals = self._residuals(take_rows(table, data.train), grow, data, seed)
        best, best_rank = predicted, self._rank(predicted, data)
        for arrived in self._arrivals(residuals, data):
            corrected = predicted + arrived
            rank = self._rank(corrected, data)
            # Without validation nodes, the first that is tried.
            if rank > best_rank or data.validation is None:
                best, best_rank = corrected, rank
            if data.validation is None:
                break
        return BaselineFit(as_scores(best, data), forest.n_trees, forest.n_leaves)

    def _residuals(self, rows: Rows, grow: Callable[..., Forest], data: TrainingData, seed: int) -> Floats:
        """Return of each training node the target less what trees predict that have not seen it."""
        X, targets = rows
        # As many rows as the outputs of the trees have columns.
        wanted = np.eye(data.n_outputs)[targets] if data.task.has_classes else targets[:, None]
        result = np.zeros_like(wanted, dtype=np.float64)
        n_folds = min(self.folds, len(X))
        for seen, unseen in KFold(n_folds, shuffle=True, random_state=seed).split(X):
            result[unseen] = wanted[unseen] - grow((X[seen], targets[seen])).predict(X[unseen])
        return result

    def _arrivals(self, residuals: Floats, data: TrainingData) -> Iterator[Floats]:
        """Yield what arrives at all nodes, for each share and shrinkage."""
        marked = np.zeros((data.graph.n_nodes, residuals.shape[1] + 1))
        marked[data.train.rows.cpu().numpy()] = np.column_stack([residuals, np.ones(len(residuals))])
        P = Propagator(RandomWalk().build(data.graph.adjacency), dtype=torch.float64)
        steps = range(1, self.depth + 1)
        sums = [np.zeros_like(marked) for _ in SHARES]
        for k, arrived in zip(steps, powers(P, torch.from_numpy(marked), steps), strict=True):
            for total, share in zip(sums, SHARES, strict=True):
                total += share**k * arrived.numpy()
        for total in sums:
            for shrinkage in SHRINKAGES:
                yield total[:, :-1] / (total[:, -1:] + shrinkage)

    def _rank(self, predicted: Floats, data: TrainingData) -> tuple[float, float]:
        """Return how good predictions are for the validation nodes; the larger, the better."""
        if data.validation is None:
            return (0.0, 0.0)
        scores = as_scores(predicted, data)[data.validation.rows]
        first, loss = data.judge_ranking(scores, data.validation)
        return first, -loss
