"""The catalogue of what ``preset="best"`` tries: families of models, each with a few variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sklearn.base import clone

from gbgnn.boosting import FunctionalGradient
from gbgnn.features import Neighbourhood
from gbgnn.learners import (
    MLP,
    BoostedTrees,
    ConsistentNetwork,
    CrossFitted,
    GraphNetwork,
    Learner,
    PropagatedResiduals,
    Stages,
)
from gbgnn.presets import CONVOLUTION, MANY_PER_CLASS, MOST_NODES_ON_GPU, Facts, best_of_four, is_narrow


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """Models of one kind.

    Parameters
    ----------
    name
        What the leaderboard calls it.
    variants
        Parameters of the estimator that are not its defaults, by the name of each variant; the first is tried
        first, and the others where it is not clearly worse than the best of other families.
    cost
        About how long a variant takes, the paper's method being 1: cheap families are tried first, and one
        that would not end in time not at all.
    suits
        Says by the facts of the data whether there is any point in trying.

    Examples
    --------
    A family is an entry of ``FAMILIES``::

        Family(
            name="wide learners",
            variants={
                "plain": {"learner": "wide"},
                "learned hops": {"learner": "wide", "aggregation": "kta"},
            },
            cost=3.0,
            suits=lambda facts: facts.n_labels < 1000,
        )
    """

    name: str
    variants: Mapping[str, Mapping[str, Any]]
    cost: float = 1.0
    suits: Callable[[Facts], bool] = lambda facts: True


L = TypeVar("L", bound=Learner)

_LOSS = FunctionalGradient(target="loss", learning_rate=1.0, retries=0)
_HALF_STEPS = FunctionalGradient(target="loss", learning_rate=0.5, retries=0)
_ONE_ROUND: Mapping[str, Any] = {"aggregation": "identity", "rule": _LOSS, "n_rounds": 1}
_NETWORK: Mapping[str, Any] = {**_ONE_ROUND, "propagation": "random_walk", "select": "last"}
_TREES: Mapping[str, Any] = {**_ONE_ROUND, "neighbourhood": Neighbourhood()}
_CONSISTENT: Mapping[str, Any] = {**_ONE_ROUND, "select": "last", "class_weight": "validation"}
_PLAIN_TREES = BoostedTrees(n_trees=1000, learning_rate=0.06, max_leaves=15, patience=20)
_SLOW_TREES = BoostedTrees(n_trees=2000, learning_rate=0.03, max_leaves=31, column_share=0.5, patience=30)
_LONG_MLP = MLP(units=64, epochs=200, dropout=0.2, patience=20, scale_by="columns", norm="layer")


_DROPPED = ConsistentNetwork(n_views=2, units=128, node_dropout=0.7, feature_dropout=0.5, weight_decay=0.001)
_NEAR = ConsistentNetwork(n_hops=2, n_views=1, consistency=0.0, units=128, weight_decay=0.0002)


def _vary(learner: L, **own: Any) -> L:
    return clone(learner).set_params(**own)  # type: ignore[no-any-return]


_WITH_FEW_LABELS: Mapping[str, Learner] = {
    "best of four": best_of_four(),
    "four views, small gate": ConsistentNetwork(
        n_hops=4,
        n_views=4,
        units=64,
        node_dropout=0.3,
        feature_dropout=0.5,
        temperature=0.35,
        gate_decay=0.005,
        weight_decay=0.0005,
    ),
    "PageRank, much dropped": _vary(
        _DROPPED, hops="pagerank", n_hops=10, row_norm=None, dropout=0.7, consistency=2.0, temperature=0.35
    ),
    "PageRank, gate": _vary(
        _DROPPED, hops="pagerank", n_hops=10, units=32, node_dropout=0.5, gate_decay=0.02
    ),
    "four hops, strong penalties": ConsistentNetwork(
        n_hops=4,
        n_views=2,
        row_norm="l1",
        units=64,
        node_dropout=0.3,
        dropout=0.3,
        consistency=2.0,
        temperature=0.5,
        learning_rate=0.01,
        weight_decay=0.004,
    ),
    "PageRank, rows as they are": ConsistentNetwork(
        hops="pagerank",
        n_hops=10,
        restart=0.2,
        n_views=2,
        row_norm=None,
        standardize=False,
        node_dropout=0.3,
        feature_dropout=0.3,
        weight_decay=0.0005,
    ),
    "twelve hops, much dropped": _vary(_DROPPED, n_hops=12, dropout=0.7, temperature=0.5),
    "six hops, weak penalties": _vary(
        _DROPPED,
        n_hops=6,
        row_norm=None,
        feature_dropout=0.7,
        dropout=0.3,
        temperature=0.35,
        weight_decay=0.0005,
    ),
    "eight hops": _vary(
        _DROPPED, row_norm=None, units=64, node_dropout=0.3, consistency=2.0, temperature=0.35
    ),
    "four views, slow": ConsistentNetwork(
        row_norm="l1",
        standardize=False,
        temperature=0.5,
        learning_rate=0.01,
        epochs=800,
        weight_decay=0.0005,
    ),
}
"""Of some forty settings, most of them drawn at random, those that differ most in what they get right."""

_WITH_MANY_LABELS: Mapping[str, Learner] = {
    "two hops": _NEAR,
    "five hops, consistent": ConsistentNetwork(n_hops=5, n_views=2, weight_decay=0.001),
    "PageRank": _vary(_NEAR, hops="pagerank", n_hops=5, restart=0.3),
    "wide, consistent": _vary(_NEAR, units=256, node_dropout=0.2, n_views=2, consistency=1.0),
    "wide, weak penalties": _vary(_NEAR, units=256, weight_decay=0.00005),
    "columns dropped": _vary(_NEAR, n_views=2, feature_dropout=0.3),
    "rows as they are": _vary(_NEAR, row_norm=None),
}

_CONVOLUTIONS: Mapping[str, Learner] = {
    "five blocks": CONVOLUTION,
    "five blocks, labels heard": _vary(CONVOLUTION, label_share=0.5),
    "three wide blocks": _vary(CONVOLUTION, depth=3, units=128, dropout=0.5, learning_rate=0.01),
}
_NETWORKS: Mapping[str, Learner] = {
    "eight blocks of means": GraphNetwork(),
    "two blocks": GraphNetwork(depth=2, units=64, dropout=0.5, mixing="both"),
    "four blocks": GraphNetwork(depth=4, units=64, mixing="both"),
    "two wide blocks": GraphNetwork(depth=2, units=128, dropout=0.5, mixing="both"),
    "six wide blocks": GraphNetwork(depth=6, units=128, dropout=0.3, mixing="both"),
}


def _is_wide(facts: Facts) -> bool:
    is_small = facts.n_nodes <= MOST_NODES_ON_GPU
    return is_small and facts.has_classes and not is_narrow(facts)


def _has_many_labels(facts: Facts) -> bool:
    return facts.n_labels >= MANY_PER_CLASS * facts.n_scores


FAMILIES: tuple[Family, ...] = (
    Family(
        name="paper",
        variants={
            "plain": {},
            "learned hops": {"aggregation": "kta"},
            "injection": {"aggregation": "injection"},
            "rows sum to one": {"feature_norm": "l1"},
            "injection, rows sum to one": {"aggregation": "injection", "feature_norm": "l1"},
        },
    ),
    Family(name="default", variants={"as it is": {"preset": "default"}}, cost=8.0),
    Family(
        name="trees",
        variants={
            "15 leaves": {**_TREES, "learner": _PLAIN_TREES},
            "31 leaves, slow": {**_TREES, "learner": _SLOW_TREES},
        },
        cost=4.0,
        suits=is_narrow,
    ),
    Family(
        name="consistency",
        variants={name: {**_CONSISTENT, "learner": each} for name, each in _WITH_FEW_LABELS.items()},
        cost=6.0,
        suits=lambda facts: _is_wide(facts) and not _has_many_labels(facts),
    ),
    Family(
        name="smooth network",
        variants={name: {**_CONSISTENT, "learner": each} for name, each in _WITH_MANY_LABELS.items()},
        cost=6.0,
        suits=lambda facts: _is_wide(facts) and _has_many_labels(facts),
    ),
    Family(
        name="convolution",
        variants={name: {**_NETWORK, "learner": each} for name, each in _CONVOLUTIONS.items()},
        cost=8.0,
        suits=lambda facts: _is_wide(facts) and _has_many_labels(facts),
    ),
    Family(
        name="residuals",
        variants={
            "of labels": {**_NETWORK, "learner": PropagatedResiduals()},
            "after trees": {
                **_NETWORK,
                "learner": Stages(first=CrossFitted(inner=_PLAIN_TREES), then=PropagatedResiduals()),
                "n_rounds": 2,
            },
        },
        cost=6.0,
        suits=is_narrow,
    ),
    Family(
        name="hops",
        variants={
            name: {"aggregation": name, "learner": _LONG_MLP, "rule": _HALF_STEPS, "n_rounds": 8}
            for name in ("beside", "learned")
        },
        cost=8.0,
    ),
    Family(
        name="network",
        variants={name: {**_NETWORK, "learner": each} for name, each in _NETWORKS.items()},
        cost=5.0,
        suits=lambda facts: facts.n_nodes <= MOST_NODES_ON_GPU,
    ),
)
"""What is tried, where it suits. The order does not matter: what is cheap goes first."""
