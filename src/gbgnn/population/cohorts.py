"""Which members are trained together: those that gain more by it than padding costs them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gbgnn.population.schedule import Plan


@dataclass(frozen=True)
class Costs:
    """Rough times of a step, in microseconds: only their ratios matter.

    Parameters
    ----------
    call
        Of a cohort, whoever is in it: what calling takes.
    product
        Of a unit, per labelled row: its products with all features.
    weight
        Of a unit, per feature: the moves of its weights.
    most
        Members of a cohort at most.
    """

    call: float
    product: float
    weight: float
    most: int

    def of_cohort(self, members: Sequence[tuple[int, int, int]]) -> float:
        """Return the time of a cohort of members with so many rows, units and steps, the most steps first.

        Everyone costs as much as the largest batch and the widest member do.
        """
        n_rows, n_units, _ = (max(column) for column in zip(*members, strict=True))
        each = n_units * (self.product * n_rows + self.weight)
        steps = [n_steps for _, _, n_steps in members]
        return math.fsum(count * (self.call + size * each) for size, count in phases(steps))


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
    sizes = list(zip(plan.batch.tolist(), plan.units.tolist(), plan.n_steps.tolist(), strict=True))
    has_dropout = (plan.dropout > 0).tolist()

    def kind(i: int) -> tuple[int, bool]:
        # Halvings that lead from all rows to a batch of this size; 0 for all rows alone.
        return math.ceil(math.log2(plan.n_rows / sizes[i][0])), has_dropout[i]

    def time_of(members: Sequence[int]) -> float:
        return costs.of_cohort([sizes[i] for i in members])

    cohorts: list[list[int]] = []
    times: list[float] = []
    for i in sorted(range(len(sizes)), key=lambda i: (kind(i), -sizes[i][1], -sizes[i][0], -sizes[i][2])):
        if cohorts and kind(i) == kind(cohorts[-1][0]) and len(cohorts[-1]) < costs.most:
            joined = sorted([*cohorts[-1], i], key=lambda j: -sizes[j][2])
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
