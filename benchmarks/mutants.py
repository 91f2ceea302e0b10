"""Small wrong changes to the theory, the guarantees and the rules, each to be noticed by a fast test.

A mutant is a module with one change: another operator, another constant, a minimum for a maximum, a root left
out; or one of those planted by hand, each a bound too small by a slip that somebody could make. The tests of
the module run on it in a process of their own. A mutant that no test fails on has survived: either the change
means nothing, which ``mutants.toml`` beside this file explains, or a test is missing.

``python benchmarks/mutants.py`` tries the planted ones and a sample from every module, ``--all`` all.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.abc
import importlib.util
import json
import multiprocessing
import os
import random
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from common import RESULTS, publish, table

ROOT = Path(__file__).parent.parent
NOTES = Path(__file__).with_suffix(".toml")
KNOWN = RESULTS / "mutants.jsonl"
"""Outcomes of earlier runs: what has not changed, and whose tests have not, is not tried again."""
LONGEST = 900.0
"""Seconds after which a mutant is taken for one that never ends, which is noticed too."""

MODULES = {
    "theory/weak_learning": ["theory/test_weak_learning"],
    "theory/certificate": ["theory/test_training_bound", "theory/test_certificate"],
    "theory/holdout": ["theory/test_holdout"],
    "theory/draws": ["theory/test_draws"],
    "theory/rademacher": ["theory/test_rademacher"],
    "theory/monte_carlo": ["theory/test_monte_carlo"],
    "theory/generalisation": ["theory/test_generalisation", "theory/test_depth"],
    "theory/kernels": ["theory/test_kernels"],
    "guarantees/complexities": ["guarantees/test_generalisation"],
    "guarantees/generalisation": ["guarantees/test_generalisation"],
    "guarantees/holdout": ["guarantees/test_holdout"],
    "guarantees/clusters": ["guarantees/test_clusters"],
    "boosting/rules": ["boosting/test_rules", "boosting/test_samme", "boosting/test_functional_gradient"],
    "boosting/samme": ["boosting/test_samme", "boosting/test_history"],
    "boosting/functional_gradient": ["boosting/test_functional_gradient"],
}
"""Modules of the library, and the tests that are to notice what is wrong with them."""

FAST = "not over_random and not as_it_was_fitted"
"""Tests that fit many models are left out: what is wrong is to be noticed in seconds."""

_BINARY = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Add,
}
_COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
_SWAPPED = {"min": "max", "max": "min", "amax": "amin", "maximum": "minimum", "ceil": "floor", "any": "all"}
_LEFT_OUT = ("sqrt", "abs", "log", "log1p", "square")


@dataclass(frozen=True)
class Mutant:
    """A module with one change."""

    module: str
    line: int
    was: str
    now: str
    source: str
    within: str = ""
    """The line of the module, without the change."""
    is_planted: bool = False

    @property
    def checksum(self) -> str:
        """Of its source and of its tests: by these its outcome is known again."""
        tests = (ROOT / "tests" / f"{test}.py" for test in MODULES[self.module])
        texts = [self.source, *(test.read_text() for test in tests)]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]

    @property
    def key(self) -> str:
        """What it is called in ``mutants.toml``, whatever the number of its line."""
        return f"{self.module}: {self.was} -> {self.now} in {self.within}"


def find_mutants(module: str) -> Iterator[Mutant]:
    """Yield every mutant of a module."""
    text = path_of(module).read_text()
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, other in _changes(ast.parse(text)):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        raw, now = text.encode(), ast.unparse(other)
        source = (raw[:begin] + f"({now})".encode() + raw[end:]).decode()
        within = text.splitlines()[node.lineno - 1].strip()
        yield Mutant(module, node.lineno, ast.unparse(node), now, source, within)


def _changes(tree: ast.AST) -> Iterator[tuple[Any, ast.AST]]:
    """Yield expressions and what they are changed to; messages, annotations and imports are left alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.AnnAssign):
            yield from _changes(ast.Module([ast.Expr(node.value)] if node.value else [], []))
            continue
        if isinstance(node, ast.arguments):
            for default in [*node.defaults, *filter(None, node.kw_defaults)]:
                yield from _changes(ast.Expr(default))
            continue
        if isinstance(node, ast.FunctionDef):
            yield from _changes(node.args)
            yield from _changes(ast.Module(node.body, []))
            continue
        yield from ((node, other) for other in _others(node))
        yield from _changes(node)


