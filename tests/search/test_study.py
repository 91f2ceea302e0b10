from __future__ import annotations

import itertools
import json
import logging
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import optuna
import optuna_dashboard
import pytest
from optuna.storages.journal import _file as journal_file
from optuna.trial import TrialState, create_trial

import gbgnn
from gbgnn.errors import DataError, ParameterError
from gbgnn.search import Choice, Integer, Real, SearchSpace
from gbgnn.search.loop import ask
from gbgnn.search.study import (
    PROCESS,
    finished_trials,
    in_memory_study,
    is_gone,
    open_study,
    register_worker,
    state_name,
    worker_name,
)

SPACE = SearchSpace({}, {"n_rounds": Integer(1, 99), "learning_rate": Real(0, 1), "rule": Choice(["a", "b"])})
RECORD = {"space": SPACE.to_document(), "data": {"graph": "1", "labels": "2"}}


def _play(study: optuna.Study, n_trials: int) -> list[dict]:
    first = len(study.trials)
    for i in range(first, first + n_trials):
        trial = ask(study, SPACE.distributions(), (0, 0, i))
        study.tell(trial, trial.params["learning_rate"])
    return [trial.params for trial in study.trials]


@pytest.mark.parametrize("storage", ["s.log", "deep/down/s.journal", "sqlite:///s.db"])
def test_a_stored_study_is_found_again_by_us_and_by_optuna(
    storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    params = _play(open_study(storage, "mine", RECORD), 3)
    again = open_study(storage, "mine", RECORD)
    assert [trial.params for trial in again.trials] == params
    opened = optuna.load_study(study_name="mine", storage=again._storage)
    assert opened.user_attrs["gbgnn"] == gbgnn.__version__
    assert opened.user_attrs["space"] == RECORD["space"]
    assert [trial.value for trial in opened.trials] == [p["learning_rate"] for p in params]


def test_a_lock_that_a_killed_process_has_left_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    storage: Any = open_study("deep/s.log", "mine", RECORD)._storage
    assert storage._backend._lock.acquire()  # and never lets go
    seconds = itertools.count(step=10.0)

    def tell_time() -> float:
        if (now := next(seconds)) > 1000:
            pytest.fail("waits for ever")
        return now

    monkeypatch.setattr(journal_file.time, "monotonic", tell_time)
    monkeypatch.setattr(journal_file.time, "sleep", lambda seconds: None)
    assert open_study("deep/s.log", "mine", RECORD).trials == []


def test_the_dashboard_opens_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "s.log"
    _play(open_study(path, "mine", RECORD), 2)
    app, environ = optuna_dashboard.wsgi(str(path)), {"PATH_INFO": "/api/studies/0"}
    setup_testing_defaults(environ)
    study = json.loads(b"".join(app(environ, lambda *_: None)))
    assert (study["name"], len(study["trials"])) == ("mine", 2)


def test_memory_keeps_nothing() -> None:
    assert _play(open_study(None, "mine", RECORD), 1) == _play(open_study(None, "mine", RECORD), 1)


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        (
            "study.db",
            r"ending in .log or .journal, or the URL .* got 'study.db'. A SQLite file is sqlite:///",
        ),
        ("study", "got 'study'.$"),
    ],
)
def test_a_storage_we_do_not_know_is_refused(storage: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        open_study(storage, "mine", RECORD)


def test_a_storage_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "s.log").write_text("these are\nother lines\n")
    with pytest.raises(DataError, match="cannot open the study in .*s.log: "):
        open_study(tmp_path / "s.log", "mine", RECORD)
    with pytest.raises(DataError, match="cannot open the study in nosuch://host/db: "):
        open_study("nosuch://host/db", "mine", RECORD)
    (tmp_path / "folder.log").mkdir()
    with pytest.raises(OSError, match="folder.log"):
        open_study(tmp_path / "folder.log", "mine", RECORD)


@pytest.mark.parametrize("key", ["space", "data"])
def test_a_study_about_something_else_is_refused(key: str, tmp_path: Path) -> None:
    path = tmp_path / "s.log"
    open_study(path, "mine", RECORD)
    other = RECORD | {key: {**RECORD[key], "more": 1}}
    with pytest.raises(ParameterError, match=f"the study 'mine' in .*s.log was made with another {key}; its"):
        open_study(path, "mine", other)
    assert open_study(path, "yours", other).trials == []


