from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gbgnn.learners import MLP
from gbgnn.population.cohorts import Costs, Size, graph_sizes, phases, sizes_of, split_cohorts
from gbgnn.population.schedule import Plan

LEARNER = st.builds(
    MLP,
    units=st.integers(1, 100),
    epochs=st.integers(0, 9),
    batch_size=st.sampled_from([None, 1, 3, 10, 19, 20]),
    dropout=st.sampled_from([0.0, 0.5]),
)


@given(
    learners=st.lists(LEARNER, min_size=1, max_size=30),
    most=st.integers(1, 9),
    call=st.sampled_from([0.1, 100.0, 1e9]),
)
def test_cohorts_take_everyone_once_and_none_would_be_better_off_alone(
    learners: list[MLP], most: int, call: float
) -> None:
    costs = Costs(call=call, product=0.05, weight=1.0, most=most)
    plan = Plan.of(learners, n_rows=20)
    cohorts = split_cohorts(plan, costs)
    assert sorted(i for cohort in cohorts for i in cohort) == list(range(len(learners)))
    sizes = sizes_of(plan)
    for cohort in cohorts:
        assert 1 <= len(cohort) <= most
        members = [sizes[i] for i in cohort]
        steps = [each.n_steps for each in members]
        assert steps == sorted(steps, reverse=True)
        batches = [each.batch for each in members]
        assert max(batches) <= 2 * min(batches)
        assert (20 in batches) == all(n_rows == 20 for n_rows in batches)
        assert len({learners[i].dropout for i in cohort}) == 1
        alone = sum(costs.of_cohort([each]) for each in members)
        assert costs.of_cohort(members) <= alone * (1 + 1e-9)


def test_cost_is_that_of_the_widest_and_largest_while_anyone_goes_on() -> None:
    costs = Costs(call=10.0, product=0.5, weight=2.0, most=9)
    long, short = Size(6, 4, 7, 7, units=3), Size(2, 2, 20, 5, units=4)
    # Five steps of two members, then two of one, each as wide as 4 units on 6 rows.
    assert costs.of_cohort([long, short]) == 5 * (10 + 2 * 4 * (3 + 2)) + 2 * (10 + 4 * (3 + 2))


def test_last_batches_that_meet_cost_no_more_than_the_largest_of_them() -> None:
    costs = Costs(call=0.0, product=1.0, weight=0.0, most=9)
    sizes = sizes_of(Plan.of([MLP(batch_size=b, epochs=1, units=1) for b in (100, 90)], n_rows=140))
    assert [costs.of_cohort([each]) for each in sizes] == [140, 140]
    assert costs.of_cohort(sizes) == 2 * (100 + 50)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12))
def test_phases_give_everyone_their_steps(n_steps: list[int]) -> None:
    n_steps = sorted(n_steps, reverse=True)
    taken = [0] * len(n_steps)
    for size, count in phases(n_steps):
        for i in range(size):
            taken[i] += count
    assert taken == n_steps


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40))
def test_phases_of_given_sizes_leave_nobody_behind(n_steps: list[int]) -> None:
    n_steps = sorted(n_steps, reverse=True)
    sizes, done = graph_sizes(len(n_steps)), 0
    assert sizes[-1] == len(n_steps)
    for size, count in phases(n_steps, sizes):
        assert size in sizes
        needed = sum(steps > done for steps in n_steps)
        assert needed <= size <= max(1, 1.5 * needed + 1)
        done += count
    assert done == n_steps[0]
