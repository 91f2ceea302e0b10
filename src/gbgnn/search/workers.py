"""Processes that work on one study: who is there, and what those who are gone left behind."""

from __future__ import annotations

import os
import platform
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import optuna
from optuna.trial import TrialState

PROCESS = "process"
"""The attribute of a trial that says which process trains it."""


@contextmanager
def register_worker(study: optuna.Study) -> Iterator[int]:
    """Sign on to a study, give this process its stream of random numbers, and sign off.

    Who has the study to itself has stream 0, so that one process after another draws what a single one
    would have drawn; all others have a stream of their own, or two would train the same models.
    """
    mine = f"{PROCESS} {worker_name()}"
    study.set_user_attr(mine, True)  # before looking around: of two who come at once, both see the other
    try:
        _release(study)
        present = [key for key, is_there in study.user_attrs.items() if key.startswith(PROCESS) and is_there]
        others = [key for key in present if key != mine and not is_gone(key.removeprefix(f"{PROCESS} "))]
        yield 1 + zlib.crc32(mine.encode()) if others else 0
    finally:
        study.set_user_attr(mine, False)


def worker_name() -> str:
    """Return what this process is called in a study."""
    return f"{platform.node()}:{os.getpid()}"


def is_gone(process: str) -> bool:
    """Say whether a process is known to have ended; of other machines nothing is known.

    Examples
    --------
    >>> is_gone(worker_name()), is_gone("another machine:1")
    (False, False)
    """
    machine, _, number = process.rpartition(":")
    if machine != platform.node() or os.name != "posix":
        return False
    try:
        os.kill(int(number), 0)  # no signal: it only asks
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _release(study: optuna.Study) -> None:
    """End the trials of processes that were killed, so that they are drawn again."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        process = trial.user_attrs.get(PROCESS)
        # Its number may be ours by now; we have no trial under way yet.
        if process is not None and (process == worker_name() or is_gone(process)):
            study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
