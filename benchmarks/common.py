"""What every benchmark shares: the machine's name, and a place for results."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
import torch
from joblib import Parallel, delayed

import gbgnn

RESULTS = Path(__file__).parent / "results"
PLANETOID = ("cora", "citeseer", "pubmed")


def machine() -> dict[str, Any]:
    """Describe the machine and the versions that produced a result."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "date": date.today().isoformat(),
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "gpu": device,
        "python": platform.python_version(),
        "gbgnn": gbgnn.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def this_command() -> str:
    """Return the command that this process was started with; of a file of some machine, the name alone."""
    given = [Path(each).name if Path(each).is_absolute() else each for each in sys.argv[1:]]
    script = Path(sys.argv[0]).resolve().relative_to(RESULTS.parent.resolve())
    return shlex.join(["python", f"benchmarks/{script.as_posix()}", *given])


def describe_machine(about: Mapping[str, Any]) -> str:
    """Return date, machine and versions, as :func:`machine` has them, in words."""
    where = f"{about['cpu']}, {about['cores']} cores, {about['torch_threads']} torch threads"
    where += f", {about['gpu']}" if about["gpu"] else ""
    versions = ", ".join(f"{key} {about[key]}" for key in ("python", "gbgnn", "torch", "scikit-learn"))
    return f"{about['date']}; {where}; {versions}"


def publish(name: str, title: str, lines: Sequence[str], data: Any) -> None:
    """Write ``results/NAME.md`` for people and ``results/NAME.json`` for programs, and print the former."""
    about, command = machine(), this_command()
    head = [f"# {title}", "", f"`{command}`, {describe_machine(about)}.", ""]
    text = "\n".join([*head, *lines, ""])
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text)
    (RESULTS / f"{name}.json").write_text(
        json.dumps({"machine": about, "command": command, "data": data}, indent=1) + "\n"
    )
    print(text)


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Return a Markdown table."""
    cells = [[str(cell) for cell in row] for row in [header, ["---"] * len(header), *rows]]
    return ["| " + " | ".join(row) + " |" for row in cells]


class Runner:
    """Runs what the cache does not know, in parallel processes, and remembers it.

    Parameters
    ----------
    run
        Called with the items of a task, which JSON can write; so must its result be.
    cache
        A file with a line per finished task.
    jobs
        Processes.
    """

    def __init__(self, run: Callable[..., Any], cache: Path, jobs: int) -> None:
        self.run, self.cache, self.jobs = run, cache, jobs
        self.known: dict[str, Any] = _read_cache(cache) if cache.exists() else {}

    def merge(self, other: Path) -> None:
        """Remember what another cache knows, such as one that was filled on another machine."""
        self._remember((key, result) for key, result in _read_cache(other).items() if key not in self.known)

    def forget(self, is_stale: Callable[[list[Any]], bool]) -> None:
        """Run tasks again although their results are there; a newer line of the cache stands for an older."""
        self.known = {key: known for key, known in self.known.items() if not is_stale(json.loads(key))}

    def find(self, task: tuple[Any, ...]) -> Any:
        """Return the result of a task that is known, else None."""
        return self.known.get(json.dumps(task))

    def __call__(self, tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the result of every task, each remembered as soon as it is there."""
        keys = [json.dumps(task) for task in tasks]
        todo = {key: task for key, task in zip(keys, tasks, strict=True) if key not in self.known}
        parallel = Parallel(self.jobs, return_as="generator_unordered")
        self._remember(parallel(delayed(_run_with_key)(self.run, key, task) for key, task in todo.items()))
        return [self.known[key] for key in keys]

    def _remember(self, results: Iterable[tuple[str, Any]]) -> None:
        with self.cache.open("a") as file:
            for key, result in results:
                self.known[key] = result
                file.write(json.dumps([key, result]) + "\n")
                file.flush()


def _run_with_key(run: Callable[..., Any], key: str, task: tuple[Any, ...]) -> tuple[str, Any]:
    return key, run(*task)


def _read_cache(cache: Path) -> dict[str, Any]:
    return dict(map(json.loads, cache.read_text().splitlines()))


def resident_bytes(*, peak: bool = False) -> int:
    """Return the memory that this process holds, or the most since :func:`reset_peak_memory` (Linux)."""
    field = "VmHWM" if peak else "VmRSS"
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])


def reset_peak_memory() -> None:
    """Let the peak of this process start anew (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
