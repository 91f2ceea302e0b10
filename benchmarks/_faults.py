"""Processes that run the command, the places that they run in, and runs that are broken once and mended.

What they are broken with is in ``faults.py``. Started as ``python _faults.py LOG WORDS...`` it is such a
process.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch

import gbgnn
from gbgnn.boosting.history import without_measurements
from gbgnn.cli import fit, main
from gbgnn.runs import CHECKPOINT, CONFIG, HISTORY, MODEL, TRIALS

COMMAND = str(Path(fit.__file__).parent)
"""Where the files of the command are."""

PATIENCE = 240.0
"""Seconds after which a process is said to hang."""


CRASHED, TOO_EARLY = 70, 71
"""Exit codes of a fork in which something went through the command, or that was interrupted outside it."""


class PromiseError(AssertionError):
    """A promise that was not kept."""


@dataclass(eq=False)
class Place:
    """A folder for a run, and beside it what is no part of it: messages, a study, rescued models."""

    root: Path
    words: tuple[str, ...]
    n_started: int = 0

    def __post_init__(self) -> None:
        for each in (self.home, self.rescue):
            each.mkdir(parents=True)

    @property
    def home(self) -> Path:
        """The folder that the command is run in."""
        return self.root / "home"

    @property
    def rescue(self) -> Path:
        """The system's temporary folder, as far as the command knows."""
        return self.root / "tmp"

    @property
    def run(self) -> Path:
        """The run, once it is whole."""
        return self.home / "r"

    @property
    def partial(self) -> Path:
        """The run while it is being made."""
        return self.home / "r.partial"

    @property
    def is_search(self) -> bool:
        """Whether the command searches settings."""
        return self.words[0] == "tune"

    def start(self, *words: str, anew: bool = False) -> Process:
        """Start the command in the folder, in a fork or in a new interpreter."""
        self.n_started += 1
        return Process(self, words, self.root / f"{self.n_started}", anew)


