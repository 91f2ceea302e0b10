"""Kernel target alignment of many members at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from gbgnn.aggregation import KernelTargetAlignment
from gbgnn.population.hops import MemberHops, combine
from gbgnn.population.inputs import PopulationInputs
from gbgnn.population.members import Members
from gbgnn.population.optimizer import Coefficients, Moments
from gbgnn.propagation import polynomial

_BYTES_ON_CPU, _BYTES_ON_GPU = 2**27, 2**32
"""Terms of so many members are formed at a time that they take about this much memory."""


class AlignedHops(MemberHops):
    r"""Every member learns its own polynomial :math:`X^{(t)} = q_t(P) X`, a sum of shared Chebyshev terms.

    Parameters
    ----------
    inputs
        Rows that the members share.
    members
        Their aggregations say how long, how fast and by which method each learns.
    """

    def __init__(self, inputs: PopulationInputs, members: Members) -> None:
        aggregation = members.aggregation
        assert isinstance(aggregation, KernelTargetAlignment)
        self._inputs, self._rescale = inputs, aggregation.rescale
        self._powers = [0, *(2**k for k in range(aggregation.degree + 1))]
        degree = self._powers[-1] * (max(members.n_rounds) - 1)
        at = polynomial.nodes(degree, inputs.interval, inputs.device)
        self._at_powers = torch.stack([at**p for p in self._powers])
        self._values = torch.ones(len(members), len(at), dtype=torch.float64, device=inputs.device)
        self._epochs = members.of_aggregations("epochs").to(inputs.device)
        self._optimizer = Coefficients.of(
            [part.optimizer for part in members.aggregations],
            members.of_aggregations("learning_rate"),
            device=inputs.device,
        )
        self._n_epochs = max(part.epochs for part in members.aggregations)
        self._rounding = float(torch.finfo(inputs.dtype).eps)
        self._learned: list[list[tuple[float, ...] | None]] = [[] for _ in members.learners]

    def advance(self, t: int, going_on: torch.Tensor) -> None:
        """Learn the weights of the next hop from the labelled rows."""
        learned: list[tuple[float, ...] | None] = [None] * len(going_on)
        if t > 1:
            weights = self._learn(going_on)
            self._values[going_on] *= weights @ self._at_powers
            learned = [tuple(row) for row in weights.tolist()]
        for member, each in zip(going_on.tolist(), learned, strict=True):
            self._learned[member].append(each)
        self._terms = polynomial.coefficients(self._values)
        self._n_terms = polynomial.n_needed(self._terms[going_on], self._rounding)

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Sum up the terms that matter."""
        terms = self._inputs.chebyshev.first(self._n_terms)
        return combine(self._terms[ids, : self._n_terms], terms)

    def coefficients(self, member: int) -> list[tuple[float, ...] | None]:
        """Return the weights of the powers, round by round."""
        return self._learned[member]

    def _learn(self, ids: torch.Tensor) -> torch.Tensor:
        alignments = self._align(ids)
        weights = alignments.ascend(self._optimizer.of_members(ids), self._epochs[ids], self._n_epochs)
        return alignments.rescaled(weights) if self._rescale else weights

    def _align(self, ids: torch.Tensor) -> Alignments:
        """Form the labelled rows of the powers of a few members at a time."""
        inputs = self._inputs
        found = polynomial.coefficients(self._values[ids, None] * self._at_powers)
        n_terms = polynomial.n_needed(found.flatten(0, 1), self._rounding)
        terms = inputs.chebyshev.first(n_terms)[:, inputs.train].contiguous()
        # The terms, a copy of unit size, and one in double precision.
        n_bytes = 4 * len(self._powers) * terms[0].nbytes
        at_once = max(1, (_BYTES_ON_CPU if inputs.device.type == "cpu" else _BYTES_ON_GPU) // n_bytes)
        targets, n_classes = inputs.problem.train.targets, inputs.problem.task.n_columns
        return Alignments.joined(
            [
                Alignments.of(combine(some, terms), targets, n_classes)
                for some in found[..., :n_terms].split(at_once)
            ]
        )


@dataclass(frozen=True, eq=False)
class Alignments:
    """What :class:`~gbgnn.aggregation.AlignmentProblem` is to one set of terms, for one per member.

    Parameters
    ----------
    numerator, denominator
        The quadratic form, shape (members, n_terms, n_terms), and the quartic, (members, n_terms^2,
        n_terms^2).
    overlaps
        Inner products of the terms.
    """

    numerator: torch.Tensor
    denominator: torch.Tensor
    overlaps: torch.Tensor

    @classmethod
    def of(cls, terms: torch.Tensor, targets: torch.Tensor, n_classes: int) -> Alignments:
        """Build the forms from labelled rows, shape (members, n_terms, M, C), and their classes."""
        sizes = terms.square().sum(dim=(2, 3)).amax(dim=1).sqrt().clamp_min(torch.finfo(terms.dtype).tiny)
        Z = terms / sizes[:, None, None, None]
        one_hot = functional.one_hot(targets, n_classes).to(Z.dtype)
        sums = (one_hot.T @ Z).double().flatten(2)
        label_norm = one_hot.double().sum(dim=0).norm()
        # Weights may all but cancel the rows, so that overlaps need all the digits there are.
        flat = Z.flatten(2).double()
        return cls(sums @ sums.transpose(1, 2) / label_norm, _quartic(Z), flat @ flat.transpose(1, 2))

    @classmethod
    def joined(cls, parts: Sequence[Alignments]) -> Alignments:
        """Put the members of several together."""
        columns = zip(*((part.numerator, part.denominator, part.overlaps) for part in parts), strict=True)
        return cls(*(torch.cat(column) for column in columns))

    def value_and_gradient(self, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the alignments, shape (members,), and their gradients in the weights."""
        n_members, n_terms = weights.shape
        half = (self.numerator @ weights[..., None])[..., 0]
        outer = (weights[:, :, None] * weights[:, None]).flatten(1)
        pair = (self.denominator @ outer[..., None]).view(n_members, n_terms, n_terms)
        third = (pair @ weights[..., None])[..., 0]
        quadratic, quartic = (weights * half).sum(dim=1), (weights * third).sum(dim=1)
        is_some = quartic > 0  # else they cancel every row
        safe = torch.where(is_some, quartic, 1.0)
        root = safe.sqrt()
        value = torch.where(is_some, quadratic / root, 0.0)
        slope = 2 * half / root[:, None] - (2 * quadratic / (root * safe))[:, None] * third
        return value, torch.where(is_some[:, None], slope, 0.0)

    def ascend(self, optimizer: Coefficients, epochs: torch.Tensor, n_epochs: int) -> torch.Tensor:
        """Return the weights that steps from one lead to: each member's own number, ``n_epochs`` at most."""
        weights = self.numerator.new_ones(self.numerator.shape[:2])
        moments = Moments.like(weights)
        rates, roots = optimizer.schedule(epochs, n_epochs)
        for rate, root in zip(rates.T[..., None], roots.T[..., None], strict=True):
            _, gradient = self.value_and_gradient(weights)
            moments.step(weights, -gradient, optimizer, rate, root)  # uphill
        return weights

    def rescaled(self, weights: torch.Tensor) -> torch.Tensor:
        """Return weights under which the labelled rows keep their norm."""
        squares = torch.einsum("mk,mkl,ml->m", weights, self.overlaps, weights)
        ratios = (self.overlaps[:, 0, 0] / squares).sqrt()
        return weights * torch.where(squares > 0, ratios, 1.0)[:, None]


def _quartic(Z: torch.Tensor) -> torch.Tensor:
    """Return <Z_k Z_l^T, Z_m Z_n^T>, shape (members, n_terms^2, n_terms^2), by the smaller of two ways."""
    n_members, n_terms, n_rows, n_columns = Z.shape
    pairs = n_terms**2
    if n_rows <= n_columns:
        stacked = Z.flatten(1, 2)
        grams = stacked @ stacked.transpose(1, 2)
        blocks = grams.view(n_members, n_terms, n_rows, n_terms, n_rows).transpose(2, 3)
        flat = blocks.reshape(n_members, pairs, -1).double()
        return flat @ flat.transpose(1, 2)
    # <Z_k Z_l^T, Z_m Z_n^T> = tr(Z_l Z_k^T Z_m Z_n^T) = <Z_k^T Z_m, Z_l^T Z_n>
    stacked = Z.transpose(1, 2).flatten(2)
    moments = stacked.transpose(1, 2) @ stacked
    blocks = moments.view(n_members, n_terms, n_columns, n_terms, n_columns).transpose(2, 3)
    flat = blocks.reshape(n_members, pairs, -1).double()
    inner = (flat @ flat.transpose(1, 2)).view(n_members, n_terms, n_terms, n_terms, n_terms)
    return inner.transpose(2, 3).reshape(n_members, pairs, pairs)
