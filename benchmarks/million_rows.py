"""A large table of mixed columns with links: time and memory of ours beside LightGBM on one-hop columns.

A seed makes a table of nodes (numbers of several scales, gaps, booleans, categories of few and many values,
dates, short text), a table of links (communities, and a few nodes with very many links), and two classes
that depend on a node's own columns, on its neighbours' and on its community. Both tables are written as
Parquet files. Every system starts from these files in a process of its own, with its peak memory read from
the operating system: it reads the tables, makes its columns, is trained on half of the rows with a tenth more
for early stopping, and predicts all of them. To encode is to learn quantiles and categories for ours, which
makes its columns in the fit, and to make all columns for LightGBM.

- ``gbgnn, default``: ``GBGNNClassifier()`` as it is.
- ``gbgnn, trees``: ``--rounds`` rounds of boosted trees on widening neighbourhoods.
- ``gbgnn, paper``: ``--rounds`` rounds of the paper's method.
- ``LightGBM, one hop``: what a user of pandas, SciPy and LightGBM would write: own columns (codes of
  categories, without text), and the mean over neighbours of numbers, dates, booleans and few-valued
  categories.
- ``LightGBM, own columns``: the same without neighbours.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import publish, reset_peak_memory, resident_bytes, table

TARGET = "churn"
GIB = 2**30
SHARES = (0.5, 0.1)
"""Of the rows: to train on, and to stop early by."""

MALLOC = {"MALLOC_MMAP_THRESHOLD_": "1000000", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""What is freed goes back to the system, Arrow's memory too: a peak is what was held at once."""

FEW_CATEGORIES, MOST_CATEGORIES = 20, 10_000
"""Up to so many values a user of LightGBM averages columns of 0 and 1, and takes text for categories."""

WORDS = ("red", "blue", "small", "large", "wooden", "steel", "old", "new", "box", "chair", "lamp", "table")


class Stages:
    """Seconds and peak memory of stages, one after the other."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._begin()

    def _begin(self) -> None:
        reset_peak_memory()
        self._started = time.perf_counter(), time.process_time()

    def lap(self, name: str) -> None:
        """End a stage, and begin the next."""
        now = time.perf_counter(), time.process_time()
        seconds, cpu_seconds = (end - start for end, start in zip(now, self._started, strict=True))
        peak, held = (resident_bytes(peak=each) / GIB for each in (True, False))
        found = {"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_gib": peak, "held_gib": held}
        self.rows.append({"stage": name, **found})
        self._begin()


def make_tables(options: argparse.Namespace, folder: Path) -> None:
    """Write the tables of nodes and of links."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(options.seed)
    n = options.rows
    community, popularity = draw_communities(random, n)
    ends = draw_links(random, community, popularity, options.links)
    columns, signal = draw_columns(random, community, options.columns)
    heard = average_links(ends, signal[:, 1], n)
    score = signal[:, 0] + 1.5 * heard + signal[:, 0] * heard
    score += random.normal(0, 0.7, community.max() + 1)[community] + random.logistic(0, 0.7, n)
    columns[TARGET] = pa.array(np.where(score > np.quantile(score, 0.7), "yes", "no"))
    ids = name_nodes(random, n, options.ids)
    nodes = pa.table({"id": ids, **columns})
    links = pa.table({"source": ids.take(pa.array(ends[0])), "target": ids.take(pa.array(ends[1]))})
    pq.write_table(nodes, folder / "nodes.parquet")
    pq.write_table(links, folder / "links.parquet")


def name_nodes(random: np.random.Generator, n: int, kind: str) -> Any:
    """Return ids of nodes: numbers that are not those of rows, or text."""
    import pyarrow as pa

    numbers = 10_000 + random.permutation(3 * n)[:n]
    return pa.array(numbers if kind == "numbers" else np.char.mod("user-%08d", numbers).astype(object))


