"""A fit whose representations do not fit under a memory limit, beside the same fit in memory.

A power-law graph of 2.4 million nodes, 124 million entries and 100 features is made in a folder (6 GB with
what is written beside it; ``--nodes 240000`` is a tenth), and mapped from there. Every fit is a process of
its own with two threads, watched from outside. Both then predict all nodes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from children import answer_parent, run_child
from common import publish, table

from gbgnn import GBGNNClassifier, datasets
from gbgnn._checks import as_bytes

MEAN_DEGREE, N_FEATURES, N_CLASSES = 51.7, 100, 20
LABELLED = 0.08


def make(folder: str, n_nodes: int) -> dict[str, Any]:
    """Write the graph."""
    sizes = {"n_nodes": n_nodes, "mean_degree": MEAN_DEGREE, "n_features": N_FEATURES, "n_classes": N_CLASSES}
    started = time.perf_counter()
    data = datasets.power_law(**sizes, train=LABELLED, val=0.02, seed=0, folder=folder)
    return {"seconds": time.perf_counter() - started, "entries": int(data.graph.adjacency.nnz)}


def fit(folder: str, result: str, n_rounds: int, memory_limit: str | None) -> dict[str, Any]:
    """Fit, predict all nodes, and keep their scores."""
    data = datasets.load(folder)
    model = GBGNNClassifier(preset="fast", n_rounds=n_rounds, memory_limit=memory_limit, random_state=0)
    started = time.perf_counter()
    model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))
    fitted = time.perf_counter()
    scores = model.scores_
    predicted = time.perf_counter()
    np.save(result, scores)
    rounds = [row["seconds"] for row in model.history_]
    return {
        "fit": fitted - started,
        "predict": predicted - fitted,
        "rounds": rounds,
        "accuracy": float(model.score(data.test, data.y[data.test])),
        "best_round": model.best_round_,
    }


def compare(one: str, other: str) -> tuple[float, float]:
    """Return the share of nodes with the same class, and the largest difference of two scores."""
    a, b = (np.load(path, mmap_mode="r") for path in (one, other))
    pieces = [slice(start, start + 100_000) for start in range(0, len(a), 100_000)]
    same = sum(int((a[rows].argmax(1) == b[rows].argmax(1)).sum()) for rows in pieces)
    return same / len(a), max(float(np.abs(a[rows] - b[rows]).max()) for rows in pieces)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2_400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory-limit", default="4GB")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = f"{place}/graph.gbgraph"
        made = run_child("make", folder=folder, n_nodes=options.nodes)
        found = {}
        for name, limit in (("in memory", None), (f"{options.memory_limit} at most", options.memory_limit)):
            own = {"folder": folder, "n_rounds": options.rounds, "memory_limit": limit}
            found[name] = run_child("fit", result=f"{place}/{len(found)}.npy", **own)
        same, apart = compare(f"{place}/0.npy", f"{place}/1.npy")
    rows = []
    for name, told in found.items():
        first, *later = told["rounds"]
        cells = [f"{told['fit']:.0f}", f"{first:.1f}", f"{np.mean(later):.1f}", f"{told['predict']:.0f}"]
        rows.append([name, *cells, f"{told['peak'] / 1e9:.2f}", f"{told['accuracy']:.4f}"])
    limit = as_bytes("out_of_core", "memory_limit", options.memory_limit)
    is_kept = list(found.values())[1]["peak"] <= limit
    times = ["fit, s", "round 1, s", "a later round, s", "all scores, s"]
    head = ["representations", *times, "peak, GB", "accuracy"]
    lines = [
        f"{options.nodes:,} nodes, {made['entries']:,} entries, {N_FEATURES} features, {N_CLASSES} classes, "
        f"{LABELLED:.0%} of the nodes labelled; the paper's method, {options.rounds} rounds.",
        "",
        *table(head, rows),
        "",
        f"The limit of {options.memory_limit} was {'kept' if is_kept else '**not kept**'}. "
        f"{100 * same:.4f} % of all nodes have the same class; two scores differ by {apart:.1e} at most.",
    ]
    data = {"made": made, "fits": found, "same": same, "apart": apart}
    publish("out_of_core", "Fits out of core", lines, data)


if __name__ == "__main__":
    answer_parent({"make": make, "fit": fit})
    main()
