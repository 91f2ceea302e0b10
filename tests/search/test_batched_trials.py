from __future__ import annotations

from pathlib import Path

import numpy as np
import optuna
import pytest

from gbgnn import Graph
from gbgnn.errors import ParameterError
from gbgnn.search import Choice, TrialReport, objective
from gbgnn.search.loop import Batch, propose, start_proposing
from gbgnn.search.objective import BatchedTrials, FitObjective, TrainingData, medians, run_one_by_one
from gbgnn.search.study import finished_trials, open_study, state_name

DOUBLE = {"dtype": "float64"}  # in which rounding turns no prediction


@pytest.fixture
def study() -> optuna.Study:
    return open_study(None, "mine", {})


def _draws(n: int) -> list[tuple[int, ...]]:
    return [(0, 0, i) for i in range(n)]


def _run_batches(trials: BatchedTrials, space, planned) -> list[list[optuna.trial.FrozenTrial]]:
    """Run draws by study."""
    batches = [Batch(study, draws, finished_trials(study)) for study, draws in planned]
    with start_proposing(space.distributions()) as drawing:
        return trials.run(drawing, batches)


def _run(space, known: TrainingData, study: optuna.Study, draws) -> list[optuna.trial.FrozenTrial]:
    (ended,) = _run_batches(BatchedTrials(FitObjective(space, known, "cpu")), space, [(study, draws)])
    return ended


def _alone(space, known: TrainingData, draws) -> list[tuple[object, ...]]:
    """Return what the first, random trials are when each is trained by itself."""
    batch = Batch(open_study(None, "mine", {}), draws)
    (ended,) = run_one_by_one(space.distributions(), FitObjective(space, known, "cpu"), [batch])
    return [_told(trial) for trial in ended]


