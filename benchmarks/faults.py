"""Runs that are broken on purpose: signals, full disks, lost folders, two writers; then gone on with.

Every fault meets a process of its own that runs ``gbgnn fit`` or ``gbgnn tune``, at a random moment. Then it
is done what the message says, and the model must be the same file, byte for byte, as that of a run that nobody
disturbed; so must the history but for seconds and memory, and nothing else may lie around. Most processes are
forked from this one, which has everything imported, so that nearly all of their time is a run; the others
begin with the interpreter. Needs Linux; without the rights to mount a tmpfs, a limit on file sizes stands for
a full disk.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from common import publish, table

import gbgnn
from gbgnn.boosting.history import without_measurements
from gbgnn.cli import fit, main
from gbgnn.runs import CONFIG, HISTORY, MODEL, TRIALS

GRAPH = ("csbm", "--data-option", "n_nodes=60", "--data-option", "per_class=6", "--seed", "0", "-q")
MLP = ("--epochs", "20", "--units", "8")
CASES = {
    "gradient": ("fit", *GRAPH, *MLP, "--rounds", "120"),
    "samme": ("fit", *GRAPH, *MLP, "--rounds", "120", "--rule", "samme", "--aggregation", "injection"),
    "samme_r, kta": ("fit", *GRAPH, *MLP, "--rounds", "60", "--rule", "samme_r", "--aggregation", "kta"),
    "double precision": ("fit", *GRAPH, *MLP, "--rounds", "100", "--dtype", "float64", "--batch-size", "4"),
    "learned mixing": ("fit", *GRAPH, *MLP, "--rounds", "25", "--aggregation", "nonlinear"),
    "wide": ("fit", *GRAPH, "--learner", "wide", "--units", "2000", "--rounds", "6"),
    "lightgbm": ("fit", *GRAPH, "--learner", "trees", "--library", "lightgbm", "--rounds", "40"),
    "sklearn's trees": ("fit", *GRAPH, "--learner", "trees", "--library", "sklearn", "--rounds", "5"),
    "graph network": ("fit", *GRAPH, "--learner", "graph_network", "--epochs", "40", "--rounds", "5"),
    "consistent": ("fit", *GRAPH, "--learner", "consistent", "--epochs", "150", "--rounds", "3"),
    "fine-tuned": (
        *("fit", *GRAPH, *MLP, "--rounds", "25", "--aggregation", "kta", "--fine-tune"),
        *("--fine-tune-epochs", "80", "--keep", "tuned"),
    ),
    "fine-tuned, samme": (
        *("fit", *GRAPH, *MLP, "--rounds", "60", "--rule", "samme", "--fine-tune"),
        *("--fine-tune-epochs", "80", "--fine-tune-batch-size", "4", "--keep", "tuned"),
    ),
    "best of several": ("fit", *GRAPH, "--learner", "best_of", "--rounds", "3"),
    "search": ("tune", *GRAPH, "--trials", "8", "--rounds", "15", "--storage", "../study.log"),
    "search, fine-tuned": (
        *("tune", *GRAPH, "--trials", "4", "--rounds", "15", "--fine-tune"),
        *("--fine-tune-epochs", "20", "--storage", "../study.log"),
    ),
}
PATIENCE = 240.0
"""Seconds after which a process is said to hang."""


class Failure(AssertionError):
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
        return self.root / "home"

    @property
    def rescue(self) -> Path:
        return self.root / "tmp"

    @property
    def run(self) -> Path:
        return self.home / "r"

    @property
    def partial(self) -> Path:
        return self.home / "r.partial"

    @property
    def is_search(self) -> bool:
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
                command = [sys.executable, __file__, "--run", str(self.log), *self.words]
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
        code = 70
        try:
            told = os.open(self.log.with_suffix(".err"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(told, stream)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            drop_privileges()
            os.chdir(self.place.home)
            tempfile.tempdir = str(self.place.rescue)
            code = run_watched(self.log, self.words)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    @property
    def told(self) -> str:
        return self.log.with_suffix(".err").read_text(errors="replace")

    @property
    def rounds(self) -> int:
        path = self.log.with_suffix(".rounds")
        return path.stat().st_size if path.exists() else 0

    def has_ended(self) -> bool:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None

    def wait(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while not self.has_ended():
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                raise Failure(f"{' '.join(self.words)} hung")
            time.sleep(0.002)
        if "Traceback" in self.told or self.code == 70:
            raise Failure(f"a traceback:\n{self.told}")
        assert self.code is not None
        return self.code

    def send(self, signum: int) -> None:
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
    sys.argv = ["gbgnn", *words]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
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
    folder: Path

    @cached_property
    def whole(self) -> Place:
        place = Place(self.folder / "whole", CASES[self.name])
        started = time.monotonic()
        process = place.start(*place.words, "--out", "r")
        if process.wait():
            raise Failure(f"{self.name} does not even run: {process.told}")
        self.seconds = time.monotonic() - started
        self.n_rounds = process.rounds
        return place

    def compare(self, place: Place) -> None:
        """Raise unless a run is the same as the undisturbed one."""
        expected = self.whole.run
        if (place.run / MODEL).read_bytes() != (expected / MODEL).read_bytes():
            raise Failure("another model")
        for name in (HISTORY, TRIALS) if place.is_search else (HISTORY,):
            if read_rows(place.run / name) != read_rows(expected / name):
                raise Failure(f"another {name}")
        found, usual = (sorted(os.listdir(folder)) for folder in (place.run, expected))
        if found != usual:
            raise Failure(f"files {found} in place of {usual}")
        if os.listdir(place.home) != ["r"]:
            raise Failure(f"left behind: {sorted(os.listdir(place.home))}")


def read_rows(path: Path) -> list[dict[str, Any]]:
    return without_measurements([json.loads(line) for line in path.read_text().splitlines()])


@dataclass
class Outcome:
    """What a fault did: rounds lost that were trained, None where the run was not to keep any."""

    lost: int | None = None
    ways: list[str] = field(default_factory=list)


Strike = Callable[["Trial"], bool]
"""Breaks a run and waits for its end; says whether the fault came in time."""


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
                raise Failure(f"{way}: {process.told}")
        raise Failure(f"not whole after {self.outcome.ways}")

    def check_kept(self, n_lost: int) -> None:
        """Raise when more rounds are lost than may be."""
        kept, checkpoint = 0, self.place.partial / "checkpoint.gbgnn"
        for path in (self.place.partial / MODEL, self.place.run / MODEL):
            if path.exists():
                return
        if checkpoint.exists():
            kept = len(gbgnn.load(checkpoint).ensemble_)
        self.outcome.lost = max(0, self.process.rounds - kept)
        if self.outcome.lost > n_lost:
            raise Failure(f"{self.process.rounds} rounds trained, {kept} kept")

    def check_rescued(self) -> None:
        """Raise when a model was trained and is nowhere."""
        places = [self.place.partial / MODEL, self.place.run / MODEL, *self.place.rescue.glob("*.gbgnn")]
        found = [path for path in places if path.exists()]
        expected = (self.case.whole.run / MODEL).read_bytes()
        if "The trained model" in self.process.told and expected not in [p.read_bytes() for p in found]:
            raise Failure(f"a trained model is lost: {self.process.told}")
        is_trained = self.process.rounds >= self.case.n_rounds > 0 and "--fine-tune" not in self.words
        if is_trained and not self.place.is_search and self.process.code and not found:
            raise Failure(f"a trained model is lost without a word: {self.process.told}")


def by_signal(signum: int) -> Strike:
    """A signal at a random moment; after a kind one no round is lost, after SIGKILL at most that in hand."""

    def strike(trial: Trial) -> bool:
        trial.begin()
        if not trial.sleep(in_folder=trial.anew or trial.dice.random() < 0.9):
            return False
        trial.process.send(signum)
        code = trial.process.wait()
        if code == 0:
            return False
        expected = -signum if signum == signal.SIGKILL or code < 0 else 128 + signum
        if code != expected:
            raise Failure(f"exit code {code}: {trial.process.told}")
        if not trial.place.is_search and "--checkpoint-every" in trial.words:
            trial.check_kept(1 if signum == signal.SIGKILL else 0)
        return True

    return strike


def fill_disk(trial: Trial) -> bool:
    """A disk with room for some of the files."""
    home = trial.place.home
    needs = sum(path.stat().st_size for path in trial.case.whole.run.iterdir())
    room = int(trial.dice.uniform(0.1, 2.2) * needs)
    with mounted(home, room) as is_mounted:
        if not is_mounted:
            limit = int(trial.dice.uniform(0.05, 0.95) * needs)
            before = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            trial.begin()
        finally:
            if not is_mounted:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)
        code = trial.process.wait()
        if code not in (0, 1):
            raise Failure(f"exit code {code}: {trial.process.told}")
        is_hit = any(word in trial.process.told for word in ("No space left", "File too large"))
        if code and not is_hit:
            raise Failure(f"another error: {trial.process.told}")
        trial.check_rescued()
        if is_mounted:
            subprocess.run(["mount", "-o", "remount,size=64m", str(home)], check=True)
        trial.go_on()
        trial.case.compare(trial.place)
    return is_hit


@contextmanager
def mounted(folder: Path, size: int) -> Iterator[bool]:
    """Give a folder a small disk of its own, where that is allowed."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={max(size, 4096)}", "tmpfs", str(folder)]
    is_mounted = (
        os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", str(folder)], check=True)


def forbid_writing(trial: Trial) -> bool:
    """Permissions to write are taken away in the middle."""
    trial.anew = False  # a new interpreter of root's would have its privileges again
    trial.begin()
    if not trial.sleep():
        return False
    folders = [trial.place.home, trial.place.partial]
    try:
        for folder in folders:
            with suppress(FileNotFoundError):
                folder.chmod(0o500)
        code = trial.process.wait()
        trial.check_rescued()
    finally:
        for folder in folders:
            with suppress(FileNotFoundError):
                folder.chmod(0o700)
    if code not in (0, 1) or (code and "Permission denied" not in trial.process.told):
        raise Failure(f"exit code {code}: {trial.process.told}")
    return code == 1


def remove_folder(trial: Trial) -> bool:
    """The unfinished run is removed in the middle."""
    trial.begin()
    if not trial.sleep() or not trial.place.partial.exists():
        return False
    shutil.rmtree(trial.place.partial, ignore_errors=True)
    code = trial.process.wait()
    trial.check_rescued()
    if code == 0:  # it was whole already
        return False
    words = ("was removed while the run", "No such file or directory")
    if code != 1 or not any(word in trial.process.told for word in words):
        raise Failure(f"exit code {code}: {trial.process.told}")
    return True


def fill_place(trial: Trial) -> bool:
    """Somebody makes a folder where the run is to be, and puts a thesis in it."""
    trial.begin()
    if not trial.sleep() or trial.place.run.exists():
        return False
    try:
        trial.place.run.mkdir()
        (trial.place.run / "thesis").write_text("mine")
    except OSError:
        return False
    code, own = trial.process.wait(), trial.place.run / "thesis"
    if code != 1 or "and stays" not in trial.process.told or own.read_text() != "mine":
        raise Failure(f"exit code {code}: {trial.process.told}")
    own.unlink()
    own.parent.rmdir()
    return True


def write_twice(trial: Trial) -> bool:
    """A second process wants the same run: it is told, and the first is not disturbed."""
    trial.begin()
    if not trial.sleep():
        return False
    ways = [(*trial.words, "--out", "r"), (*trial.words, "--out", "r", "--force"), ("fit", "--resume", "r")]
    second = trial.place.start(*trial.dice.choice(ways))
    code = second.wait()
    if trial.process.wait():
        raise Failure(f"the first writer was disturbed: {trial.process.told}")
    told = ("is being written by process", "exists; choose", "is finished", "there is no run")
    if code == 0 and "--force" in second.words:  # it came after the first had ended
        return False
    if code != 1 or not any(word in second.told for word in told):
        raise Failure(f"exit code {code} of the second writer: {second.told}")
    return "is being written by" in second.told


def resume_twice(trial: Trial) -> bool:
    """A killed run is gone on with by two processes at once."""
    if trial.place.is_search or not by_signal(signal.SIGKILL)(trial):
        return False
    if not (trial.place.partial / CONFIG).exists():
        return False
    both = [trial.place.start("fit", "--resume", "r") for _ in range(2)]
    codes = sorted(process.wait() for process in both)
    if codes[0] != 0 or codes[1] not in (0, 1):
        raise Failure(f"exit codes {codes}: {[process.told for process in both]}")
    return codes == [0, 1]


FAULTS: dict[str, tuple[Strike, int]] = {
    "SIGKILL": (by_signal(signal.SIGKILL), 84),
    "SIGTERM": (by_signal(signal.SIGTERM), 24),
    "SIGINT": (by_signal(signal.SIGINT), 20),
    "SIGHUP": (by_signal(signal.SIGHUP), 8),
    "full disk": (fill_disk, 20),
    "no permission to write": (forbid_writing, 10),
    "folder removed": (remove_folder, 10),
    "place taken by somebody": (fill_place, 6),
    "two writers": (write_twice, 10),
    "resumed twice at once": (resume_twice, 8),
}
"""Each with its share of 200."""


def plan(n: int) -> list[str]:
    """Return kinds of faults by their shares, the rare ones first where there are few."""
    kinds = [kind for kind, (_, share) in FAULTS.items() for _ in range(round(share * n / 200))]
    return (kinds + list(FAULTS))[:n] if len(kinds) < n else kinds[:n]


def break_runs(n: int, seed: int, names: list[str], folder: Path) -> list[dict[str, Any]]:
    """Return a record of every fault that came in time."""
    dice, cases = random.Random(seed), {name: Case(name, folder / name.replace(" ", "_")) for name in names}
    kinds, records = plan(n), []
    dice.shuffle(kinds)
    waiting = [(kind, names[i % len(names)]) for i, kind in enumerate(kinds)]
    n_tried = 0
    while waiting:
        (kind, name), n_tried = waiting.pop(0), n_tried + 1
        if n_tried > 12 * n:
            raise Failure(f"too many faults came too late, such as {kind} in {name}")
        case = cases[name]
        words = case.whole.words
        every = ("--checkpoint-every", "1") if words[0] == "fit" and dice.random() < 0.6 else ()
        place = Place(folder / f"{n_tried}", words)
        trial = Trial(case, place, dice, (*words, *every), anew=dice.random() < 0.1)
        record = {
            "kind": kind,
            "case": name,
            "checkpoint": "every round" if every else "by time",
            "error": None,
        }
        try:
            if not FAULTS[kind][0](trial):  # it came too late, or too early; another moment, another run
                waiting.append((kind, dice.choice(names)))
                continue
            trial.go_on()
            if kind != "full disk":
                case.compare(place)
        except Failure as error:
            record["error"] = str(error)
            print(f"FAILED: {kind}, {name}: {error}", file=sys.stderr)
        shutil.rmtree(place.root, ignore_errors=record["error"] is None)
        ways = trial.outcome.ways
        how = "resumed" if "resumed" in ways else "begun again" if ways else "whole already"
        records.append({**record, "ended": how, "lost": trial.outcome.lost, "anew": trial.anew})
        if len(records) % 20 == 0:
            print(f"{len(records)} of {n}", file=sys.stderr, flush=True)
    return records


def describe(records: list[dict[str, Any]], seed: int, seconds: float) -> list[str]:
    """Return the page."""
    failed = [each for each in records if each["error"]]
    n_new = sum(each["anew"] for each in records)
    lines = [
        f"{len(records)} faults at random moments (seed {seed}) of real processes, {n_new} of them new "
        f"interpreters and the others forks that have everything imported, in {seconds / 60:.0f} minutes. "
        f"**{len(records) - len(failed)} ended in the same model file, byte for byte, as a run that nobody "
        f"disturbed, with the same history and nothing left beside it; {len(failed)} did not.**",
        "",
    ]

    def rows(key: str) -> list[list[Any]]:
        found = []
        for name in dict.fromkeys(each[key] for each in records):
            own = [each for each in records if each[key] == name]
            ended = Counter(each["ended"] for each in own)
            lost = [each["lost"] for each in own if each["lost"] is not None]
            ways = [ended[how] for how in ("resumed", "begun again", "whole already")]
            bad = sum(each["error"] is not None for each in own)
            found.append([name, len(own), *ways, max(lost) if lost else "-", bad])
        return sorted(found, key=lambda row: -row[1])

    head = ["faults", "resumed", "begun again", "whole already", "most rounds lost", "failed"]
    lines += [*table(["fault", *head], rows("kind")), "", *table(["what ran", *head], rows("case")), ""]
    lines += [
        "Rounds lost are counted where a checkpoint was asked for after every round: those that were trained and are "
        "not in it. *Begun again* are runs that were ended before their first checkpoint (by default the first comes after "
        "five seconds), folders that were removed, and searches, whose trials are in their study."
    ]
    return lines + [f"- failed: {each['kind']}, {each['case']}: {each['error']}" for each in failed]


def run_all() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=200, help="how many faults")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--dry", action="store_true", help="write no page")
    options = parser.parse_args()
    torch.set_num_threads(1)  # threads would not be there in a fork
    started = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        records = break_runs(options.n, options.seed, options.cases, Path(folder))
    lines = describe(records, options.seed, time.monotonic() - started)
    if options.dry:
        print("\n".join(lines))
    else:
        publish("faults", "Runs that are broken on purpose", lines, records)
    n_failed = sum(each["error"] is not None for each in records)
    print(f"{len(records)} faults, {n_failed} failures")
    return 1 if n_failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        torch.set_num_threads(1)
        sys.exit(run_watched(Path(sys.argv[2]), tuple(sys.argv[3:])))
    sys.exit(run_all())
