"""Which members are trained together: those that gain more by it than padding costs them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbgnn.learners.schedule import Schedule

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Costs:
    """Rough times of a step, in microseconds: only their ratios matter.

    Parameters
    ----------
    call
        Of a cohort, whoever is in it: what calling takes.
    product
        Of a unit and a labelled row: its products with all features.
    weight
        Of a unit: the moves of its weights.
    most
        Members of a cohort at most.
    """

    call: float
    product: float
    weight: float
    most: int

    def accumulate(self, sizes: Sizes) -> Numbers:
        """Return the times of cohorts of the first member, the first two, the first three and so on.

        A cohort steps until its last member is done. Everyone costs as much as the widest member does, and
        at every step as much as the largest batch.
        """
        batch, last = (np.maximum.accumulate(column) for column in (sizes.batch, sizes.last))
        n_batches = sizes.n_batches[0]
        do_last_meet = np.logical_and.accumulate(sizes.n_batches == n_batches)
        rows = np.where(do_last_meet, (batch * (n_batches - 1) + last) / n_batches, batch)
        each = np.maximum.accumulate(sizes.units) * (self.product * rows + self.weight)
        return self.call * np.maximum.accumulate(sizes.n_steps) + each * np.cumsum(sizes.n_steps)


@dataclass(frozen=True, eq=False)
class Sizes:
    """What members take: rows of a step and of an epoch's last, steps of an epoch and in all, units.

    Examples
    --------
    >>> from gbgnn.learners.schedule import TrainingSettings
    >>> settings = [TrainingSettings(64, epochs=10, batch_size=40)]
    >>> sizes = Sizes.from_schedule(Schedule.build(settings, n_rows=140))
    >>> [column.tolist() for column in (sizes.batch, sizes.last, sizes.n_batches, sizes.n_steps)]
    [[40.0], [20.0], [4.0], [40.0]]
    """

    batch: Numbers
    last: Numbers
    n_batches: Numbers
    n_steps: Numbers
    units: Numbers

    @classmethod
    def from_schedule(cls, schedule: Schedule) -> Sizes:
        """Return the sizes of all members."""
        last = schedule.n_rows - (schedule.batches - 1) * schedule.batch
        columns = (schedule.batch, last, schedule.batches, schedule.n_steps, schedule.units)
        return cls(*(column.double().numpy() for column in columns))

    def members(self, at: Sequence[int] | slice) -> Sizes:
        """Return the sizes of some members."""
        return Sizes(*(column[at] for column in vars(self).values()))


def split_cohorts(schedule: Schedule, costs: Costs, *, by_epoch: bool = False) -> list[list[int]]:
    """Return the numbers of the members of every cohort, those with more steps first.

    Members that take all rows at once, those that take half of them or more, a quarter or more and so on are
    kept apart, and so are those with and without dropout; ``by_epoch``, those whose epochs have other numbers
    of steps. In the order of their width, each kind is cut where that takes the least time in all.

    Examples
    --------
    >>> from gbgnn.learners.schedule import TrainingSettings
    >>> settings = [TrainingSettings(u, epochs=e) for u, e in ((64, 10), (8, 10), (60, 20), (8, 30))]
    >>> schedule = Schedule.build(settings, n_rows=140)
    >>> split_cohorts(schedule, Costs(call=100, product=0.05, weight=1, most=8))
    [[2, 0], [3, 1]]
    >>> split_cohorts(schedule, Costs(call=1e5, product=0.05, weight=1, most=8))
    [[3, 2, 0, 1]]
    """
    sizes = Sizes.from_schedule(schedule)
    halvings = np.ceil(np.log2(schedule.n_rows / sizes.batch))
    kinds: dict[tuple[float, bool, float], list[int]] = {}
    for i in np.lexsort((-sizes.batch, -sizes.units)).tolist():
        n_batches = sizes.n_batches[i] if by_epoch else 0.0
        kinds.setdefault((halvings[i], bool(schedule.dropout[i] > 0), n_batches), []).append(i)
    cohorts = [
        members[start:end]
        for members in kinds.values()
        for start, end in _cheapest_cuts(sizes.members(members), costs)
    ]
    return [sorted(cohort, key=lambda i: -sizes.n_steps[i]) for cohort in cohorts]


def _cheapest_cuts(sizes: Sizes, costs: Costs) -> list[tuple[int, int]]:
    """Return the first and the end of every part of a sequence of members."""
    n = len(sizes.units)
    times, starts = np.full(n + 1, np.inf), np.zeros(n + 1, dtype=int)  # of the first k members
    times[0] = 0
    for start in range(n):
        end = min(n, start + costs.most)
        found = times[start] + costs.accumulate(sizes.members(slice(start, end)))
        is_better = found < times[start + 1 : end + 1]
        times[start + 1 : end + 1][is_better] = found[is_better]
        starts[start + 1 : end + 1][is_better] = start
    cuts, end = [], n
    while end:
        cuts.append((int(starts[end]), end))
        end = int(starts[end])
    return cuts[::-1]


def phases(n_steps: Sequence[int], sizes: Sequence[int] | None = None) -> Iterator[tuple[int, int]]:
    """Yield how many members go on together for how many steps, until the last is done.

    Parameters
    ----------
    n_steps
        Steps of every member, the most first.
    sizes
        The numbers of members that may step together, increasing; None for any. Those who are done may
        have to come along.

    Examples
    --------
    >>> list(phases([30, 30, 20, 5]))
    [(4, 5), (3, 15), (2, 10)]
    >>> list(phases([30, 30, 20, 5], sizes=[1, 2, 4]))
    [(4, 20), (2, 10)]
    """
    done, size, waiting = 0, 0, 0
    for n_going_on in range(len(n_steps), 0, -1):
        end = n_steps[n_going_on - 1]
        if end == done:
            continue
        fitting = n_going_on if sizes is None else next(size for size in sizes if size >= n_going_on)
        if waiting and fitting != size:
            yield size, waiting
            waiting = 0
        size, waiting, done = fitting, waiting + end - done, end
    if waiting:
        yield size, waiting


def graph_sizes(capacity: int) -> list[int]:
    """Return the numbers of members that may step together where each number has to be prepared for.

    Examples
    --------
    >>> graph_sizes(64)
    [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]
    """
    shares = [share / 2**k for k in range(capacity.bit_length()) for share in (1, 0.75)]
    return sorted({math.ceil(share * capacity) for share in shares})
