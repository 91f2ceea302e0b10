"""Round and Ensemble: the whole model is a hop, a head and a step per round; applying it to a graph."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import overload

import torch

from gbgnn._threads import one_thread
from gbgnn.aggregation import Hop
from gbgnn.boosting.voting import Voting
from gbgnn.errors import ParameterError
from gbgnn.learners import Head
from gbgnn.problem import NodeInputs
from gbgnn.propagation import Mixable

_SHARE_OF_FEW = 8
"""Up to an eighth of all nodes, their rows are kept beside those of all; more are read block by block."""


@dataclass(frozen=True, eq=False)
class Round:
    """One trained round. ``head`` is None where fitted learners were not kept."""

    t: int
    hop: Hop
    head: Head | None
    eta: float

    def kept_head(self) -> Head:
        """Return the head, or say why there is none."""
        if self.head is None:
            raise ParameterError(
                "the fitted learners were not kept (keep_learners=False), so rounds cannot be "
                "applied again; fit with keep_learners=True."
            )
        return self.head


@dataclass(frozen=True, eq=False)
class Ensemble:
    """The rounds in order; ``ensemble[:t]`` is exactly the model stopped at round t.

    Examples
    --------
    >>> from gbgnn.aggregation import IDENTITY
    >>> rounds = Ensemble((Round(1, IDENTITY, None, 0.5), Round(2, IDENTITY, None, 0.25)))
    >>> rounds[:1]
    Ensemble(1 round)
    >>> rounds.etas
    (0.5, 0.25)
    """

    rounds: tuple[Round, ...] = ()

    def add(self, new: Round) -> Ensemble:
        """Return the ensemble with one more round."""
        return Ensemble((*self.rounds, new))

    def rescaled(self, total: float) -> Ensemble:
        """Return the ensemble with all steps scaled by one number, so that they add up to ``total``.

        Examples
        --------
        >>> from gbgnn.aggregation import IDENTITY
        >>> Ensemble((Round(1, IDENTITY, None, 6.0), Round(2, IDENTITY, None, 2.0))).rescaled(4.0).etas
        (3.0, 1.0)
        """
        factor = total / sum(self.etas)
        return Ensemble(tuple(replace(r, eta=factor * r.eta) for r in self.rounds))

    def to(self, device: torch.device) -> Ensemble:
        """Return the ensemble with copies of its heads on a device."""
        heads = (None if r.head is None else copy.deepcopy(r.head).to(device) for r in self.rounds)
        return Ensemble(tuple(replace(r, head=head) for r, head in zip(self.rounds, heads, strict=True)))

    @property
    def etas(self) -> tuple[float, ...]:
        """The step of each round."""
        return tuple(r.eta for r in self.rounds)

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The hop of each round."""
        return tuple(r.hop for r in self.rounds)

    @overload
    def __getitem__(self, index: int) -> Round: ...
    @overload
    def __getitem__(self, index: slice) -> Ensemble: ...
    def __getitem__(self, index: int | slice) -> Round | Ensemble:
        if isinstance(index, int):
            return self.rounds[index]
        if index.start not in (None, 0) or index.step not in (None, 1):
            raise ParameterError(
                "only a prefix of an ensemble is a model, because every hop builds on those before: "
                f"use ensemble[:t]; got start={index.start}, step={index.step}."
            )
        return Ensemble(self.rounds[index])

    def __len__(self) -> int:
        return len(self.rounds)

    def __iter__(self) -> Iterator[Round]:
        return iter(self.rounds)

    def __repr__(self) -> str:
        return f"Ensemble({len(self)} round{'' if len(self) == 1 else 's'})"


def stage(ensemble: Ensemble, inputs: NodeInputs, voting: Voting) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield (t, scores of all nodes) after every round: the same sums that training formed.

    One score matrix is held, whatever the rounds: what is yielded is valid until the next is asked for.
    """
    X, scores = inputs.features, inputs.zero_scores(voting.n_outputs)
    for trained in ensemble:
        X = trained.hop(X, inputs)
        first = 0
        for output in trained.kept_head().output_blocks(X, inputs):
            # Not add_(..., alpha=): a fused product is rounded once, those of training are rounded twice.
            scores[first : first + len(output)].add_(voting.direction(output) * trained.eta)
            first += len(output)
        yield trained.t, scores


def apply(ensemble: Ensemble, inputs: NodeInputs, voting: Voting) -> torch.Tensor:
    """Return the scores of all nodes after the last round."""
    scores = inputs.zero_scores(voting.n_outputs)
    with one_thread():
        for _, reached in stage(ensemble, inputs, voting):
            scores = reached
    return scores


def apply_to(ensemble: Ensemble, inputs: NodeInputs, voting: Voting, nodes: torch.Tensor) -> torch.Tensor:
    """Return the scores of some nodes after the last round; where rows mix themselves, of these few alone."""
    if isinstance(inputs.features, Mixable) and len(nodes) * _SHARE_OF_FEW < inputs.n_nodes:
        return apply(ensemble, inputs.keep(nodes), voting)
    return apply(ensemble, inputs, voting)[nodes]
