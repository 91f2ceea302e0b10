"""What is measured of every round, on the labelled rows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

from gbgnn.aggregation import Hop
from gbgnn.losses import Loss
from gbgnn.problem import LabelledNodes, Problem
from gbgnn.theory import WeakLearning, weak_learning

if TYPE_CHECKING:  # the rules import this module
    from gbgnn.boosting.rules import Vote


def negative_gradient(scores: torch.Tensor, problem: Problem, loss: Loss) -> torch.Tensor:
    r"""Return :math:`g = -\nabla L` at ``scores``, one row per labelled node.

    With uniform weights 1/M this is the paper's gradient. With others every row is scaled by
    :math:`\sqrt{s_n / M}`, and so are directions: then inner products are those of the weighted loss,
    and every statement about uniform weights holds word for word.
    """
    train = problem.train
    return loss.residuals(scores[train.rows], train.targets) * _row_scale(train)


def direction_quality(
    direction: torch.Tensor, scores: torch.Tensor, problem: Problem, loss: Loss
) -> WeakLearning:
    """Compare Z = f / M, on the labelled rows, with the negative gradient at ``scores``."""
    train = problem.train
    Z = direction[train.rows].double() * _row_scale(train)
    return weak_learning(Z, negative_gradient(scores, problem, loss))


def guaranteed_decrease(quality: WeakLearning, eta: float, problem: Problem, loss: Loss) -> float:
    r"""Return a lower bound of :math:`L(Y) - L(Y + \eta f)` that smoothness alone implies.

    It is :math:`M (\eta \langle Z, g\rangle - A \eta^2 \|Z\|^2 / 2)`, for any rule and any step. At
    :math:`\eta = 1/(A\alpha)` it is :math:`\frac{M}{2A} \cos^2 \|g\|^2`; a step too long for its
    direction makes it negative, which promises nothing.
    """
    curvature = loss.smoothness * (eta * quality.direction_norm) ** 2 / 2
    return problem.train.size * (eta * quality.inner - curvature)


def measure(scores: torch.Tensor, problem: Problem, loss: Loss) -> dict[str, float | None]:
    """Return loss and accuracy of the train and validation nodes, and the gradient norm."""
    train = problem.train
    result: dict[str, float | None] = {
        "train_loss": loss.mean(scores[train.rows], train.targets, train.weights),
        "train_accuracy": _accuracy(scores, train, loss),
        "val_loss": None,
        "val_accuracy": None,
        "gradient_norm": float(negative_gradient(scores, problem, loss).norm()),
    }
    if problem.validation is not None:
        val = problem.validation
        result["val_loss"] = loss.mean(scores[val.rows], val.targets, val.weights)
        result["val_accuracy"] = _accuracy(scores, val, loss)
    return result


def describe_round(
    hop: Hop,
    vote: Vote,
    quality: WeakLearning,
    scores: torch.Tensor,
    problem: Problem,
    loss: Loss,
) -> dict[str, Any]:
    """Return a round's row of the history; ``scores`` are those after the round."""
    learned = hop.record()
    return {
        "eta": vote.eta,
        **measure(scores, problem, loss),
        "cosine": quality.cosine,
        "alpha": quality.alpha,
        "beta": quality.beta,
        "gamma": quality.gamma,
        "guaranteed_decrease": guaranteed_decrease(quality, vote.eta, problem, loss),
        "weighted_error": vote.weighted_error,
        "coefficients": learned.get("coefficients"),
        "alignment": learned.get("alignment"),
        "attempts": vote.attempts,
        "peak_memory": peak_memory(scores.device),
    }


def peak_memory(device: torch.device) -> int | None:
    """Return the peak memory in bytes of the device, or of this process on a CPU; None if unknown."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _accuracy(scores: torch.Tensor, nodes: LabelledNodes, loss: Loss) -> float:
    hits = loss.predict(scores[nodes.rows]) == nodes.targets
    return float(hits.double().mean())


def _row_scale(nodes: LabelledNodes) -> torch.Tensor:
    return (nodes.weights / nodes.size).sqrt()[:, None]