def test_whole_numbers_are_another_space_than_real_ones(tmp_path: Path) -> None:
    spaces = [SearchSpace({}, {"learning_rate": given}) for given in (Integer(0, 1), Real(0, 1))]
    open_study(tmp_path / "s.log", "mine", {"space": spaces[0].to_document()})
    with pytest.raises(ParameterError, match="made with another space"):
        open_study(tmp_path / "s.log", "mine", {"space": spaces[1].to_document()})


def test_optuna_keeps_its_voice() -> None:
    optuna.logging.set_verbosity(logging.DEBUG)
    open_study(None, "mine", RECORD)
    assert optuna.logging.get_verbosity() == logging.DEBUG
    optuna.logging.set_verbosity(logging.INFO)


def test_a_study_in_memory_has_the_finished_trials(tmp_path: Path) -> None:
    study = open_study(tmp_path / "s.log", "mine", RECORD)
    params = _play(study, 2)
    study.ask()
    other = in_memory_study(study.trials)
    assert [trial.params for trial in other.trials] == params
    _play(other, 1)
    assert len(study.trials) == 3


def test_states_in_words() -> None:
    study = open_study(None, "mine", RECORD)
    for state, attrs in [
        (TrialState.COMPLETE, {}),
        (TrialState.PRUNED, {}),
        (TrialState.FAIL, {"error": "round 1: no"}),
        (TrialState.FAIL, {}),
        (TrialState.RUNNING, {}),
    ]:
        value = 0.5 if state is TrialState.COMPLETE else None
        study.add_trial(create_trial(state=state, value=value, user_attrs=attrs))
    states = ["complete", "pruned", "failed", "interrupted", "running"]
    assert [state_name(trial) for trial in study.trials] == states
    assert [state_name(trial) for trial in finished_trials(study)] == states[:3]


LIVING = f"{platform.node()}:{os.getppid()}"
ELSEWHERE = "another machine:1"


@pytest.fixture(scope="module")
def dead() -> str:
    """The name of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return f"{platform.node()}:{ended.pid}"


@pytest.fixture
def study() -> optuna.Study:
    return open_study(None, "mine", {})


def test_who_is_alone_has_stream_0_again_and_again(study: optuna.Study) -> None:
    for _ in range(2):
        with register_worker(study) as stream:
            assert stream == 0
            assert study.user_attrs[f"{PROCESS} {worker_name()}"] is True
        assert study.user_attrs[f"{PROCESS} {worker_name()}"] is False


@pytest.mark.parametrize("other", [LIVING, ELSEWHERE])
def test_who_comes_to_others_has_a_stream_of_its_own(study: optuna.Study, other: str) -> None:
    study.set_user_attr(f"{PROCESS} {other}", True)
    with register_worker(study) as stream:
        assert stream > 0
    study.set_user_attr(f"{PROCESS} {other}", False)
    with register_worker(study) as stream:
        assert stream == 0


def test_the_dead_are_no_company(study: optuna.Study, dead: str) -> None:
    study.set_user_attr(f"{PROCESS} {dead}", True)
    with register_worker(study) as stream:
        assert stream == 0


def test_an_error_signs_off(study: optuna.Study) -> None:
    with pytest.raises(ZeroDivisionError), register_worker(study):
        raise ZeroDivisionError
    assert study.user_attrs[f"{PROCESS} {worker_name()}"] is False


def test_only_trials_of_the_dead_are_ended(study: optuna.Study, dead: str) -> None:
    for process in (dead, worker_name(), LIVING, ELSEWHERE, None):
        trial = study.ask()
        if process is not None:
            trial.set_user_attr(PROCESS, process)
    with register_worker(study):
        pass
    states = ["interrupted", "interrupted", "running", "running", "running"]
    assert [state_name(trial) for trial in study.trials] == states


def test_who_may_not_be_asked_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert not is_gone(LIVING)


def test_where_asking_would_end_a_process_nobody_is_asked(monkeypatch: pytest.MonkeyPatch, dead: str) -> None:
    assert is_gone(dead)
    monkeypatch.setattr("gbgnn.search.study.os.name", "nt")
    assert not is_gone(dead)
