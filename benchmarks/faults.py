"""Runs that are broken on purpose: signals, full disks, lost folders, two writers; then gone on with.

Every fault meets a process of its own that runs ``gbgnn fit`` or ``gbgnn tune``, at a random moment. What the
message says is done then, and the model must be the same file, byte for byte, as that of a run that nobody
disturbed; so must the history but for seconds and memory, and nothing else may lie around. Most processes are
forked from this one, which has everything imported, so that nearly all of their time is a run; the others
begin with the interpreter. Needs Linux; without the rights to mount a tmpfs, a limit on file sizes stands for
a full disk.
"""

from __future__ import annotations

import argparse
import math
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
from contextlib import contextmanager, redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from _faults import TOO_EARLY, Case, Place, PromiseError, Trial, run_watched
from common import publish, table

from gbgnn.runs import CONFIG

GRAPH = ("csbm", "--data-option", "n_nodes=60", "--data-option", "per_class=6", "--seed", "0", "-q")
MLP = ("--epochs", "20", "--units", "8")
CASES = {
    "gradient": ("fit", *GRAPH, *MLP, "--rounds", "50"),
    "samme": ("fit", *GRAPH, *MLP, "--rounds", "120", "--rule", "samme", "--aggregation", "injection"),
    "samme_r, kta": ("fit", *GRAPH, *MLP, "--rounds", "30", "--rule", "samme_r", "--aggregation", "kta"),
    "double precision": ("fit", *GRAPH, *MLP, "--rounds", "40", "--dtype", "float64", "--batch-size", "4"),
    "learned mixing": ("fit", *GRAPH, *MLP, "--rounds", "25", "--aggregation", "nonlinear"),
    "wide": ("fit", *GRAPH, "--learner", "wide", "--units", "2000", "--rounds", "6"),
    "lightgbm": ("fit", *GRAPH, "--learner", "trees", "--library", "lightgbm", "--rounds", "12"),
    "sklearn's trees": (
        "fit",
        *GRAPH,
        "--learner",
        "trees",
        "--library",
        "sklearn",
        "--n-trees",
        "20",
        "--rounds",
        "4",
    ),
    "graph network": ("fit", *GRAPH, "--learner", "graph_network", "--epochs", "15", "--rounds", "4"),
    "consistent": ("fit", *GRAPH, "--learner", "consistent", "--epochs", "60", "--rounds", "3"),
    "fine-tuned": (
        *("fit", *GRAPH, *MLP, "--rounds", "25", "--aggregation", "kta", "--fine-tune"),
        *("--fine-tune-epochs", "80", "--keep", "tuned"),
    ),
    "fine-tuned, samme": (
        *("fit", *GRAPH, *MLP, "--rounds", "60", "--rule", "samme", "--fine-tune"),
        *("--fine-tune-epochs", "80", "--fine-tune-batch-size", "4", "--keep", "tuned"),
    ),
    "best of several": ("fit", *GRAPH, "--learner", "best_of", "--rounds", "2"),
    "search": ("tune", *GRAPH, "--trials", "5", "--rounds", "8", "--storage", "../study.log"),
    "search, fine-tuned": (
        *("tune", *GRAPH, "--trials", "3", "--rounds", "8", "--fine-tune"),
        *("--fine-tune-epochs", "20", "--storage", "../study.log"),
    ),
}

IMPORTED = (
    *("gbgnn.search", "gbgnn.presets", "sklearn.metrics", "safetensors.torch", "skops.io", "lightgbm"),
    *("rich.table", "rich.progress", "tomli_w", "filelock", "optuna", "tqdm"),
)
"""What some runs import on the way, beside what a plain one does."""

Strike = Callable[[Trial], bool]
"""Breaks a run and waits for its end; says whether the fault came in time."""


def by_signal(signum: int) -> Strike:
    """Send a signal at a random moment; SIGKILL may lose the round in hand, the others none."""

    def strike(trial: Trial) -> bool:
        trial.begin()
        if not trial.sleep(in_folder=trial.anew or trial.dice.random() < 0.9):
            return False
        trial.process.send(signum)
        code = trial.process.wait()
        if code in (0, TOO_EARLY):
            return False
        expected = -signum if signum == signal.SIGKILL or code < 0 else 128 + signum
        if code != expected:
            raise PromiseError(f"exit code {code}: {trial.process.told}")
        if not trial.place.is_search and "--checkpoint-every" in trial.words:
            trial.check_kept(1 if signum == signal.SIGKILL else 0)
        return True

    return strike


def fill_disk(trial: Trial) -> bool:
    """Run on a disk with room for some of the files."""
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
            raise PromiseError(f"exit code {code}: {trial.process.told}")
        is_hit = any(word in trial.process.told for word in ("No space left", "File too large"))
        if code and not is_hit:
            raise PromiseError(f"another error: {trial.process.told}")
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
    """Take the permissions to write away in the middle."""
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
        raise PromiseError(f"exit code {code}: {trial.process.told}")
    return code == 1


def remove_folder(trial: Trial) -> bool:
    """Remove the unfinished run in the middle."""
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
        raise PromiseError(f"exit code {code}: {trial.process.told}")
    return True


def fill_place(trial: Trial) -> bool:
    """Make a folder where the run is to be, with somebody's thesis in it."""
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
        raise PromiseError(f"exit code {code}: {trial.process.told}")
    own.unlink()
    own.parent.rmdir()
    return True