def _told(trial: optuna.trial.FrozenTrial) -> tuple[object, ...]:
    attrs = trial.user_attrs
    why = attrs.get("error", "").partition(",")[0]
    return (
        state_name(trial),
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
    ended = _run(space, toy.known, study, _draws(6))
    assert [_told(trial) for trial in ended] == _alone(space, toy.known, _draws(6))
    assert [_told(trial) for trial in study.trials] == [_told(trial) for trial in ended]


def test_failed_trials_say_why(toy, study: optuna.Study) -> None:
    diverging = {"learner__optimizer": "sgd", "learner__learning_rate": 1e30}
    (trial,) = _run(toy.space.changed(diverging), toy.known, study, _draws(1))
    assert (state_name(trial), trial.user_attrs["error"]) == (
        "failed",
        "round 1: a learner returned NaN or infinity",
    )


def test_a_batch_is_pruned_by_the_trials_before_it(toy, impatient) -> None:
    result = toy.tune(24, space=toy.space.changed(DOUBLE), population=8)
    states = [state_name(trial) for trial in result.trials]
    assert states[:8] == ["complete"] * 8
    assert "pruned" in states[8:]
    for first in (8, 16):
        limits = medians(result.trials[:first])
        for trial in result.trials[first : first + 8]:
            best = np.maximum.accumulate(list(trial.intermediate_values.values()))
            below = [t for t, value in enumerate(best, start=1) if value < limits.get(t, 0)]
            assert (state_name(trial) == "pruned") == bool(below)
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
    usual, stopped = objective.MedianStopping.__call__, []

    def interrupt(self, t, accuracies):
        stopped.append(t)
        if stopped.count(1) == 3 and t == 3:  # the third batch
            raise KeyboardInterrupt
        return usual(self, t, accuracies)

    with monkeypatch.context() as patch:
        patch.setattr(objective.MedianStopping, "__call__", interrupt)
        with pytest.raises(KeyboardInterrupt):
            toy.tune(16, population=4, storage=tmp_path / "s.log")
    result = toy.tune(16, population=4, storage=tmp_path / "s.log")
    assert len(result.trials) == 16
    assert told(result.study) == told(toy.tune(16, population=4).study)


def test_what_no_population_can_train_is_searched_one_by_one(toy, told) -> None:
    space = toy.space.changed({"fine_tune__epochs": 2})
    assert not BatchedTrials(FitObjective(space, toy.known, "cpu")).can_train()
    one, other = (toy.tune(3, space=space, population=population) for population in (None, 3))
    assert told(one.study) == told(other.study)


def test_what_turns_out_to_be_for_nobody_together_is_trained_alone(toy, study: optuna.Study) -> None:
    known = _one_way(toy.known)
    space = toy.space.changed({"aggregation": "kta", "propagation": "random_walk"})
    ended = _run(space, known, study, _draws(2))
    assert [_told(trial) for trial in ended] == _alone(space, known, _draws(2))


def test_inputs_are_built_once_for_all_batches(toy, study: optuna.Study, monkeypatch) -> None:
    built = []
    usual = objective.PopulationInputs.from_model

    def count(*args, **kwargs):
        built.append(args)
        return usual(*args, **kwargs)

    monkeypatch.setattr(objective.PopulationInputs, "from_model", count)
    together = BatchedTrials(FitObjective(toy.space, toy.known, "cpu"))
    assert together.can_train()
    for draws in (_draws(2), [(0, 0, 2)]):
        _run_batches(together, toy.space, [(study, draws)])
    assert len(built) == 1


def _with_past(space, accuracy: float) -> optuna.Study:
    """Return a study whose complete trials had the same accuracy after every round."""
    study, n_trials = open_study(None, f"past {accuracy}", {}), objective.N_STARTUP_TRIALS
    for settings in propose([], space.distributions(), [(9, 0, i) for i in range(n_trials)]):
        trial = optuna.trial.create_trial(
            value=accuracy,
            params=settings,
            distributions=space.distributions(),
            intermediate_values=dict.fromkeys(range(1, 8), accuracy),
        )
        study.add_trial(trial)
    return study


def _one_way(known: TrainingData) -> TrainingData:
    """On a directed graph P has complex eigenvalues, and a population no basis for learned hops."""
    edges = (np.random.default_rng(0).random((90, 90)) < 0.1).astype(float)
    return TrainingData(known.nodes, known.y, Graph(edges, known.graph.features), known.validation)


@pytest.mark.parametrize(
    "changes",
    [{}, {"aggregation": Choice(["adjacency", "kta"]), "rule": "gradient"}],
    ids=["one group", "groups"],
)
def test_batches_of_two_studies_are_what_each_is_alone(toy, changes) -> None:
    space = toy.space.changed(DOUBLE | changes)
    draws = [[(0, 0, i) for i in range(5)], [(1, 0, i) for i in range(3)]]
    alone = [_run(space, toy.known, open_study(None, "mine", {}), own) for own in draws]
    studies = [open_study(None, "mine", {}) for _ in draws]
    planned = zip(studies, draws, strict=True)
    ended = _run_batches(BatchedTrials(FitObjective(space, toy.known, "cpu")), space, planned)
    for own, study, expected in zip(ended, studies, alone, strict=True):
        assert [_told(trial) for trial in own] == [_told(trial) for trial in expected]
        assert [_told(trial) for trial in study.trials] == [_told(trial) for trial in expected]
        assert [trial.number for trial in study.trials] == list(range(len(expected)))
    seeds = [{trial.user_attrs["draw"][0] for trial in study.trials} for study in studies]
    assert seeds == [{0}, {1}]


@pytest.mark.parametrize("alone", [False, True], ids=["population", "one by one"])
def test_a_study_prunes_by_its_own_past(toy, alone: bool) -> None:
    """The same trials in two studies: nothing is good enough for the one, everything for the other."""
    space, known = toy.space.changed(DOUBLE), toy.known
    if alone:
        space = space.changed({"aggregation": "kta", "propagation": "random_walk", "learner__epochs": 2})
        known = _one_way(known)
    settings = propose([], space.distributions(), _draws(3))
    strict, lax = (_with_past(space, accuracy) for accuracy in (1.0, 0.0))
    planned = [Batch(study, _draws(3), finished_trials(study)) for study in (strict, lax)]
    given_up, kept = BatchedTrials(FitObjective(space, known, "cpu")).run(
        lambda batches: [settings] * 2, planned
    )
    assert {state_name(trial) for trial in given_up} == {"pruned"}
    assert {state_name(trial) for trial in kept} == {"complete"}
    n_rounds = objective.N_WARMUP_ROUNDS
    for short, long in zip(given_up, kept, strict=True):
        first = {t: value for t, value in long.intermediate_values.items() if t <= n_rounds}
        assert short.intermediate_values == first
        assert len(long.intermediate_values) == 7
        assert short.params == long.params


def test_batches_are_trained_in_one_go(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    usual = objective.train_population

    def train(inputs, models, **options):
        sizes.append(len(models))
        return usual(inputs, models, **options)

    monkeypatch.setattr(objective, "train_population", train)
    planned = [(open_study(None, "mine", {}), _draws(3)) for _ in range(2)]
    _run_batches(BatchedTrials(FitObjective(toy.space, toy.known, "cpu")), toy.space, planned)
    assert sizes == [6]


def test_an_interrupt_leaves_nothing_in_any_study(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(objective, "train_population", interrupted)
    studies = [open_study(None, "mine", {}) for _ in range(2)]
    with pytest.raises(KeyboardInterrupt):
        _run_batches(
            BatchedTrials(FitObjective(toy.space, toy.known, "cpu")),
            toy.space,
            [(each, _draws(2)) for each in studies],
        )
    assert [study.trials for study in studies] == [[], []]


def test_an_error_while_training_is_no_reason_to_train_alone(toy, study: optuna.Study, monkeypatch) -> None:
    def broken(*args, **options):
        raise ParameterError("a real mistake")

    monkeypatch.setattr(objective, "train_population", broken)
    with pytest.raises(ParameterError, match="a real mistake"):
        _run(toy.space, toy.known, study, _draws(2))
    models = [toy.space.build(corner, 0).set_params(device="cpu") for corner in toy.space.corners()]
    with pytest.raises(ParameterError, match="a real mistake"):
        BatchedTrials(FitObjective(toy.space, toy.known, "cpu")).curves(models)
    assert study.trials == []


def test_several_seeds_are_trained_one_after_another_where_hops_need_all_nodes(
    toy, study: optuna.Study
) -> None:
    space = toy.space.changed({"aggregation": "kta", "propagation": "random_walk"})
    trials = BatchedTrials(FitObjective(space, _one_way(toy.known), "cpu"), seeds_per_trial=2)
    (ended,) = _run_batches(trials, space, [(study, _draws(2))])
    assert all(trial.values for trial in ended)
