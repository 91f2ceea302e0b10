"""Presets: which parts a model is made of where nothing was asked for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone

from gbgnn._checks import check_choice
from gbgnn.boosting import FunctionalGradient
from gbgnn.features import Neighbourhood
from gbgnn.graph import Graph
from gbgnn.labels import adjusted_homophily, as_nodes, check_length, check_range, count_labels
from gbgnn.learners import BestOf, BoostedTrees, ConsistentNetwork, GraphNetwork, Learner, Stages
from gbgnn.registry import as_device
from gbgnn.tasks import Task

PRESETS = ("default", "fast", "best")

FEWEST_LABELS, FEWEST_PER_SCORE = 200, 10
"""With fewer labelled nodes, in all or per class, narrow tables get smaller trees, or a network."""

FEWEST_TO_CHOOSE = 20
"""With fewer labelled nodes they stay with the paper's method; so do classes without validation nodes, of
which few labels leave none to spare."""

MOST_COLUMNS = 200
"""Wider features are mostly words or embeddings, which networks look at rather than trees."""

MOST_TO_LOOK_AT = 2_000
"""Columns times scores: a tree is grown for every class or number, and looks at every column."""

MANY_LABELS = 20_000
"""From here on trees are larger, their steps longer and see fewer columns: time counts there."""

FEW_ENOUGH_FOR_FORESTS = 3_000
"""Up to so many labels a forest beside the boosted trees takes little time, and has something to add."""

MANY_PER_CLASS = 200
"""From here on labels are many enough for networks to learn from them alone, also what those of other nodes
tell; with fewer, all nodes train a smaller one."""

LEAST_HOMOPHILY = 0.2
"""Where labelled neighbours are alike less than this, as far as is known, few labels do not travel."""

MOST_NODES, MOST_NODES_OF_NUMBERS, MOST_NODES_ON_GPU = 50_000, 10_000, 1_000_000
"""Up to so many nodes networks along the graph are trained: a node takes one to two milliseconds on a CPU. Of
numbers they have less to add to trees, so that there they must be cheap."""

LEAN_FROM = 10_000
"""From so many nodes on, networks of wide features are few, and learn in few epochs: about as long as a graph
convolutional network of two layers takes."""

CONVOLUTION = GraphNetwork(
    depth=5, units=64, mixing="symmetric", label_share=0.0, learning_rate=0.003, epochs=1000, patience=100
)
"""A graph network for many labels whose neighbours are alike."""

NEAR = ConsistentNetwork(n_hops=2, n_views=1, consistency=0.0, units=128, weight_decay=0.0002)
QUICK = clone(NEAR).set_params(
    units=64, weight_decay=0.00005, learning_rate=0.2, schedule="cosine", epochs=200
)
FAR = ConsistentNetwork(n_hops=5, n_views=2, weight_decay=0.001)
SHALLOW = clone(CONVOLUTION).set_params(depth=3, epochs=200, patience=30)
FLAT = GraphNetwork(depth=2, units=64, dropout=0.5, mixing="both")
DEEP = GraphNetwork(depth=6, units=64, mixing="both")  # patterns may take many hops to see

# What a model must have left as it is to get other parts: a choice that somebody made is kept.
_OPEN = (
    *("aggregation", "learner", "rule", "propagation", "neighbourhood", "feature_norm", "n_rounds"),
    *("learning_rate", "fine_tune", "warm_start", "loss", "task"),
)

M = TypeVar("M")


@dataclass(frozen=True)
class Facts:
    """What the parts are chosen by. Of labels there is their number, and how alike those of neighbours are.

    ``homophily`` is :func:`~gbgnn.labels.adjusted_homophily` of the labelled nodes, None where it is unknown.
    """

    n_nodes: int
    n_labels: int
    n_scores: int
    n_columns: int
    is_sparse: bool
    has_validation: bool
    has_classes: bool
    homophily: float | None = None

    @classmethod
    def of(cls, graph: Graph, task: Task, nodes: ArrayLike, y: ArrayLike, *, has_validation: bool) -> Facts:
        """Look at a graph, and at what is known of it: y of these nodes."""
        n_scores, homophily = 1, None
        try:
            fitted = task.fit(y)
            n_scores = fitted.n_columns
            if fitted.has_classes:
                ids = as_nodes(nodes)
                check_range(ids, graph.n_nodes)
                check_length(y, len(ids), "y")
                homophily = adjusted_homophily(graph.adjacency, ids, fitted.encode(y))
        except ValueError:  # of a y or of nodes that are none, which the fit will say
            pass
        return cls(
            n_nodes=graph.n_nodes,
            n_labels=count_labels(y),
            n_scores=n_scores,
            n_columns=len(graph.column_names),
            is_sparse=graph.table is None and sp.issparse(graph.features),
            has_validation=has_validation,
            has_classes=task.has_classes,
            homophily=homophily,
        )


def is_narrow(facts: Facts) -> bool:
    """Return whether features are a table that trees can look at in reasonable time."""
    is_small = facts.n_columns <= MOST_COLUMNS and facts.n_columns * facts.n_scores <= MOST_TO_LOOK_AT
    return is_small and not facts.is_sparse


def adapt(model: M, facts: Facts) -> M:
    """Return a model with the parts that suit what it is given, or as it is.

    ``"fast"`` is the paper's method, whatever the data. ``"default"`` looks at the data:

    - Narrow tables with many labels get boosted trees, which see a node's own columns, those of its
      neighbours and the labels nearby, as much of these as helps the validation nodes; up to 3,000 labels
      also a forest. Where there are not too many nodes, a graph network follows in a second round.
    - Narrow tables with few labels get smaller trees or a :class:`~gbgnn.ConsistentNetwork`, whichever
      validation nodes prefer, and then a graph network; classes without validation nodes the paper's method.
    - Wide features and classes with few labels get the best of four of :class:`~gbgnn.ConsistentNetwork`,
      which all nodes train, where labelled neighbours are alike as far as is known; with many labels the
      better of two, and then the better of two of :class:`~gbgnn.GraphNetwork`, or these alone where
      neighbours differ. From 10,000 nodes on there is one of each where there were two, and in few epochs.
    - Everything else is the paper's method.

    A model with any setting of its own keeps all. ``"best"`` chooses its parts in training, among others
    these.

    Examples
    --------
    >>> from gbgnn import GBGNNClassifier
    >>> known = {"n_nodes": 9000, "n_scores": 3, "is_sparse": False, "has_validation": True}
    >>> narrow, wide, few = (
    ...     Facts(**known, n_labels=n_labels, n_columns=n_columns, has_classes=True)
    ...     for n_labels, n_columns in ((5000, 8), (5000, 1000), (60, 1000))
    ... )
    >>> model = GBGNNClassifier(device="cpu")
    >>> adapt(model, narrow).learner.first
    BoostedTrees(learning_rate=0.06, max_leaves=15, n_trees=1000, n_variants=2,
                 patience=20)
    >>> adapt(model, wide).learner.then.one
    GraphNetwork(depth=2, dropout=0.5, mixing='both', units=64)
    >>> adapt(model, few).learner.one.one
    ConsistentNetwork(n_hops=5, n_views=2, weight_decay=0.001)
    >>> adapt(GBGNNClassifier(preset="fast"), narrow).learner
    'mlp'
    """
    settings: Any = model
    check_choice(type(model).__name__, "preset", settings.preset, PRESETS)
    recipe = None if settings.preset != "default" or find_touched(model, _OPEN) else _choose(facts)
    has_trees = recipe in (_for_tables, _for_small_tables)
    # The paper's method makes hops of words dense, of all nodes; networks with hops do not.
    are_words = facts.is_sparse and facts.n_columns > MOST_COLUMNS
    is_too_large = facts.n_nodes > _most_nodes(settings) and not are_words
    if recipe is None or (is_too_large and not has_trees):
        return model
    adapted: Any = copy.copy(model)
    recipe(adapted, facts)
    if hasattr(settings, "class_weight") and settings.class_weight is None:
        adapted.set_params(class_weight="validation")
    return adapted  # type: ignore[no-any-return]


def explain(model: Any, facts: Facts) -> str | None:
    """Return in words which parts a model gets by what it is given; None where it keeps its own."""
    if model.preset == "best":
        return "an average of models of several families, chosen by the validation nodes"
    adapted = adapt(model, facts)
    if adapted is model:
        return None
    recipe, trees = _choose(facts), "boosted trees on columns of the neighbourhood"
    if recipe is _for_many_labels:
        is_staged = isinstance(adapted.learner, Stages)
        first = "small networks, then " if is_staged else ""
        if is_staged and _is_lean(model, facts):
            return "for wide features of many nodes with many labels, a small network, then a graph network"
        return f"for wide features with many labels, {first}the better of two graph networks"
    if recipe is _for_few_labels:
        if not isinstance(adapted.learner, BestOf):
            return "for wide features of many nodes with few labels, a small network that all nodes train"
        return "for wide features with few labels, the best of four small networks that all nodes train"
    if recipe is _for_small_tables:
        networks = " or a network by validation, then a graph network" if adapted.n_rounds > 1 else ""
        return f"for a narrow table with few labels, small {trees}{networks}"
    network = ", then a graph network" if isinstance(adapted.learner, Stages) else ""
    return f"for a narrow table with many labels, {trees}{network}"


def _choose(facts: Facts) -> Callable[[Any, Facts], None] | None:
    """Return what gives a model its parts, or None where they are the paper's."""
    if is_narrow(facts):
        if facts.n_labels >= max(FEWEST_LABELS, FEWEST_PER_SCORE * facts.n_scores):
            return _for_tables
        has_judges = facts.has_validation or not facts.has_classes
        can_choose = has_judges and facts.n_labels >= FEWEST_TO_CHOOSE
        return _for_small_tables if can_choose else None
    if not facts.has_classes:
        return None
    if facts.n_labels >= MANY_PER_CLASS * facts.n_scores:
        return _for_many_labels
    return _for_few_labels if _labels_travel(facts) else None


