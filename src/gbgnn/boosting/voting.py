"""Voting: how the output of a head becomes what is added to the scores, and what scores say."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch

from gbgnn.losses import Loss, softmax
from gbgnn.rounds import for_rows


@dataclass(frozen=True)
class Voting(ABC):
    """How rounds predict, apart from how they are trained.

    A fitted model holds one. It is made by a boosting rule once the task is known, and is all of a rule that
    prediction needs: what a head's output adds to the scores (``direction``), and what the sum says of the
    targets (``link``). Outputs and scores have a row per node and may have an axis of members in front;
    scores have ``n_outputs`` columns.
    """

    n_outputs: int

    is_choice: ClassVar[bool] = False
    """Whether ``direction`` chooses, so that no gradient passes it; ``softened`` then is another voting."""

    adds_outputs: ClassVar[bool] = False
    """Whether what a round adds is its head's output times the step; bounds need that."""

    @abstractmethod
    def direction(self, output: torch.Tensor) -> torch.Tensor:
        """Return the paper's f^(t) for a head's output, row by row."""

    @abstractmethod
    def link(self, scores: torch.Tensor, total_eta: float | torch.Tensor) -> torch.Tensor:
        """Return what scores that are a sum of steps ``total_eta`` say of the targets."""

    def softened(self) -> Voting:
        """Return the voting that fine-tuning follows, which a gradient passes."""
        return self

    def fine_tuning_total(self) -> float | None:
        """Return what the steps are scaled to add up to before fine-tuning; None leaves them as they are.

        For votings whose predictions do not change with that scale, and whose loss would otherwise be all but
        zero from the start, with nothing left to descend.
        """
        return None

    def record(self) -> dict[str, Any]:
        """Return the settings as JSON-ready values, for the model file; a loss stands by itself there."""
        return {name: value for name, value in vars(self).items() if name != "loss"}

    @classmethod
    def from_record(cls, record: dict[str, Any], loss: Loss) -> Self:
        """Build the voting again, with the model's loss where it has one."""
        return cls(**record, **({"loss": loss} if "loss" in cls.__dataclass_fields__ else {}))


@dataclass(frozen=True)
class OutputVoting(Voting):
    """The output itself is added, and scores mean what they mean to the loss.

    Examples
    --------
    >>> from gbgnn.losses import SquaredError
    >>> OutputVoting(1, SquaredError()).direction(torch.tensor([[2.0]]))
    tensor([[2.]])
    """

    loss: Loss
    adds_outputs = True

    def direction(self, output: torch.Tensor) -> torch.Tensor:
        """Return the output."""
        return output

    def link(self, scores: torch.Tensor, total_eta: float | torch.Tensor) -> torch.Tensor:
        """Return what the loss makes of scores."""
        return self.loss.evaluate("link", scores)


@dataclass(frozen=True)
class ClassVoting(Voting):
    """One class per node is voted for: SAMME's code, 1 for it and -1/(K-1) for every other.

    An output has a column for each of K = ``n_classes``; of one score column, the last class's code is taken.
    Where it ``is_soft``, every class is voted for as far as it is believed in: the argmax becomes a softmax.

    Examples
    --------
    >>> voting = ClassVoting(n_outputs=3, n_classes=3)
    >>> voting.direction(torch.tensor([[0.0, 2.0, 1.0]])).tolist()
    [[-0.5, 1.0, -0.5]]
    >>> voting.softened().direction(torch.zeros(1, 3)).tolist()
    [[0.0, 0.0, 0.0]]
    """

    n_classes: int
    is_soft: bool = False

    @property
    def is_choice(self) -> bool:  # type: ignore[override]
        """Whether one class is voted for."""
        return not self.is_soft

    def direction(self, output: torch.Tensor) -> torch.Tensor:
        """Return the code of the likeliest class, or the average code under the softmax of the output."""
        if self.is_soft:
            codes = (self.n_classes * softmax(output) - 1) / (self.n_classes - 1)
        else:
            codes = class_codes(output.argmax(dim=-1), self.n_classes, like=output)
        return codes[..., -self.n_outputs :]

    def link(self, scores: torch.Tensor, total_eta: float | torch.Tensor) -> torch.Tensor:
        """Return softmax of the average vote over K - 1, as scikit-learn's AdaBoost does."""
        return average_vote_proba(scores, total_eta)

    def softened(self) -> ClassVoting:
        """Return the vote by softmax."""
        return replace(self, is_soft=True)

    def fine_tuning_total(self) -> float | None:
        """Return SAMME's step of one learner that gets every twentieth node wrong; None once tuned."""
        return None if self.is_soft else float(samme_step(0.05, self.n_classes))


@dataclass(frozen=True)
class LabelVoting(ClassVoting):
    """One class per node is voted for, in a sum that descends on a loss: scores mean what they mean to it."""

    loss: Loss | None = None

    def link(self, scores: torch.Tensor, total_eta: float | torch.Tensor) -> torch.Tensor:
        """Return what the loss makes of scores."""
        assert self.loss is not None
        return self.loss.evaluate("link", scores)

    def fine_tuning_total(self) -> None:
        """Leave the steps as they are: scores have their scale from the loss."""


@dataclass(frozen=True)
class LogProbaVoting(Voting):
    r"""Every class is voted for by its centred log-probability, :math:`(K-1)(\log p_k - \overline{\log p})`.

    Probabilities are kept above ``proba_floor`` before the logarithm.

    Examples
    --------
    >>> LogProbaVoting(n_outputs=2, proba_floor=1e-7).direction(torch.zeros(1, 2)).tolist()
    [[0.0, 0.0]]
    """

    proba_floor: Any  # a number, or one for each member

    def direction(self, output: torch.Tensor) -> torch.Tensor:
        """Return the centred log-probabilities."""
        logs = softmax(output).clamp_min(for_rows(self.proba_floor, output)).log()
        return (self.n_outputs - 1) * (logs - logs.mean(dim=-1, keepdim=True))

    def link(self, scores: torch.Tensor, total_eta: float | torch.Tensor) -> torch.Tensor:
        """Return the normalised geometric mean of the learners' probabilities."""
        return average_vote_proba(scores, total_eta)


def class_codes(labels: torch.Tensor, n_classes: int, like: torch.Tensor) -> torch.Tensor:
    """Return SAMME's code of each label: 1 for the class, -1/(K-1) for every other."""
    codes = like.new_full((*labels.shape, n_classes), -1 / (n_classes - 1))
    return codes.scatter_(-1, labels[..., None], 1.0)


def average_vote_proba(scores: torch.Tensor, total_eta: float | torch.Tensor) -> torch.Tensor:
    """Return probabilities of a sum of votes; dividing by the steps keeps them from saturating."""
    total = for_rows(torch.as_tensor(total_eta, dtype=torch.float64, device=scores.device), scores)
    average = scores / torch.where(total > 0, total, 1.0)
    return softmax(average / (scores.shape[-1] - 1))


def samme_step(error: torch.Tensor | float, n_classes: int) -> torch.Tensor:
    """Return SAMME's step for learners with this weighted error."""
    error = torch.as_tensor(error, dtype=torch.float64)
    return ((1 - error) / error).log() + math.log(n_classes - 1)
