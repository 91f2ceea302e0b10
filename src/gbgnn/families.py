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
from gbgnn.presets import MANY_PER_CLASS, MOST_NODES_ON_GPU, Facts, best_of_four, is_narrow


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """Models of one kind.

    Parameters
    ----------
    name
        What the leaderboard calls it.
    variants
        Parameters of the estimator that are not its defaults, for each variant; the first is tried first, and
        the others where it is not clearly worse than the best of other families.
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
            variants=({"learner": "wide"}, {"learner": "wide", "aggregation": "kta"}),
            cost=3.0,
            suits=lambda facts: facts.n_labels < 1000,
        )
    """

    name: str
    variants: tuple[Mapping[str, Any], ...]
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
_LONG_MLP = MLP(units=64, epochs=200, dropout=0.2, patience=20, scale_by="columns", norm="layer")


_DROPPED = ConsistentNetwork(n_views=2, units=128, node_dropout=0.7, feature_dropout=0.5, weight_decay=0.001)
_NEAR = ConsistentNetwork(n_hops=2, n_views=1, consistency=0.0, units=128, weight_decay=0.0002)
_CONVOLUTION = GraphNetwork(
    depth=5,
    units=64,
    mixing="symmetric",
    label_share=0.0,
    learning_rate=0.003,
    epochs=1000,
    patience=100,
)


def _vary(learner: L, **own: Any) -> L:
    return clone(learner).set_params(**own)  # type: ignore[no-any-return]


_WITH_FEW_LABELS = (
    best_of_four(),
    ConsistentNetwork(
        n_hops=4,
        n_views=4,
        units=64,
        node_dropout=0.3,
        feature_dropout=0.5,
        temperature=0.35,
        gate_decay=0.005,
        weight_decay=0.0005,
    ),
    _vary(
        _DROPPED, hops="pagerank", n_hops=10, row_norm=None, dropout=0.7, consistency=2.0, temperature=0.35
    ),
    _vary(_DROPPED, hops="pagerank", n_hops=10, units=32, node_dropout=0.5, gate_decay=0.02),
    ConsistentNetwork(
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
    ConsistentNetwork(
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
    _vary(_DROPPED, n_hops=12, dropout=0.7, temperature=0.5),
    _vary(
        _DROPPED,
        n_hops=6,
        row_norm=None,
        feature_dropout=0.7,
        dropout=0.3,
        temperature=0.35,
        weight_decay=0.0005,
    ),
    _vary(_DROPPED, row_norm=None, units=64, node_dropout=0.3, consistency=2.0, temperature=0.35),
    ConsistentNetwork(
        row_norm="l1",
        standardize=False,
        temperature=0.5,
        learning_rate=0.01,
        epochs=800,
        weight_decay=0.0005,
    ),
)
"""Of some forty settings, most of them drawn at random, those that differ most in what they get right."""

_WITH_MANY_LABELS = (
    _NEAR,
    ConsistentNetwork(n_hops=5, n_views=2, weight_decay=0.001),
    _vary(_NEAR, hops="pagerank", n_hops=5, restart=0.3),
    _vary(_NEAR, units=256, node_dropout=0.2, n_views=2, consistency=1.0),
    _vary(_NEAR, units=256, weight_decay=0.00005),
    _vary(_NEAR, n_views=2, feature_dropout=0.3),
    _vary(_NEAR, row_norm=None),
)


def _is_wide(facts: Facts) -> bool:
    is_small = facts.n_nodes <= MOST_NODES_ON_GPU
    return is_small and facts.has_classes and not is_narrow(facts)


def _has_many_labels(facts: Facts) -> bool:
    return facts.n_labels >= MANY_PER_CLASS * facts.n_scores


FAMILIES: tuple[Family, ...] = (
    Family(
        name="paper",
        variants=(
            {},
            {"aggregation": "kta"},
            {"aggregation": "injection"},
            {"feature_norm": "l1"},
            {"aggregation": "injection", "feature_norm": "l1"},
        ),
    ),
    Family(name="default", variants=({"preset": "default"},), cost=8.0),
    Family(
        name="trees",
        variants=(
            {**_TREES, "learner": _PLAIN_TREES},
            {
                **_TREES,
                "learner": BoostedTrees(
                    n_trees=2000, learning_rate=0.03, max_leaves=31, column_share=0.5, patience=30
                ),
            },
        ),
        cost=4.0,
        suits=is_narrow,
    ),
    Family(
        name="consistency",
        variants=tuple({**_CONSISTENT, "learner": each} for each in _WITH_FEW_LABELS),
        cost=6.0,
        suits=lambda facts: _is_wide(facts) and not _has_many_labels(facts),
    ),
    Family(
        name="smooth network",
        variants=tuple({**_CONSISTENT, "learner": each} for each in _WITH_MANY_LABELS),
        cost=6.0,
        suits=lambda facts: _is_wide(facts) and _has_many_labels(facts),
    ),
    Family(
        name="convolution",
        variants=(
            {**_NETWORK, "learner": _CONVOLUTION},
            {**_NETWORK, "learner": _vary(_CONVOLUTION, label_share=0.5)},
            {**_NETWORK, "learner": _vary(_CONVOLUTION, depth=3, units=128, dropout=0.5, learning_rate=0.01)},
        ),
        cost=8.0,
        suits=lambda facts: _is_wide(facts) and _has_many_labels(facts),
    ),
    Family(
        name="residuals",
        variants=(
            {**_NETWORK, "learner": PropagatedResiduals()},
            {
                **_NETWORK,
                "learner": Stages(first=CrossFitted(inner=_PLAIN_TREES), then=PropagatedResiduals()),
                "n_rounds": 2,
            },
        ),
        cost=6.0,
        suits=is_narrow,
    ),
    Family(
        name="hops",
        variants=(
            {"aggregation": "beside", "learner": _LONG_MLP, "rule": _HALF_STEPS, "n_rounds": 8},
            {"aggregation": "learned", "learner": _LONG_MLP, "rule": _HALF_STEPS, "n_rounds": 8},
        ),
        cost=8.0,
    ),
    Family(
        name="network",
        variants=(
            {**_NETWORK, "learner": GraphNetwork()},
            {**_NETWORK, "learner": GraphNetwork(depth=2, units=64, dropout=0.5, mixing="both")},
            {**_NETWORK, "learner": GraphNetwork(depth=4, units=64, mixing="both")},
            {**_NETWORK, "learner": GraphNetwork(depth=2, units=128, dropout=0.5, mixing="both")},
            {**_NETWORK, "learner": GraphNetwork(depth=6, units=128, dropout=0.3, mixing="both")},
        ),
        cost=5.0,
        suits=lambda facts: facts.n_nodes <= MOST_NODES_ON_GPU,
    ),
)
"""What is tried, where it suits. The order does not matter: what is cheap goes first."""
