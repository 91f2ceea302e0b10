"""What is measured of every round, and History: one flat, JSON-ready row for each."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from gbgnn.aggregation import Hop
from gbgnn.boosting.rules import BoostingRule, Vote
from gbgnn.errors import ParameterError, suggest
from gbgnn.metrics import Metric, PredictedMany
from gbgnn.problem import LabelledNodes, Problem
from gbgnn.rounds import TrainingLoss, for_rows, map_tensors
from gbgnn.theory import WeakLearnings

MEASURED = ("seconds", "peak_memory")
"""Columns about the training rather than the model: no two trainings have the same."""

Row = dict[str, Any]
Columns = dict[str, Any]
"""What was measured of all members, by name: a tensor or a list with an entry for each, or None for all."""


class History:
    """What was measured of each round; ``history["val_accuracy"]`` is a column, ``history[3]`` a row.

    ``metric`` is the name of that which chooses the round.

    The columns
    -----------
    round, eta, attempts, seconds, peak_memory
        The round's number, step, learners tried, wall-clock seconds (a share of them where models are boosted
        together), and the peak memory in bytes so far, of the process or of the GPU. These last two are None
        in a model that was loaded: equal models have equal files.
    train_loss, train_accuracy, val_loss, val_accuracy
        Loss and accuracy *after* the round; None without validation nodes. The name of another metric stands
        in place of ``accuracy``.
    gradient_norm
        Norm of the loss's gradient after the round.
    cosine, alpha, beta, gamma, gamma_total
        Angle between the direction and the negative gradient *before* the round's update, the tightest weak
        learning condition it meets (None where it meets none), and the running sum of gamma.
    edge
        AdaBoost's edge of a learner that says yes or no, see :class:`~gbgnn.theory.WeakLearning`.
    exp_cosine, exp_alpha, exp_beta, exp_gamma
        The same angle and condition with respect to the exponential loss that ``Samme`` and ``SammeR``
        descend on (its logarithm, which cannot overflow); None for other rules.
    guaranteed_decrease, decrease, rounding
        What smoothness alone promises of the drop in training loss (negative promises nothing; None where
        the loss has no bound of its curvature), the drop itself, and how far rounding may move it.
    weighted_error
        Share of the labelled nodes that the round's learner gets wrong, by their sample weight in the round;
        None for numbers.
    coefficients, alignment
        Weights of the hop, and their kernel target alignment where they were learned.
    learner
        What the learner has to say of its training; None where it says nothing.

    Examples
    --------
    >>> history = History([{"round": 1, "eta": 0.5}, {"round": 2, "eta": 0.25}])
    >>> history["eta"], history[-1]["round"], len(history)
    ([0.5, 0.25], 2, 2)
    """

    def __init__(self, rows: list[Row] | None = None, metric: str = "accuracy") -> None:
        self.rows: list[Row] = list(rows or [])
        self.metric = metric

    def copy(self) -> History:
        """Return the history as it is now: rounds to come will not be in it."""
        return History(self.rows, self.metric)

    def append(self, row: Row) -> None:
        """Add the row of a round, with the running sum of gamma."""
        reached = self.rows[-1]["gamma_total"] if self.rows else 0.0
        row["gamma_total"] = reached + (row["gamma"] or 0.0)
        self.rows.append(row)

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, int):
            return self.rows[key]
        if self.rows and key not in self.rows[0]:
            known = list(self.rows[0])
            raise ParameterError(
                f"the history has no column {key!r}.{suggest(key, known)} Known: {', '.join(known)}."
            )
        return [row[key] for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __repr__(self) -> str:
        return f"History({len(self)} rounds)"


def without_measurements(rows: Sequence[Row]) -> list[Row]:
    """Return rows in which nothing is said of time and memory."""
    return [{name: None if name in MEASURED else value for name, value in row.items()} for row in rows]


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
    reports: Sequence[Any],
    vote: Vote,
    own: WeakLearnings | None,
    before: TrainingLoss,
    after: TrainingLoss,
    measured: Columns,
    started: float,
) -> list[Row]:
    """Return every member's row of the history.

    ``reports`` are those of the learners; ``own`` is the angle with the gradient of the rule's own loss,
    where it has one; ``before`` and ``after`` are the training loss before and after the round, which began
    at ``started``.
    """
    # One transfer: what is made of these numbers takes longer to ask a device for than to compute here.
    moved = (vote.quality, own, vote.eta, before.value, rounding_error(vote, after), after.gradient_norm)
    quality, own, eta, loss_before, rounding, gradient_norm, error, measured = to_host(
        (*moved, vote.weighted_error, measured)
    )
    # Members may share a hop, whose record takes longer to make than to look up.
    records, n_members = {id(hop): hop.record() for hop in {id(hop): hop for hop in hops}.values()}, len(hops)
    learned = [records[id(hop)] for hop in hops]
    columns = {
        "round": [t] * n_members,
        "eta": eta,
        **measured,
        "gradient_norm": gradient_norm,
        **{name: getattr(quality, name) for name in (*_ANGLES, "edge")},
        **{f"exp_{name}": getattr(own, name, None) for name in _ANGLES},
        "guaranteed_decrease": guaranteed_decrease(quality, eta, before),
        "decrease": loss_before - measured["train_loss"],
        "rounding": rounding,
        "weighted_error": error,
        "coefficients": [each.get("coefficients") for each in learned],
        "alignment": [each.get("alignment") for each in learned],
        "learner": reports,
        "attempts": vote.attempts,
        "peak_memory": [peak_memory(vote.direction.device)] * n_members,
        "seconds": [(time.perf_counter() - started) / n_members] * n_members,
    }
    return as_rows(columns, n_members)


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
    """Return what was measured, member by member: numbers of Python, None where there is none."""
    found: list[Sequence[Any]] = []
    for name, column in columns.items():
        values = [None] * n_members if column is None else column
        if isinstance(column, torch.Tensor):
            values = column.tolist()
            if name in _NULLABLE:
                values = [None if math.isnan(value) else value for value in values]
        found.append(values)
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
