from __future__ import annotations

import inspect
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gbgnn import Graph
from gbgnn.errors import GraphError, ParameterError
from gbgnn.search import Choice, SearchResult, SearchSpace, TrialReport, objective, tune, tune_repeatedly
from gbgnn.search.loop import N_RANDOM_TRIALS
from gbgnn.search.study import state_name

DOUBLE = {"dtype": "float64"}  # in which rounding turns no prediction
SEEDS = [4, 0, 7]
N_TRIALS, POPULATION = N_RANDOM_TRIALS + 4, 4  # TPE has its say, and the last batch is a small one


def _repeat(toy, seeds=SEEDS, n_trials: int = N_TRIALS, **options: Any) -> list[SearchResult]:
    known = toy.known
    given = {"graph": known.graph, "validation": known.validation, "space": toy.space.changed(DOUBLE)}
    asked = {"population": POPULATION, "device": "cpu", "jobs": 1, "seeds": seeds, "n_trials": n_trials}
    return tune_repeatedly(known.nodes, known.y, **given | asked | options)


def _by_itself(toy, seed: int, n_trials: int = N_TRIALS, **options: Any) -> SearchResult:
    asked = {"space": toy.space.changed(DOUBLE), "population": POPULATION} | options
    return toy.tune(n_trials, seed=seed, **asked)


def _told(result: SearchResult) -> dict[str, Any]:
    """Return all that a search says, apart from times."""
    return {
        "trials": [
            (
                t.number,
                state_name(t),
                t.values,
                t.params,
                t.distributions,
                t.intermediate_values,
                t.user_attrs,
            )
            for t in result.trials
        ],
        "best": (result.best_settings, result.best_value, result.counts),
        "confirmed": [asdict(each) for each in result.confirmed],
        "scores": result.model.scores_.tolist(),
        "seed": result.model.random_state,
    }


def _states(results: list[SearchResult]) -> list[list[str]]:
    return [[state_name(trial) for trial in result.trials] for result in results]


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_search_is_what_it_is_by_itself_whoever_draws(toy, jobs: int) -> None:
    found = _repeat(toy, jobs=jobs)
    assert [_told(result) for result in found] == [_told(_by_itself(toy, seed)) for seed in SEEDS]
    draws = [[tuple(trial.user_attrs["draw"]) for trial in result.trials] for result in found]
    assert draws == [[(seed, 0, i) for i in range(N_TRIALS)] for seed in SEEDS]
    assert len({tuple(trial.params.values()) for each in found for trial in each.trials}) == 3 * N_TRIALS


@pytest.mark.parametrize("jobs", [1, 2])
def test_trials_are_pruned_by_those_of_their_own_search(toy, impatient, jobs: int) -> None:
    found = _repeat(toy, n_trials=12, jobs=jobs)
    assert [_told(result) for result in found] == [_told(_by_itself(toy, seed, 12)) for seed in SEEDS]
    for states in _states(found):
        assert states[:POPULATION] == ["complete"] * POPULATION
        assert "pruned" in states[POPULATION:]


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        # Groups that no population trains together, some of which refuse learners.
        ({"aggregation": Choice(["kta", "injection"]), "rule": Choice(["samme", "gradient"])}, "complete"),
        # Steps this large leave all numbers behind.
        ({"learner__learning_rate": {"low": 1e-3, "high": 1e30}}, "failed"),
    ],
    ids=["groups", "failures"],
)
def test_spaces_of_many_kinds_are_searched_as_they_are_by_themselves(toy, impatient, changes, state) -> None:
    space = toy.space.changed(DOUBLE | changes)
    found = _repeat(toy, n_trials=8, space=space)
    assert [_told(result) for result in found] == [
        _told(_by_itself(toy, seed, 8, space=space)) for seed in SEEDS
    ]
    assert any(state in states for states in _states(found))


