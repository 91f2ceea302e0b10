"""Run folders: ``RUN.partial`` while a run is being made, ``RUN`` once it is whole.

The last step of a run renames the folder, so that a reader never meets half of one, and a run that was killed
leaves what ``--resume`` goes on from. One process writes a run at a time, and nothing is removed or replaced
that a run did not write.
"""

from __future__ import annotations

import os
import platform
import re
import secrets
import shutil
import signal
import socket
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gbgnn._files import write_text
from gbgnn._version import __version__
from gbgnn.errors import DataError

if TYPE_CHECKING:
    from filelock import BaseFileLock

CONFIG, CHECKPOINT, MODEL = "config.toml", "checkpoint.gbgnn", "model.gbgnn"
HISTORY, EPOCHS, METRICS = "history.jsonl", "fine_tuning.jsonl", "metrics.json"
SPACE, TRIALS = "space.toml", "trials.jsonl"
LOCK, HOLDER = "lock", "holder"
REPORT = "report.html"
ROWS = "rows"

FILES = frozenset(
    {CONFIG, CHECKPOINT, MODEL, HISTORY, EPOCHS, METRICS, SPACE, TRIALS, LOCK, HOLDER, REPORT, ROWS}
)
"""All that a run may write, files but for the last; a folder with anything else in it is not replaced."""


_WRITTEN_ROWS = re.compile(r"\.?[0-9a-f]{24}(\.part|\.[0-9a-f]{24}\.rows(\..*\.part)?)?")
"""The names of what :class:`~gbgnn.propagation.DiskRows` writes."""


