"""Which members are trained together: those that gain more by it than padding costs them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gbgnn.population.schedule import Plan


@dataclass(frozen=True)
class Size:
    """What a member takes: rows of a step and of an epoch's last, steps of an epoch and in all, units."""

    batch: int
    last: int
    n_batches: int
    n_steps: int
    units: int

    @property
    def halvings(self) -> int:
        """How often all rows are halved until they are as few as a batch; 0 for all rows alone."""
        return math.ceil(math.log2((self.batch * (self.n_batches - 1) + self.last) / self.batch))


def sizes_of(plan: Plan) -> list[Size]:
    """Return the sizes of all members.

    Examples
    --------
    >>> from gbgnn.learners import MLP
    >>> sizes_of(Plan.of([MLP(batch_size=40, epochs=10, units=8)], n_rows=140))
    [Size(batch=40, last=20, n_batches=4, n_steps=40, units=8)]
    """
    last = plan.n_rows - (plan.batches - 1) * plan.batch
    columns = (plan.batch, last, plan.batches, plan.n_steps, plan.units)
    return [Size(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


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

    def of_cohort(self, members: Sequence[Size]) -> float:
        """Return the time of members, those with more steps first, in lockstep.

        Everyone costs as much as the widest member does, and at every step as much as the largest batch.
        """
        n_rows: float = max(each.batch for each in members)
        if len({each.n_batches for each in members}) == 1:  # then their last batches meet
            n_batches, last = members[0].n_batches, max(each.last for each in members)
            n_rows = (n_rows * (n_batches - 1) + last) / n_batches
        each_takes = max(each.units for each in members) * (self.product * n_rows + self.weight)
        found = phases([each.n_steps for each in members])
        return math.fsum(count * (self.call + size * each_takes) for size, count in found)


def split_cohorts(plan: Plan, costs: Costs) -> list[list[int]]:
    """Return the numbers of the members of every cohort, those with more steps first.

    Members with batches of about a size are taken in the order of their width, and each joins the one before
    where that takes less time than beginning a new cohort.

    Examples
    --------
    >>> from gbgnn.learners import MLP
    >>> learners = [MLP(units=u, epochs=e) for u, e in ((64, 10), (8, 10), (60, 20), (8, 30))]
    >>> costs = Costs(call=100, product=0.05, weight=1, most=8)
    >>> split_cohorts(Plan.of(learners, n_rows=140), costs)
    [[2, 0], [3, 1]]
    >>> split_cohorts(Plan.of(learners, n_rows=140), Costs(call=1e5, product=0.05, weight=1, most=8))
    [[3, 2, 0, 1]]
    """
    sizes = sizes_of(plan)
    kinds = list(zip((size.halvings for size in sizes), (plan.dropout > 0).tolist(), strict=True))

    def time_of(members: Sequence[int]) -> float:
        return costs.of_cohort([sizes[i] for i in members])

    cohorts: list[list[int]] = []
    times: list[float] = []
    for i in sorted(range(len(sizes)), key=lambda i: (kinds[i], -sizes[i].units, -sizes[i].batch)):
        if cohorts and kinds[i] == kinds[cohorts[-1][0]] and len(cohorts[-1]) < costs.most:
            joined = sorted([*cohorts[-1], i], key=lambda j: -sizes[j].n_steps)
            together = time_of(joined)
            if together <= times[-1] + time_of([i]):
                cohorts[-1], times[-1] = joined, together
                continue
        cohorts.append([i])
        times.append(time_of([i]))
    return cohorts


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
