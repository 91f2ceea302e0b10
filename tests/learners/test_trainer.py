from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional

from gbgnn import GBGNNClassifier
from gbgnn.boosting.rules.base import label_task
from gbgnn.population import PopulationInputs, crew
from gbgnn.population.crew import Crew
from gbgnn.population.hops import MixedHops, SharedHops
from gbgnn.population.members import Members
from gbgnn.testing import make_context

Build = Callable[..., GBGNNClassifier]
Inputs = Callable[..., PopulationInputs]


def make(models: list[GBGNNClassifier], inputs: PopulationInputs) -> Crew:
    members = Members.of(models, inputs)
    return Crew(inputs, members, n_outputs=3, is_regression=False, use_graphs=False)


@pytest.mark.parametrize("is_shared", [True, False])
def test_outputs_are_those_of_the_learners_in_the_order_asked_for(
    model: Build, inputs_of: Inputs, is_shared: bool
) -> None:
    models = [model({"units": 3 + i, "epochs": 4 + i % 2}) for i in range(5)]
    inputs = inputs_of(models[0])
    hops: Any = SharedHops(inputs, is_moving=True)
    if not is_shared:
        hops = MixedHops(inputs, torch.ones(5), is_injecting=False)
    for t in (1, 2):
        hops.advance(t, torch.arange(5))
    train, ids, seeds = inputs.problem.train, [4, 0, 3], [7, 8, 9]
    workers = make(models, inputs)
    workers.assign(list(range(5)), hops.is_shared)
    targets = functional.one_hot(train.targets, 3).double()[None]
    output = workers.fit(ids, hops, seeds, targets, train.weights.expand(3, -1))
    X = inputs.problem.inputs.P(inputs.problem.inputs.features.dense())
    context = make_context(inputs.problem, X)
    context = replace(context, task=label_task(context, train.weights))
    for i, (member, seed) in enumerate(zip(ids, seeds, strict=True)):
        head = models[member].learner.fit(replace(context, seed=seed))
        torch.testing.assert_close(output[i], head(X[inputs.nodes]), rtol=1e-9, atol=1e-10)


def test_cohorts_are_formed_anew_when_half_have_left(model: Build, inputs_of: Inputs) -> None:
    models = [model() for _ in range(8)]
    workers = make(models, inputs_of(models[0]))
    workers.assign(list(range(8)), is_shared=True)
    first = workers._cohorts
    workers.assign(list(range(5)), is_shared=True)
    assert workers._cohorts is first
    workers.assign([1, 2, 4, 5], is_shared=True)
    assert workers._cohorts is not first
    assert sorted(i for cohort in workers._cohorts for i in cohort.ids) == [1, 2, 4, 5]


def test_cohorts_are_no_fewer_than_cores_and_small(
    model: Build, inputs_of: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [model() for _ in range(40)]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    for n, sizes in ((40, {8}), (20, {5}), (3, {1})):
        workers = make(models[:n], inputs_of(models[0]))
        workers.assign(list(range(n)), is_shared=True)
        assert {len(cohort.ids) for cohort in workers._cohorts} == sizes


def test_error_in_a_thread_is_raised_and_leaves_torch_as_it_was() -> None:
    def fail(number: int) -> None:
        raise ValueError(f"job {number}")

    n_before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(ValueError, match="job 0"):
            crew._for_each(fail, [(0,), (1,)], torch.device("cpu"))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(n_before)