def _for_tables(model: Any, facts: Facts) -> None:
    trees = BoostedTrees(n_trees=1000, learning_rate=0.06, max_leaves=15, patience=20, n_variants=2)
    if facts.n_labels >= MANY_LABELS:
        trees.set_params(learning_rate=0.1, max_leaves=31, column_share=0.3, n_variants=1)
    if facts.n_labels <= FEW_ENOUGH_FOR_FORESTS:
        trees.set_params(n_forest=100)
    model.set_params(aggregation="identity", rule=_loss_rule(), neighbourhood=Neighbourhood())
    if facts.n_nodes <= _most_nodes(model):
        # Both rounds stop where the loss of the validation nodes is least, so that the last is the best.
        model.set_params(
            learner=Stages(first=trees, then=GraphNetwork()),
            propagation="random_walk",
            n_rounds=2,
            select=_last_unless_told(model),
        )
    else:
        model.set_params(learner=trees, n_rounds=1, device="cpu")  # where trees grow
    _set_some_aside(model, facts)  # trees must know when to stop


def _for_small_tables(model: Any, facts: Facts) -> None:
    learner: Learner = BoostedTrees(
        n_trees=300, learning_rate=0.06, max_leaves=4, patience=20, n_variants=2, n_forest=100
    )
    n_rounds = 1
    if facts.n_nodes <= _most_nodes(model):
        # Small trees do not see what a graph of like nodes smooths, nor patterns of neighbours.
        smooth = ConsistentNetwork(n_hops=5, n_views=2, row_norm=None, weight_decay=0.001)
        learner, n_rounds = Stages(first=BestOf(one=learner, other=smooth), then=GraphNetwork()), 2
    _set_learner(model, learner, n_rounds)
    model.set_params(neighbourhood=Neighbourhood(), propagation="random_walk")
    _set_some_aside(model, facts)