def draw_communities(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the community of each node, and how often links choose it: a few nodes very often."""
    sizes = random.pareto(1.5, max(2, n // 500)) + 1
    community = random.choice(len(sizes), n, p=sizes / sizes.sum())
    return np.unique(community, return_inverse=True)[1], np.minimum(random.pareto(1.8, n) + 0.3, 300)


def draw_links(
    random: np.random.Generator, community: np.ndarray, popularity: np.ndarray, n_links: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return sources and targets; three links of four stay in their community."""
    order = np.argsort(community, kind="stable")
    chances = np.concatenate([[0], np.cumsum(popularity[order])])
    starts = np.searchsorted(community[order], np.arange(community.max() + 2))

    def draw(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        places = np.searchsorted(chances, low + random.random(n_links) * (high - low), side="right") - 1
        return order[np.clip(places, 0, len(order) - 1)]

    nothing = np.zeros(n_links)
    sources = draw(nothing, nothing + chances[-1])
    stays = random.random(n_links) < 0.75
    low, high = (chances[starts[community[sources] + i]] for i in (0, 1))
    return sources, draw(np.where(stays, low, 0), np.where(stays, high, chances[-1]))


def draw_columns(
    random: np.random.Generator, community: np.ndarray, n_columns: int
) -> tuple[dict[str, Any], np.ndarray]:
    """Return columns by name, and two numbers per node that the target depends on."""
    import pyarrow as pa

    n = len(community)
    n_factors = 4
    factors = 0.6 * random.normal(size=(community.max() + 1, n_factors))[community]
    factors += 0.8 * random.normal(size=(n, n_factors))
    kinds = "nnngscndnbngsncnnbngmnstnnd"  # in this order, and again from the start
    columns: dict[str, Any] = {}
    for i in range(n_columns):
        kind = kinds[i % len(kinds)]
        hidden = factors[:, i % n_factors] + random.normal(size=n)
        name, values = DRAW[kind](random, hidden)
        gaps = random.random(n) < 0.1 if kind in "gc" else None
        columns[f"{name}_{i}"] = pa.array(values, mask=gaps)
    own = factors[:, 0] - 0.7 * np.abs(factors[:, 1]) + 0.5 * factors[:, 2] * factors[:, 3]
    return columns, np.column_stack([own, factors[:, 1] + factors[:, 2]])


def draw_names(random: np.random.Generator, hidden: np.ndarray, n_values: int) -> np.ndarray:
    """Return one of so many names each, of which the first are the most frequent."""
    spread = np.argsort(np.argsort(hidden)) / len(hidden)
    names = np.array([f"v{i}" for i in range(n_values)], dtype=object)
    return names[np.minimum((spread**3 * n_values).astype(int), n_values - 1)]


def draw_text(random: np.random.Generator, hidden: np.ndarray) -> np.ndarray:
    """Return three words and a number each."""
    words = np.array(WORDS, dtype=object)
    first = words[np.clip((hidden * 2 + 6).astype(int), 0, len(words) - 1)]
    second, third = (words[random.integers(len(words), size=len(hidden))] for _ in range(2))
    return first + " " + second + " " + third + " " + random.integers(100_000, size=len(hidden)).astype(str)


DRAW: dict[str, Callable[[np.random.Generator, np.ndarray], tuple[str, Any]]] = {
    "n": lambda random, hidden: ("number", hidden * 10.0 ** random.integers(-3, 6)),
    "g": lambda random, hidden: ("gaps", np.exp(2 * hidden)),
    "b": lambda random, hidden: ("flag", hidden > 0.5),
    "c": lambda random, hidden: ("group", draw_names(random, hidden, 8)),
    "s": lambda random, hidden: ("count", random.poisson(np.exp(np.clip(hidden, -3, 3)))),
    "m": lambda random, hidden: ("city", draw_names(random, hidden, 3000)),
    "d": lambda random, hidden: ("day", (18_000 + 300 * hidden).astype("datetime64[D]")),
    "t": lambda random, hidden: ("note", draw_text(random, hidden)),
}


def average_links(ends: tuple[np.ndarray, np.ndarray], values: np.ndarray, n: int) -> np.ndarray:
    """Return the mean over the neighbours of each node, zero where there are none."""
    here, there = np.concatenate(ends), np.concatenate(ends[::-1])
    totals, counts = np.bincount(here, values[there], n), np.bincount(here, minlength=n)
    return totals / np.maximum(counts, 1)


def split_rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows to train on, to stop by and to judge."""
    order = np.random.default_rng(seed).permutation(n)
    first, second = (round(n * share) for share in (SHARES[0], sum(SHARES)))
    train, val, test = np.split(order, [first, second])
    return train, val, test


def read_parquet(folder: Path) -> tuple[Any, Any]:
    import pyarrow.parquet as pq

    return pq.read_table(folder / "nodes.parquet"), pq.read_table(folder / "links.parquet")


def run_gbgnn(folder: Path, options: argparse.Namespace, model: Any) -> tuple[Stages, np.ndarray]:
    """Return stages, and the probability of the second class of every row."""
    from gbgnn import Graph

    stages = Stages()
    nodes, links = read_parquet(folder)
    stages.lap("read")
    graph = Graph.from_tables(nodes, links, exclude=[TARGET])
    y = nodes[TARGET].to_numpy()
    train, val, _ = split_rows(len(y), options.seed)
    del nodes, links
    stages.lap("graph")
    graph.encoder  # noqa: B018, it is fitted when it is first asked for
    stages.lap("encode")
    model.fit(train, y[train], graph=graph, validation=(val, y[val]))
    stages.lap("fit")
    proba = model.predict_proba(np.arange(len(y)))[:, 1]
    stages.lap("predict")
    return stages, proba


def run_default(folder: Path, options: argparse.Namespace) -> tuple[Stages, np.ndarray]:
    from gbgnn import GBGNNClassifier

    return run_gbgnn(folder, options, GBGNNClassifier(random_state=0))


def run_trees(folder: Path, options: argparse.Namespace) -> tuple[Stages, np.ndarray]:
    from gbgnn import BoostedTrees, FunctionalGradient, GBGNNClassifier

    model = GBGNNClassifier(
        n_rounds=options.rounds,
        learner=BoostedTrees(n_trees=25),
        rule=FunctionalGradient(target="loss", learning_rate=1.0),
        random_state=0,
    )
    return run_gbgnn(folder, options, model)


def run_paper(folder: Path, options: argparse.Namespace) -> tuple[Stages, np.ndarray]:
    from gbgnn import GBGNNClassifier

    return run_gbgnn(
        folder, options, GBGNNClassifier(preset="fast", n_rounds=options.rounds, keep_learners=False)
    )


def run_lightgbm(
    folder: Path, options: argparse.Namespace, *, one_hop: bool = True
) -> tuple[Stages, np.ndarray]:
    import lightgbm

    stages = Stages()
    nodes, links = (each.to_pandas() for each in read_parquet(folder))
    stages.lap("read")
    walk = average_matrix(nodes["id"], links) if one_hop else None
    del links
    stages.lap("graph")
    y = (nodes[TARGET] == "yes").to_numpy()
    X, categories = tabulate(nodes.drop(columns=["id", TARGET]), walk)
    del nodes, walk
    stages.lap("encode")
    train, val, _ = split_rows(len(y), options.seed)
    settings = {
        "objective": "binary",
        "learning_rate": 0.05,
        "num_leaves": 31,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "feature_fraction": 0.7,
        "seed": 0,
        "num_threads": options.threads,
        "verbosity": -1,
    }
    rows = lightgbm.Dataset(X[train], y[train], categorical_feature=categories)
    watched = rows.create_valid(X[val], y[val])
    stop = lightgbm.early_stopping(50, verbose=False)
    booster = lightgbm.train(settings, rows, 1000, valid_sets=[watched], callbacks=[stop])
    stages.lap("fit")
    proba = np.asarray(booster.predict(X, num_threads=options.threads))
    stages.lap("predict")
    return stages, proba


def average_matrix(ids: Any, links: Any) -> Any:
    """Return the matrix that averages over neighbours."""
    import pandas as pd
    import scipy.sparse as sp

    index = pd.Index(ids)
    ends = [index.get_indexer(links[name]) for name in ("source", "target")]
    here, there = np.concatenate(ends), np.concatenate(ends[::-1])
    edges = sp.csr_array((np.ones(len(here), np.float32), (here, there)), shape=(len(index), len(index)))
    edges.data[:] = 1
    return sp.diags_array((1 / np.maximum(edges.sum(axis=1), 1)).astype(np.float32)) @ edges


def tabulate(nodes: Any, walk: Any) -> tuple[np.ndarray, list[int]]:
    """Return own columns and means over neighbours, and which columns are codes of categories."""
    import pandas as pd

    own, numbers, categories = [], [], []
    for _, column in nodes.items():
        if pd.api.types.is_string_dtype(column.dropna()):
            n_values = column.nunique()
            if n_values <= MOST_CATEGORIES:  # else it is text
                categories.append(len(own))
                codes = column.astype("category").cat.codes.to_numpy(np.float32)
                own.append(np.where(codes < 0, np.nan, codes))
            if n_values <= FEW_CATEGORIES:
                numbers.append(pd.get_dummies(column, dtype=np.float32).to_numpy())
            continue
        if column.dtype.kind == "O":  # dates
            column = pd.to_datetime(column).astype("int64") / 1e9
        elif column.dtype.kind == "M":
            column = column.astype("int64") / 1e9
        own.append(column.to_numpy(np.float32))
        numbers.append(np.nan_to_num(own[-1], nan=float(np.nanmean(own[-1])))[:, None])
    blocks = [np.column_stack(own)]
    if walk is not None:
        blocks += [walk @ np.hstack(numbers), walk.count_nonzero(axis=1).astype(np.float32)[:, None]]
    return np.hstack(blocks), categories


SYSTEMS: dict[str, Callable[..., tuple[Stages, np.ndarray]]] = {
    "gbgnn, default": run_default,
    "gbgnn, trees": run_trees,
    "gbgnn, paper": run_paper,
    "LightGBM, one hop": run_lightgbm,
    "LightGBM, own columns": lambda folder, options: run_lightgbm(folder, options, one_hop=False),
}


def measure(system: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run a system in this process."""
    import pyarrow.parquet as pq
    import torch
    from sklearn.metrics import log_loss, roc_auc_score

    import gbgnn  # noqa: F401, loaded before the clock

    torch.set_num_threads(options.threads)
    loaded = resident_bytes() / GIB
    stages, proba = SYSTEMS[system](folder, options)
    y = pq.read_table(folder / "nodes.parquet", columns=[TARGET])[TARGET].to_numpy() == "yes"
    _, _, test = split_rows(len(y), options.seed)
    return {
        "system": system,
        "loaded_gib": loaded,
        "stages": stages.rows,
        "seconds": sum(row["seconds"] for row in stages.rows),
        "cpu_seconds": sum(row["cpu_seconds"] for row in stages.rows),
        "peak_gib": max(row["peak_gib"] for row in stages.rows),
        "auc": float(roc_auc_score(y[test], proba[test])),
        "log_loss": float(log_loss(y[test], proba[test].astype(np.float64))),
        "accuracy": float(np.mean((proba[test] > 0.5) == y[test])),
    }


def start(system: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run a system in a process of its own."""
    given = vars(options) | {"system": system, "folder": str(folder)}
    environment = os.environ | MALLOC | {"OMP_NUM_THREADS": str(options.threads)}
    command = [sys.executable, "-W", "ignore", __file__, "--given", json.dumps(given)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--links", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ids", choices=("numbers", "text"), default="numbers")
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--name", default="million_rows", help="of the results; nothing is written for -")
    parser.add_argument("--given", type=json.loads, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parse()
    if options.given is not None:
        given = argparse.Namespace(**options.given)
        print(json.dumps(measure(given.system, given, Path(given.folder))))
        return
    results = []
    with tempfile.TemporaryDirectory(prefix="gbgnn-million-") as name:
        folder = Path(name)
        make_tables(options, folder)
        for system in options.systems:
            results.append(start(system, options, folder))
            print(json.dumps(results[-1]), flush=True)
    if options.name == "-":
        return
    names = [row["stage"] for row in results[0]["stages"]]
    rows = [
        [
            found["system"],
            *(f"{row['seconds']:,.1f}" for row in found["stages"]),
            f"**{found['seconds']:,.0f}**",
            f"{found['cpu_seconds']:,.0f}",
            f"**{found['peak_gib']:.2f}**",
            f"{found['auc']:.4f}",
            f"{found['log_loss']:.4f}",
            f"{found['accuracy']:.4f}",
        ]
        for found in results
    ]
    note = (
        f"{options.rows:,} rows with {options.columns} mixed columns, {options.links:,} links, "
        f"{options.threads} threads; {SHARES[0]:.0%} of the rows are trained on, {SHARES[1]:.0%} stop early, "
        "all are predicted, the rest is judged. Seconds of each stage and in all, from files to predictions; "
        "peak resident memory of the process in GiB, libraries included "
        f"({results[0]['loaded_gib']:.2f} before the files are read)."
    )
    header = ["system", *names, "seconds", "CPU seconds", "peak, GiB", "AUC", "log loss", "accuracy"]
    publish(options.name, "A million rows", [note, "", *table(header, rows)], results)


if __name__ == "__main__":
    main()