@dataclass(eq=False)
class Process:
    """A command that runs; ``told`` are its messages, ``rounds`` how many it has trained or replayed."""

    place: Place
    words: tuple[str, ...]
    log: Path
    anew: bool
    code: int | None = None

    def __post_init__(self) -> None:
        # What a shell does for a command in the background, Ctrl-C excepted, is not wanted here.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        try:
            if self.anew:
                command = [sys.executable, __file__, str(self.log), *self.words]
                environment = {**os.environ, "TMPDIR": str(self.place.rescue)}
                with self.log.with_suffix(".err").open("w") as told:
                    self.pid = subprocess.Popen(
                        command, cwd=self.place.home, env=environment, stdout=told, stderr=told
                    ).pid
            else:
                self.pid = os.fork()
        finally:
            if self.anew or self.pid:
                signal.signal(signal.SIGINT, signal.default_int_handler)
        if not self.pid:
            self._run()

    def _run(self) -> None:
        """Run the command in a fork, and end."""
        code = CRASHED
        try:
            told = os.open(self.log.with_suffix(".err"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(told, stream)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            drop_privileges()
            os.chdir(self.place.home)
            tempfile.tempdir = str(self.place.rescue)
            code = run_watched(self.log, self.words)
        except KeyboardInterrupt as error:
            if any(frame.filename.startswith(COMMAND) for frame in traceback.extract_tb(error.__traceback__)):
                traceback.print_exc()
            else:
                code = TOO_EARLY
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    @property
    def told(self) -> str:
        """All that the process has written."""
        return self.log.with_suffix(".err").read_text(errors="replace")

    @property
    def rounds(self) -> int:
        """How many rounds it has trained or replayed."""
        path = self.log.with_suffix(".rounds")
        return path.stat().st_size if path.exists() else 0

    def has_ended(self) -> bool:
        """Say whether the process is over."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None

    def wait(self) -> int:
        """Return its exit code when it is over; a traceback is a broken promise."""
        deadline = time.monotonic() + PATIENCE
        while not self.has_ended():
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                raise PromiseError(f"{' '.join(self.words)} hung")
            time.sleep(0.002)
        if "Traceback" in self.told or self.code == CRASHED:
            raise PromiseError(f"a traceback:\n{self.told}")
        assert self.code is not None
        return self.code

    def send(self, signum: int) -> None:
        """Send a signal, which may come too late."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signum)


def run_watched(log: Path, words: tuple[str, ...]) -> int:
    """Run a command, and add a byte to a file for every round before anything is saved of it."""
    rounds = os.open(log.with_suffix(".rounds"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    class Count(gbgnn.Callback):
        def on_round(self, report: Any) -> None:
            os.write(rounds, b".")

    usual = fit._checkpoints
    fit._checkpoints = lambda job: [Count(), *usual(job)]
    own, sys.argv = sys.argv, ["gbgnn", *words]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        fit._checkpoints, sys.argv = usual, own
    return 0


def drop_privileges() -> None:
    """Let permissions hold for root, too."""
    if os.geteuid() == 0:
        header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        if ctypes.CDLL(None, use_errno=True).capset(header, none):
            raise OSError(ctypes.get_errno(), "capset")


@dataclass(eq=False)
class Case:
    """A command, and what comes of it when nobody disturbs it."""

    name: str
    words: tuple[str, ...]
    folder: Path

    @cached_property
    def whole(self) -> Place:
        """The run of a process that nobody disturbs."""
        place = Place(self.folder / "whole", self.words)
        started = time.monotonic()
        process = place.start(*place.words, "--out", "r")
        if process.wait():
            raise PromiseError(f"{self.name} does not even run: {process.told}")
        self.seconds = time.monotonic() - started
        self.n_rounds = process.rounds
        return place

    def compare(self, place: Place) -> None:
        """Raise unless a run is the same as the undisturbed one."""
        expected = self.whole.run
        if (place.run / MODEL).read_bytes() != (expected / MODEL).read_bytes():
            raise PromiseError("another model")
        for name in (HISTORY, TRIALS) if place.is_search else (HISTORY,):
            own, usual = read_rows(place.run / name), read_rows(expected / name)
            if own != usual:
                differing = [pair for pair in zip_longest(own, usual) if pair[0] != pair[1]]
                raise PromiseError(f"another {name}: {differing[0]}")
        found, usual = (sorted(os.listdir(folder)) for folder in (place.run, expected))
        if found != usual:
            raise PromiseError(f"files {found} in place of {usual}")
        if os.listdir(place.home) != ["r"]:
            raise PromiseError(f"left behind: {sorted(os.listdir(place.home))}")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return rows without measurements and without numbers of trials: an interrupted trial keeps its own."""
    rows = without_measurements([json.loads(line) for line in path.read_text().splitlines()])
    return [{name: value for name, value in row.items() if name != "trial"} for row in rows]


@dataclass
class Outcome:
    """What a fault did: rounds lost that were trained, None where the run was not to keep any."""

    lost: int | None = None
    ways: list[str] = field(default_factory=list)


@dataclass(eq=False)
class Trial:
    """A run that is broken once, and mended."""

    case: Case
    place: Place
    dice: random.Random
    words: tuple[str, ...]
    anew: bool
    process: Process = field(init=False)
    outcome: Outcome = field(default_factory=Outcome)

    def begin(self) -> None:
        """Start the run that is to be broken."""
        self.process = self.place.start(*self.words, "--out", "r", anew=self.anew)

    def sleep(self, *, in_folder: bool = True) -> bool:
        """Wait for a random moment, after the folder is there; say whether the process is still at work."""
        while in_folder and not (self.place.partial / CONFIG).exists() and not self.process.has_ended():
            time.sleep(0.001)
        moment = time.monotonic() + self.dice.random() * self.case.seconds
        while time.monotonic() < moment and not self.process.has_ended():
            time.sleep(0.001)
        return not self.process.has_ended()

    def go_on(self) -> None:
        """Do what the messages say until the run is whole."""
        place = self.place
        for _ in range(3):
            if (place.run / MODEL).exists() and not place.partial.exists():
                return
            way, words = "again", (*self.words, "--out", "r")
            if (place.partial / CONFIG).exists():
                way, words = "resumed", ("fit", "--resume", "r")
                if place.is_search:
                    way, words = "again", (*self.words, "--out", "r", "--force")
            self.outcome.ways.append(way)
            process = place.start(*words)
            if process.wait():
                raise PromiseError(f"{way}: {process.told}")
        raise PromiseError(f"not whole after {self.outcome.ways}")

    def check_kept(self, n_lost: int) -> None:
        """Raise when more rounds are lost than may be."""
        kept, checkpoint = 0, self.place.partial / CHECKPOINT
        for path in (self.place.partial / MODEL, self.place.run / MODEL):
            if path.exists():
                return
        if checkpoint.exists():
            kept = len(gbgnn.load(checkpoint).ensemble_)
        self.outcome.lost = max(0, self.process.rounds - kept)
        if self.outcome.lost > n_lost:
            raise PromiseError(f"{self.process.rounds} rounds trained, {kept} kept")

    def check_rescued(self) -> None:
        """Raise when a model was trained and is nowhere."""
        places = [self.place.partial / MODEL, self.place.run / MODEL, *self.place.rescue.glob("*.gbgnn")]
        found = [path for path in places if path.exists()]
        expected = (self.case.whole.run / MODEL).read_bytes()
        if "The trained model" in self.process.told and expected not in [p.read_bytes() for p in found]:
            raise PromiseError(f"a trained model is lost: {self.process.told}")
        is_trained = self.process.rounds >= self.case.n_rounds > 0 and "--fine-tune" not in self.words
        if is_trained and not self.place.is_search and self.process.code and not found:
            raise PromiseError(f"a trained model is lost without a word: {self.process.told}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(run_watched(Path(sys.argv[1]), tuple(sys.argv[2:])))
