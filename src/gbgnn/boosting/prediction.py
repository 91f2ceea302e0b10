"""Applying a trained ensemble, to the graph of the fit or to any other."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from gbgnn.boosting.ensemble import Ensemble
from gbgnn.boosting.rules import BoostingRule
from gbgnn.problem import NodeInputs


def apply(
    ensemble: Ensemble, inputs: NodeInputs, rule: BoostingRule, n_classes: int
) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield (t, scores of all nodes) after every round: the same sums that training formed."""
    X, scores = inputs.features, rule.initial_scores(inputs, n_classes)
    for trained in ensemble:
        X = trained.hop(X, inputs)
        output = trained.kept_head().evaluate(X)
        scores = scores + trained.eta * rule.direction(output, n_classes)
        yield trained.t, scores
