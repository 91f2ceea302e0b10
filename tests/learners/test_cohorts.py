from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbgnn.learners.cohorts import Costs, Numbers, find_sizes, split_cohorts
from gbgnn.learners.schedule import Schedule, TrainingSettings

SETTINGS = st.builds(
    TrainingSettings,
    units=st.integers(1, 100),
    epochs=st.integers(0, 9),
    batch_size=st.sampled_from([None, 1, 3, 10, 19, 20]),
    dropout=st.sampled_from([0.0, 0.5]),
)


def time_of(members: list[int], sizes: Numbers, costs: Costs) -> float:
    return float(costs.accumulate(sizes[:, members])[-1])


@given(
    members=st.lists(SETTINGS, min_size=1, max_size=30),
    most=st.integers(1, 9),
    call=st.sampled_from([0.1, 100.0, 1e9]),
    by_epoch=st.booleans(),
)
def test_cohorts_take_everyone_once_and_none_would_be_better_off_alone(
    members: list[TrainingSettings], most: int, call: float, by_epoch: bool
) -> None:
    costs, schedule = Costs(call=call, product=0.05, weight=1.0, most=most), Schedule.build(members, 20)
    sizes, cohorts = find_sizes(schedule), split_cohorts(schedule, costs, by_epoch=by_epoch)
    assert sorted(i for cohort in cohorts for i in cohort) == list(range(len(members)))
    for cohort in cohorts:
        assert 1 <= len(cohort) <= most
        batches, _, n_batches, steps, _ = sizes[:, cohort]
        assert (np.diff(steps) <= 0).all()
        assert batches.max() <= 2 * batches.min()
        assert (20 in batches) == (batches == 20).all()
        assert len({members[i].dropout for i in cohort}) == 1
        assert not by_epoch or len(set(n_batches)) == 1
        alone = sum(time_of([i], sizes, costs) for i in cohort)
        assert time_of(cohort, sizes, costs) <= alone * (1 + 1e-9) + 1e-9


@given(
    members=st.lists(
        st.builds(TrainingSettings, st.integers(1, 99), epochs=st.integers(1, 9)), max_size=6, min_size=1
    ),
    most=st.integers(1, 6),
    call=st.sampled_from([1.0, 30.0, 300.0]),
)
def test_no_other_cuts_take_less_time(members: list[TrainingSettings], most: int, call: float) -> None:
    costs, schedule = Costs(call=call, product=0.05, weight=1.0, most=most), Schedule.build(members, 20)
    sizes, n = find_sizes(schedule), len(members)
    order = sorted(range(n), key=lambda i: -members[i].units)

    def time_of_all(cohorts: list[list[int]]) -> float:
        return sum(time_of(cohort, sizes, costs) for cohort in cohorts)

    def cut(marks: tuple[bool, ...]) -> list[list[int]]:
        parts = [[order[0]]]
        for i, is_cut in zip(order[1:], marks, strict=True):
            parts = [*parts, [i]] if is_cut else [*parts[:-1], [*parts[-1], i]]
        return parts

    ways = [cut(marks) for marks in product([True, False], repeat=n - 1)]
    best = min(time_of_all(way) for way in ways if max(map(len, way)) <= most)
    assert time_of_all(split_cohorts(schedule, costs)) == pytest.approx(best)


def test_cost_is_that_of_the_widest_and_largest_while_anyone_goes_on() -> None:
    costs = Costs(call=10.0, product=0.5, weight=2.0, most=9)
    sizes = np.array([[6, 4, 7, 7, 3], [2, 2, 20, 5, 4]], dtype=float).T
    # Five steps of two members, then two of one, each as wide as 4 units on 6 rows.
    assert time_of([0, 1], sizes, costs) == 5 * (10 + 2 * 4 * (3 + 2)) + 2 * (10 + 4 * (3 + 2))


def test_last_batches_that_meet_cost_no_more_than_the_largest_of_them() -> None:
    costs = Costs(call=0.0, product=1.0, weight=0.0, most=9)
    members = [TrainingSettings(1, epochs=1, batch_size=b) for b in (100, 90)]
    sizes = find_sizes(Schedule.build(members, n_rows=140))
    assert [time_of([i], sizes, costs) for i in (0, 1)] == [140, 140]
    assert time_of([0, 1], sizes, costs) == 2 * (100 + 50)
