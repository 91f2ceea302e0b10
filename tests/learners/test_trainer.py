from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gbgnn.errors import ParameterError
from gbgnn.learners import MLP
from gbgnn.learners.batched import BatchedMLP
from gbgnn.learners.network import MLPHeads
from gbgnn.learners.schedule import Schedule, TrainingSettings
from gbgnn.learners.trainer import Costs, Kind, Numbers, Trainer, _choose_costs, find_sizes, split_cohorts
from gbgnn.losses import SquaredError
from gbgnn.propagation import DenseRows, MemberRows
from gbgnn.rounds import RoundContext, WeakTask
from gbgnn.testing import make_context, make_problem, two_blocks

N_MEMBERS = 5
GRAPH, Y = two_blocks(30, n_classes=3, n_features=20)
PROBLEM = make_problem(GRAPH, Y, np.arange(12), np.arange(12, 20))


def round_of_members(
    ids: Sequence[int] = range(N_MEMBERS), *, is_shared: bool = True, has_numbers: bool = False, t: int = 1
) -> RoundContext:
    """A round of members, each with a seed, weights and, where asked for, rows and numbers of its own."""
    random, m = torch.Generator().manual_seed(t), len(ids)
    X = PROBLEM.inputs.features
    if not is_shared:
        X = MemberRows([DenseRows(X.dense() * (1 + i) + i * X.dense().flip(0)) for i in range(N_MEMBERS)])
    context = replace(make_context(PROBLEM), t=t, ids=list(range(N_MEMBERS)), workspace={}, previous=None)
    weights = torch.rand(N_MEMBERS, 12, generator=random, dtype=torch.float64)
    weights /= weights.sum(dim=1, keepdim=True)
    train, val = PROBLEM.train, PROBLEM.validation
    numbers = torch.randn(N_MEMBERS, 30, 3, generator=random, dtype=torch.float64)
    task = WeakTask(
        train.rows,
        train.targets,
        weights,
        3,
        context.training.loss,
        val.rows,
        val.targets,
    )
    if has_numbers:
        targets, watched = numbers[:, train.rows], numbers[:, val.rows]
        task = replace(task, targets=targets, val_targets=watched, loss=SquaredError())
    many = replace(
        context,
        X=X,
        hops=[()] * N_MEMBERS,
        scores=context.scores.expand(N_MEMBERS, -1, -1),
        training=replace(context.training, scores=context.training.scores.expand(N_MEMBERS, -1, -1)),
        seed=[100 * t + i for i in range(N_MEMBERS)],
        task=task,
    )
    return many.members(list(ids)) if m < N_MEMBERS else many


def kind_of(learner: MLP) -> Kind:
    alike = (learner.hidden_layers, learner.standardize, learner.basis, learner.patience)
    return Kind(*alike, learner.scale_by, learner.norm)


def fit(workers: Trainer, learners: list[MLP], context: RoundContext) -> MLPHeads:
    n_rows = len(context.weak_task.rows)
    return workers.fit({i: learners[i].settings(n_rows) for i in context.ids}, context)


def alone(learner: MLP, context: RoundContext, place: int) -> torch.Tensor:
    """The outputs of a network that was trained by itself."""
    own = replace(context.member(place), workspace={})
    return learner.fit(own).evaluate(own.X)


