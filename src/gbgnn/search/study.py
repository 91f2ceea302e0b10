"""Studies: where trials are kept, what their states mean, and the processes that work on them."""

from __future__ import annotations

import json
import os
import platform
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState

from gbgnn._version import __version__
from gbgnn.errors import DataError, ParameterError

JOURNALS = (".log", ".journal")
ENDS = ("complete", "pruned", "failed")  # the states of trials that have come to an end of their own
# Attributes of a trial.
ERROR = "error"  # why it failed; one that failed without was interrupted, and is drawn again
BEST_ROUND = "best_round"  # of a complete one, the round that predicts
PROCESS = "process"  # which process trains it


def open_study(storage: str | os.PathLike[str] | None, name: str, record: Mapping[str, Any]) -> optuna.Study:
    """Return the study of that name, new or with the trials it has.

    The storage is as in :func:`~gbgnn.search.tune`, and may hold many studies. The record is what the study
    is about, such as ``space`` and ``data``; a study that is about something else is refused.
    """
    where = "memory" if storage is None else os.fspath(storage)
    try:
        with _silence():
            study = optuna.create_study(
                storage=_open_storage(storage), study_name=name, direction="maximize", load_if_exists=True
            )
    except (ParameterError, OSError):
        raise
    except Exception as error:  # whatever a database, or a file that is none of ours, has to say
        reason = str(error).partition("\n")[0]
        raise DataError(f"cannot open the study in {where}: {reason}") from error
    known = study.user_attrs
    for key, value in record.items():
        if _canonical(known.get(key, value)) != _canonical(value):
            raise ParameterError(
                f"the study {name!r} in {where} was made with another {key}; its trials cannot be compared "
                "with new ones. Give this search another study name, or another storage."
            )
    for key, value in {"gbgnn": __version__, "optuna": optuna.__version__, **record}.items():
        if key not in known:
            study.set_user_attr(key, value)
    return study


def in_memory_study(trials: Iterable[FrozenTrial]) -> optuna.Study:
    """Return a new study in memory that has those of the trials that are finished."""
    with _silence():
        study = optuna.create_study(direction="maximize")
    study.add_trials(trial for trial in trials if trial.state.is_finished())
    return study


def state_name(trial: FrozenTrial) -> str:
    """Return ``"complete"``, ``"pruned"``, ``"failed"``, ``"interrupted"`` or ``"running"``."""
    if trial.state is TrialState.FAIL:
        return "failed" if ERROR in trial.user_attrs else "interrupted"
    return {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned"}.get(trial.state, "running")


def finished_trials(study: optuna.Study) -> list[FrozenTrial]:
    """Return the trials that have come to an end of their own, in order."""
    return [trial for trial in study.get_trials(deepcopy=False) if state_name(trial) in ENDS]


def best_trials(trials: Iterable[FrozenTrial], n_best: int) -> list[FrozenTrial]:
    """Return the best complete trials, the best first, and of equals the first."""
    complete = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    return sorted(complete, key=lambda trial: (-trial.values[0], trial.number))[:n_best]


@contextmanager
def register_worker(study: optuna.Study) -> Iterator[int]:
    """Sign on to a study, give this process its stream of random numbers, and sign off.

    Who has the study to itself has stream 0, so that one process after another draws what a single one
    would have drawn; all others have a stream of their own, or two would train the same models.
    """
    mine = f"{PROCESS} {worker_name()}"
    study.set_user_attr(mine, True)  # before looking around: of two who come at once, both see the other
    try:
        # End the trials of processes that were killed, so that they are drawn again. The number of one may be
        # ours by now; we have no trial under way yet.
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            process = trial.user_attrs.get(PROCESS)
            if process is not None and (process == worker_name() or is_gone(process)):
                study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
        present = [key for key, is_there in study.user_attrs.items() if key.startswith(PROCESS) and is_there]
        others = [key for key in present if key != mine and not is_gone(key.removeprefix(f"{PROCESS} "))]
        yield 1 + zlib.crc32(mine.encode()) if others else 0
    finally:
        study.set_user_attr(mine, False)


def worker_name() -> str:
    """Return what this process is called in a study."""
    return f"{platform.node()}:{os.getpid()}"


def is_gone(process: str) -> bool:
    """Say whether a process is known to have ended; of other machines nothing is known."""
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


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)  # in which 1 and 1.0 differ, as they do for ranges


def _open_storage(storage: str | os.PathLike[str] | None) -> BaseStorage | None:
    if storage is None:
        return None
    text = os.fspath(storage)
    if "://" in text:
        return RDBStorage(text)
    # Absolute, because the lock is a link to the file: a relative one that a killed process has left leads
    # nowhere, and Optuna would wait for it for ever.
    path = Path(text).expanduser().absolute()
    if path.suffix not in JOURNALS:
        hint = f" A SQLite file is sqlite:///{text}." if path.suffix in (".db", ".sqlite", ".sqlite3") else ""
        raise ParameterError(
            f"storage must be a file ending in {' or '.join(JOURNALS)}, or the URL of a database such as "
            f"sqlite:///study.db; got {text!r}.{hint}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    # Windows cannot make the symbolic links that are the usual lock.
    lock = JournalFileOpenLock(str(path)) if os.name == "nt" else None
    return JournalStorage(JournalFileBackend(str(path), lock))


@contextmanager
def _silence() -> Iterator[None]:
    """Keep Optuna from announcing every study on the screen."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(level)