class RunFolder:
    """A run that is being made, by this process alone.

    Parameters
    ----------
    path
        Where the whole run is to be. A link to a folder stands for the folder.
    force
        Whether a run that is there already may be replaced.
    """

    def __init__(self, path: str | os.PathLike[str], force: bool = False) -> None:
        self.path, self.force = Path(path), force
        self._real = Path(os.path.realpath(path))
        self._lock: BaseFileLock | None = None

    @property
    def partial(self) -> Path:
        """Where everything is written until the run is whole."""
        shown = self._real if self.path.is_symlink() or self.path.name in ("", "..") else self.path
        return shown.with_name(f"{shown.name}.partial")

    @property
    def checkpoint(self) -> Path:
        """The model as it was some rounds ago."""
        return self.partial / CHECKPOINT

    @property
    def rows(self) -> Path:
        """A folder for what does not fit into memory; it goes when the run is whole."""
        return self.partial / ROWS

    @property
    def is_of_search(self) -> bool:
        """Whether the unfinished run is one of ``gbgnn tune``, which goes on by its study."""
        return (self.partial / SPACE).exists()

    def check_free(self) -> None:
        """Raise :class:`DataError` when a run, finished or not, or something else is in the way."""
        if self._real in (Path.cwd(), *Path.cwd().parents):
            raise DataError(f"a run needs a folder of its own, such as runs/first; got {str(self.path)!r}.")
        if _is_filled(self._real):
            if not self.force:
                raise DataError(f"{self.path} exists; choose another --out, or replace it with --force.")
            _check_is_run(self.path)
        if not self.partial.exists():
            return
        _check_is_run(self.partial, is_whole=False)
        lock_folder(self.partial).release()
        if (self.partial / CONFIG).exists() and not self.force:
            way = f"go on with --resume {self.path}, or start over"
            way = "give the search's command again" if self.is_of_search else way
            raise DataError(f"{self.partial} holds an unfinished run; {way} with --force.")

    def start(self, files: Mapping[str, str]) -> None:
        """Make the partial folder with the first files, and lock it.

        It appears with these files in it: a run that was killed has its settings, or does not exist.
        """
        self._tidy()
        self.check_free()
        new = self._hidden("new")
        new.mkdir(parents=True)
        try:
            self._lock = lock_folder(new)
            for name, text in files.items():
                write_text(new / name, text)
            if self.partial.exists():
                held = lock_folder(self.partial)
                remove_run(self.partial)
                held.release()
            try:
                new.rename(self.partial)
            except OSError:  # of two who begin at once, one comes first
                if self.partial.exists():
                    lock_folder(self.partial).release()  # which says who
                raise
        except BaseException:
            self._release()
            remove_run(new)
            raise

    def resume(self) -> dict[str, Any]:
        """Lock the partial folder of a run that was interrupted, and return its settings."""
        if not self.partial.is_dir():
            if self._real.is_dir():
                raise DataError(f"{self.path} is finished; there is nothing to go on with.")
            raise DataError(f"there is no run {self.path}, and no unfinished {self.partial}.")
        self._lock = lock_folder(self.partial)
        told = None
        if not (self.partial / CONFIG).is_file():
            told = f"has no {CONFIG}, so there is nothing to go on with; start the run again."
        elif self.is_of_search:
            told = (
                "is what a search was about to write; give its command again, with --force. Trials in a "
                "--storage are there."
            )
        if told is not None:
            self._release()
            raise DataError(f"{self.partial} {told}")
        self._tidy()
        return tomllib.loads((self.partial / CONFIG).read_text(encoding="utf-8"))

    def write(self, name: str, text: str) -> None:
        """Write a file into the partial folder."""
        self.check_there()
        write_text(self.partial / name, text)

    def check_there(self) -> None:
        """Raise when the partial folder was removed, or made anew, by somebody else."""
        holder = _read_holder(self.partial)
        if not (self.partial / CONFIG).is_file() or (holder and not holder.startswith(_this_process())):
            raise DataError(f"{self.partial} was removed while the run was being made.")

    def finish(self, files: Mapping[str, str]) -> None:
        """Write the last files and put the folder in place; only ``force`` replaces an old run there."""
        for name, text in files.items():
            self.write(name, text)
        self.check_there()
        old = None
        if _is_filled(self._real):
            if not self.force:
                raise DataError(f"{self.path} was filled while the run was being made, and stays.")
            _check_is_run(self.path)
            old = self._hidden("replaced")
            self._real.rename(old)
        try:
            self.partial.rename(self._real)
        except OSError:
            if old is not None:
                old.rename(self._real)
            raise
        # Only now: until the folder is in place the checkpoint is what a killed run would go on from.
        for path in _own_files(self._real):
            if path.name not in FILES or path.name in (CHECKPOINT, HOLDER, LOCK, ROWS):
                _remove(path)
        self._release()
        if old is not None:
            remove_run(old)

    def discard(self) -> None:
        """Remove the partial folder unless something trained is in it, and let go of it."""
        if self._is_own() and not any((self.partial / name).exists() for name in (CHECKPOINT, MODEL)):
            remove_run(self.partial)
        self.close()

    def close(self) -> None:
        """Let others have the partial folder."""
        if self._is_own():
            (self.partial / HOLDER).unlink(missing_ok=True)
        self._release()

    def _is_own(self) -> bool:
        return self._lock is not None and _read_holder(self.partial).startswith(_this_process())

    def _tidy(self) -> None:
        """Remove what runs of this name left that were killed while they began or ended.

        A run that was about to be replaced is back unless the new one is there.
        """
        pattern = re.compile(rf"\.{re.escape(self._real.name)}\.[0-9a-f]{{8}}\.(new|replaced)")
        for left in self._real.parent.glob(".*"):
            if not (pattern.fullmatch(left.name) and left.is_dir()):
                continue
            try:
                held = lock_folder(left)
            except DataError:  # another process is at work there
                continue
            if left.suffix == ".replaced" and not _is_filled(self._real):
                for name in (LOCK, HOLDER):
                    (left / name).unlink(missing_ok=True)
                left.rename(self._real)
            else:
                remove_run(left)
            held.release()

    def _hidden(self, kind: str) -> Path:
        return self._real.with_name(f".{self._real.name}.{secrets.token_hex(4)}.{kind}")

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def lock_folder(folder: Path) -> BaseFileLock:
    """Return a lock on a folder, held until it is released or the process ends; raise when another has it."""
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        holder = _read_holder(folder) or "another process"
        raise DataError(
            f"{folder} is being written by {holder}; wait until that has ended, or choose another --out."
        ) from None
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    with suppress(OSError):  # a full disk is no reason not to hold it
        write_text(folder / HOLDER, f"{_this_process()} {now}\n")
    return lock