def best_of_four() -> BestOf:
    """Return the best of four networks that all nodes train, for wide features with few labels.

    How strong penalties must be, whether few columns tell all, and how far to look, differ from graph to
    graph by more than anything else: validation nodes choose. Without them there is the first alone.
    """
    gated, small, near = (
        clone(FAR).set_params(**own)
        for own in (
            {"gate_decay": 0.02, "feature_dropout": 0.5},
            {"weight_decay": 0.003},
            {"n_hops": 2, "weight_decay": 0.0002},
        )
    )
    return BestOf(one=BestOf(one=clone(FAR), other=gated), other=BestOf(one=small, other=near))


def _for_few_labels(model: Any, facts: Facts) -> None:
    # Far more nodes than networks of any kind are trained on elsewhere: one must do.
    _set_learner(model, clone(FAR) if facts.n_nodes > _most_nodes(model) else best_of_four(), 1)


def _for_many_labels(model: Any, facts: Facts) -> None:
    is_lean = _is_lean(model, facts)
    if not _labels_travel(facts):
        pair = (clone(each).set_params(patience=20 if is_lean else each.patience) for each in (FLAT, DEEP))
        _set_learner(model, BestOf(**dict(zip(("one", "other"), pair, strict=True))), 1)
    elif is_lean:
        first, then = clone(QUICK), clone(SHALLOW)
        _set_learner(model, Stages(first=first, then=then), 2)
    else:
        # Of words, a graph network alone makes too much; where it has something to add, it says it.
        first, then = BestOf(one=NEAR, other=FAR), BestOf(one=FLAT, other=CONVOLUTION)
        _set_learner(model, clone(Stages(first=first, then=then)), 2)
    _set_some_aside(model, facts)


