"""Systems beside each other on splits of graphs: runs that can be resumed, places, tables, origins.

A comparison says which figures on which graphs; every run is a line of its cache, so that an interrupted call
goes on, and rows may be made on several machines: there ``--systems residual_gcn --device cuda --cache
gpu.jsonl --no-page``, here ``--merge gpu.jsonl``. No system is given the test labels.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, Runner, describe_machine, machine, publish, table, this_command

from gbgnn import NodeSplit
from gbgnn.datasets import Dataset, load
from gbgnn_lab.experiments.systems import SYSTEMS, find_systems, measure

OURS = "gbgnn"
TREES = ("lightgbm", "lightgbm_1hop", "lightgbm_2hop", "histgb_1hop", "histgb_2hop", "lightgbm_residuals")
NETWORKS = ("residual_gcn", "residual_sage", "residual_gat")
SHARES = {"50/25/25": (0.5, 0.25), "10/10/80": (0.1, 0.1), "60/20/20": (0.6, 0.2)}
"""Of training and of validation nodes, in random splits of these names."""
FALLING = ("log_loss",)
"""Figures of which the lowest is the best."""
N_RUNS = 10


@dataclass(frozen=True)
class Column:
    """A figure of the test nodes, on one kind of split of a graph."""

    graph: str
    split: str
    figure: str
    title: str  # within the table of the graph
    is_ranked: bool = field(default=True, kw_only=True)  # whether systems have a place by it

    @property
    def sign(self) -> int:
        """One where the highest figure is the best, else minus one."""
        return -1 if self.figure in FALLING else 1


def read_graph(graph: str, kind: str, number: int) -> Dataset:
    """Return a graph of GBGNN_DATA in which no earlier run has left anything, with the split of that number.

    Splits of the kind ``public`` come with the data, several of them; of the kind ``own`` there is one, the
    same for every number; others are drawn at random among the nodes whose y is known, by their shares.
    """
    path = Path(os.environ["GBGNN_DATA"]) / "graphs" / f"{graph}.npz"
    if kind not in SHARES:
        return load(str(path), split=number if kind == "public" else None)
    data = load(str(path))
    with np.load(path) as arrays:
        is_filled = arrays["vote_missing"] if "vote_missing" in arrays else np.zeros(len(data.y), bool)
    return data.with_split(draw_split(np.flatnonzero(~is_filled), SHARES[kind], number), f"{kind}, {number}")


def draw_split(known: np.ndarray, shares: tuple[float, float], seed: int) -> NodeSplit:
    """Return random training, validation and test nodes."""
    order = np.random.default_rng(seed).permutation(known)
    ends = np.round(np.cumsum(shares) * len(order)).astype(int)
    return NodeSplit(*np.split(order, ends))


@dataclass(frozen=True)
class Comparison:
    """What is measured, of which systems."""

    name: str  # of the results
    title: str
    columns: Sequence[Column]
    systems: Sequence[str]  # that are run unless others are asked for; those are shown too
    read: Callable[[str, str, int], Dataset] = read_graph  # from graph, kind and number of a split

    @cached_property
    def graphs(self) -> tuple[str, ...]:
        """The graphs by their names."""
        return tuple(dict.fromkeys(column.graph for column in self.columns))

    def kinds(self, graph: str) -> tuple[str, ...]:
        """Return the kinds of splits of a graph."""
        return tuple(dict.fromkeys(column.split for column in self.columns if column.graph == graph))

    def figures(self, graph: str, kind: str) -> tuple[str, ...]:
        """Return what is measured on a kind of split."""
        return tuple(c.figure for c in self.columns if (c.graph, c.split) == (graph, kind))

    def can_run(self, graph: str, system: str) -> bool:
        """Return whether a system is for what a graph has, classes or numbers."""
        has_numbers = any(column.figure == "r2" for column in self.columns if column.graph == graph)
        return SYSTEMS[system].predicts_numbers or not has_numbers

    def run(
        self, graph: str, kind: str, number: int, system: str, *, device: str, command: str
    ) -> dict[str, Any]:
        """Return how good a system is, how long it took, and where; ``number`` is that of split and seed."""
        outcome = measure(SYSTEMS[system], self.read(graph, kind, number), device, number)
        figures = {name: outcome.results[f"test_{name}"] for name in self.figures(graph, kind)}
        words = ("-" if value is None else f"{value:.4f}" for value in figures.values())
        print(graph, kind, number, system, *words, flush=True)
        return {
            **figures,
            "seconds": outcome.results["fit_seconds"],
            "memory": outcome.results["memory"],
            "settings": outcome.settings,
            "device": device,
            "command": command,
            "machine": machine(),
        }

    def tasks(self, graphs: Iterable[str], systems: Sequence[str], n_runs: int) -> list[tuple[Any, ...]]:
        """Return every run that is asked for."""
        return [
            (graph, kind, number, system)
            for graph in graphs
            for system in systems
            if self.can_run(graph, system)
            for kind in self.kinds(graph)
            for number in range(n_runs)
        ]


class Results:
    """The runs that are known, of some graphs."""

    def __init__(self, comparison: Comparison, runner: Runner, graphs: Sequence[str], n_runs: int) -> None:
        self.comparison, self.runner, self.graphs, self.n_runs = comparison, runner, graphs, n_runs
        self.columns = [column for column in comparison.columns if column.graph in graphs]
        others = [system for system in SYSTEMS if system not in comparison.systems]
        self.systems = [*comparison.systems, *(system for system in others if self.has_runs(system))]

    @property
    def ranked(self) -> list[Column]:
        """The columns that systems have a place by."""
        return [column for column in self.columns if column.is_ranked]

    def records(self, graph: str, kind: str, system: str) -> list[dict[str, Any]]:
        """Return the runs of a system on one kind of split."""
        found = (self.runner.find((graph, kind, number, system)) for number in range(self.n_runs))
        return [record for record in found if record is not None]

    def has_runs(self, system: str) -> bool:
        """Return whether a system was run at all."""
        return any(self.records(column.graph, column.split, system) for column in self.columns)

    def values(self, column: Column, system: str) -> list[float]:
        """Return a figure of every run of a system, where it has it."""
        found = (record.get(column.figure) for record in self.records(column.graph, column.split, system))
        return [value for value in found if value is not None]

    def means(self, column: Column) -> dict[str, float]:
        """Return the mean of every system that has all runs, the best first."""
        values = {system: self.values(column, system) for system in self.systems}
        means = {system: float(np.mean(own)) for system, own in values.items() if len(own) == self.n_runs}
        return dict(sorted(means.items(), key=lambda item: -column.sign * item[1]))

    def rank(self, column: Column, system: str) -> int | None:
        """Return the place of a system, 1 for the best; None where runs are missing."""
        means = self.means(column)
        if system not in means:
            return None
        return 1 + sum(column.sign * (other - means[system]) > 0 for other in means.values())

    def mean_rank(self, system: str, graphs: Sequence[str] | None = None) -> float | None:
        """Return the mean of all places, every graph the same; None where one is missing."""
        by_graph = []
        for graph in self.graphs if graphs is None else graphs:
            places = [self.rank(column, system) for column in self.ranked if column.graph == graph]
            if None in places:
                return None
            by_graph.append(np.mean([place for place in places if place]))
        return float(np.mean(by_graph))

    def all_records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the system and the record of every run."""
        for graph in self.graphs:
            for kind in self.comparison.kinds(graph):
                for system in self.systems:
                    yield from ((system, record) for record in self.records(graph, kind, system))