def remove_run(folder: Path) -> None:
    """Remove a run's files and then its folder, which stays when anything else is in it."""
    for path in _own_files(folder):
        _remove(path)
    with suppress(OSError):
        folder.rmdir()


def _remove(path: Path) -> None:
    """Remove a file of a run, or its folder of rows with what we wrote there."""
    if path.name != ROWS or path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for inner in path.iterdir():
        if not _WRITTEN_ROWS.fullmatch(inner.name) or inner.is_symlink():
            continue
        if inner.is_dir():
            shutil.rmtree(inner, ignore_errors=True)
        else:
            inner.unlink(missing_ok=True)
    with suppress(OSError):
        path.rmdir()


def describe_versions(
    packages: Iterable[str] = ("torch", "numpy", "scipy", "scikit-learn"),
) -> dict[str, str]:
    """Return the versions of gbgnn, of Python, and of those packages that are installed."""
    found = {"gbgnn": __version__, "python": platform.python_version()}
    for package in packages:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


class Terminated(KeyboardInterrupt):
    """The process was asked to end by a signal other than Ctrl-C's."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum


@contextmanager
def catch_termination() -> Iterator[None]:
    """Raise :class:`Terminated` when SIGTERM or SIGHUP comes, so that work can be kept as after Ctrl-C."""

    def interrupt(signum: int, frame: object) -> None:
        raise Terminated(signum)

    signals = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    usual = {}
    with suppress(ValueError):  # not the main thread, which alone is told of signals
        usual = {each: signal.signal(each, interrupt) for each in signals}
    try:
        yield
    finally:
        for each, handler in usual.items():
            signal.signal(each, handler)


def _this_process() -> str:
    return f"process {os.getpid()} on {socket.gethostname()} since"


def _read_holder(folder: Path) -> str:
    """Return who has the folder, an empty text where that is not known."""
    try:
        return (folder / HOLDER).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _is_filled(folder: Path) -> bool:
    return any(folder.iterdir()) if folder.is_dir() else folder.exists()


def _own_files(folder: Path) -> list[Path]:
    """Return the files of a folder that a run writes, those included that a killed one had half written."""
    paths = folder.iterdir() if folder.is_dir() else ()
    # The second is how safetensors calls what it has not written yet.
    half_written = [*(f".{name}.*.part" for name in FILES), ".tmp??????"]
    return [p for p in paths if p.name in FILES or any(map(p.match, half_written))]


def _check_is_run(folder: Path, *, is_whole: bool = True) -> None:
    """Raise unless a folder is certainly a run, with nothing else in it."""
    is_ours = folder.is_dir() and not is_whole
    with suppress(OSError, ValueError, KeyError, TypeError):
        config = tomllib.loads((folder / CONFIG).read_text(encoding="utf-8"))
        is_ours = is_ours or "gbgnn" in config["run"]["versions"]
    if not is_ours:
        raise DataError(f"{folder} is not a run folder and will not be replaced; choose another --out.")
    others = sorted(path.name for path in set(folder.iterdir()) - set(_own_files(folder)))
    if others:
        shown = ", ".join([*others[:3], *(["..."] if len(others) > 3 else [])])
        raise DataError(
            f"{folder} holds what no run wrote ({shown}) and will not be replaced; move that away."
        )
