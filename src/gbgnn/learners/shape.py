"""Shape: the sizes of networks that are trained together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from gbgnn.learners.schedule import Schedule

_ALIGNMENT = 16
"""Rows have a multiple of this many columns: products of matrices are up to 1.4 times as fast."""


@dataclass(frozen=True)
class Shape:
    """The sizes of networks that are trained together; a smaller member is padded with zeros.

    Parameters
    ----------
    n_members
        How many there is room for.
    n_rows, n_places
        Number of labelled rows, and of those that a step takes.
    n_columns, fan_in
        Columns that are trained on. Weights are drawn as for ``fan_in`` columns.
    units, n_hidden, n_outputs
        Width and number of hidden layers, and columns of the output.
    n_steps
        The most steps of a member.
    is_batched
        Whether a step takes some of the rows only.
    is_shared
        Whether all members have the same rows.
    has_dropout
        Whether some member has dropout.
    kinds
        The optimisers there are.
    """

    n_members: int
    n_rows: int
    n_places: int
    n_columns: int
    fan_in: int
    units: int
    n_hidden: int
    n_outputs: int
    n_steps: int
    is_batched: bool
    is_shared: bool
    has_dropout: bool
    kinds: frozenset[str]

    @classmethod
    def build(
        cls,
        schedule: Schedule,
        *,
        n_columns: int,
        fan_in: int,
        n_hidden: int,
        n_outputs: int,
        is_shared: bool,
    ) -> Shape:
        """Return the sizes of networks that are trained by a schedule, on the host."""
        return cls(
            n_members=len(schedule.settings),
            n_rows=schedule.n_rows,
            n_places=int(schedule.batch.max()),
            n_columns=n_columns,
            fan_in=fan_in,
            units=int(schedule.units.max()),
            n_hidden=n_hidden,
            n_outputs=n_outputs,
            n_steps=int(schedule.n_steps.max()),
            is_batched=schedule.is_batched,
            is_shared=is_shared,
            has_dropout=n_hidden > 0 and bool((schedule.dropout > 0).any()),
            kinds=frozenset(own.optimizer for own in schedule.settings),
        )

    @property
    def widths(self) -> tuple[int, ...]:
        """Columns of the rows (a constant one and padding included), of hidden layers, of the output."""
        padded = -(-(self.n_columns + 1) // _ALIGNMENT) * _ALIGNMENT
        return (padded, *[self.units] * self.n_hidden, self.n_outputs)

    @property
    def later_sizes(self) -> list[tuple[int, int]]:
        """Outputs and inputs of every layer but the first."""
        return [(n_out, n_in) for n_in, n_out in pairwise(self.widths[1:])]
