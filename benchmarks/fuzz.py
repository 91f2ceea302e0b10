"""Attack every reader, the model file, config, search spaces and the command line with hostile inputs.

``make fuzz``, or ``python benchmarks/fuzz.py [--cases 20000] [--seed 0] [--only NAME] [--case NAME NUMBER]``.
Cases run in a child process with limits of memory and time; it is replaced when it dies. A case ends well
when it is refused by an error of gbgnn's own, or accepted and in order. All else is a finding: a foreign
exception, a hang, a crash, memory that blows up, or something wrong that was accepted.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import select
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from common import publish, table
from fuzz_targets import TARGETS, Wrong, prepare, seed_of

from gbgnn.errors import GBGNNError

SECONDS = 20.0
"""A case that takes longer hangs."""
MEMORY = 6 << 30
"""So many bytes of addresses more than it began with a child may have; each thread reserves some."""
GROWTH = 512 << 20
"""A case that makes the memory held at once grow by more blows it up."""
GOOD = ("refused", "accepted", "read, not trainable")


class Result(NamedTuple):
    """What came of a case; ``detail`` says where and what."""

    name: str
    number: int
    outcome: str
    detail: str = ""
    seconds: float = 0.0


def run_case(name: str, seed: int, number: int, home: Path) -> Result:
    """Make one case, in a folder of its own, and use it."""
    rng = random.Random(seed_of(name, seed, number))
    folder = home / f"case{number}"
    folder.mkdir(parents=True)
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    outcome, detail = "", ""
    with warnings.catch_warnings(action="ignore"):
        use = TARGETS[name][0](rng, folder)
        try:
            outcome = use()
        except GBGNNError as error:
            outcome, detail = "refused", str(error)[:200]
        except MemoryError as error:
            outcome, detail = "memory", _where(error)
        except Wrong as error:
            outcome, detail = "wrong", _where(error)
        except Exception as error:
            outcome, detail = "foreign", _where(error)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    if grown > GROWTH and outcome in GOOD:
        outcome, detail = "memory", f"{grown >> 20} MiB more ({outcome}: {detail})"
    shutil.rmtree(folder, ignore_errors=True)
    return Result(name, number, outcome, detail, time.perf_counter() - started)


def _where(error: BaseException) -> str:
    """Return the last line of gbgnn's that an exception came through, and the exception."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "gbgnn" in frame.filename and "/benchmarks/" not in frame.filename]
    last = (ours or frames)[-1]
    place = f"{'/'.join(Path(last.filename).parts[-3:])}:{last.lineno}"
    return f"{place} {type(error).__name__}: {str(error)[:150]}".replace("\n", " ")


def _work(name: str, seed: int, numbers: range, home: Path, sender: int) -> None:
    """Run cases in this child, and send what came of each; first the number, then the result."""
    torch.set_num_threads(1)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    os.chdir(home)
    for number in numbers:
        os.write(sender, f"{number}\n".encode())
        try:
            result = run_case(name, seed, number, home)
        except BaseException as error:  # of the fuzzer's own
            result = Result(name, number, "crash", f"no case was made: {_where(error)}")
        detail = result.detail.encode("utf-8", "replace").decode().replace("\n", " ").replace("\t", " ")
        os.write(sender, f"{result.outcome}\t{result.seconds}\t{detail}\n".encode())
    os._exit(0)


def run_target(name: str, seed: int, numbers: range, seconds: float = SECONDS) -> Iterator[Result]:
    """Run cases of a target in children, one after the other, and yield the results."""
    prepare(name)
    while numbers:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as home:
            receiver, sender = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(receiver)
                try:
                    _work(name, seed, numbers, Path(home), sender)
                finally:
                    os._exit(3)
            os.close(sender)
            current, buffer, is_hanging = numbers[0], b"", False
            while True:
                ready, _, _ = select.select([receiver], [], [], seconds)
                if not ready:
                    is_hanging = True
                    os.kill(child, 9)
                    break
                chunk = os.read(receiver, 1 << 16)
                if not chunk:
                    break
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    if b"\t" not in line:
                        current = int(line)
                        continue
                    outcome, taken, detail = line.decode().split("\t", 2)
                    yield Result(name, current, outcome, detail, float(taken))
                    current += 1
            os.close(receiver)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if current < numbers.stop:
            words = f"more than {seconds:g} s" if is_hanging else f"the process ended with {code}"
            yield Result(name, current, "hang" if is_hanging else "crash", words)
        numbers = range(current + 1, numbers.stop)


def count_cases(total: int) -> dict[str, int]:
    """Return how many cases of each target make a run of so many."""
    whole = sum(cases for _, cases in TARGETS.values())
    return {name: max(1, round(cases * total / whole)) for name, (_, cases) in TARGETS.items()}


def main() -> None:
    """Run it all, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only")
    parser.add_argument("--case", nargs=2, metavar=("NAME", "NUMBER"), help="one case, in this process")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.case:
        home = Path(tempfile.mkdtemp(prefix="fuzz-"))
        print(run_case(given.case[0], given.seed, int(given.case[1]), home))
        return
    started, results = time.perf_counter(), []
    for name, cases in count_cases(given.cases).items():
        if given.only not in (None, name):
            continue
        own = list(run_target(name, given.seed, range(cases)))
        results += own
        bad = [each for each in own if each.outcome not in GOOD]
        print(f"{name}: {dict(Counter(each.outcome for each in own))}", flush=True)
        firsts: dict[str, Result] = {}
        for each in bad:
            firsts.setdefault(f"{each.outcome} {each.detail[:90]}", each)
        for each in firsts.values():
            print(f"  {each.outcome} {each.number}: {each.detail[:260]}", flush=True)
    if given.only is None:
        _publish(results, time.perf_counter() - started)
    sys.exit(any(each.outcome not in GOOD for each in results))


def _publish(results: list[Result], seconds: float) -> None:
    outcomes = ("refused", "accepted", "read, not trainable", "foreign", "wrong", "memory", "hang", "crash")
    rows: list[list[Any]] = []
    for name in TARGETS:
        own = [each for each in results if each.name == name]
        counts = Counter(each.outcome for each in own)
        slowest = max((each.seconds for each in own), default=0.0)
        rows.append([name, len(own), *(counts[outcome] for outcome in outcomes), f"{slowest:.1f} s"])
    total = Counter(each.outcome for each in results)
    rows.append(["sum", len(results), *(total[outcome] for outcome in outcomes), ""])
    bad = [each for each in results if each.outcome not in GOOD]
    lines = [
        f"{len(results):,} cases in {seconds:,.0f} s, in children, {SECONDS:g} s a case at most. Refused: an",
        "error of gbgnn's own, or an exit code with one line. Accepted: read, in order, and a tiny fit or",
        f"prediction is finite. The last five columns are findings; memory: more than {GROWTH >> 20} MiB.",
        "",
        *table(["target", "cases", *outcomes, "slowest"], rows),
        "",
        *(f"- {each.name} {each.number}: {each.outcome}, {each.detail}" for each in bad),
    ]
    facts = [each._asdict() for each in bad]
    publish("fuzz", "Hostile inputs", lines, {"counts": rows, "findings": facts})


if __name__ == "__main__":
    main()
