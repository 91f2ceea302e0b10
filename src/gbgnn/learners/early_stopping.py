"""What learners see of the validation nodes while they train, and how they go back to where it was best."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from gbgnn.rounds import WeakTask

EVERY = 5  # epochs between two looks at the validation nodes


class Best:
    """Weights as they were at first, and when the mean loss of some nodes was least."""

    def __init__(self, weights: Sequence[torch.Tensor], losses: torch.Tensor) -> None:
        self.weights, self.epoch = weights, 0
        self.first_losses = self.losses = losses
        self.first = self.kept = [each.detach().clone() for each in weights]

    def see(self, epoch: int, losses: torch.Tensor) -> None:
        """Keep the weights where the mean loss is less than it ever was."""
        if losses.mean() < self.losses.mean():
            self.losses, self.epoch = losses, epoch
            self.kept = [each.detach().clone() for each in self.weights]

    @property
    def is_clear(self) -> bool:
        """Whether the loss has fallen by at least a standard error: less may be the luck of many looks."""
        gains = self.first_losses - self.losses
        if not bool(self.first_losses.isfinite().all()):
            return True
        return bool(gains.mean() > 0 and gains.mean() * math.sqrt(len(gains)) >= gains.std(correction=0))

    @torch.no_grad()
    def restore(self) -> None:
        """Put the best weights back, or the first ones where these are not clearly worse."""
        for kept, each in zip(self.kept if self.is_clear else self.first, self.weights, strict=True):
            each.copy_(kept)


def first_losses(output: torch.Tensor, task: WeakTask) -> torch.Tensor:
    """Return the losses of the validation nodes before training, which says nothing yet.

    They are infinite where it builds on scores and these are still zero: a first round must say something.
    """
    losses = validation_losses(output, task)
    is_first = task.val_offsets is not None and not bool(task.val_offsets.any())
    return torch.full_like(losses, torch.inf) if is_first else losses


def validation_losses(output: torch.Tensor, task: WeakTask) -> torch.Tensor:
    """Return the loss of each validation node, of the scores so far plus the output where there are some."""
    assert task.val_rows is not None
    assert task.val_targets is not None
    scores = output[task.val_rows].detach()
    scores = scores if task.val_offsets is None else scores + task.val_offsets
    return task.loss.evaluate("values", scores.double(), task.val_targets)
