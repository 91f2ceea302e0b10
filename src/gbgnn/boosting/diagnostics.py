"""What is measured of every round, on the labelled rows."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from gbgnn.aggregation import Hop
from gbgnn.learners import Head
from gbgnn.losses import Loss
from gbgnn.problem import LabelledNodes, Problem
from gbgnn.theory import WeakLearning, weak_learning

if TYPE_CHECKING:  # the rules import this module
    from gbgnn.boosting.rules import BoostingRule, Vote


def negative_gradient(scores: torch.Tensor, problem: Problem, loss: Loss) -> torch.Tensor:
    r"""Return :math:`g = -\nabla L` at ``scores``, one row per labelled node.

    With uniform weights 1/M this is the paper's gradient. With others every row is scaled by
    :math:`\sqrt{s_n / M}`, and so are directions: then inner products are those of the weighted loss,
    and every statement about uniform weights holds word for word.
    """
    train = problem.train
    return loss.residuals(scores[train.rows], train.targets) * (train.weights / train.size).sqrt()[:, None]


def direction_quality(
    direction: torch.Tensor, scores: torch.Tensor, problem: Problem, loss: Loss
) -> WeakLearning:
    """Compare Z = f / M, on the labelled rows, with the negative gradient at ``scores``."""
    train = problem.train
    residuals = loss.residuals(scores[train.rows], train.targets)
    return weak_learning(direction[train.rows], residuals, train.weights / train.size)


def guaranteed_decrease(quality: WeakLearning, eta: float, problem: Problem, loss: Loss) -> float:
    r"""Return a lower bound of :math:`L(Y) - L(Y + \eta f)` that smoothness alone implies.

    It is :math:`M (\eta \langle Z, g\rangle - A \eta^2 \|Z\|^2 / 2)`, for any rule and any step. At
    :math:`\eta = 1/(A\alpha)` it is :math:`\frac{M}{2A} \cos^2 \|g\|^2`; a step too long for its
    direction makes it negative, which promises nothing.
    """
    curvature = loss.smoothness * (eta * quality.direction_norm) ** 2 / 2
    return problem.train.size * (eta * quality.inner - curvature)


@dataclass(frozen=True, eq=False)
class Outlook:
    """What is known of a step before it is taken.

    Parameters
    ----------
    quality
        The weak learning condition with respect to the cross entropy.
    own_quality
        The same with respect to the exponential loss, for the rules that descend on it.
    loss
        The training loss.
    """

    quality: WeakLearning
    own_quality: WeakLearning | None
    loss: float


def look_ahead(
    vote: Vote, importance: torch.Tensor, scores: torch.Tensor, problem: Problem, rule: BoostingRule
) -> Outlook:
    """Compare the direction of a vote with the gradients at ``scores``."""
    train, loss = problem.train, rule.loss_for(problem.n_classes)
    exponential = rule.exponential_residuals(importance, problem)
    own = None
    if exponential is not None:
        own = weak_learning(vote.direction[train.rows], exponential, train.weights / train.size)
    quality = direction_quality(vote.direction, scores, problem, loss)
    return Outlook(quality, own, loss.mean(scores[train.rows], train.targets, train.weights))


def rounding_error(vote: Vote, scores: torch.Tensor, problem: Problem) -> float:
    """Bound how far the precision of the scores can move the training loss of a round.

    Sums and products of the update are off by half a unit in the last place each, and the loss moves no more
    than the sum of its scores does.
    """
    train = problem.train
    step = (vote.eta * vote.direction[train.rows]).double().abs()
    sizes = (step + scores[train.rows].double().abs()).sum(dim=1)
    return 4 * torch.finfo(scores.dtype).eps * float((train.weights * sizes).sum())


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
    hop: Hop, head: Head, vote: Vote, before: Outlook, scores: torch.Tensor, problem: Problem, loss: Loss
) -> dict[str, Any]:
    """Return a round's row of the history; ``scores`` are those after the round."""
    learned, quality, own = hop.record(), before.quality, before.own_quality
    measured = measure(scores, problem, loss)
    assert measured["train_loss"] is not None
    return {
        "eta": vote.eta,
        **measured,
        "cosine": quality.cosine,
        "alpha": quality.alpha,
        "beta": quality.beta,
        "gamma": quality.gamma,
        "edge": quality.edge,
        "exp_cosine": None if own is None else own.cosine,
        "exp_alpha": None if own is None else own.alpha,
        "exp_beta": None if own is None else own.beta,
        "exp_gamma": None if own is None else own.gamma,
        "guaranteed_decrease": guaranteed_decrease(quality, vote.eta, problem, loss),
        "decrease": before.loss - measured["train_loss"],
        "rounding": rounding_error(vote, scores, problem),
        "weighted_error": vote.weighted_error,
        "coefficients": learned.get("coefficients"),
        "alignment": learned.get("alignment"),
        "learner": head.report(),
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
