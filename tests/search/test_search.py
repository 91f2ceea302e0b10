from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import optuna
import pytest
from sklearn.metrics import accuracy_score, get_scorer, make_scorer

from gbgnn.errors import GraphError, ParameterError
from gbgnn.model import FittedModel
from gbgnn.search import SearchSpace, TrialReport, tune
from gbgnn.search.loop import N_RANDOM_TRIALS
from gbgnn.search.study import state_name

N_TRIALS = N_RANDOM_TRIALS + 4  # so that TPE has its say

WORKER = """
import os, pathlib, signal, sys, time
sys.path.insert(0, {folder!r})
import conftest
from gbgnn import datasets
from gbgnn.search import objective

def kill(self, report, usual=objective.ReportRounds.on_round):
    if report.t == 3 and self.trial.number == {victim}:
        os.kill(os.getpid(), signal.SIGKILL)
    return usual(self, report)

objective.ReportRounds.on_round = kill
here = pathlib.Path({storage!r}).parent
(here / f"{{os.getpid()}}.ready").touch()
while len(list(here.glob("*.ready"))) < {n_workers}:
    time.sleep(0.01)
data = datasets.csbm(n_nodes=90, per_class=6, n_classes=3, n_features=4, n_val=40, seed=3)
conftest.Toy(data).tune({n_trials}, storage={storage!r})
"""


def _worker(storage: Path, n_trials: int, *, victim: int = -1, n_workers: int = 1) -> subprocess.Popen[bytes]:
    """Start a process that searches once as many are ready, and is killed in round 3 of a trial."""
    code = WORKER.format(
        folder=str(Path(__file__).parent),
        victim=victim,
        n_trials=n_trials,
        n_workers=n_workers,
        storage=str(storage),
    )
    return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "OMP_NUM_THREADS": "1"})


def _interrupt(monkeypatch: pytest.MonkeyPatch, number: int, t: int) -> None:
    """Let somebody press Ctrl-C in round ``t`` of a trial."""
    usual = optuna.Trial.report

    def report(self, value, step):
        if (self.number, step) == (number, t):
            raise KeyboardInterrupt
        usual(self, value, step)

    monkeypatch.setattr(optuna.Trial, "report", report)


def test_the_best_model_is_fitted_again(toy) -> None:
    result = toy.tune(5)
    values = [trial.value for trial in result.trials]
    assert result.best_value == max(values)
    assert result.best_settings == result.trials[int(np.argmax(values))].params
    assert toy.known.fit(toy.space.build(result.best_settings, seed=0)) == result.best_value
    assert result.model.score(*toy.known.validation) == result.best_value
    assert len(list(result.model.staged_predict(toy.data.test))) == 7  # its learners are there
    assert result.counts == {"complete": 5, "pruned": 0, "failed": 0}
    assert result.seconds > 0


def test_of_equals_the_first_is_taken(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FittedModel, "evaluate", lambda *_, **__: 0.5)
    result = toy.tune(3)
    assert [trial.value for trial in result.trials] == [0.5] * 3
    assert result.best_settings == result.trials[0].params


@pytest.mark.parametrize("population", [None, 3])
@pytest.mark.parametrize("metric", ["f1_macro", "neg_log_loss"])
def test_the_metric_of_the_space_judges_the_search(toy, metric: str, population: int | None) -> None:
    space = toy.space.changed({"metric": metric})
    result = toy.tune(6, space=space, population=population)
    nodes, y = toy.known.validation
    models = [space.build(trial.params, seed=0).set_params(device="cpu") for trial in result.trials]
    judged = []
    for model in models:
        toy.known.fit(model)
        judged.append(get_scorer(metric)(model, nodes, y))
    np.testing.assert_allclose([trial.value for trial in result.trials], judged, rtol=1e-6)
    assert result.best_value == pytest.approx(max(judged))
    assert result.best_settings == result.trials[int(np.argmax(judged))].params
    assert result.model.metric_.name == metric
    assert result.model.model_.evaluate(nodes, y) == pytest.approx(result.best_value)


