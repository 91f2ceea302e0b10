"""The catalogue of what ``preset="best"`` tries: families of models, each with a few variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gbgnn.boosting import FunctionalGradient
from gbgnn.features import Neighbourhood
from gbgnn.learners import (
    MLP,
    BoostedTrees,
    ConsistentNetwork,
    CrossFitted,
    GraphNetwork,
    PropagatedResiduals,
    Stages,
)
from gbgnn.presets import MOST_NODES_ON_GPU, Facts, best_of_four, is_narrow


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


_LOSS = FunctionalGradient(target="loss", learning_rate=1.0, retries=0)
_HALF_STEPS = FunctionalGradient(target="loss", learning_rate=0.5, retries=0)
_ONE_ROUND: Mapping[str, Any] = {"aggregation": "identity", "rule": _LOSS, "n_rounds": 1}
_NETWORK: Mapping[str, Any] = {**_ONE_ROUND, "propagation": "random_walk", "select": "last"}
_TREES: Mapping[str, Any] = {**_ONE_ROUND, "neighbourhood": Neighbourhood()}
_CONSISTENT: Mapping[str, Any] = {**_ONE_ROUND, "select": "last", "class_weight": "validation"}
_THINNED: Mapping[str, Any] = {"n_hops": 8, "node_dropout": 0.7, "weight_decay": 0.001, "units": 128}
_GATED: Mapping[str, Any] = {"gate_decay": 0.02, "feature_dropout": 0.5, "weight_decay": 0.001}
_PLAIN_TREES = BoostedTrees(n_trees=1000, learning_rate=0.06, max_leaves=15, patience=20)
_LONG_MLP = MLP(units=64, epochs=200, dropout=0.2, patience=20, scale_by="columns", norm="layer")


def _is_wide(facts: Facts) -> bool:
    return facts.has_classes and not is_narrow(facts)


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
        variants=(
            {**_CONSISTENT, "learner": best_of_four()},
            *(
                {**_CONSISTENT, "learner": ConsistentNetwork(**{"n_views": 2, **own})}
                for own in (
                    {**_THINNED, "feature_dropout": 0.3},
                    {"n_hops": 10, "hops": "pagerank", **_GATED},
                    {**_THINNED, "n_hops": 10, "hops": "pagerank"},
                    {"n_hops": 8, **_GATED},
                    {**_THINNED, "units": 32, "n_views": 4, "temperature": 0.5},
                    {"n_hops": 5, "weight_decay": 0.004, "temperature": 0.5},
                    {"n_hops": 8, "row_norm": "l1", "weight_decay": 0.0005, "units": 128},
                )
            ),
        ),
        cost=6.0,
        suits=lambda facts: _is_wide(facts) and facts.n_nodes <= MOST_NODES_ON_GPU,
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
            {**_NETWORK, "learner": GraphNetwork(depth=2, units=128, dropout=0.5)},
        ),
        cost=5.0,
        suits=lambda facts: facts.n_nodes <= MOST_NODES_ON_GPU,
    ),
)
"""What is tried, where it suits. The order does not matter: what is cheap goes first."""
