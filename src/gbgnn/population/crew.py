"""Crew: trains this round's learners of all members, cohort by cohort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from gbgnn.population.cohorts import Costs, split_cohorts
from gbgnn.population.graphs import GraphRunner, StepRunner
from gbgnn.population.hops import MemberHops
from gbgnn.population.inputs import PopulationInputs, aligned
from gbgnn.population.members import Members
from gbgnn.population.network import Lockstep, Shape
from gbgnn.population.optimizer import Coefficients
from gbgnn.population.schedule import Plan

Numbers = torch.Tensor


class Cohort:
    """Members that are trained in lockstep, and the memory for it.

    Parameters
    ----------
    ids
        The members, those with more steps first.
    shape, kinds, like
        As in :class:`~gbgnn.population.network.Lockstep`.
    use_graphs
        Whether steps are recorded as CUDA graphs.

    Attributes
    ----------
    work
        Roughly how long it takes to train them.
    """

    def __init__(
        self, ids: list[int], shape: Shape, kinds: frozenset[str], like: torch.Tensor, use_graphs: bool
    ) -> None:
        self.ids, self.network = ids, Lockstep(shape, kinds, like)
        self.work = len(ids) * shape.n_steps * shape.n_places * shape.widths[1]
        step = self.network.step
        self.runner: GraphRunner | StepRunner = StepRunner(step)
        if use_graphs:
            self.runner = GraphRunner(step, shape.n_members, shape.n_places)


class Crew:
    """Trains the learners of a round.

    Parameters
    ----------
    inputs, members
        The problem, and who is trained on it.
    n_outputs, is_regression
        What learners return, and whether they fit numbers.
    use_graphs
        Whether steps are recorded as CUDA graphs.
    """

    def __init__(
        self,
        inputs: PopulationInputs,
        members: Members,
        *,
        n_outputs: int,
        is_regression: bool,
        use_graphs: bool,
    ) -> None:
        self._inputs, self._members, self._use_graphs = inputs, members, use_graphs
        self._n_outputs, self._is_regression = n_outputs, is_regression
        self._on_host = Plan.of(members.learners, inputs.n_train)
        self._plan = self._on_host.to(inputs.device)
        self._coefficients = Coefficients.of(
            [learner.optimizer for learner in members.learners],
            members.of_learners("learning_rate"),
            decay=members.of_learners("weight_decay"),
            momentum=members.of_learners("momentum"),
            device=inputs.device,
        )
        self._n_steps = self._on_host.n_steps.tolist()
        self._width = aligned(inputs.n_columns(members.learners[0].basis) + 1)
        self._cohorts: list[Cohort] = []
        self._n_planned = 0

    def assign(self, ids: list[int], is_shared: bool) -> None:
        """Form cohorts for the members that go on: at first, and when half of them have left.

        ``is_shared`` says whether they have the same rows.
        """
        if self._cohorts and 2 * len(ids) > self._n_planned:
            return
        self._cohorts, self._n_planned = [], len(ids)  # the old memory goes before the new is taken
        plan = self._on_host.of_members(torch.tensor(ids))
        for numbers in split_cohorts(plan, self._costs(len(ids))):
            members = [ids[number] for number in numbers]
            learners = [self._members.learners[member] for member in members]
            kinds = frozenset(learner.optimizer for learner in learners)
            shape = self._shape(members, is_shared)
            like = torch.empty(0, dtype=self._inputs.dtype, device=self._inputs.device)
            self._cohorts.append(Cohort(members, shape, kinds, like, self._use_graphs))

    def _costs(self, n_members: int) -> Costs:
        width = self._width
        if self._inputs.device.type == "cpu":
            # Few, so that weights stay in the cache, and no fewer cohorts than there are cores.
            most = min(_MOST_ON_CPU, -(-n_members // torch.get_num_threads()))
            return Costs(call=200.0, product=4e-5 * width, weight=6e-4 * width, most=most)
        return Costs(call=40.0, product=1e-7 * width, weight=7e-6 * width, most=_MOST_ON_GPU)

    def _shape(self, members: list[int], is_shared: bool) -> Shape:
        learners, inputs = [self._members.learners[member] for member in members], self._inputs
        units = max(learner.units for learner in learners)
        n_places = max(min(inputs.n_train, learner.batch_size or inputs.n_train) for learner in learners)
        n_hidden = learners[0].hidden_layers
        return Shape(
            n_members=len(members),
            n_rows=inputs.n_train,
            n_places=n_places,
            n_columns=inputs.n_columns(learners[0].basis),
            fan_in=inputs.n_features,
            widths=(self._width, *[units] * n_hidden, self._n_outputs),
            n_steps=max(self._n_steps[member] for member in members),
            is_batched=any((learner.batch_size or inputs.n_train) < inputs.n_train for learner in learners),
            is_shared=is_shared,
            has_dropout=n_hidden > 0 and any(learner.dropout > 0 for learner in learners),
            is_regression=self._is_regression,
        )

    def fit(
        self,
        ids: list[int],
        hops: MemberHops,
        seeds: list[int],
        targets: torch.Tensor,
        importance: torch.Tensor,
    ) -> torch.Tensor:
        """Return the outputs of newly trained learners, shape (ids, kept nodes, outputs).

        Parameters
        ----------
        ids
            Whose learners; all have been assigned.
        hops
            Where representations come from.
        seeds
            One for each of ``ids``.
        targets, importance
            What the learners are to fit: one-hot classes for all or numbers for each, and the importance of
            the labelled nodes for each.
        """
        inputs, place = self._inputs, {member: i for i, member in enumerate(ids)}
        shape = (len(ids), inputs.n_rows, self._n_outputs)
        output = torch.empty(shape, dtype=inputs.dtype, device=inputs.device)
        learner = self._members.learners[0]
        shared = inputs.ready(hops.rows(self._tensor(ids)), learner) if hops.is_shared else None

        # Everything is sent before training begins, because sending waits for the device; long jobs first.
        sent = []
        for cohort in sorted(self._cohorts, key=lambda cohort: -cohort.work):
            mine = [member for member in cohort.ids if member in place]
            numbers = (mine, [place[member] for member in mine], [seeds[place[member]] for member in mine])
            sent += [(cohort, mine, *(self._tensor(each) for each in numbers))] if mine else []

        def train(cohort: Cohort, mine: list[int], who: Numbers, at: Numbers, own_seeds: Numbers) -> None:
            rows = inputs.ready(hops.rows(who), learner) if shared is None else shared
            cohort.network.load(
                [self._members.learners[member] for member in mine],
                self._plan.of_members(who),
                self._coefficients.of_members(who),
                own_seeds,
                rows[..., inputs.train, :],
                targets[at] if self._is_regression else targets,
                importance[at],
            )
            n_steps = [self._n_steps[member] for member in mine]
            n_rows = self._on_host.of_members(torch.tensor(mine)).sizes(n_steps[0]).amax(dim=0)
            cohort.runner.run(n_steps, n_rows.tolist())
            output[at] = cohort.network.outputs(rows, len(mine))

        _for_each(train, sent, inputs.device)
        return output

    def _tensor(self, numbers: list[int]) -> torch.Tensor:
        return torch.tensor(numbers, device=self._inputs.device)


_MOST_ON_CPU, _MOST_ON_GPU = 8, 512


def _for_each(train: Callable[..., None], jobs: Sequence[tuple[Any, ...]], device: torch.device) -> None:
    """Train cohorts: on a CPU one on each core, so that cores need not wait for each other at every step."""
    n_threads = min(torch.get_num_threads(), len(jobs)) if device.type == "cpu" else 1
    if n_threads < 2:
        for job in jobs:
            train(*job)
        return
    n_before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for done in [pool.submit(train, *job) for job in jobs]:
                done.result()
    finally:
        torch.set_num_threads(n_before)