def _is_lean(model: Any, facts: Facts) -> bool:
    """Return whether there are so many nodes that networks must be few and learn in few epochs."""
    is_fast = as_device(model.device).type == "cuda" and facts.n_nodes <= MOST_NODES_ON_GPU
    return facts.n_nodes >= LEAN_FROM and not is_fast


def _labels_travel(facts: Facts) -> bool:
    """Return whether labelled neighbours are alike, as far as is known."""
    return facts.homophily is None or facts.homophily >= LEAST_HOMOPHILY


def _set_learner(model: Any, learner: Learner, n_rounds: int) -> None:
    rule, select = _loss_rule(), _last_unless_told(model)
    model.set_params(aggregation="identity", learner=learner, rule=rule, n_rounds=n_rounds, select=select)


def _loss_rule() -> FunctionalGradient:
    return FunctionalGradient(target="loss", learning_rate=1.0, retries=0)


def _last_unless_told(model: Any) -> str:
    return "last" if model.select == "auto" else model.select


def _set_some_aside(model: Any, facts: Facts) -> None:
    """Have validation nodes where there are none."""
    if not facts.has_validation and model.validation_fraction is None:
        model.set_params(validation_fraction=0.2)


def find_touched(model: Any, names: Iterable[str]) -> list[str]:
    """Return which of these settings a model has that are not as they would be by themselves.

    Examples
    --------
    >>> from gbgnn import GBGNNClassifier
    >>> find_touched(GBGNNClassifier(rule="samme"), ["rule", "n_rounds"])
    ['rule']
    """
    plain, known = type(model)(), model.get_params(deep=False)
    return [name for name in names if name in known and not _same(known[name], getattr(plain, name))]


def _most_nodes(model: Any) -> int:
    """Return for how many nodes a network is not too slow."""
    if as_device(model.device).type == "cuda":
        return MOST_NODES_ON_GPU
    is_of_numbers = hasattr(model, "quantile")  # which a regressor alone has
    return MOST_NODES_OF_NUMBERS if is_of_numbers else MOST_NODES


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
