"""Small work on a busy machine: the same fits alone, beside one busy process and beside four.

A busy process multiplies matrices in NumPy on one thread without pause. Torch gets as many threads as the
library chooses: variables such as ``OMP_NUM_THREADS`` are taken out of the environment.

- a default fit on Cora, with validation nodes;
- a round of Adj + SAMME with 64 units and 100 epochs on PubMed, set-up included (a fit of 5 rounds, by 5);
- ``GridSearchCV(n_jobs=2)`` over four settings on Cora, two folds, its processes already started.

Medians. ``--base REV`` measures another commit in the same turns.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from common import publish, table
from sides import add_base, alternating, describe, trees, workers

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
BUSY = """
import os
import numpy as np
parent = os.getppid()
A = np.random.default_rng(0).standard_normal((400, 400))
print("busy", flush=True)
while os.getppid() == parent:
    A @ A
"""
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "default fit, Cora": ("default_fit", {"name": "cora", "seed": 0}),
    "round, PubMed": ("samme_round", {"name": "pubmed", "seed": 0}),
    "`GridSearchCV(n_jobs=2)`, Cora": ("grid_search", {"name": "cora"}),
}


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    add_base(parser, None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--beside", type=int, nargs="+", default=[0, 1, 4], help="numbers of busy processes")
    parser.add_argument(
        "--search-beside", type=int, nargs="*", default=[0], help="the same, for GridSearchCV"
    )
    options = parser.parse_args()
    about: dict[str, Any] = {}
    data: list[dict[str, Any]] = []
    with trees(options.base) as sides:
        for label, (task, settings) in TASKS.items():
            with workers(sides, THREADS) as at:
                about |= {side: worker.about for side, worker in at.items()}
                for worker in at.values():
                    worker(task, **settings)  # not counted
                for n_busy in options.search_beside if task == "grid_search" else options.beside:
                    seconds: dict[str, list[float]] = {side: [] for side in sides}
                    with busy(n_busy):
                        for repeat in range(options.repeats):
                            for side in alternating(list(sides), repeat):
                                seconds[side].append(at[side](task, **settings)["seconds"])
                    data.append({"what": label, "busy": n_busy, "seconds": seconds})
                    print(data[-1], file=sys.stderr, flush=True)
        head = describe(options, list(sides), about)
    lines = [head, f"Medians of {options.repeats}, on a machine with {os.cpu_count()} cores.", ""]
    lines += table(["what", "beside", *_header(list(sides))], [_row(entry) for entry in data])
    publish("load", "Small work on a busy machine", lines, {"about": about, "measured": data})


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep so many single-threaded processes busy."""
    one = {**os.environ, **dict.fromkeys(THREADS[:3], "1")}
    command = [sys.executable, "-c", BUSY]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            started.append(subprocess.Popen(command, env=one, stdout=subprocess.PIPE))
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        time.sleep(0.2 * bool(count))
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def _header(sides: list[str]) -> list[str]:
    return [*(f"{side}, s" for side in sides), *(["base / new"] if len(sides) == 2 else [])]


def _row(entry: dict[str, Any]) -> list[str]:
    medians = {side: statistics.median(seconds) for side, seconds in entry["seconds"].items()}
    ratio = [f"{medians['base'] / medians['new']:.1f} x"] if len(medians) == 2 else []
    beside = {0: "nothing", 1: "1 busy process"}.get(entry["busy"], f"{entry['busy']} busy processes")
    return [entry["what"], beside, *(f"{value:.2f}" for value in medians.values()), *ratio]


if __name__ == "__main__":
    main()