def test_another_metric_has_another_winner(toy) -> None:
    """Who looks for the worst accuracy finds it among the same trials."""
    worst = SearchSpace(
        {**toy.space.base, "select": "last", "metric": make_scorer(accuracy_score, greater_is_better=False)},
        toy.space.ranges,
    )
    found, best = toy.tune(5, space=worst), toy.tune(5, space=toy.space.changed({"select": "last"}))
    assert [trial.params for trial in found.trials] == [trial.params for trial in best.trials]
    values = [trial.value for trial in best.trials]
    assert [trial.value for trial in found.trials] == [-value for value in values]
    assert found.best_settings == best.trials[int(np.argmin(values))].params != best.best_settings


def test_a_study_by_another_metric_is_another_study(toy, tmp_path: Path) -> None:
    toy.tune(1, storage=tmp_path / "s.log")
    with pytest.raises(ParameterError, match="was made with another space"):
        toy.tune(1, space=toy.space.changed({"metric": "f1_macro"}), storage=tmp_path / "s.log")


def test_trials_are_pruned_by_the_metric_too(toy, impatient) -> None:
    """Negative values, of which the largest are best."""
    result = toy.tune(12, space=toy.space.changed({"metric": "neg_log_loss"}))
    assert result.counts["pruned"] > 0
    values = [trial.value for trial in result.trials if state_name(trial) == "complete"]
    assert max(values) < 0
    assert result.best_value == max(values)


def test_one_seed_gives_one_study_and_another_another(toy, told) -> None:
    one, same, other = (toy.tune(N_TRIALS, seed=seed).study for seed in (0, 0, 1))
    assert told(one) == told(same)
    assert told(one)[0] != told(other)[0]


def test_the_search_takes_no_label_but_those_of_train_and_validation() -> None:
    parameters = inspect.signature(tune).parameters
    assert [name for name in parameters if name in ("data", "dataset", "test", "split")] == []


