"""MemberResult: what came of a member; Records: how it is collected round by round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray

from gbgnn.boosting import StopReason
from gbgnn.losses import Loss
from gbgnn.population.inputs import PopulationInputs
from gbgnn.population.rules import REFUSALS
from gbgnn.problem import LabelledNodes

Column = list[float]


@dataclass(frozen=True, eq=False)
class MemberResult:
    """What came of a member.

    Parameters
    ----------
    train_loss, train_accuracy, val_loss, val_accuracy
        Cross entropy and accuracy after every round; of the validation nodes, empty where there are none.
    etas
        The steps.
    coefficients
        What the hops have learned, round by round: None for a hop that learned nothing, empty for
        aggregations that do not learn.
    best_round
        The round that predicts; 0 where not even one round could be trained.
    stop_reason
        Why boosting ended; ``REQUESTED`` for a member that was dropped.
    seconds
        This member's share of the time that its rounds took.
    scores
        Scores of the further nodes at ``best_round``, shape (n, outputs); None where none were asked for, or
        no round was trained.
    """

    train_loss: Column
    train_accuracy: Column
    val_loss: Column
    val_accuracy: Column
    etas: Column
    coefficients: list[tuple[float, ...] | None]
    best_round: int
    stop_reason: StopReason
    seconds: float
    scores: NDArray[Any] | None

    @property
    def n_rounds(self) -> int:
        """Number of rounds that were trained."""
        return len(self.etas)

    @property
    def best_val_accuracy(self) -> float | None:
        """Validation accuracy at ``best_round``; None without validation nodes or without a round."""
        return self.val_accuracy[self.best_round - 1] if self.val_accuracy else None


class Records:
    """Collects what is measured of all members.

    Parameters
    ----------
    inputs
        The problem.
    n_members
        How many there are.
    loss
        By which progress is measured.
    select
        Which round predicts, as in :class:`~gbgnn.GBGNNClassifier`.
    """

    def __init__(self, inputs: PopulationInputs, n_members: int, loss: Loss, select: str) -> None:
        self._inputs, self._loss, self._is_last = inputs, loss, select == "last"
        names = ("train_loss", "train_accuracy", "val_loss", "val_accuracy", "etas")
        self._columns: list[dict[str, Column]] = [{name: [] for name in names} for _ in range(n_members)]
        self._best, self._seconds = [0] * n_members, [0.0] * n_members
        self._stops: list[StopReason | None] = [None] * n_members
        n_further = inputs.n_rows - inputs.further.start
        self._scores: list[NDArray[Any] | None] = [None] * n_members
        self._has_further = n_further > 0

    def keep_accepted(self, ids: list[int], refusals: torch.Tensor) -> list[int]:
        """Take down why members were refused; return the positions of the others."""
        found = refusals.tolist()
        for member, refusal in zip(ids, found, strict=True):
            reason = REFUSALS[refusal]
            if reason is not None:
                self.stop(member, reason)
        return [i for i, refusal in enumerate(found) if not refusal]

    def has_stopped(self, member: int) -> bool:
        """Return whether a member has ended."""
        return self._stops[member] is not None

    def add_time(self, ids: list[int], seconds: float) -> None:
        """Share the time of a round among the members that took part."""
        for member in ids:
            self._seconds[member] += seconds / len(ids)

    def add_round(self, ids: list[int], etas: torch.Tensor, scores: torch.Tensor) -> None:
        """Measure the scores after a round, of members that took it."""
        inputs, problem = self._inputs, self._inputs.problem
        measured = {"etas": etas, **self._measure("train", scores[:, inputs.train], problem.train)}
        if problem.validation is not None:
            measured |= self._measure("val", scores[:, inputs.validation], problem.validation)
        counted = torch.stack(list(measured.values())).cpu()  # one wait for the device
        # Hits are divided here: a GPU multiplies by the inverse, which may be off in the last bit.
        sizes = {"train_accuracy": inputs.n_train, "val_accuracy": inputs.n_validation}
        divisors = torch.tensor([[sizes.get(name, 1)] for name in measured], dtype=counted.dtype)
        table = (counted / divisors).tolist()
        better = []
        for i, member in enumerate(ids):
            columns = self._columns[member]
            for name, values in zip(measured, table, strict=True):
                columns[name].append(values[i])
            if self._is_better(member):
                self._best[member] = len(columns["etas"])
                better.append(i)
        if self._has_further and better:
            further = scores[torch.tensor(better, device=scores.device), inputs.further].cpu().numpy()
            for i, rows in zip(better, further, strict=True):
                self._scores[ids[i]] = rows

    def latest(self, member: int) -> float | None:
        """Return the validation accuracy after the last round, or None."""
        column = self._columns[member]["val_accuracy"]
        return column[-1] if column else None

    def stop(self, member: int, reason: StopReason) -> None:
        """Take down why a member ended."""
        self._stops[member] = reason

    def result(self, member: int, coefficients: list[tuple[float, ...] | None]) -> MemberResult:
        """Return what came of a member."""
        stop, columns = self._stops[member], self._columns[member]
        assert stop is not None
        return MemberResult(
            **columns,
            coefficients=coefficients[: len(columns["etas"])],
            best_round=self._best[member],
            stop_reason=stop,
            seconds=self._seconds[member],
            scores=self._scores[member],
        )

    def _measure(self, name: str, scores: torch.Tensor, nodes: LabelledNodes) -> dict[str, torch.Tensor]:
        flat, targets = scores.flatten(0, 1), nodes.targets.repeat(len(scores))
        losses = self._loss.values(flat.double(), targets).view(len(scores), -1)
        decided = self._inputs.problem.task.decide(flat, self._loss.link)
        hits = (decided == targets).view(len(scores), -1)
        return {
            f"{name}_loss": (losses * nodes.weights).sum(dim=1),
            f"{name}_accuracy": hits.sum(dim=1).double(),
        }

    def _is_better(self, member: int) -> bool:
        columns, best = self._columns[member], self._best[member]
        if self._is_last or not columns["val_accuracy"] or not best:
            return True
        accuracy, loss = columns["val_accuracy"], columns["val_loss"]
        return (accuracy[-1], -loss[-1]) > (accuracy[best - 1], -loss[best - 1])
