"""How good models are on validation nodes, how sure they may be, and which average of them is the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn.averaging import select_greedily
from gbgnn.blend import as_averaged, as_scores, temper
from gbgnn.losses import Loss
from gbgnn.metrics import Metric, Predicted
from gbgnn.model import FittedModel
from gbgnn.tasks import Task

N_DRAWS, N_STEPS, ENOUGH_NODES = 10, 10, 2_000
"""Weights are the mean over so many samples of the nodes, of so many steps each, where nodes are fewer than
that: of few, a single choice would owe much to chance."""

SMALLEST_WEIGHT = 0.02
"""A smaller share in the average is left out: every member has to predict."""

MARGIN, N_ERRORS = 0.1, 2.0
"""A model is weak whose loss is above the best one's by this share of it and so many standard errors."""

TEMPERATURES = np.geomspace(1 / 20, 20, 61)


@dataclass(frozen=True, eq=False)
class Judged:
    """What is known of a candidate: what it says of the nodes, how sure it is let be, how good that is."""

    outputs: torch.Tensor  # probabilities, shape (n, columns), or the scores of numbers
    temperature: float
    losses: NDArray[np.float64]  # of every node
    score: float

    @property
    def loss(self) -> float:
        """The mean loss."""
        return float(self.losses.mean())

    def is_weaker(self, best: Judged) -> bool:
        """Return whether it is clearly worse than the best: in its loss, and no better by the metric."""
        gaps = self.losses - best.losses
        error = float(gaps.std(ddof=1)) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.inf
        is_better = self.score > best.score  # never where one is no number
        return float(gaps.mean()) > MARGIN * abs(best.loss) + N_ERRORS * error and not is_better


@dataclass(frozen=True, eq=False)
class Panel:
    """The validation nodes, in as many groups as there are folds, and by what models are judged on them."""

    task: Task
    loss: Loss
    metric: Metric
    groups: Sequence[NDArray[np.int64]]
    targets: torch.Tensor  # of all groups, on the CPU

    def judge(self, models: Sequence[Sequence[FittedModel]]) -> Judged:
        """Return how good a candidate is, of which every fold has models that differ by their seeds."""
        temperature = self._find_temperature(self._ask(models))
        outputs = self._ask(models, temperature)  # each of them cooled or warmed, as in the average
        return Judged(outputs, temperature, self.losses(outputs), self.score(outputs))

    def losses(self, outputs: torch.Tensor) -> NDArray[np.float64]:
        """Return the loss of every node."""
        values = self.loss.values(as_scores(self.task, outputs), self.targets)
        return np.asarray(values, dtype=np.float64)

    def score(self, outputs: torch.Tensor) -> float:
        """Return the metric."""
        scores = as_scores(self.task, outputs)
        return self.metric.score(Predicted(self.task, scores, self.targets, self.loss.link))

    def choose_weights(self, candidates: Sequence[Judged], seed: int) -> NDArray[np.float64]:
        """Return the weights of candidates in the average, which sum to one, by greedy selection."""
        outputs, n_nodes = torch.stack([each.outputs for each in candidates]), len(self.targets)
        alike = np.full(n_nodes, 1 / n_nodes)
        if n_nodes >= ENOUGH_NODES:
            weights = select_greedily(outputs, partial(self._mean_loss, alike))
        else:
            random = np.random.default_rng(seed)
            draws = [random.multinomial(n_nodes, alike) / n_nodes for _ in range(N_DRAWS)]
            found = [
                select_greedily(outputs, partial(self._mean_loss, own), n_steps=N_STEPS) for own in draws
            ]
            weights = np.mean(found, axis=0)
        weights[weights < min(SMALLEST_WEIGHT, weights.max())] = 0.0
        return np.asarray(weights / weights.sum())

    def _mean_loss(self, weights: NDArray[np.float64], outputs: torch.Tensor) -> float:
        return float(self.losses(outputs) @ weights)

    def _ask(self, models: Sequence[Sequence[FittedModel]], temperature: float = 1.0) -> torch.Tensor:
        """Return what is averaged of a candidate, of all nodes: the mean over its seeds."""

        def say(model: FittedModel, nodes: NDArray[np.int64]) -> torch.Tensor:
            return as_averaged(model, model.find_scores(nodes), self.loss, temperature).cpu()

        pairs = zip(self.groups, models, strict=True)
        return torch.cat(
            [torch.stack([say(model, nodes) for model in own]).mean(dim=0) for nodes, own in pairs]
        )

    def _find_temperature(self, outputs: torch.Tensor) -> float:
        """Return by what scores are best divided; it is drawn towards one, more where there are few nodes."""
        if not self.task.has_proba:
            return 1.0
        penalties = np.log(TEMPERATURES) ** 2 / (2 * len(self.targets))
        losses = [self.losses(temper(self.task, outputs, self.loss, float(t))).mean() for t in TEMPERATURES]
        return float(TEMPERATURES[int(np.argmin(losses + penalties))])
