"""Tables with links: our default beside boosted trees and residual graph networks, on four real graphs.

From ``graphs/`` in GBGNN_DATA: county_election_2016 (the share of votes; counties without one are in no
split) and california_housing_knn5 (house prices; latitude and longitude made the graph and are no columns),
each with ten random splits of 50 % training, 25 % validation and 25 % test nodes and ten of 10, 10 and 80 %;
credit_nifty with its own split and ten seeds; minesweeper with its ten public splits. No system is given the
test labels.

Every run is a line of the cache, so that an interrupted call goes on, and rows may be made on several
machines: there ``--systems residual_gcn residual_sage residual_gat --device cuda --cache gpu.jsonl
--no-page``, here ``--merge gpu.jsonl``.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, Runner, describe_machine, machine, publish, table, this_command

from gbgnn import NodeSplit
from gbgnn.datasets import Dataset, load
from gbgnn_lab.experiments.systems import SYSTEMS, measure

NAME = "tables_and_links"
OURS = "gbgnn"
TREES = ("lightgbm", "lightgbm_1hop", "lightgbm_2hop", "histgb_1hop", "histgb_2hop", "lightgbm_residuals")
NETWORKS = ("residual_gcn", "residual_sage", "residual_gat")
ALL = (OURS, *TREES, *NETWORKS)
SHARES = {"50/25/25": (0.5, 0.25), "10/10/80": (0.1, 0.1)}
NUMBERS, CLASSES = {"r2": "R2"}, {"auc": "AUC", "average_precision": "AP"}
N_RUNS = 10


@dataclass(frozen=True)
class Column:
    """What systems are ranked by: a figure of the test nodes, on one kind of split of a graph."""

    graph: str
    split: str
    figure: str
    title: str  # within the table of the graph


COLUMNS = [
    *(
        Column(graph, split, "r2", f"R2, {split}")
        for graph in ("county_election_2016", "california_housing_knn5")
        for split in SHARES
    ),
    *(Column("credit_nifty", "own", figure, title) for figure, title in CLASSES.items()),
    *(Column("minesweeper", "public", figure, title) for figure, title in CLASSES.items()),
]
GRAPHS = tuple(dict.fromkeys(column.graph for column in COLUMNS))
KINDS = {graph: tuple(dict.fromkeys(c.split for c in COLUMNS if c.graph == graph)) for graph in GRAPHS}
"""The kinds of splits of a graph."""


def run(graph: str, kind: str, number: int, system: str, *, device: str, command: str) -> dict[str, Any]:
    """Return how good a system is, how long it took, and where; ``number`` is that of split and seed."""
    outcome = measure(SYSTEMS[system], read_data(graph, kind, number), device, number)
    figures = {name: outcome.results[f"test_{name}"] for name in (NUMBERS if kind in SHARES else CLASSES)}
    print(graph, kind, number, system, *(f"{value:.4f}" for value in figures.values()), flush=True)
    return {
        **figures,
        "seconds": outcome.results["fit_seconds"],
        "memory": outcome.results["memory"],
        "settings": outcome.settings,
        "device": device,
        "command": command,
        "machine": machine(),
    }


def read_data(graph: str, kind: str, number: int) -> Dataset:
    """Return a graph in which no earlier run has left anything, with the split of that number."""
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


def list_tasks(graphs: Sequence[str], systems: Sequence[str], n_runs: int) -> list[tuple[Any, ...]]:
    """Return every run that is asked for."""
    return [
        (graph, kind, number, system)
        for graph in graphs
        for system in systems
        for kind in KINDS[graph]
        for number in range(n_runs)
    ]


class Results:
    """The runs that are known, of some graphs."""

    def __init__(self, runner: Runner, graphs: Sequence[str], n_runs: int) -> None:
        self.runner, self.graphs, self.n_runs = runner, graphs, n_runs
        self.columns = [column for column in COLUMNS if column.graph in graphs]

    def records(self, graph: str, kind: str, system: str) -> list[dict[str, Any]]:
        """Return the runs of a system on one kind of split."""
        found = (self.runner.find((graph, kind, number, system)) for number in range(self.n_runs))
        return [record for record in found if record is not None]

    def values(self, column: Column, system: str) -> list[float]:
        """Return a figure of every run of a system."""
        return [record[column.figure] for record in self.records(column.graph, column.split, system)]

    def means(self, column: Column) -> dict[str, float]:
        """Return the mean of every system that has all runs, the best first."""
        values = {system: self.values(column, system) for system in ALL}
        means = {system: float(np.mean(own)) for system, own in values.items() if len(own) == self.n_runs}
        return dict(sorted(means.items(), key=lambda item: -item[1]))

    def rank(self, column: Column, system: str) -> int | None:
        """Return the place of a system, 1 for the best; None where runs are missing."""
        means = self.means(column)
        return None if system not in means else 1 + sum(other > means[system] for other in means.values())

    def mean_rank(self, system: str) -> float | None:
        """Return the mean of all places; None where one is missing."""
        places = [self.rank(column, system) for column in self.columns]
        return None if None in places else float(np.mean([place for place in places if place]))

    def all_records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the system and the record of every run."""
        for graph in self.graphs:
            for kind in KINDS[graph]:
                for system in ALL:
                    yield from ((system, record) for record in self.records(graph, kind, system))


