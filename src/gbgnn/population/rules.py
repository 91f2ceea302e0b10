"""The boosting rules, for all members at once."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch.nn import functional

from gbgnn.boosting import FunctionalGradient, Samme, SammeR, StopReason
from gbgnn.losses import Loss
from gbgnn.population.inputs import PopulationInputs
from gbgnn.population.members import Members

REFUSALS = (
    None,
    StopReason.DIVERGED,
    StopReason.NO_BETTER_THAN_CHANCE,
    StopReason.GRADIENT_VANISHED,
    StopReason.WEAK_LEARNING_FAILED,
)
"""What the numbers in :attr:`Votes.refusals` mean."""


@dataclass(frozen=True, eq=False)
class Votes:
    """What the rules make of learners: ``etas * directions`` is added to the scores.

    Parameters
    ----------
    etas
        The steps, shape (members,), in double precision.
    directions
        The paper's f^(t) of all kept nodes, shape (members, nodes, outputs).
    refusals
        Why each learner cannot be used, as a place in :data:`REFUSALS`; 0 where it can.
    """

    etas: torch.Tensor
    directions: torch.Tensor
    refusals: torch.Tensor

    @classmethod
    def none(cls, scores: torch.Tensor) -> Votes:
        """Make room for the votes of members with these scores."""
        refusals = torch.ones(len(scores), dtype=torch.int64, device=scores.device)
        return cls(refusals.double(), torch.empty_like(scores), refusals)

    def write(self, at: torch.Tensor, votes: Votes) -> None:
        """Take in the votes of some members."""
        self.etas[at], self.directions[at], self.refusals[at] = votes.etas, votes.directions, votes.refusals

    def of_members(self, at: torch.Tensor) -> Votes:
        """Return the votes of some members."""
        return Votes(self.etas[at], self.directions[at], self.refusals[at])


class MemberRules(ABC):
    """The rules of all members, which are of one kind; each method is told which members it is about.

    Parameters
    ----------
    members, inputs
        Their settings, and the problem.
    """

    is_regression: bool = False
    """Whether learners fit numbers rather than classes."""

    def __init__(self, members: Members, inputs: PopulationInputs) -> None:
        self._problem, self._train = inputs.problem, inputs.train
        self.n_classes = inputs.problem.task.n_columns
        self.loss: Loss = members.rule.loss_for(inputs.problem.task)
        self.n_outputs = inputs.problem.task.n_outputs(self.loss)
        self.max_attempts = members.rule.max_attempts
        self.rate = members.of_rules("learning_rate").to(inputs.device)

    def task(
        self, ids: torch.Tensor, importance: torch.Tensor, scores: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return targets and their importance: one-hot classes for all members, or numbers for each."""
        one_hot = functional.one_hot(self._problem.train.targets, self.n_classes)
        return one_hot.to(scores.dtype)[None], importance

    @abstractmethod
    def directions(self, ids: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        """Return where outputs point."""

    @abstractmethod
    def judge(
        self, ids: torch.Tensor, directions: torch.Tensor, importance: torch.Tensor, scores: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return steps and refusals."""

    def vote(
        self, ids: torch.Tensor, output: torch.Tensor, importance: torch.Tensor, scores: torch.Tensor
    ) -> Votes:
        """Return what the members ``ids`` make of their learners' outputs."""
        directions = self.directions(ids, output)
        etas, refusals = self.judge(ids, directions, importance, scores)
        is_finite = output.isfinite().flatten(1).all(dim=1)
        return Votes(etas, directions, torch.where(is_finite, refusals, 1))

    def settle(self, votes: Votes) -> Votes:
        """Decide what becomes of refusals when no attempts are left; by default they stand."""
        return votes

    @abstractmethod
    def advance(self, importance: torch.Tensor, votes: Votes) -> torch.Tensor:
        """Return the importance of the labelled nodes for the next round."""

    def _is_wrong(self, directions: torch.Tensor) -> torch.Tensor:
        return directions[:, self._train].argmax(dim=2) != self._problem.train.targets


class SammeMembers(MemberRules):
    """:class:`~gbgnn.Samme` for every member."""

    def __init__(self, members: Members, inputs: PopulationInputs) -> None:
        super().__init__(members, inputs)
        self._floor = members.of_rules("error_floor").to(inputs.device)

    def directions(self, ids: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        """Vote for the likeliest class of every node."""
        codes = torch.full_like(output, -1 / (self.n_classes - 1))
        return codes.scatter_(2, output.argmax(dim=2, keepdim=True), 1.0)

    def judge(
        self, ids: torch.Tensor, directions: torch.Tensor, importance: torch.Tensor, scores: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return larger steps the fewer errors there are; refuse learners no better than chance."""
        n_classes, floor = self.n_classes, self._floor[ids]
        errors = (importance * self._is_wrong(directions)).sum(dim=1)
        clipped = errors.clamp(floor, 1 - floor)
        etas = self.rate[ids] * (((1 - clipped) / clipped).log() + math.log(n_classes - 1))
        return etas, torch.where(errors >= 1 - 1 / n_classes, 2, 0)

    def advance(self, importance: torch.Tensor, votes: Votes) -> torch.Tensor:
        """Raise the importance of the nodes that were got wrong."""
        wrong = self._is_wrong(votes.directions).double()
        return _normalized(importance * (votes.etas[:, None] * wrong).exp())


class SammeRMembers(MemberRules):
    """:class:`~gbgnn.SammeR` for every member."""

    def __init__(self, members: Members, inputs: PopulationInputs) -> None:
        super().__init__(members, inputs)
        self._floor = members.of_rules("proba_floor").to(inputs.device, inputs.dtype)

    def directions(self, ids: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        """Vote with the centred log-probabilities."""
        logs = output.softmax(dim=2).clamp_min(self._floor[ids, None, None]).log()
        return (self.n_classes - 1) * (logs - logs.mean(dim=2, keepdim=True))

    def judge(
        self, ids: torch.Tensor, directions: torch.Tensor, importance: torch.Tensor, scores: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the same step every round."""
        return self.rate[ids], torch.zeros_like(ids)

    def advance(self, importance: torch.Tensor, votes: Votes) -> torch.Tensor:
        """Lower the importance of the nodes that were predicted well."""
        targets = self._problem.train.targets.expand(len(importance), -1)
        own = votes.directions[:, self._train].double().gather(2, targets[..., None])[..., 0]
        return _normalized(importance * (-votes.etas[:, None] * own / (self.n_classes - 1)).exp())


class GradientMembers(MemberRules):
    """:class:`~gbgnn.FunctionalGradient`, whose learners fit the gradient, for every member."""

    is_regression = True

    def __init__(self, members: Members, inputs: PopulationInputs) -> None:
        super().__init__(members, inputs)
        rule = members.rule
        assert isinstance(rule, FunctionalGradient)
        self._goes_on = rule.on_failure == "warn"
        self._min_cosine = members.of_rules("min_cosine").to(inputs.device)

    def task(
        self, ids: torch.Tensor, importance: torch.Tensor, scores: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Ask for the negative gradient."""
        return self._residuals(scores), self._problem.train.weights.expand(len(ids), -1)

    def directions(self, ids: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        """Point where the learners point."""
        return output

    def judge(
        self, ids: torch.Tensor, directions: torch.Tensor, importance: torch.Tensor, scores: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the steps 1/(A alpha), and refuse learners that fail the weak learning condition."""
        train = self._problem.train
        roots = (train.weights / train.size).sqrt()[:, None]
        Z, g = (
            (roots * rows.double()).flatten(1)
            for rows in (directions[:, self._train], self._residuals(scores))
        )
        (Z_norm, Z_unit), (g_norm, g_unit) = _norms(Z), _norms(g)
        cosines = (Z_unit * g_unit).sum(dim=1).clamp(-1, 1)
        assert self.loss.smoothness is not None
        etas = self.rate[ids] / self.loss.smoothness * cosines * g_norm / Z_norm.clamp_min(1e-300)
        is_met = (cosines > 0) & (cosines >= self._min_cosine[ids])
        etas = torch.where(is_met, etas, 0.0)
        refusals = torch.where(is_met, torch.where(etas > 0, 0, 3), 4)
        return etas, torch.where(g_norm > 0, refusals, 3)

    def settle(self, votes: Votes) -> Votes:
        """Go on without this round's learner where that was asked for."""
        if not self._goes_on:
            return votes
        return Votes(votes.etas, votes.directions, torch.where(votes.refusals == 4, 0, votes.refusals))

    def advance(self, importance: torch.Tensor, votes: Votes) -> torch.Tensor:
        """Remember nothing."""
        return importance

    def _residuals(self, scores: torch.Tensor) -> torch.Tensor:
        rows, targets = scores[:, self._train], self._problem.train.targets
        gradient = self.loss.gradient(rows.flatten(0, 1).double(), targets.repeat(len(rows)))
        return -gradient.view(rows.shape)


def rules_of(members: Members, inputs: PopulationInputs) -> MemberRules:
    """Return the rules of members, by their kind."""
    kinds: dict[type, type[MemberRules]] = {
        Samme: SammeMembers,
        SammeR: SammeRMembers,
        FunctionalGradient: GradientMembers,
    }
    return kinds[type(members.rule)](members, inputs)


def _normalized(importance: torch.Tensor) -> torch.Tensor:
    return importance / importance.sum(dim=1, keepdim=True)


def _norms(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return norms, and vectors divided by them; squares of tiny entries do not vanish."""
    largest = vectors.abs().amax(dim=1)
    scale = torch.where(largest > 0, largest, 1.0)
    norms = scale * (vectors / scale[:, None]).norm(dim=1)
    return norms, vectors / torch.where(norms > 0, norms, 1.0)[:, None]
