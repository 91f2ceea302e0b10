"""Numbers on graphs: R2 of our default, of boosted trees and of residual graph networks over random splits.

county_election_2016 (the share of votes; counties without one are in no split) and california_housing_knn5
(house prices; latitude and longitude made the graph and are no columns), from graphs/ in GBGNN_DATA. Ten
random splits of 50 % training, 25 % validation and 25 % test nodes, and ten of 10, 10 and 80 %.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import publish, table
from sklearn.metrics import r2_score

from gbgnn import GBGNNRegressor, Graph, NodeSplit
from gbgnn_lab.baselines import BASELINES, fit_nodes

DATA = ("county_election_2016", "california_housing_knn5")
SHARES = {"50/25/25": (0.5, 0.25), "10/10/80": (0.1, 0.1)}
OURS = "gbgnn"
SYSTEMS = [OURS] + [name for name, entry in BASELINES.items() if entry.model.predicts_numbers]


def read_graph(name: str) -> tuple[Graph, np.ndarray, np.ndarray]:
    """Return a graph, a number for every node, and the nodes whose number is known."""
    with np.load(Path(os.environ["GBGNN_DATA"]) / "graphs" / f"{name}.npz") as arrays:
        indices, indptr = arrays["indices"], arrays["indptr"]
        n_nodes = len(indptr) - 1
        adjacency = sp.csr_array(
            (np.ones(len(indices), np.float32), indices, indptr), shape=(n_nodes, n_nodes)
        )
        is_filled = arrays["vote_missing"] if "vote_missing" in arrays else np.zeros(n_nodes, bool)
        return Graph(adjacency, arrays["feat"]), arrays["y"].astype(np.float64), np.flatnonzero(~is_filled)


def draw_split(known: np.ndarray, shares: tuple[float, float], seed: int) -> NodeSplit:
    """Return random training, validation and test nodes."""
    order = np.random.default_rng(seed).permutation(known)
    ends = np.round(np.cumsum(shares) * len(order)).astype(int)
    return NodeSplit(*np.split(order, ends))


def run(system: str, graph: Graph, y: np.ndarray, split: NodeSplit, seed: int, device: str) -> dict[str, Any]:
    """Return how good a system is at the test nodes, and how long it took."""
    seen = np.full_like(y, np.nan)  # what is judged at the end is not there before
    labelled = np.concatenate([split.train, split.val])
    seen[labelled] = y[labelled]
    started = time.perf_counter()
    if system == OURS:
        model = GBGNNRegressor(random_state=seed)
        model.fit(split.train, seen[split.train], graph=fresh(graph), validation=(split.val, seen[split.val]))
        predicted = model.predict(np.arange(len(y)))
        seconds = time.perf_counter() - started
        judged = {"r2": r2_score(y[split.test], predicted[split.test])}
    else:
        result = fit_nodes(system, fresh(graph), seen, split, task="regression", seed=seed, device=device)
        seconds = time.perf_counter() - started
        judged = result.judge(split.test, y[split.test])
    return {**judged, "seconds": seconds, "seed": seed}


def fresh(graph: Graph) -> Graph:
    """Return a graph in which no earlier fit has left anything."""
    return Graph(graph.adjacency, graph.features)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--device", default="cpu", help="where networks are trained")
    asked = parser.parse_args()
    results: dict[str, Any] = {}
    for name in asked.data:
        graph, y, known = read_graph(name)
        for system in asked.systems:
            for kind, shares in SHARES.items():
                splits = [draw_split(known, shares, seed) for seed in range(asked.splits)]
                runs = [run(system, graph, y, split, k, asked.device) for k, split in enumerate(splits)]
                results.setdefault(name, {}).setdefault(kind, {})[system] = runs
                print(name, kind, system, *(round(each["r2"], 3) for each in runs), flush=True)
    header = ["system", *(f"{name}, {kind}" for name in results for kind in SHARES), "seconds"]
    rows = [_row(system, results) for system in asked.systems]
    note = (
        f"R2 of the test nodes, mean ± standard deviation over {asked.splits} random splits of training, "
        "validation and test nodes; the same splits for all. Seconds are of a fit, features and prediction "
        "included, the mean over all runs."
    )
    publish("regression", "Numbers on graphs", [note, "", *table(header, rows)], results)


def _row(system: str, results: dict[str, Any]) -> list[str]:
    groups = [results[name][kind][system] for name in results for kind in SHARES]
    cells = [[each["r2"] for each in runs] for runs in groups]
    seconds = np.mean([each["seconds"] for runs in groups for each in runs])
    shown = [f"{np.mean(scores):.3f} ± {np.std(scores):.3f}" for scores in cells]
    title = "gbgnn, default" if system == OURS else BASELINES[system].title
    return [title, *shown, f"{seconds:.1f}"]


if __name__ == "__main__":
    main()
