"""Trainer: trains this round's networks of one or many members, cohort by cohort.

Members are trained together that gain more by it than padding costs them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn._threads import map_threads, n_threads, threads_for
from gbgnn.errors import ParameterError
from gbgnn.learners.batched import BatchedMLP
from gbgnn.learners.cuda_graphs import GraphRunner, StepRunner
from gbgnn.learners.inputs import InputMap, is_smaller
from gbgnn.learners.network import MLPHeads, Trained
from gbgnn.learners.schedule import Keys, Schedule, Shape, TrainingSettings
from gbgnn.propagation import Representation
from gbgnn.rounds import RoundContext, WeakTask

Numbers = NDArray[np.float64]

_MOST_ON_CPU, _MOST_ON_GPU = 8, 512


@dataclass(frozen=True)
class Kind:
    """What all networks of a trainer have in common; see :class:`~gbgnn.MLP`."""

    hidden_layers: int
    standardize: bool
    basis: str
    patience: int | None
    scale_by: str = "rows"
    norm: str | None = None


class Cohort:
    """Members that are trained in lockstep, those with more steps first, and the memory for it."""

    def __init__(self, ids: list[int], network: BatchedMLP) -> None:
        self.ids, self.network, shape = ids, network, network.shape
        self.work_of_step = len(ids) * shape.n_places * shape.widths[0] * shape.widths[1]
        self.work = self.work_of_step * shape.n_steps
        self.runner: GraphRunner | StepRunner = StepRunner(network.step)
        if network.weight.device.type == "cuda":
            self.runner = GraphRunner(network.step, shape.n_members, shape.n_places)
        self._planned: list[int] = []

    def plan(self, ids: list[int], settings: Mapping[int, TrainingSettings]) -> None:
        """Plan how long some members are trained, unless they are those of the last round.

        ``n_steps`` are the steps of each, ``n_rows`` the most rows that one of them takes at each step.
        """
        if self._planned == ids:
            return
        self._planned = ids
        self.schedule = Schedule.build([settings[member] for member in ids], self.network.shape.n_rows)
        self.on_device = self.schedule.to(self.network.weight.device)
        self.n_steps: list[int] = self.schedule.n_steps.tolist()
        self.n_rows: list[int] = self.schedule.sizes(self.n_steps[0]).amax(dim=0).tolist()


class Trainer:
    """Trains networks of a kind, and keeps the memory and the CUDA graphs for it from round to round."""

    def __init__(self, kind: Kind) -> None:
        self._kind, self._cohorts = kind, list[Cohort]()
        self._round: tuple[int, Any] = (0, None)

    def fit(self, settings: Mapping[int, TrainingSettings], context: RoundContext) -> MLPHeads:
        """Return newly trained networks of the context's members, by their settings."""
        assert context.ids is not None
        X, task, device = context.X, context.weak_task, context.scores.device
        shared = self._prepare(X.rows(task.rows)) if X.is_shared else None
        asked = (X.is_shared, len(task.rows), X.shape[1], task.n_outputs, type(task.loss))
        if (context.t, asked) != self._round:  # a second try within a round is of some members only
            self._assign(settings, context, is_new=asked != self._round[1])
            self._round = (context.t, asked)

        # Everything is sent before training begins, because sending waits for the device; long jobs first.
        place, jobs = {member: i for i, member in enumerate(context.ids)}, []
        for cohort in sorted(self._cohorts, key=lambda cohort: -cohort.work):
            ids = [member for member in cohort.ids if member in place]
            if not ids:
                continue
            positions, shape = [place[member] for member in ids], cohort.network.shape
            cohort.plan(ids, settings)
            seeds = [context.seed[i] for i in positions]
            keys = cohort.schedule.derive_keys(seeds, shape.n_steps, shape.n_hidden).to(device)
            is_all = positions == list(range(context.n_members))
            own = task.members(slice(None) if is_all else torch.tensor(positions, device=device))
            jobs.append(Job(cohort, positions, keys, own, X if X.is_shared else X.members(positions)))

        def train(job: Job) -> Trained:
            inputs, rows = self._prepare(job.X.rows(job.task.rows)) if shared is None else shared
            cohort, network = job.cohort, job.cohort.network
            own = job.task
            network.load(cohort.on_device, job.keys, rows, own.targets, own.weights, own.offsets)
            if self._kind.patience is None:
                cohort.runner.run(cohort.n_steps, cohort.n_rows)
            else:
                train_until(job, inputs, self._kind.patience)
            layers = network.layers(len(job.positions), copy=True)
            units = [own.units for own in cohort.schedule.settings]
            return Trained(job.positions, layers, inputs, units, network.shape.is_normed)

        if device.type == "cpu" and len(jobs) > 1:
            # A cohort on each core, so that cores need not wait for each other at every step.
            return MLPHeads(map_threads(train, jobs, math.inf))
        with threads_for(jobs[0].cohort.work_of_step):
            return MLPHeads(list(map(train, jobs)))

    def _prepare(self, rows: torch.Tensor) -> tuple[InputMap, torch.Tensor]:
        """Return how the labelled rows are mapped, and what they are then."""
        own = self._kind
        inputs = InputMap.fit(rows, standardize=own.standardize, basis=own.basis, scale_by=own.scale_by)
        return inputs, inputs(rows)

    def _assign(
        self, settings: Mapping[int, TrainingSettings], context: RoundContext, *, is_new: bool
    ) -> None:
        """Form cohorts of the members that go on: for what is new, and when half of them have left."""
        ids, task, scores = list(context.ids or ()), context.weak_task, context.scores
        n_planned = sum(len(cohort.ids) for cohort in self._cohorts)
        if 2 * len(ids) > n_planned and not is_new:
            return
        self._cohorts = []  # the old memory goes before the new is taken
        n_rows, fan_in = len(task.rows), context.X.shape[1]
        n_columns = n_rows if is_smaller(self._kind.basis, n_rows, fan_in) else fan_in
        schedule = Schedule.build([settings[member] for member in ids], n_rows)
        costs = _choose_costs(scores.device, n_columns, len(ids))
        is_normed = self._kind.norm is not None
        apart = {"by_epoch": self._kind.patience is not None, "by_units": is_normed}
        for positions in split_cohorts(schedule, costs, **apart):
            shape = Shape(
                schedule.members(positions),
                n_columns=n_columns,
                fan_in=fan_in,
                n_hidden=self._kind.hidden_layers,
                n_outputs=task.n_outputs,
                is_shared=context.X.is_shared,
                is_normed=is_normed,
            )
            network = BatchedMLP(shape, task.loss, like=scores.new_empty(0))
            self._cohorts.append(Cohort([ids[i] for i in positions], network))


