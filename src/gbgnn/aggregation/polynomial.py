"""PolynomialHop: every aggregation of the paper is a polynomial in P plus a share of the input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gbgnn._checks import check_choice
from gbgnn.aggregation.base import Hop
from gbgnn.problem import NodeInputs
from gbgnn.propagation import DenseRows, PolynomialRows, Representation
from gbgnn.propagation.polynomial import powers


@dataclass(frozen=True)
class PolynomialHop(Hop):
    r""":math:`X \mapsto \sum_j c_j P^{p_j} X + \iota X^{(1)}`.

    Parameters
    ----------
    powers
        The :math:`p_j`, increasing; 0 is the representation itself.
    coefficients
        The :math:`c_j`.
    injection
        :math:`\iota`, the share of the raw features.
    alignment
        The kernel target alignment these coefficients reached, where they were learned.
    free
        What fine-tuning may move. ``"coefficients"``: each by itself. ``"share"``: one number in [0, 1], the
        coefficient of the highest power; what it loses the raw features gain or, of two powers, the lower.
        None: nothing.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from gbgnn.propagation import Propagator
    >>> P = Propagator(sp.csr_array([[0.0, 1.0], [1.0, 0.0]]))
    >>> inputs = NodeInputs.from_tensor(torch.tensor([[1.0], [2.0]]), P)
    >>> X = DenseRows(torch.tensor([[10.0], [20.0]]))
    >>> PolynomialHop((1,), (0.5,), injection=0.5)(X, inputs).dense()
    tensor([[10.5000],
            [ 6.0000]])
    """

    powers: tuple[int, ...]
    coefficients: tuple[float, ...]
    injection: float = 0.0
    alignment: float | None = None
    free: str | None = None

    def __post_init__(self) -> None:
        """Raise when ``free`` is none of the things that can be moved."""
        if self.free is not None:
            check_choice("PolynomialHop", "free", self.free, ("coefficients", "share"))

    def __call__(self, X: Representation, inputs: NodeInputs) -> Representation:
        """Return the next representation."""
        if self.powers == (0,) and self.coefficients == (1.0,) and not self.injection:
            return X
        if isinstance(X, PolynomialRows):
            return X.mixed(self.powers, torch.tensor(self.coefficients, dtype=torch.float64), self.injection)
        return self.combine(powers(inputs.P, X.dense(), self.powers), inputs)

    def combine(self, terms: Iterable[torch.Tensor], inputs: NodeInputs) -> Representation:
        """Return the next representation from the powers of P times the one before, in order.

        The last one, if it is a fresh product, is scaled in place and not copied.
        """
        result: torch.Tensor | None = None
        for power, coefficient, Z in zip(self.powers, self.coefficients, terms, strict=True):
            if result is not None:
                result.add_(Z, alpha=coefficient)
            elif power == self.powers[-1] > 0:  # nobody needs it after this
                result = Z if coefficient == 1 else Z.mul_(coefficient)
            else:
                result = Z * coefficient
        assert result is not None
        return DenseRows(inputs.features.add_to_(result, self.injection) if self.injection else result)

    def record(self) -> dict[str, Any]:
        """Return the coefficients by power, the injected share, the alignment and what is free."""
        return {
            "powers": list(self.powers),
            "coefficients": list(self.coefficients),
            "injection": self.injection,
            "alignment": self.alignment,
            "free": self.free,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any], state: dict[str, torch.Tensor]) -> PolynomialHop:
        """Build the hop again."""
        return cls(
            tuple(record["powers"]),
            tuple(record["coefficients"]),
            record["injection"],
            record["alignment"],
            record.get("free"),
        )


def mix_members(X: PolynomialRows, hops: Sequence[PolynomialHop]) -> PolynomialRows:
    """Return what the hops of several members, of the same powers, make of their rows."""
    first = hops[0]
    if X.is_shared and all(hop is first or hop == first for hop in hops):
        hops = hops[:1]
    weights = torch.tensor([hop.coefficients for hop in hops], dtype=torch.float64)
    injection = torch.tensor([hop.injection for hop in hops], dtype=torch.float64)
    mixed = X.mixed(first.powers, weights, injection)
    return mixed.member(0) if len(hops) == 1 else mixed