def title_of(system: str) -> str:
    """Return what a system is called in a table."""
    return "gbgnn, default" if system == OURS else SYSTEMS[system].title


def rank_table(results: Results, means: dict[str, Sequence[str]] | None = None) -> list[str]:
    """Return the places, systems with the best mean first; ``means`` has graphs by the name of their mean."""
    means = {"mean rank": results.graphs} if means is None else means
    known = dict.fromkeys(system for system, _ in results.all_records())

    def key(system: str) -> list[tuple[bool, float]]:
        ranks = [results.mean_rank(system, graphs) for graphs in means.values()]
        return [(rank is None, rank or 0.0) for rank in ranks]

    header = ["system", *(f"{column.graph}, {column.title}" for column in results.ranked), *means]
    rows = []
    for system in sorted(known, key=key):
        places = [results.rank(column, system) or "-" for column in results.ranked]
        ranks = [results.mean_rank(system, graphs) for graphs in means.values()]
        rows.append([title_of(system), *places, *("-" if rank is None else f"{rank:.2f}" for rank in ranks)])
    return table(header, rows)


def graph_table(results: Results, graph: str) -> list[str]:
    """Return the figures of all systems on a graph, and the seconds of a fit."""
    columns = [column for column in results.columns if column.graph == graph]
    rows = []
    for system in results.systems:
        kinds = results.comparison.kinds(graph)
        records = [record for kind in kinds for record in results.records(graph, kind, system)]
        if not records:
            continue
        cells = [spread(results.values(column, system), results.n_runs) for column in columns]
        is_gpu = any(record["device"].startswith("cuda") for record in records)
        seconds = f"{np.mean([record['seconds'] for record in records]):.1f}"
        rows.append([title_of(system), *cells, seconds + (" (GPU)" if is_gpu else "")])
    return table(["system", *(column.title for column in columns), "seconds"], rows)