@pytest.mark.parametrize(
    ("storage", "n_trials", "pauses"), [("s.log", N_TRIALS, (3, 12)), ("sqlite:///s.db", 4, (2,))]
)
def test_after_ctrl_c_a_study_goes_on_as_if_nothing_had_been(
    toy, told, storage: str, n_trials: int, pauses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in pauses:
        with monkeypatch.context() as patch:
            _interrupt(patch, number, t=2)
            with pytest.raises(KeyboardInterrupt):
                toy.tune(n_trials, storage=storage)
    result = toy.tune(n_trials, storage=storage)
    assert len(result.trials) == n_trials + len(pauses)
    assert sum(result.counts.values()) == n_trials
    assert told(result.study) == told(toy.tune(n_trials).study)


def test_after_a_kill_a_study_goes_on_as_if_nothing_had_been(toy, told, tmp_path: Path) -> None:
    storage = tmp_path / "s.log"
    assert _worker(storage, N_TRIALS, victim=N_TRIALS - 3).wait() == -signal.SIGKILL
    result = toy.tune(N_TRIALS, storage=storage)
    assert [state_name(trial) for trial in result.trials].count("interrupted") == 1
    assert told(result.study) == told(toy.tune(N_TRIALS).study)


def test_two_processes_share_a_study(toy, tmp_path: Path) -> None:
    storage = tmp_path / "s.log"
    workers = [_worker(storage, 12, n_workers=2) for _ in range(2)]
    assert [worker.wait() for worker in workers] == [0, 0]
    result = toy.tune(12, storage=storage)
    assert 12 <= len(result.trials) <= 13  # the last two may have begun together
    assert {state_name(trial) for trial in result.trials} <= {"complete", "pruned"}
    assert len({trial.user_attrs["process"] for trial in result.trials}) == 2
    assert len({tuple(trial.params.values()) for trial in result.trials}) == len(result.trials)


def test_trials_that_are_there_count(toy, tmp_path: Path) -> None:
    seen: list[TrialReport] = []
    toy.tune(2, storage=tmp_path / "s.log")
    toy.tune(5, storage=tmp_path / "s.log", on_trial=seen.append)
    assert [(report.n_done, report.n_trials) for report in seen] == [(3, 5), (4, 5), (5, 5)]
    assert len(toy.tune(4, storage=tmp_path / "s.log").trials) == 5


def test_trials_added_by_hand_are_trials_too(toy, tmp_path: Path) -> None:
    study = toy.tune(1, storage=tmp_path / "s.log").study
    params = study.trials[0].params
    study.enqueue_trial(params | {"learner__units": 5})
    study.add_trial(
        optuna.trial.create_trial(value=2.0, params=params, distributions=toy.space.distributions())
    )
    result = toy.tune(4, storage=tmp_path / "s.log", seed=3)
    assert result.trials[1].params["learner__units"] == 5
    assert (result.best_value, result.model.random_state) == (2.0, 3)


def test_studies_of_one_storage_do_not_mix(toy, tmp_path: Path) -> None:
    toy.tune(2, storage=tmp_path / "s.log", study_name="a")
    assert len(toy.tune(1, storage=tmp_path / "s.log", study_name="b").trials) == 1


def test_reports_tell_value_and_best(toy, impatient) -> None:
    seen: list[TrialReport] = []
    result = toy.tune(10, on_trial=seen.append)
    assert [report.state for report in seen] == [state_name(trial) for trial in result.trials]
    assert {report.state for report in seen} == {"complete", "pruned"}
    best = None
    for report, trial in zip(seen, result.trials, strict=True):
        assert report.value == trial.values[0]
        if report.state == "complete":
            best = max(report.value, best or 0)
        assert report.best_value == best


def test_pruned_and_failed_trials_are_counted(toy, impatient) -> None:
    # Steps this large leave all numbers behind.
    space = toy.space.changed({"learner__learning_rate": {"low": 1e-3, "high": 1e30}})
    seen: list[TrialReport] = []
    result = toy.tune(N_TRIALS, space=space, on_trial=seen.append)
    states = [state_name(trial) for trial in result.trials]
    assert result.counts == {state: states.count(state) for state in ("complete", "pruned", "failed")}
    assert all(result.counts.values())
    assert {report.value for report in seen if report.state == "failed"} == {None}


def test_no_trial_begins_after_the_time_is_up(toy) -> None:
    seen: list[TrialReport] = []
    result = toy.tune(10**6, timeout=0.3, on_trial=seen.append)
    assert 0 < len(seen) == len(result.trials) < 10**4


def test_a_model_in_the_space_may_be_fine_tuned(toy) -> None:
    space = toy.space.changed({"fine_tune__epochs": {"low": 1, "high": 3}})
    result = toy.tune(2, space=space)
    assert result.model.fine_tuning_ is not None
    assert result.model.score(*toy.known.validation) == result.best_value


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_trials": 0}, ParameterError, "tune.n_trials must be an integer >= 1; got 0"),
        ({"seed": -1}, ParameterError, "tune.seed must be an integer >= 0; got -1"),
        ({"population": 0}, ParameterError, "tune.population must be an integer >= 1, or None; got 0"),
        ({"timeout": 0}, ParameterError, r"tune.timeout must be in \(0, inf\); got 0"),
        ({"space": SearchSpace()}, ParameterError, "the space has no range, so there is nothing to search"),
    ],
)
def test_wrong_arguments_are_refused_before_there_is_a_study(toy, options, error, message, tmp_path) -> None:
    with pytest.raises(error, match=message):
        toy.tune(**{"storage": tmp_path / "s.log", **options})
    assert list(tmp_path.iterdir()) == []


def test_data_that_no_trial_could_use_is_refused_before_there_is_a_study(toy, tmp_path: Path) -> None:
    known, storage = toy.known, tmp_path / "s.log"
    given = {"graph": known.graph, "space": toy.space, "storage": storage}
    with pytest.raises(ParameterError, match=r"validation must be a pair \(nodes, y\); got NoneType"):
        tune(known.nodes, known.y, validation=None, **given)
    with pytest.raises(GraphError, match="validation shares 18 nodes with the training nodes"):
        tune(known.nodes, known.y, validation=(known.nodes, known.y), **given)
    assert list(tmp_path.iterdir()) == []
    toy.tune(1, storage=storage)
    with pytest.raises(ParameterError, match="made with another data"):
        tune(known.nodes[1:], known.y[1:], validation=known.validation, **given)
