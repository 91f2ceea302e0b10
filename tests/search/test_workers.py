from __future__ import annotations

import os
import platform
import subprocess
import sys

import optuna
import pytest

from gbgnn.search.study import open_study, state_name
from gbgnn.search.workers import PROCESS, is_gone, register_worker, worker_name

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
    monkeypatch.setattr("gbgnn.search.workers.os.name", "nt")
    assert not is_gone(dead)