def graph_tables(results: Results) -> list[str]:
    """Return a section per graph."""
    sections = (["", f"## {graph}", "", *graph_table(results, graph)] for graph in results.graphs)
    return [line for section in sections for line in section]


def spread(values: Sequence[float], n_runs: int) -> str:
    """Return mean and standard deviation in words, and how many runs there are where some are missing."""
    if not values:
        return "-"
    missing = "" if len(values) == n_runs else f" ({len(values)} of {n_runs} runs)"
    return f"{np.mean(values):.3f} ± {np.std(values):.3f}{missing}"


def list_origins(results: Results) -> list[str]:
    """Return a line per command and machine, with the systems that it ran."""
    origins: dict[str, dict[str, None]] = {}
    for system, record in results.all_records():
        where = f"`{record['command']}`, {record['device']}; {describe_machine(record['machine'])}"
        origins.setdefault(where, {})[system] = None
    lines = [f"- {', '.join(systems)}: {where}." for where, systems in origins.items()]
    return ["", "## Where", "", *lines]


def summarize(results: Results) -> dict[str, Any]:
    """Return the numbers of the page; the runs themselves are in the cache."""
    return {
        "columns": [
            {
                "graph": column.graph,
                "split": column.split,
                "figure": column.figure,
                "title": column.title,
                "values": {s: own for s in results.systems if (own := results.values(column, s))},
                "ranks": {s: results.rank(column, s) for s in results.systems},
            }
            for column in results.columns
        ],
        "mean_ranks": {system: results.mean_rank(system) for system in results.systems},
    }


def compare(comparison: Comparison, about: str | None, write_page: Callable[[Results], list[str]]) -> None:
    """Do what the command line asks for: run what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=about)
    known = {"nargs": "+", "choices": comparison.graphs, "default": comparison.graphs}
    parser.add_argument("--graphs", **known)
    words = "which to run, by the names of gbgnn compare; all that have runs are shown"
    parser.add_argument("--systems", nargs="*", default=comparison.systems, help=words)
    kinds = sorted({column.split for column in comparison.columns})
    parser.add_argument("--splits", nargs="+", choices=kinds, default=kinds, help="the kinds of them to run")
    parser.add_argument("--runs", type=int, default=N_RUNS, help="splits or seeds of each")
    parser.add_argument("--device", default="cpu", help="where networks are trained")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once; times are best with one")
    cache = RESULTS / f"{comparison.name}.jsonl"
    parser.add_argument("--cache", type=Path, default=cache, help="a line per run")
    parser.add_argument("--merge", nargs="+", type=Path, default=(), help="caches of other machines")
    parser.add_argument("--again", nargs="+", default=(), help="run although they are known")
    parser.add_argument("--no-page", action="store_true", help="run only")
    asked = parser.parse_args()
    for names in (asked.systems, asked.again):
        find_systems(names)  # or say which there are
    run = partial(comparison.run, device=asked.device, command=this_command())
    runner = Runner(run, asked.cache, asked.jobs)
    for other in asked.merge:
        runner.merge(other)
    runner.forget(lambda task: task[-1] in asked.again)
    tasks = comparison.tasks(asked.graphs, asked.systems, asked.runs)
    runner([task for task in tasks if task[1] in asked.splits])
    if not asked.no_page:
        results = Results(comparison, runner, asked.graphs, asked.runs)
        publish(comparison.name, comparison.title, write_page(results), summarize(results))