def _others(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what an expression could be by mistake."""
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY and not _is_text(node):
        yield ast.BinOp(node.left, _BINARY[type(node.op)](), node.right)
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        yield ast.Compare(node.left, [_COMPARED[type(node.ops[0])](), *node.ops[1:]], node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        value = node.value
        yield ast.Constant(not value if isinstance(value, bool) else _other_number(value))
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _SWAPPED:
            other: ast.expr = ast.Name(_SWAPPED[name], ast.Load())
            if isinstance(node.func, ast.Attribute):
                other = ast.Attribute(node.func.value, _SWAPPED[name], ast.Load())
            yield ast.Call(other, node.args, node.keywords)
        elif name in _LEFT_OUT:
            yield node.args[0] if node.args else node.func.value  # type: ignore[attr-defined]


def _other_number(value: float) -> float:
    return value + 1 if value in (0, 1) else 2 * value


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(part, (ast.JoinedStr, ast.List)) for part in (node.left, node.right))


def read_planted(notes: dict[str, Any]) -> Iterator[Mutant]:
    """Yield the mutants that were planted by hand."""
    for each in notes["planted"]:
        text = path_of(each["module"]).read_text()
        if text.count(each["was"]) != 1:
            sys.exit(
                f"{each['module']} has {each['was']!r} {text.count(each['was'])} times; mend mutants.toml."
            )
        line = 1 + text[: text.index(each["was"])].count("\n")
        source = text.replace(each["was"], each["now"])
        yield Mutant(each["module"], line, each["slip"], "planted", source, is_planted=True)


def path_of(module: str) -> Path:
    """Return the file of a module."""
    return ROOT / "src" / "gbgnn" / f"{module}.py"


class Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Imports a mutant in the place of its module."""

    def __init__(self, mutant: Mutant) -> None:
        self.name, self.mutant = "gbgnn." + mutant.module.replace("/", "."), mutant

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return a spec for the module that is changed."""
        return importlib.util.spec_from_loader(name, self) if name == self.name else None

    def get_filename(self, name: str) -> str:
        """Return where its source would be."""
        return str(path_of(self.mutant.module))

    def get_data(self, path: Any) -> bytes:
        """Return the changed source."""
        return self.mutant.source.encode()


def run_tests(tests: Sequence[str], mutant: Mutant | None) -> None:
    """End this process with the exit code of the tests."""
    import pytest

    if mutant is not None:
        sys.meta_path.insert(0, Changed(mutant))
    sys.dont_write_bytecode = True
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
        options = ("-x", "-q", "-k", FAST, "--no-cov", "-p", "no:cacheprovider", f"--rootdir={ROOT}")
        os._exit(int(pytest.main([*options, *(str(ROOT / "tests" / f"{test}.py") for test in tests)])))


def outcome(mutant: Mutant | None, tests: Sequence[str]) -> str:
    """Return ``"survived"``, ``"killed"`` or ``"endless"``."""
    process = multiprocessing.get_context("fork").Process(target=run_tests, args=(tests, mutant))
    process.start()
    process.join(LONGEST)
    if process.is_alive():
        process.kill()
        process.join()
        return "endless"
    return "survived" if process.exitcode == 0 else "killed"


def choose(per_module: int | None, seed: int, only: Sequence[str]) -> list[Mutant]:
    """Return all mutants of every module, or a sample: one of each module, then another of each."""
    samples = []
    for module in only:
        found = sorted(find_mutants(module), key=lambda each: (each.line, each.key))
        n = len(found) if per_module is None else min(per_module, len(found))
        samples.append(random.Random(f"{seed} {module}").sample(found, n))
    return [mutant for turn in zip_longest(*samples) for mutant in turn if mutant is not None]


def report(found: list[tuple[Mutant, str]], n_known: dict[str, int], notes: dict[str, Any]) -> None:
    """Write the page."""
    explained = notes["equivalent"]
    rows, listed = [], []
    for module in n_known:
        own = [(mutant, end) for mutant, end in found if mutant.module == module]
        ends = [end for _, end in own]
        survived = [mutant for mutant, end in own if end == "survived"]
        listed += survived
        known = sum(mutant.key in explained for mutant in survived)
        rows.append(
            [
                module,
                n_known[module],
                len(own),
                len(own) - ends.count("survived"),
                known,
                len(survived) - known,
            ]
        )
    totals = [sum(row[i] for row in rows) for i in range(1, 6)]
    planted = [(mutant, end) for mutant, end in found if mutant.is_planted]
    head = (
        "module",
        "possible",
        "tried",
        "noticed",
        "survived, means nothing",
        "survived, a test is missing",
    )
    lines = [
        *table(head, [*rows, ["all", *totals]]),
        "",
        "Samples are the same every time (--seed); what is known is not tried again. Planted by hand:",
        "",
        *table(("module", "slip", "outcome"), [[m.module, m.was, end] for m, end in planted]),
        "",
        "Survivors:",
        "",
        *table(
            ("module", "line", "was", "became", "why no test can tell"),
            [
                [m.module, m.line, f"`{m.was}`", f"`{m.now}`", explained.get(m.key, "**a test is missing**")]
                for m in listed
            ],
        ),
    ]
    data = [
        {"module": m.module, "line": m.line, "was": m.was, "now": m.now, "outcome": end} for m, end in found
    ]
    publish("mutants", "Mutants of the theory, the guarantees and the rules", lines, data)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="every mutant, not a sample")
    parser.add_argument("--per-module", type=int, default=8, help="size of the sample")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--minutes", type=float, default=60.0, help="no more are begun afterwards")
    parser.add_argument("--trust", action="store_true", help="do not run the tests without a change first")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--only", nargs="*", choices=MODULES, default=list(MODULES), help="these modules; no page"
    )
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "CI": "1"}
    # What every process needs is imported once, the library in each.
    import scipy.stats  # noqa: F401
    import sklearn.ensemble  # noqa: F401
    import torch  # noqa: F401

    for name in [name for name in sys.modules if name.partition(".")[0] == "gbgnn"]:
        del sys.modules[name]
    notes, started = tomllib.loads(NOTES.read_text()), time.perf_counter()
    sampled = choose(None if options.all else options.per_module, options.seed, options.only)
    mutants = [each for each in read_planted(notes) if each.module in options.only] + sampled
    deadline = started + 60 * options.minutes

    known = dict(map(json.loads, KNOWN.read_text().splitlines())) if KNOWN.exists() else {}

    def attempt(mutant: Mutant) -> str:
        key = mutant.checksum
        if key in known:
            return known[key]
        if time.perf_counter() > deadline:
            return "left"
        known[key] = end = outcome(mutant, MODULES[mutant.module])
        with KNOWN.open("a") as file:
            file.write(json.dumps([key, end]) + "\n")
        return end

    with ThreadPoolExecutor(options.jobs) as pool:
        if not options.trust:
            plain = pool.map(partial(outcome, None), (MODULES[module] for module in options.only))
            for module, end in zip(options.only, plain, strict=True):
                if end != "survived":
                    sys.exit(f"the tests of {module} fail without any change: {MODULES[module]}.")
        ends = []
        for mutant, end in zip(mutants, pool.map(attempt, mutants), strict=True):
            if end != "left":
                ends.append((mutant, end))
                print(f"{end:<9}{mutant.module}:{mutant.line} {mutant.was} -> {mutant.now}", flush=True)
    if options.only == list(MODULES):
        n_known = {module: sum(1 for _ in find_mutants(module)) for module in MODULES}
        report(ends, n_known, notes)
    missing = [m for m, end in ends if end == "survived" and m.key not in notes["equivalent"]]
    if missing:
        sys.exit(f"{len(missing)} mutants survived that mutants.toml does not explain.")


if __name__ == "__main__":
    main()
