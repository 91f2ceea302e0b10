"""Which members are trained together: those that gain more by it than padding costs them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gbgnn.learners.schedule import Schedule

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Costs:
    """Rough times of a step, in microseconds: only their ratios matter.

    ``call`` is that of a cohort, whoever is in it: what calling takes; ``product`` of a unit and a labelled
    row, its products with all features; ``weight`` of the moves of a unit's weights. A cohort has ``most``
    members at most.
    """

    call: float
    product: float
    weight: float
    most: int

    def accumulate(self, sizes: Numbers) -> Numbers:
        """Return the times of cohorts of the first member, the first two, the first three and so on.

        A cohort steps until its last member is done. Everyone costs as much as the widest member does, and
        at every step as much as the largest batch. ``sizes`` are those of :func:`find_sizes`.
        """
        batch, last, n_batches, n_steps, units = sizes
        batch, last = np.maximum.accumulate(batch), np.maximum.accumulate(last)
        do_last_meet = np.logical_and.accumulate(n_batches == n_batches[0])
        rows = np.where(do_last_meet, (batch * (n_batches[0] - 1) + last) / n_batches[0], batch)
        each = np.maximum.accumulate(units) * (self.product * rows + self.weight)
        times: Numbers = self.call * np.maximum.accumulate(n_steps) + each * np.cumsum(n_steps)
        return times


def find_sizes(schedule: Schedule) -> Numbers:
    """Return rows of a step and of an epoch's last, steps of an epoch and in all, and units of each member.

    Examples
    --------
    >>> from gbgnn.learners.schedule import TrainingSettings
    >>> settings = [TrainingSettings(64, epochs=10, batch_size=40)]
    >>> find_sizes(Schedule.build(settings, n_rows=140)).T.tolist()
    [[40.0, 20.0, 4.0, 40.0, 64.0]]
    """
    last = schedule.n_rows - (schedule.batches - 1) * schedule.batch
    columns = (schedule.batch, last, schedule.batches, schedule.n_steps, schedule.units)
    return np.stack([column.double().numpy() for column in columns])


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
    sizes = find_sizes(schedule)
    batch, _, n_batches, n_steps, units = sizes
    halvings = np.ceil(np.log2(schedule.n_rows / batch))
    kinds: dict[tuple[float, bool, float], list[int]] = {}
    for i in np.lexsort((-batch, -units)).tolist():
        kind = halvings[i], bool(schedule.dropout[i] > 0), n_batches[i] if by_epoch else 0.0
        kinds.setdefault(kind, []).append(i)
    cohorts = [
        members[start:end]
        for members in kinds.values()
        for start, end in _cheapest_cuts(sizes[:, members], costs)
    ]
    return [sorted(cohort, key=lambda i: -n_steps[i]) for cohort in cohorts]


def _cheapest_cuts(sizes: Numbers, costs: Costs) -> list[tuple[int, int]]:
    """Return the first and the end of every part of a sequence of members."""
    n = sizes.shape[1]
    times, starts = np.full(n + 1, np.inf), np.zeros(n + 1, dtype=int)  # of the first k members
    times[0] = 0
    for start in range(n):
        end = min(n, start + costs.most)
        found = times[start] + costs.accumulate(sizes[:, start:end])
        is_better = found < times[start + 1 : end + 1]
        times[start + 1 : end + 1][is_better] = found[is_better]
        starts[start + 1 : end + 1][is_better] = start
    cuts, end = [], n
    while end:
        cuts.append((int(starts[end]), end))
        end = int(starts[end])
    return cuts[::-1]