def test_what_turns_out_to_be_for_nobody_together_is_trained_alone(toy, impatient) -> None:
    """On a directed graph P has complex eigenvalues, and a population no basis for learned hops."""
    one_way = (np.random.default_rng(0).random((90, 90)) < 0.1).astype(float)
    graph = Graph(one_way, toy.known.graph.features)
    space = toy.space.changed(
        DOUBLE | {"aggregation": "kta", "propagation": "random_walk", "learner__epochs": 2}
    )
    known, asked = toy.known, {"space": space, "n_trials": 8, "population": POPULATION, "device": "cpu"}
    given = {"graph": graph, "validation": known.validation, **asked}
    found = tune_repeatedly(known.nodes, known.y, **given, seeds=[0, 1], jobs=1)
    assert [_told(result) for result in found] == [
        _told(tune(known.nodes, known.y, **given, seed=seed)) for seed in (0, 1)
    ]


def test_what_is_confirmed_is_what_it_is_by_itself(toy, impatient) -> None:
    found = _repeat(toy, n_trials=8, confirm=2)
    assert [_told(result) for result in found] == [
        _told(_by_itself(toy, seed, 8, confirm=2)) for seed in SEEDS
    ]
    assert [len(result.confirmed) for result in found] == [2, 2, 2]


@given(
    seeds=st.lists(st.integers(0, 2**40), min_size=1, max_size=3, unique=True),
    n_trials=st.integers(1, 5),
    population=st.integers(1, 6),
)
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])  # nothing changes it
def test_seeds_and_sizes_change_nothing_of_a_search(toy, seeds, n_trials: int, population: int) -> None:
    found = _repeat(toy, seeds, n_trials, population=population)
    for seed, result in zip(seeds, found, strict=True):
        assert _told(result) == _told(_by_itself(toy, seed, n_trials, population=population))