def write_twice(trial: Trial) -> bool:
    """Let a second process want the same run: it is told, and the first is not disturbed."""
    trial.begin()
    if not trial.sleep():
        return False
    ways = [(*trial.words, "--out", "r"), (*trial.words, "--out", "r", "--force"), ("fit", "--resume", "r")]
    second = trial.place.start(*trial.dice.choice(ways))
    code = second.wait()
    if trial.process.wait():
        raise PromiseError(f"the first writer was disturbed: {trial.process.told}")
    told = ("is being written by process", "exists; choose", "is finished", "there is no run")
    if code == 0 and "--force" in second.words:  # it came after the first had ended
        return False
    if code != 1 or not any(word in second.told for word in told):
        raise PromiseError(f"exit code {code} of the second writer: {second.told}")
    return "is being written by" in second.told


def resume_twice(trial: Trial) -> bool:
    """Let two processes at once go on with a run that was killed."""
    if trial.place.is_search or not by_signal(signal.SIGKILL)(trial):
        return False
    if not (trial.place.partial / CONFIG).exists():
        return False
    both = [trial.place.start("fit", "--resume", "r") for _ in range(2)]
    codes = sorted(process.wait() for process in both)
    if codes[0] != 0 or codes[1] not in (0, 1):
        raise PromiseError(f"exit codes {codes}: {[process.told for process in both]}")
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


def break_runs(
    n: int, seed: int, names: list[str], folder: Path, deadline: float = math.inf
) -> list[dict[str, Any]]:
    """Return a record of every fault that came in time, and before the deadline."""
    dice, cases = random.Random(seed), {name: Case(name, CASES[name], folder / name) for name in names}
    kinds, records = plan(n), []
    dice.shuffle(kinds)
    waiting = [(kind, names[i % len(names)]) for i, kind in enumerate(kinds)]
    n_tried = 0
    while waiting and time.monotonic() < deadline:
        (kind, name), n_tried = waiting.pop(0), n_tried + 1
        if n_tried > 12 * n:
            raise PromiseError(f"too many faults came too late, such as {kind} in {name}")
        case = cases[name]
        words = case.whole.words
        every = ("--checkpoint-every", "1") if words[0] == "fit" and dice.random() < 0.6 else ()
        place = Place(folder / f"{n_tried}", words)
        trial = Trial(case, place, dice, (*words, *every), anew=dice.random() < 0.06)
        record = {
            "kind": kind,
            "case": name,
            "checkpoint": "every round" if every else "by time",
            "error": None,
        }
        try:
            if not FAULTS[kind][0](trial):  # it came too late, or too early; another moment, another run
                waiting.append((kind, dice.choice(names)))
                shutil.rmtree(place.root)
                continue
            trial.go_on()
            if kind != "full disk":
                case.compare(place)
        except PromiseError as error:
            record["error"] = str(error)
            print(f"FAILED: {kind}, {name}: {error}", file=sys.stderr)
        shutil.rmtree(place.root, ignore_errors=record["error"] is None)
        ways = trial.outcome.ways
        how = "resumed" if "resumed" in ways else "begun again" if ways else "whole already"
        records.append({**record, "ended": how, "lost": trial.outcome.lost, "anew": trial.anew})
        if len(records) % 10 == 0:
            print(f"{len(records)} of {n}", file=sys.stderr, flush=True)
    return records


def describe(records: list[dict[str, Any]], n: int, seed: int, seconds: float) -> list[str]:
    """Return the page."""
    failed = [each for each in records if each["error"]]
    n_new = sum(each["anew"] for each in records)
    short = "" if len(records) == n else f" of {n} that were planned, the others for want of time,"
    lines = [
        f"**{len(records)} faults**{short} at random moments (seed {seed}) of real processes, "
        f"{n_new} of them new interpreters and the others forks that have everything imported, "
        f"in {seconds / 60:.0f} minutes. "
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
        "Rounds lost are those that were trained and are not in the checkpoint, where one was asked for "
        "after every round. *Begun again*: ended before the first checkpoint, which by default comes after "
        "five seconds; folders that were removed; and searches, whose trials are in their study."
    ]
    return lines + [f"- failed: {each['kind']}, {each['case']}: {each['error']}" for each in failed]


def warm_up() -> None:
    """Import what a run imports on the way, so that forks need not."""
    for each in IMPORTED:
        with suppress(ImportError):
            import_module(each)
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        words = (*CASES["gradient"], "--rounds", "1", "--out", str(Path(folder, "r")))
        run_watched(Path(folder, "log"), words)


def run_all() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=200, help="how many faults")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no fault after so many")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--dry", action="store_true", help="write no page")
    options = parser.parse_args()
    torch.set_num_threads(1)  # threads would not be there in a fork
    warm_up()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        records = break_runs(
            options.n, options.seed, options.cases, Path(folder), started + 60 * options.minutes
        )
    lines = describe(records, options.n, options.seed, time.monotonic() - started)
    if options.dry:
        print("\n".join(lines))
    else:
        publish("faults", "Runs that are broken on purpose", lines, records)
    n_failed = sum(each["error"] is not None for each in records)
    print(f"{len(records)} faults, {n_failed} failures")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(run_all())