def assert_as_alone(heads: MLPHeads, learners: list[MLP], context: RoundContext) -> None:
    output = heads.evaluate(context.X)
    for place, i in enumerate(context.ids):
        expected = alone(learners[i], context, place)
        torch.testing.assert_close(output[place], expected, rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(heads.head(place).evaluate(context.X.member(place)), expected)


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("has_numbers", [True, False])
@pytest.mark.parametrize("basis", ["rows", "features"])
def test_networks_of_members_are_those_of_learners_alone_in_every_round_and_at_retries(
    is_shared: bool, has_numbers: bool, basis: str
) -> None:
    learners = [
        MLP(
            units=3 + i,
            epochs=4 + i % 2,
            batch_size=(None, 5, 7, 100, None)[i],
            dropout=(0.5, 0.0)[i % 2],
            optimizer=("adam", "sgd", "rmsprop")[i % 3],
            basis=basis,
        )
        for i in range(N_MEMBERS)
    ]
    workers = Trainer(kind_of(learners[0]))
    kinds = {"is_shared": is_shared, "has_numbers": has_numbers}
    for t, tries in ((1, [range(N_MEMBERS), [4, 0], [0]]), (2, [[1, 2, 3, 4], [2, 3]]), (3, [[3]])):
        for ids in tries:
            context = round_of_members(ids, t=t, **kinds)
            assert_as_alone(fit(workers, learners, context), learners, context)


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("basis", ["rows", "features"])
@pytest.mark.parametrize("patience", [None, 3])
def test_members_of_several_widths_are_standardised_as_alone(
    is_shared: bool, basis: str, patience: int | None
) -> None:
    settings = {"norm": "layer", "scale_by": "columns", "basis": basis, "patience": patience}
    learners = [
        MLP(units=(4, 7, 4, 7, 4)[i], epochs=4 + i % 2, batch_size=(None, 5)[i % 2], **settings)
        for i in range(N_MEMBERS)
    ]
    context = round_of_members(is_shared=is_shared)
    heads = fit(Trainer(kind_of(learners[0])), learners, context)
    assert_as_alone(heads, learners, context)
    assert all(heads.head(i).is_normed for i in range(N_MEMBERS))
    assert all(len(set(part.units)) == 1 for part in heads.parts)


@pytest.mark.parametrize("has_numbers", [True, False])
@pytest.mark.parametrize("is_shared", [True, False])
def test_members_lose_patience_as_alone(is_shared: bool, has_numbers: bool) -> None:
    learners = [
        MLP(units=4 + i, epochs=(40, 3, 25, 40, 0)[i], batch_size=(None, None, 5, 5, None)[i], patience=4)
        for i in range(N_MEMBERS)
    ]
    for each in learners:
        each.set_params(learning_rate=0.1)
    context = round_of_members(is_shared=is_shared, has_numbers=has_numbers)
    heads = fit(Trainer(kind_of(learners[0])), learners, context)
    assert_as_alone(heads, learners, context)
    for place in (0, 3):  # they have indeed stopped early
        unstopped = MLP(**(learners[place].get_params() | {"patience": None}))
        assert not torch.allclose(heads.evaluate(context.X)[place], alone(unstopped, context, place))


def test_patience_without_validation_is_an_error() -> None:
    learners, context = [MLP(patience=3)] * N_MEMBERS, round_of_members()
    context = replace(context, task=replace(context.weak_task, val_rows=None, val_targets=None))
    with pytest.raises(ParameterError, match="MLP.patience stops on validation nodes, but there are none"):
        fit(Trainer(kind_of(learners[0])), learners, context)


def test_cohorts_are_formed_anew_when_half_have_left() -> None:
    learners, seen = [MLP(units=4, epochs=2)] * N_MEMBERS, []
    workers = Trainer(kind_of(learners[0]))
    for t, ids in enumerate(([0, 1, 2, 3, 4], [0, 1, 2, 4], [1, 2, 4], [1, 4], [4], [4]), start=1):
        fit(workers, learners, round_of_members(ids, t=t))
        seen.append(workers._cohorts)
    assert [new is old for old, new in pairwise(seen)] == [True, True, False, False, True]
    assert [sorted(i for cohort in cohorts for i in cohort.ids) for cohorts in seen[2:5]] == [
        [0, 1, 2, 3, 4],
        [1, 4],
        [4],
    ]


def test_cohorts_are_formed_anew_when_members_go_ways_of_their_own() -> None:
    learners = [MLP(units=4, epochs=2)] * N_MEMBERS
    workers = Trainer(kind_of(learners[0]))
    for t, is_shared in enumerate((True, False, True), start=1):
        context = round_of_members(t=t, is_shared=is_shared)
        assert_as_alone(fit(workers, learners, context), learners, context)


@pytest.mark.parametrize(("n_given", "sizes"), [(1, [5]), (2, [3, 2]), (4, [2, 2, 1]), (8, [1] * 5)])
def test_cohorts_are_no_fewer_than_cores(
    n_cores: Callable[[int], None], n_given: int, sizes: list[int]
) -> None:
    n_cores(n_given)
    learners, context = [MLP(units=4, epochs=2)] * N_MEMBERS, round_of_members()
    workers = Trainer(kind_of(learners[0]))
    heads = fit(workers, learners, context)
    assert sorted((len(cohort.ids) for cohort in workers._cohorts), reverse=True) == sizes
    assert_as_alone(heads, learners, context)


def test_cohorts_are_small_on_a_cpu(n_cores: Callable[[int], None]) -> None:
    n_cores(1)
    assert _choose_costs(torch.device("cpu"), 100, n_members=40).most == 8
    assert _choose_costs(torch.device("cuda"), 100, n_members=40).most == 512


def test_error_in_a_thread_is_raised_and_leaves_torch_as_it_was(
    n_cores: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError(f"in {threading.current_thread().name}")

    n_cores(2)
    n_before, learners = torch.get_num_threads(), [MLP(epochs=1)] * N_MEMBERS
    monkeypatch.setattr(BatchedMLP, "load", fail)
    with pytest.raises(ValueError, match="in gbgnn"):
        fit(Trainer(kind_of(learners[0])), learners, round_of_members())
    assert torch.get_num_threads() == n_before


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
def test_memory_and_graphs_on_a_gpu_serve_several_rounds_and_retries() -> None:
    learners = [
        MLP(units=3 + i, epochs=12, batch_size=(None, 5)[i % 2], dropout=(0.5, 0.0)[i // 2 % 2])
        for i in range(N_MEMBERS)
    ]
    workers = Trainer(kind_of(learners[0]))
    for t, tries in ((1, [range(N_MEMBERS), [4, 0]]), (2, [[1, 2, 3, 4], [2]]), (3, [[3]])):
        for ids in tries:
            context = round_of_members(ids, t=t, is_shared=False)
            output = fit(workers, learners, on_gpu(context)).evaluate(on_gpu(context).X)
            for place, i in enumerate(context.ids):
                expected = alone(learners[i], context, place)
                torch.testing.assert_close(output[place].cpu(), expected, rtol=1e-7, atol=1e-8)


def on_gpu(context: RoundContext) -> RoundContext:
    """The round with everything that a learner looks at on a GPU."""
    task = context.weak_task
    moved = {k: getattr(task, k).cuda() for k in ("rows", "targets", "weights", "val_rows", "val_targets")}
    X = MemberRows([DenseRows(context.X.member(i).dense().cuda()) for i in range(context.n_members)])
    return replace(context, X=X, scores=context.scores.cuda(), task=replace(task, **moved))


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
