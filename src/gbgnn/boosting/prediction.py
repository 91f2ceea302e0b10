"""Applying a trained ensemble, to the graph of the fit or to any other."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from gbgnn._threads import one_thread
from gbgnn.boosting.ensemble import Ensemble
from gbgnn.boosting.voting import Voting
from gbgnn.problem import NodeInputs


def stage(ensemble: Ensemble, inputs: NodeInputs, voting: Voting) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield (t, scores of all nodes) after every round: the same sums that training formed.

    One score matrix is held, whatever the rounds: what is yielded is valid until the next is asked for.
    """
    X, scores = inputs.features, inputs.zero_scores(voting.n_outputs)
    for trained in ensemble:
        X = trained.hop(X, inputs)
        # Not add_(..., alpha=): a fused product is rounded once, those of training are rounded twice.
        scores.add_(voting.direction(trained.kept_head().evaluate(X)) * trained.eta)
        yield trained.t, scores


def apply(ensemble: Ensemble, inputs: NodeInputs, voting: Voting) -> torch.Tensor:
    """Return the scores of all nodes after the last round."""
    scores = inputs.zero_scores(voting.n_outputs)
    with one_thread():
        for _, reached in stage(ensemble, inputs, voting):
            scores = reached
    return scores
