"""Two source trees measured side by side: this checkout and another commit, each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]
WORKER = Path(__file__).with_name("_worker.py")
BASE = "b73df73"
"""The commit before the new foundations."""


class Worker:
    """A process that measures one tree; it waits without work between two tasks.

    Parameters
    ----------
    tree
        Folder with ``src/gbgnn``.
    unset
        Environment variables that the process must not see.
    extra
        Environment variables that it gets besides those of this process.
    """

    def __init__(self, tree: Path, unset: Sequence[str] = (), extra: Mapping[str, str] | None = None) -> None:
        environment = {key: value for key, value in os.environ.items() if key not in unset}
        environment |= {**(extra or {}), "PYTHONPATH": str(tree / "src")}
        # Away from both trees, so that the folder the process starts in cannot hold a gbgnn.
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(WORKER), str(tree)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=tempfile.gettempdir(),
        )
        self.about = self._answer()

    def __call__(self, task: str, **settings: Any) -> dict[str, Any]:
        """Return what the process measured."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"task": task, **settings}) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended with status {self.process.wait()}; its message is above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()  # it then ends by itself, and so do the processes that it started
            self.process.wait(timeout=0 if any(error) else 30)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


@contextmanager
def workers(trees: Mapping[str, Path], unset: Sequence[str] = ()) -> Iterator[dict[str, Worker]]:
    """Start a worker for every tree and end them all."""
    started: dict[str, Worker] = {}
    try:
        for side, tree in trees.items():
            started[side] = Worker(tree, unset)
        yield started
    finally:
        for worker in started.values():
            worker.__exit__()


@contextmanager
def tree_of(base: str) -> Iterator[Path]:
    """Give the source of a commit in a temporary folder, or a folder that already holds one."""
    if (Path(base) / "src" / "gbgnn").is_dir():
        yield Path(base).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="gbgnn-base-") as folder:
        tree = Path(folder) / "tree"
        try:
            _git("worktree", "add", "--quiet", "--detach", str(tree), base)
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree), check=False)


@contextmanager
def trees(base: str | None, only: str | None = None) -> Iterator[dict[str, Path]]:
    """Give the trees to measure by side: ``base`` and ``new``, or one of them."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all that was started is ended
    if base is None or only == "new":
        yield {"new": ROOT}
        return
    with tree_of(base) as tree:
        yield {"base": tree} if only == "base" else {"base": tree, "new": ROOT}


def names(base: str, sides: Sequence[str]) -> dict[str, str]:
    """Return what each side is: its commit, and whether files differ from it."""
    commit = _git("rev-parse", "--short", "HEAD", check=False) or "this checkout"
    dirty = _git("status", "--porcelain", "--", "src", check=False)
    both = {"base": base, "new": commit + (" with changes in src" if dirty else "")}
    return {side: both[side] for side in sides}


def alternating(sides: Sequence[str], repeat: int) -> list[str]:
    """Return the sides in the order of this repeat: neither is always first."""
    return list(sides) if repeat % 2 == 0 else list(reversed(sides))


def times(values: Mapping[str, Sequence[float]], form: str = "{:.3f}") -> list[str]:
    """Return the cells of a comparison: fastest and median of every side, then base / new of both."""
    cells = []
    for measure in (min, statistics.median):
        found = {side: measure(seconds) for side, seconds in values.items()}
        cells += [form.format(found[side]) for side in found]
        if {"base", "new"} <= set(found):
            cells.append(f"{found['base'] / found['new']:.2f} x")
    return cells


def times_header(sides: Sequence[str]) -> list[str]:
    """Return the header of the cells of :func:`times`."""
    ratio = ["base / new"] if {"base", "new"} <= set(sides) else []
    return [*(f"{side}, s" for side in sides), *ratio, *(f"{side}, median" for side in sides), *ratio]


def add_base(parser: ArgumentParser, default: str | None) -> None:
    """Let a script be told what to compare with."""
    text = "a commit, or a folder with src/gbgnn where there is no git"
    parser.add_argument("--base", default=default, metavar="REV", help=text)


def describe(options: Namespace, sides: Sequence[str], about: Mapping[str, Any]) -> str:
    """Return a sentence that says what the sides are."""
    what = "; ".join(f"{side} is {name}" for side, name in names(options.base or "", sides).items())
    threads = ", ".join(f"{about[side]['torch_threads']} ({side})" for side in about)
    return f"{what}. Torch threads when a process starts: {threads}."


def _git(*words: str, check: bool = True) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *words], stdout=subprocess.PIPE, text=True, check=check
        )
    except FileNotFoundError:
        if check:
            raise
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
