"""What is measured of every round, on the labelled rows."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import torch

from gbgnn.aggregation import Hop
from gbgnn.boosting.rules import Vote
from gbgnn.boosting.voting import Voting
from gbgnn.learners import Head
from gbgnn.metrics import Metric, Predicted
from gbgnn.problem import LabelledNodes, Problem
from gbgnn.rounds import TrainingLoss
from gbgnn.theory import WeakLearning


def guaranteed_decrease(quality: WeakLearning, eta: float, training: TrainingLoss) -> float | None:
    r"""Return a lower bound of :math:`L(Y) - L(Y + \eta f)` that smoothness alone implies.

    It is :math:`M (\eta \langle Z, g\rangle - A \eta^2 \|Z\|^2 / 2)`, for any rule and any step. At
    :math:`\eta = 1/(A\alpha)` it is :math:`\frac{M}{2A} \cos^2 \|g\|^2`; a step too long for its
    direction makes it negative, which promises nothing. None where the loss has no bound of its curvature.
    """
    smoothness = training.loss.smoothness
    if smoothness is None:
        return None
    curvature = smoothness * (eta * quality.direction_norm) ** 2 / 2
    return training.train.size * (eta * quality.inner - curvature)


def rounding_error(vote: Vote, after: TrainingLoss) -> float:
    """Bound how far the precision of the scores can move the training loss of a round.

    Sums and products of the update are off by half a unit in the last place each, and the loss moves by as
    much times its slope: 1 at most for cross entropies, more for squares of large errors.
    """
    train = after.train
    step = (vote.eta * vote.direction[train.rows]).double().abs()
    sizes = ((step + after.scores.abs()) * after.residuals.abs().clamp_min(1.0)).sum(dim=1)
    return 4 * torch.finfo(vote.direction.dtype).eps * float((train.weights * sizes).sum())


def measure(
    scores: torch.Tensor,
    total_eta: float,
    problem: Problem,
    training: TrainingLoss,
    voting: Voting,
    metric: Metric,
) -> dict[str, float | None]:
    """Return loss and metric of the labelled and of the validation nodes; None without such nodes."""

    def judge(nodes: LabelledNodes) -> float:
        rows = scores[nodes.rows]
        return metric.score(
            Predicted(problem.task, rows, nodes.targets, partial(voting.link, total_eta=total_eta))
        )

    val = problem.validation
    return {
        "train_loss": training.value,
        f"train_{metric.name}": judge(problem.train),
        "val_loss": None if val is None else training.loss.mean(scores[val.rows], val.targets, val.weights),
        f"val_{metric.name}": None if val is None else judge(val),
    }


def describe_round(
    hop: Hop,
    head: Head,
    vote: Vote,
    own: WeakLearning | None,
    before: TrainingLoss,
    after: TrainingLoss,
    measured: dict[str, float | None],
) -> dict[str, Any]:
    """Return a round's row of the history.

    Parameters
    ----------
    hop, head, vote
        The round.
    own
        The angle with the gradient of the rule's own loss, where it has one.
    before, after
        The training loss before and after the round.
    measured
        Losses and metrics after the round.
    """
    learned, quality = hop.record(), vote.quality
    return {
        "eta": vote.eta,
        **measured,
        "gradient_norm": after.gradient_norm,
        "cosine": quality.cosine,
        "alpha": quality.alpha,
        "beta": quality.beta,
        "gamma": quality.gamma,
        "edge": quality.edge,
        "exp_cosine": None if own is None else own.cosine,
        "exp_alpha": None if own is None else own.alpha,
        "exp_beta": None if own is None else own.beta,
        "exp_gamma": None if own is None else own.gamma,
        "guaranteed_decrease": guaranteed_decrease(quality, vote.eta, before),
        "decrease": before.value - after.value,
        "rounding": rounding_error(vote, after),
        "weighted_error": vote.weighted_error,
        "coefficients": learned.get("coefficients"),
        "alignment": learned.get("alignment"),
        "learner": head.report(),
        "attempts": vote.attempts,
        "peak_memory": peak_memory(vote.direction.device),
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