def test_the_trials_of_all_searches_are_trained_at_once(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    usual = objective.train_population

    def train(inputs, models, **options):
        sizes.append(len(models))
        return usual(inputs, models, **options)

    monkeypatch.setattr(objective, "train_population", train)
    _repeat(toy, n_trials=10)
    assert sizes == [12, 12, 6]


def test_the_best_models_are_fitted_again(toy) -> None:
    for seed, result in zip(SEEDS, _repeat(toy, n_trials=3), strict=True):
        values = [trial.value for trial in result.trials]
        assert result.best_value == max(values) == result.model.score(*toy.known.validation)
        assert result.best_settings == result.trials[int(np.argmax(values))].params
        assert result.model.random_state == seed
        assert len(list(result.model.staged_predict(toy.data.test))) == 7  # its learners are there


def test_searches_share_the_time(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(perf_counter=iter([10.0, 16.0]).__next__)
    monkeypatch.setattr("gbgnn.search.search.time", clock)
    assert [result.seconds for result in _repeat(toy, n_trials=1)] == [2.0, 2.0, 2.0]


def test_every_trial_is_told_of_with_its_seed_as_by_itself(toy, impatient) -> None:
    seen: list[tuple[int, TrialReport]] = []
    _repeat(toy, n_trials=10, on_trial=lambda seed, report: seen.append((seed, report)))
    # A batch of each search, as they are trained.
    assert [seed for seed, _ in seen] == [seed for size in (4, 4, 2) for seed in SEEDS for _ in range(size)]
    for seed in SEEDS:
        alone: list[TrialReport] = []
        _by_itself(toy, seed, 10, on_trial=alone.append)
        own = [asdict(report) for other, report in seen if other == seed]
        assert own == [asdict(report) for report in alone]
        assert [(report["n_done"], report["n_trials"]) for report in own] == [(i, 10) for i in range(1, 11)]


def test_an_interrupt_while_another_process_draws_ends_the_search(toy, monkeypatch) -> None:
    """Ctrl-C reaches that process too, which then ends; nothing is waited for, and nothing is trained."""

    def interrupted(self, function, *args):
        raise KeyboardInterrupt

    monkeypatch.setattr("gbgnn.search.loop.Processes.call", interrupted)
    monkeypatch.setattr(objective, "train_population", None)
    with pytest.raises(KeyboardInterrupt):
        _repeat(toy, jobs=2)


def test_optuna_says_no_more_than_usual(toy, capfd) -> None:
    level = optuna.logging.get_verbosity()
    _repeat(toy, n_trials=2, jobs=2)
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == level


def test_no_search_takes_a_label_but_those_of_train_and_validation(toy) -> None:
    """There is no argument for another, and what labels the other nodes have is nowhere to be seen."""
    one, many = (set(inspect.signature(search).parameters) for search in (tune, tune_repeatedly))
    assert (many - one, one - many) == ({"seeds", "jobs"}, {"seed"})
    data, rest = toy.data, np.setdiff1d(np.arange(90), [*toy.data.train, *toy.data.val])
    y = data.y.copy()
    y[rest] = (y[rest] + 1) % 3
    other = type(toy)(type(data)(data.name, data.graph, y, data.split))
    assert [_told(result) for result in _repeat(toy, n_trials=4)] == [
        _told(result) for result in _repeat(other, n_trials=4)
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_trials": 0}, "tune.n_trials must be an integer >= 1; got 0"),
        ({"population": 0}, "tune.population must be an integer >= 1, or None; got 0"),
        ({"confirm": -1}, "tune.confirm must be an integer >= 0; got -1"),
        ({"jobs": 0}, "tune.jobs must be an integer >= 1, or None; got 0"),
        ({"seeds": [0, -1]}, r"seeds must be one or more integers >= 0, no two the same; got \[0, -1\]."),
        ({"seeds": np.arange(0)}, r"seeds must be one or more integers >= 0, no two the same; got \[\]."),
        ({"seeds": [3, 1, 3]}, r"seeds must be one or more integers >= 0, no two the same; got \[3, 1, 3\]."),
        ({"space": SearchSpace()}, "the space has no range, so there is nothing to search"),
        ({"validation": None}, r"validation must be a pair \(nodes, y\); got NoneType"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_drawn(toy, options, message, monkeypatch) -> None:
    monkeypatch.setattr("gbgnn.search.loop.propose", None)
    with pytest.raises(ParameterError, match=message):
        _repeat(toy, **options)


def test_nodes_that_are_in_both_sets_are_refused(toy) -> None:
    known = toy.known
    with pytest.raises(GraphError, match="validation shares 18 nodes with the training nodes"):
        _repeat(toy, validation=(known.nodes, known.y))


@pytest.mark.parametrize("changes", [{}, {"fine_tune__epochs": 2}], ids=["no population", "fine-tuning"])
def test_trials_that_no_population_trains_are_interleaved_one_by_one(toy, changes, told) -> None:
    space, seen = toy.space.changed(changes), []
    asked = {"n_trials": 3, "space": space, "population": 2 if changes else None}
    found = _repeat(toy, on_trial=lambda seed, report: seen.append(seed), **asked)
    assert seen == SEEDS * 3
    assert [told(result.study) for result in found] == [
        told(toy.tune(3, seed=seed, space=space).study) for seed in SEEDS
    ]


def test_a_search_without_a_complete_trial_has_no_best_one(toy) -> None:
    space = toy.space.changed({"learner__learning_rate": 1e30, "learner__optimizer": "sgd"})
    with pytest.raises(ParameterError, match="none of 2 trials was completed, so there is no best one"):
        _repeat(toy, n_trials=2, space=space)


def test_searches_are_kept_and_go_on_each_in_its_own_study(toy, tmp_path) -> None:
    storage = tmp_path / "s.log"
    _repeat(toy, [0, 1], n_trials=3, storage=storage, study_name="mine")
    found = _repeat(toy, [0, 1], n_trials=6, storage=storage, study_name="mine", population=3)
    assert [result.study.study_name for result in found] == ["mine-seed0", "mine-seed1"]
    assert [len(result.trials) for result in found] == [6, 6]
    again = _repeat(toy, [0, 1], n_trials=6, population=3)
    assert [result.best_settings for result in found] == [result.best_settings for result in again]