def write_page(results: Results) -> list[str]:
    """Return the lines: ranks, who is first where, a table per graph, and where runs were made."""
    about = (
        f"Mean ± standard deviation over {results.n_runs} splits or seeds, figures of the test nodes, whose "
        "labels no system sees. gbgnn has its defaults. The number of trees is chosen by the loss of the "
        "validation nodes; residual networks are searched over depth 2 and 5, dropout 0.2 and 0.5 and "
        "learning rate 0.003 and 0.01 on every split, epochs and trials ranked by validation AUC or, of "
        "numbers, loss. Seconds are of a fit, columns, search and prediction included; those of a GPU "
        "compare among themselves."
    )
    lines = [about, "", "## Places", "", *_rank_table(results), "", *_leaders(results)]
    for graph in results.graphs:
        lines += ["", f"## {graph}", "", *_graph_table(results, graph)]
    return [*lines, "", "## Where", "", *_origins(results)]


def _title(system: str) -> str:
    return "gbgnn, default" if system == OURS else SYSTEMS[system].title


def _rank_table(results: Results) -> list[str]:
    known = dict.fromkeys(system for system, _ in results.all_records())
    order = sorted(known, key=lambda system: (results.mean_rank(system) is None, results.mean_rank(system)))
    header = ["system", *(f"{column.graph}, {column.title}" for column in results.columns), "mean rank"]
    rows = []
    for system in order:
        places = [results.rank(column, system) or "-" for column in results.columns]
        mean = results.mean_rank(system)
        rows.append([_title(system), *places, "-" if mean is None else f"{mean:.2f}"])
    return table(header, rows)


def _leaders(results: Results) -> list[str]:
    """Return who is first in every column, and the best of trees and networks beside our default."""
    lines = []
    for column in results.columns:
        means = results.means(column)
        if not means:
            continue
        best = [
            next((each for each in means if each in group), None) for group in (ALL, (OURS,), TREES, NETWORKS)
        ]
        words = [f"{_title(each)} {means[each]:.4f}" if each else "-" for each in best]
        first, ours, tree, network = words
        lines.append(
            f"- {column.graph}, {column.title}: first {first}. Ours {ours}; best trees: {tree}; best "
            f"network: {network}."
        )
    return lines


def _graph_table(results: Results, graph: str) -> list[str]:
    columns = [column for column in results.columns if column.graph == graph]
    rows = []
    for system in ALL:
        records = [record for kind in KINDS[graph] for record in results.records(graph, kind, system)]
        if not records:
            continue
        cells = [_spread(results.values(column, system), results.n_runs) for column in columns]
        is_gpu = any(record["device"].startswith("cuda") for record in records)
        seconds = f"{np.mean([record['seconds'] for record in records]):.1f}"
        rows.append([_title(system), *cells, seconds + (" (GPU)" if is_gpu else "")])
    return table(["system", *(column.title for column in columns), "seconds"], rows)


def _spread(values: Sequence[float], n_runs: int) -> str:
    if not values:
        return "-"
    missing = "" if len(values) == n_runs else f" ({len(values)} of {n_runs} runs)"
    return f"{np.mean(values):.3f} ± {np.std(values):.3f}{missing}"


def _origins(results: Results) -> list[str]:
    """Return a line per command and machine, with the systems that it ran."""
    origins: dict[str, dict[str, None]] = {}
    for system, record in results.all_records():
        where = f"`{record['command']}`, {record['device']}; {describe_machine(record['machine'])}"
        origins.setdefault(where, {})[system] = None
    return [f"- {', '.join(systems)}: {where}." for where, systems in origins.items()]


def summarize(results: Results) -> dict[str, Any]:
    """Return the numbers of the page; the runs themselves are in the cache."""
    return {
        "columns": [
            {
                **vars(column),
                "values": {s: own for s in ALL if (own := results.values(column, s))},
                "ranks": {s: results.rank(column, s) for s in ALL},
            }
            for column in results.columns
        ],
        "mean_ranks": {system: results.mean_rank(system) for system in ALL},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=GRAPHS)
    parser.add_argument("--systems", nargs="*", choices=ALL, default=ALL, help="which to run; all are shown")
    parser.add_argument("--runs", type=int, default=N_RUNS, help="splits or seeds of each")
    parser.add_argument("--device", default="cpu", help="where networks are trained")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once; times are best with one")
    parser.add_argument("--cache", type=Path, default=RESULTS / f"{NAME}.jsonl", help="a line per run")
    parser.add_argument("--merge", nargs="+", type=Path, default=(), help="caches of other machines")
    parser.add_argument("--again", nargs="+", choices=ALL, default=(), help="run although they are known")
    parser.add_argument("--no-page", action="store_true", help="run only")
    asked = parser.parse_args()
    runner = Runner(partial(run, device=asked.device, command=this_command()), asked.cache, asked.jobs)
    for other in asked.merge:
        runner.merge(other)
    runner.forget(lambda task: task[-1] in asked.again)
    runner(list_tasks(asked.graphs, asked.systems, asked.runs))
    if not asked.no_page:
        results = Results(runner, asked.graphs, asked.runs)
        publish(NAME, "Tables with links", write_page(results), summarize(results))


if __name__ == "__main__":
    main()
