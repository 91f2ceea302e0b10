"""Where the representations of all members stand: combinations of rows that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from gbgnn.population.inputs import PopulationInputs


class MemberHops(ABC):
    """The hops of all members up to the present round.

    ``advance`` is called once a round with the members that go on, ``rows`` for a few of them at a time.
    """

    is_shared: bool = False
    """Whether all members have the same representation."""

    @abstractmethod
    def advance(self, t: int, going_on: torch.Tensor) -> None:
        """Go on to round ``t``: round 1 sees the raw features, every later one takes a hop first."""

    @abstractmethod
    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return X^(t) of all kept nodes: (nodes, width) where members share it, else (ids, nodes, width)."""

    def coefficients(self, member: int) -> list[tuple[float, ...] | None]:
        """Return what a member's hops have learned, round by round; None where there is nothing to learn."""
        return []


class SharedHops(MemberHops):
    """Every member has the same representation: P^(t-1) X, or X itself.

    Parameters
    ----------
    inputs
        Rows that the members share.
    is_moving
        Whether a hop multiplies by P.
    """

    is_shared = True

    def __init__(self, inputs: PopulationInputs, is_moving: bool) -> None:
        self._inputs, self._is_moving, self._power = inputs, is_moving, 0

    def advance(self, t: int, going_on: torch.Tensor) -> None:
        """Move on by one power."""
        self._power = t - 1 if self._is_moving else 0

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of the present power."""
        return self._inputs.powers.first(self._power + 1)[-1]


class MixedHops(MemberHops):
    r"""Members mix powers of P by a share of their own: :math:`X^{(t)} = \sum_k c_k P^k X`.

    The coefficients are positive and sum to one, so that nothing cancels.

    Parameters
    ----------
    inputs
        Rows that the members share.
    mixing
        The share of every member's P X^(t-1).
    is_injecting
        Whether the rest is X^(1), as in InputInjection, rather than X^(t-1), as in Lazy.

    Examples
    --------
    >>> import numpy as np
    >>> from gbgnn.testing import path4, problem_of
    >>> inputs = PopulationInputs(problem_of(path4(), np.array([0, 1, 0, 1]), np.arange(4)))
    >>> hops = MixedHops(inputs, torch.tensor([0.5, 0.25]), is_injecting=False)
    >>> for t in (1, 2, 3):
    ...     hops.advance(t, torch.arange(2))
    >>> hops.powers[:, :3].tolist()
    [[0.25, 0.5, 0.25], [0.5625, 0.375, 0.0625]]
    """

    def __init__(self, inputs: PopulationInputs, mixing: torch.Tensor, is_injecting: bool) -> None:
        self._inputs, self._is_injecting = inputs, is_injecting
        self._mixing = mixing.to(inputs.device, torch.float64)[:, None]
        self.powers = torch.ones_like(self._mixing)

    def advance(self, t: int, going_on: torch.Tensor) -> None:
        """Multiply by P, and add the rest."""
        if t == 1:
            return
        shifted = torch.nn.functional.pad(self.powers, (1, 0))
        rest = torch.nn.functional.pad(self.powers, (0, 1))
        if self._is_injecting:
            rest = torch.zeros_like(rest)
            rest[:, 0] = 1
        self.powers = self._mixing * shifted + (1 - self._mixing) * rest

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Mix the rows of the powers."""
        return combine(self.powers[ids], self._inputs.powers.first(self.powers.shape[1]))


def combine(coefficients: torch.Tensor, terms: torch.Tensor) -> torch.Tensor:
    """Return sums of terms, shape (..., nodes, width), for coefficients of shape (..., n_terms).

    Examples
    --------
    >>> combine(torch.tensor([[1.0, 2.0]]), torch.tensor([[[1.0]], [[10.0]]]))
    tensor([[[21.]]])
    """
    *members, n_terms = coefficients.shape
    # Terms may be a part of each array, whose rows then lie apart.
    flat = terms.flatten(1)
    mixed = coefficients.to(terms.dtype).reshape(-1, n_terms) @ flat
    return mixed.view(*members, *terms.shape[1:])