@dataclass(frozen=True, eq=False)
class Job:
    """What a cohort has to do in a round: for which members, drawing from what, on which rows."""

    cohort: Cohort
    positions: list[int]
    keys: Keys
    task: WeakTask
    X: Representation


def train_until(job: Job, inputs: InputMap, patience: int) -> None:
    """Train until no member's validation loss has fallen for ``patience`` epochs; go back to the best."""
    task, cohort, network, m = job.task, job.cohort, job.cohort.network, len(job.positions)
    if task.val_rows is None or task.val_targets is None:
        raise ParameterError(
            "MLP.patience stops on validation nodes, but there are none; pass validation= or "
            "validation_fraction, or set patience=None."
        )
    rows = inputs(job.X.rows(task.val_rows))
    best = [each[:m].clone() for each in network.parameters]
    lowest = rows.new_full((m,), math.inf)
    n_since = torch.zeros(m, dtype=torch.int64, device=rows.device)
    has_stopped = torch.zeros(m, dtype=torch.bool, device=rows.device)
    n_batches = int(cohort.schedule.batches[0])
    for epoch in range(int(cohort.schedule.epochs.max())):
        cohort.runner.run([n_batches] * m, cohort.n_rows[:n_batches])
        outputs = network.outputs(rows, m)
        outputs = outputs if task.val_offsets is None else outputs + task.val_offsets
        loss = task.loss.evaluate("values", outputs, task.val_targets).mean(dim=-1)
        is_better = (loss < lowest) & ~has_stopped
        lowest, n_since = torch.where(is_better, loss, lowest), torch.where(is_better, 0, n_since + 1)
        for kept, now in zip(best, network.parameters, strict=True):
            kept.copy_(torch.where(is_better.view(m, *[1] * (now.ndim - 1)), now[:m], kept))
        # Those that have stopped come along, and nothing of that is kept.
        has_stopped |= (n_since >= patience) | (cohort.on_device.epochs <= epoch + 1)
        if bool(has_stopped.all()):
            break
    for kept, now in zip(best, network.parameters, strict=True):
        now[:m] = kept


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


def _choose_costs(device: torch.device, width: int, n_members: int) -> Costs:
    if device.type == "cpu":
        # Few, so that weights stay in the cache, and no fewer cohorts than there are cores.
        most = min(_MOST_ON_CPU, -(-n_members // n_threads()))
        return Costs(call=200.0, product=4e-5 * width, weight=6e-4 * width, most=most)
    return Costs(call=40.0, product=1e-7 * width, weight=7e-6 * width, most=_MOST_ON_GPU)


def find_sizes(schedule: Schedule) -> Numbers:
    """Return each member's rows of a step and of an epoch's last, steps of an epoch and in all, and units."""
    last = schedule.n_rows - (schedule.batches - 1) * schedule.batch
    columns = (schedule.batch, last, schedule.batches, schedule.n_steps, schedule.units)
    return np.stack([column.double().numpy() for column in columns])


def split_cohorts(
    schedule: Schedule, costs: Costs, *, by_epoch: bool = False, by_units: bool = False
) -> list[list[int]]:
    """Return the numbers of the members of every cohort, those with more steps first.

    Members that take all rows at once, those that take half of them or more, a quarter or more and so on are
    kept apart, and so are those with and without dropout; ``by_epoch``, those whose epochs have other numbers
    of steps; ``by_units``, those of other widths. In the order of their width, each kind is cut where that
    takes the least time in all.

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
    kinds: dict[tuple[float, bool, float, float], list[int]] = {}
    for i in np.lexsort((-batch, -units)).tolist():
        alike = n_batches[i] if by_epoch else 0.0, units[i] if by_units else 0.0
        kinds.setdefault((halvings[i], bool(schedule.dropout[i] > 0), *alike), []).append(i)
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
