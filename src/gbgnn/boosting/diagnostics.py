"""What is measured of every round, on the labelled rows."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch

from gbgnn.aggregation import Hop
from gbgnn.boosting.history import Row
from gbgnn.boosting.rules import BoostingRule, Vote
from gbgnn.learners import ChosenHeads
from gbgnn.members import for_rows, map_tensors
from gbgnn.metrics import Metric, PredictedMany
from gbgnn.problem import LabelledNodes, Problem
from gbgnn.rounds import TrainingLoss
from gbgnn.theory import WeakLearnings

Columns = dict[str, Any]
"""What was measured of all members, by name: a tensor or a list with an entry for each, or None for all."""


def guaranteed_decrease(
    quality: WeakLearnings, eta: torch.Tensor, training: TrainingLoss
) -> torch.Tensor | None:
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


def rounding_error(vote: Vote, after: TrainingLoss) -> torch.Tensor:
    """Bound how far the precision of the scores can move the training loss of a round.

    Sums and products of the update are off by half a unit in the last place each, and the loss moves by as
    much times its gradient: 1 at most for cross entropies, more for squares of large errors.
    """
    train, direction = after.train, vote.direction
    rows = direction[..., train.rows, :].double()
    step = (for_rows(vote.eta, rows) * rows).abs()
    sizes = ((step + after.scores.abs()) * after.residuals.abs().clamp_min(1.0)).sum(dim=-1)
    total: torch.Tensor = (train.weights * sizes).sum(dim=-1)
    return 4 * torch.finfo(direction.dtype).eps * total


def measure(
    scores: torch.Tensor,
    total_eta: torch.Tensor,
    problem: Problem,
    training: TrainingLoss,
    rule: BoostingRule,
    metric: Metric,
) -> Columns:
    """Return loss and metric of the labelled and of the validation nodes; None without such nodes."""
    task, voting, val = problem.task, rule.voting_for(problem.task), problem.validation

    def judge(nodes: LabelledNodes) -> Any:
        rows = scores[:, nodes.rows]
        return metric.scores(PredictedMany(task, rows, nodes.targets, voting.link, total_eta))

    val_loss = None if val is None else training.loss.mean(scores[:, val.rows], val.targets, val.weights)
    return {
        "train_loss": training.value,
        f"train_{metric.name}": judge(problem.train),
        "val_loss": val_loss,
        f"val_{metric.name}": None if val is None else judge(val),
    }


def describe_rounds(
    t: int,
    hops: Sequence[Hop],
    heads: ChosenHeads,
    vote: Vote,
    own: WeakLearnings | None,
    before: TrainingLoss,
    after: TrainingLoss,
    measured: Columns,
    started: float,
) -> list[Row]:
    """Return every member's row of the history.

    ``own`` is the angle with the gradient of the rule's own loss, where it has one; ``before`` and ``after``
    are the training loss before and after the round, which began at ``started``.
    """
    learned = [hop.record() for hop in hops]
    # One transfer: what is made of these numbers takes longer to ask a device for than to compute here.
    rounding, values = rounding_error(vote, after), (before.value, after.value)
    numbers = (
        vote.quality,
        own,
        vote.eta,
        *values,
        rounding,
        after.gradient_norm,
        vote.weighted_error,
        measured,
    )
    quality, own, eta, loss_before, loss_after, rounding, gradient_norm, error, measured = to_host(numbers)
    n_members = len(hops)
    columns = {
        "round": [t] * n_members,
        "eta": eta,
        **measured,
        "gradient_norm": gradient_norm,
        **{name: getattr(quality, name) for name in (*_ANGLES, "edge")},
        **{f"exp_{name}": getattr(own, name, None) for name in _ANGLES},
        "guaranteed_decrease": guaranteed_decrease(quality, eta, before),
        "decrease": loss_before - loss_after,
        "rounding": rounding,
        "weighted_error": error,
        "coefficients": [each.get("coefficients") for each in learned],
        "alignment": [each.get("alignment") for each in learned],
        "learner": heads.reports(),
        "attempts": vote.attempts.tolist(),
        "peak_memory": [peak_memory(vote.direction.device)] * n_members,
    }
    rows = as_rows(columns, n_members)
    seconds = (time.perf_counter() - started) / n_members
    for row in rows:
        row["seconds"] = seconds
    return rows


def to_host(value: Any) -> Any:
    """Return a value with all its tensors, one number for each member, on the host, by one transfer."""
    found: list[torch.Tensor] = []

    def collect(each: torch.Tensor) -> torch.Tensor:
        found.append(each.double())
        return each

    map_tensors(collect, value)
    moved = iter(torch.stack(found).cpu())
    return map_tensors(lambda each: next(moved), value)


def as_rows(columns: Columns, n_members: int) -> list[Row]:
    """Return what was measured, member by member: numbers of Python, None where there is none.

    Examples
    --------
    >>> as_rows({"eta": torch.tensor([0.5, 1.0]), "gamma": torch.tensor([0.25, math.nan])}, 2)
    [{'eta': 0.5, 'gamma': 0.25}, {'eta': 1.0, 'gamma': None}]
    """
    tensors = {name: column for name, column in columns.items() if isinstance(column, torch.Tensor)}
    numbers = torch.stack(
        [column.double() for column in tensors.values()]
    ).tolist()  # one wait for the device
    known: Columns = dict(zip(tensors, numbers, strict=True))
    for name in _NULLABLE & known.keys():
        known[name] = [None if math.isnan(value) else value for value in known[name]]
    nothing = [None] * n_members
    found = [known.get(name, nothing if column is None else column) for name, column in columns.items()]
    return [dict(zip(columns, values, strict=True)) for values in zip(*found, strict=True)]


_ANGLES = ("cosine", "alpha", "beta", "gamma")
_NULLABLE = {"alpha", "beta", "gamma", "edge", "exp_alpha", "exp_beta", "exp_gamma"}
"""Columns in which NaN means that there is no such number."""


def peak_memory(device: torch.device) -> int | None:
    """Return the peak memory in bytes of the device, or of this process on a CPU; None if unknown."""
    if device.type == "cuda":
        # As torch.cuda.max_memory_allocated, which flattens all statistics first.
        statistics = torch.cuda.memory_stats_as_nested_dict(device)
        return int(statistics["allocated_bytes"]["all"]["peak"]) if statistics else 0
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
