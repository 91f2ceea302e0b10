"""Presets: which parts a model is made of where nothing was asked for."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, TypeVar

import scipy.sparse as sp
from numpy.typing import ArrayLike

from gbgnn._checks import check_choice
from gbgnn.boosting import FunctionalGradient
from gbgnn.features import Neighbourhood
from gbgnn.graph import Graph
from gbgnn.labels import count_labels
from gbgnn.learners import BoostedTrees, GraphNetwork, Stages
from gbgnn.registry import as_device
from gbgnn.tasks import Task

PRESETS = ("default", "fast")

FEWEST_LABELS, FEWEST_PER_SCORE = 200, 10
"""With fewer labelled nodes, in all or per class, the paper's method stays: trees were not compared there."""

MOST_COLUMNS = 200
"""Wider tables are mostly words or pixels, and stay with the paper's method for the same reason."""

MOST_TO_LOOK_AT = 2_000
"""Columns times scores: a tree is grown for every class or number, and looks at every column."""

MANY_LABELS = 20_000
"""From here on trees are larger, their steps longer and see fewer columns: time counts there."""

MOST_NODES, MOST_NODES_OF_NUMBERS, MOST_NODES_ON_GPU = 50_000, 10_000, 1_000_000
"""Up to so many nodes a network follows the trees: a node takes one to two milliseconds on a CPU. Of numbers
it has less to add to them, so that there it must be cheap."""

# What a model must have left as it is to get other parts: a choice that somebody made is kept.
_OPEN = (
    *("aggregation", "learner", "rule", "propagation", "neighbourhood", "feature_norm", "n_rounds"),
    *("learning_rate", "fine_tune", "warm_start", "loss", "task"),
)

M = TypeVar("M")


@dataclass(frozen=True)
class Facts:
    """What the parts are chosen by; no label is among it but their number."""

    n_nodes: int
    n_labels: int
    n_scores: int
    n_columns: int
    is_sparse: bool
    has_validation: bool

    @classmethod
    def of(cls, graph: Graph, task: Task, y: ArrayLike, *, has_validation: bool) -> Facts:
        """Look at a graph, and at how much is known of it."""
        is_sparse = graph.table is None and sp.issparse(graph.features)
        try:
            n_scores = task.fit(y).n_columns
        except ValueError:  # of a y that is none, which the fit will say
            n_scores = 1
        return cls(
            graph.n_nodes, count_labels(y), n_scores, len(graph.column_names), is_sparse, has_validation
        )


def adapt(model: M, facts: Facts) -> M:
    """Return a model with the parts that suit what it is given, or as it is.

    ``"fast"`` is the paper's method, whatever the data. ``"default"`` is the same, except for narrow tables
    with many labels. There boosted trees see a node's own columns, those of its neighbours and the labels
    nearby, as much of these as helps the validation nodes. Where there are not too many nodes, a graph
    network follows in a second round. A model with any setting of its own keeps all.

    Examples
    --------
    >>> from gbgnn import GBGNNRegressor
    >>> facts = {"n_nodes": 900, "n_labels": 500, "n_scores": 1, "n_columns": 8}
    >>> narrow = Facts(**facts, is_sparse=False, has_validation=True)
    >>> adapt(GBGNNRegressor(), narrow).n_rounds
    2
    >>> adapt(GBGNNRegressor(preset="fast"), narrow).n_rounds
    20
    """
    settings: Any = model
    check_choice(type(model).__name__, "preset", settings.preset, PRESETS)
    names = [name for name in _OPEN if hasattr(model, name)]
    plain = type(model)()
    is_untouched = all(_same(getattr(model, name), getattr(plain, name)) for name in names)
    is_narrow = facts.n_columns <= MOST_COLUMNS and facts.n_columns * facts.n_scores <= MOST_TO_LOOK_AT
    is_table = is_narrow and not facts.is_sparse
    is_table &= facts.n_labels >= max(FEWEST_LABELS, FEWEST_PER_SCORE * facts.n_scores)
    if settings.preset != "default" or not is_untouched or not is_table:
        return model
    adapted: Any = copy.copy(model)
    trees = BoostedTrees(n_trees=1000, learning_rate=0.06, max_leaves=15, patience=20, n_variants=2)
    if facts.n_labels >= MANY_LABELS:
        trees.set_params(learning_rate=0.1, max_leaves=31, column_share=0.3, n_variants=1)
    adapted.set_params(
        aggregation="identity",
        rule=FunctionalGradient(target="loss", learning_rate=1.0, retries=0),
        neighbourhood=Neighbourhood(),
    )
    if facts.n_nodes <= _most_nodes(settings):
        # Both rounds stop where the loss of the validation nodes is least, so that the last is the best.
        adapted.set_params(
            learner=Stages(first=trees, then=GraphNetwork()),
            propagation="random_walk",
            n_rounds=2,
            select="last" if settings.select == "auto" else settings.select,
        )
    else:
        adapted.set_params(learner=trees, n_rounds=1, device="cpu")  # where trees grow
    if hasattr(settings, "class_weight") and settings.class_weight is None:
        adapted.set_params(class_weight="validation")
    if not facts.has_validation and adapted.validation_fraction is None:
        adapted.set_params(validation_fraction=0.2)  # trees must know when to stop
    return adapted  # type: ignore[no-any-return]


def explain(model: Any, facts: Facts) -> str | None:
    """Return in words which parts a model gets by what it is given; None where it keeps its own."""
    adapted = adapt(model, facts)
    if adapted is model:
        return None
    network = ", then a graph network" if isinstance(adapted.learner, Stages) else ""
    return f"for a narrow table with many labels, boosted trees on columns of the neighbourhood{network}"


def _most_nodes(model: Any) -> int:
    """Return for how many nodes a network is not too slow."""
    if as_device(model.device).type == "cuda":
        return MOST_NODES_ON_GPU
    is_of_numbers = hasattr(model, "quantile")  # which a regressor alone has
    return MOST_NODES_OF_NUMBERS if is_of_numbers else MOST_NODES


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
