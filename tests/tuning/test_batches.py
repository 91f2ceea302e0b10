from __future__ import annotations

from pathlib import Path

import numpy as np
import optuna
import pytest

from gbgnn import Graph
from gbgnn.tuning import Choice, TrialReport, batches
from gbgnn.tuning.batches import Batch, Batches
from gbgnn.tuning.objective import Task, run_trial
from gbgnn.tuning.proposals import propose
from gbgnn.tuning.study import medians, open_study, state_of

DOUBLE = {"dtype": "float64"}  # in which rounding turns no prediction


@pytest.fixture
def study() -> optuna.Study:
    return open_study(None, "mine", {})


def _draws(n: int) -> list[tuple[int, ...]]:
    return [(0, 0, i) for i in range(n)]


def _run(space, task: Task, study: optuna.Study, draws) -> list[optuna.trial.FrozenTrial]:
    settings = propose(study.trials, space, draws)
    (ended,) = Batches(space, task, "cpu").run([Batch(study, draws, settings)])
    return ended


def _alone(space, task: Task, draws) -> list[tuple[object, ...]]:
    """Return what the first, random trials are when each is trained by itself."""
    study = open_study(None, "mine", {})
    return [_told(run_trial(study, space, task, draw, "cpu")) for draw in draws]


def _told(trial: optuna.trial.FrozenTrial) -> tuple[object, ...]:
    attrs = trial.user_attrs
    why = attrs.get("error", "").partition(",")[0]
    return (
        state_of(trial),
        trial.values,
        trial.params,
        trial.intermediate_values,
        attrs.get("best_round"),
        why,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"aggregation": "adjacency"},
        {"aggregation": "kta", "aggregation__epochs": {"low": 1, "high": 9}},
        {"rule": "samme"},
        {"aggregation": Choice(["adjacency", "identity"]), "rule": "gradient"},
    ],
)
def test_trials_of_a_batch_are_what_they_are_alone(toy, study: optuna.Study, changes) -> None:
    space = toy.space.changed(DOUBLE | changes)
    ended = _run(space, toy.task, study, _draws(6))
    assert [_told(trial) for trial in ended] == _alone(space, toy.task, _draws(6))
    assert [_told(trial) for trial in study.trials] == [_told(trial) for trial in ended]


def test_failed_trials_say_why(toy, study: optuna.Study) -> None:
    diverging = {"learner__optimizer": "sgd", "learner__learning_rate": 1e30}
    (trial,) = _run(toy.space.changed(diverging), toy.task, study, _draws(1))
    assert (state_of(trial), trial.user_attrs["error"]) == (
        "failed",
        "round 1: a learner returned NaN or infinity",
    )


def test_a_batch_is_pruned_by_the_trials_before_it(toy, impatient) -> None:
    result = toy.tune(24, space=toy.space.changed(DOUBLE), population=8)
    states = [state_of(trial) for trial in result.trials]
    assert states[:8] == ["complete"] * 8
    assert "pruned" in states[8:]
    for first in (8, 16):
        limits = medians(result.trials[:first])
        for trial in result.trials[first : first + 8]:
            best = np.maximum.accumulate(list(trial.intermediate_values.values()))
            below = [t for t, value in enumerate(best, start=1) if value < limits.get(t, 0)]
            assert (state_of(trial) == "pruned") == bool(below)
            if below:
                assert below == [len(best)]  # given up at once


def test_a_population_is_drawn_at_once_and_trained_to_the_end(toy, told, tmp_path: Path) -> None:
    seen: list[TrialReport] = []
    result = toy.tune(11, population=4, storage=tmp_path / "s.log", on_trial=seen.append)
    assert [report.n_done for report in seen] == list(range(1, 12))
    assert [trial.user_attrs["draw"][2] for trial in result.trials] == list(range(11))
    assert {len(trial.intermediate_values) for trial in result.trials} == {7}
    assert told(result.study) == told(toy.tune(11, population=4).study)
    assert result.best_value == max(trial.value for trial in result.trials)


def test_an_interrupted_batch_leaves_nothing_and_is_drawn_again(
    toy, told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, stopped = batches.MedianStopping.__call__, []

    def interrupt(self, t, accuracies):
        stopped.append(t)
        if stopped.count(1) == 3 and t == 3:  # the third batch
            raise KeyboardInterrupt
        return usual(self, t, accuracies)

    with monkeypatch.context() as patch:
        patch.setattr(batches.MedianStopping, "__call__", interrupt)
        with pytest.raises(KeyboardInterrupt):
            toy.tune(16, population=4, storage=tmp_path / "s.log")
    result = toy.tune(16, population=4, storage=tmp_path / "s.log")
    assert len(result.trials) == 16
    assert told(result.study) == told(toy.tune(16, population=4).study)


def test_what_no_population_can_train_is_searched_one_by_one(toy, told) -> None:
    space = toy.space.changed({"fine_tune__epochs": 2})
    assert not Batches(space, toy.task, "cpu").can_train()
    one, other = (toy.tune(3, space=space, population=population) for population in (None, 3))
    assert told(one.study) == told(other.study)


def test_what_turns_out_to_be_for_nobody_together_is_trained_alone(toy, study: optuna.Study) -> None:
    """On a directed graph P has complex eigenvalues, and a population no basis for learned hops."""
    task, random = toy.task, np.random.default_rng(0)
    one_way = (random.random((90, 90)) < 0.1).astype(float)
    task = Task(task.nodes, task.y, Graph(one_way, task.graph.features), task.validation)
    space = toy.space.changed({"aggregation": "kta", "propagation": "random_walk"})
    ended = _run(space, task, study, _draws(2))
    assert [_told(trial) for trial in ended] == _alone(space, task, _draws(2))


def test_inputs_are_built_once_for_all_batches(toy, study: optuna.Study, monkeypatch) -> None:
    built = []
    usual = batches.PopulationInputs.of

    def of(*args, **kwargs):
        built.append(args)
        return usual(*args, **kwargs)

    monkeypatch.setattr(batches.PopulationInputs, "of", of)
    together = Batches(toy.space, toy.task, "cpu")
    assert together.can_train()
    for draws in (_draws(2), [(0, 0, 2)]):
        together.run([Batch(study, draws, propose(study.trials, toy.space, draws))])
    assert len(built) == 1
