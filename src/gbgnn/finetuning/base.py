"""TunedNetwork: what fine-tuning asks of a boosted model as one function of its parameters."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial

import torch

from gbgnn.boosting import Ensemble, Voting
from gbgnn.errors import ParameterError
from gbgnn.losses import Loss
from gbgnn.metrics import Metric, Predicted
from gbgnn.problem import Problem

LEARNERS, ETAS, AGGREGATION = MOVES = ("learners", "etas", "aggregation")

Positions = slice | torch.Tensor
"""Some of the labelled and validation nodes, by their places among these."""


class TunedNetwork(ABC):
    """The scores of the labelled nodes as a function of all that fine-tuning moves, and the gradient.

    ``train`` and ``validation`` are the positions of the labelled and of the validation nodes. ``moves``,
    ``metric`` and ``memory_limit`` (in bytes) are as in :class:`~gbgnn.FineTuner`.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        problem: Problem,
        voting: Voting,
        loss: Loss,
        metric: Metric,
        *,
        moves: Sequence[str] = MOVES,
        memory_limit: int = 2**31,
    ) -> None:
        self.ensemble, self.moves, self._limit = ensemble, moves, memory_limit
        self.voting, self.loss, self.metric = voting.softened(), loss, metric
        self._task, self._inputs = problem.task, problem.inputs
        nodes = [problem.train] if problem.validation is None else [problem.train, problem.validation]
        self._rows = torch.cat([part.rows for part in nodes])
        self._targets = torch.cat([part.targets for part in nodes])
        self._weights = torch.cat([part.weights for part in nodes])
        self.train = slice(0, problem.train.size)
        self.validation = None if problem.validation is None else slice(problem.train.size, len(self._rows))

        self._boosted_heads = [trained.kept_head() for trained in ensemble]
        for trained, head in zip(ensemble, self._boosted_heads, strict=True):
            if not any(True for _ in head.parameters()):
                raise ParameterError(
                    f"the learner of round {trained.t} ({type(head).__name__}) has no parameters that a "
                    "gradient could move; fine-tuning works with networks such as MLP()."
                )
        self.etas = torch.tensor(ensemble.etas, dtype=torch.float64, device=self._inputs.device)
        self.etas.requires_grad_(ETAS in moves)

    @property
    @abstractmethod
    def work(self) -> int:
        """Multiply-adds of the largest products of a gradient."""

    @abstractmethod
    def parameters(self) -> dict[str, list[torch.Tensor]]:
        """Return the parameters that are fine-tuned, by kind."""

    @abstractmethod
    def accumulate(self, positions: Positions, scale: float = 1.0) -> float:
        """Add the gradient of ``scale`` times the weighted loss to all parameters; return that loss."""

    @abstractmethod
    def scores(self, positions: Positions, voting: Voting) -> torch.Tensor:
        """Return the scores of some nodes under ``voting``: the soft one, or the one of boosting."""

    @abstractmethod
    def rebuild(self) -> Ensemble:
        """Return the model as it is now, in ordinary rounds."""

    @abstractmethod
    def project(self) -> None:
        """Move every parameter to the nearest value that it may have."""

    @abstractmethod
    def after_epoch(self) -> None:
        """Prepare for the next epoch."""

    def take_gradients(self) -> dict[str, list[torch.Tensor]]:
        """Return the gradients that :meth:`accumulate` added up, and start again from zero."""
        taken = {}
        for kind, parameters in self.parameters().items():
            taken[kind] = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
            for parameter in parameters:
                parameter.grad = None
        return taken

    def measure(self, voting: Voting, names: Sequence[str] = ("train", "val")) -> dict[str, float]:
        """Return loss and metric of the labelled and of the validation nodes, as far as there are any."""
        measured: dict[str, float] = {}
        for name, positions in (("train", self.train), ("val", self.validation)):
            if name not in names or positions is None:
                continue
            scores, targets = self.scores(positions, voting), self._targets[positions]
            link = partial(voting.link, total_eta=float(self.etas.detach().sum()))
            predicted = Predicted(self._task, scores, targets, link)
            # Scikit-learn refuses to judge what diverged, and that must not be the end of it.
            judged = self.metric.score(predicted) if bool(scores.isfinite().all()) else math.nan
            measured[f"{name}_loss"] = float(self.loss.mean(scores, targets, self._weights[positions]))
            measured[f"{name}_{self.metric.name}"] = judged
        return measured

    def _check_moves(self, *, has_free_hops: bool) -> None:
        if tuple(self.moves) == (AGGREGATION,) and not has_free_hops:
            raise ParameterError(
                'FineTuner.moves=("aggregation",) leaves nothing to move: the hops of this model have no '
                'free numbers. Add "learners" or "etas".'
            )


def too_small(needed: int, limit: int) -> ParameterError:
    """Return what is said of a limit that does not suffice."""
    return ParameterError(
        f"FineTuner.memory_limit must be at least {needed:,} bytes for this graph and model; got {limit:,}."
    )
