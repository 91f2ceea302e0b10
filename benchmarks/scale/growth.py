"""How time and memory grow with nodes, entries, features and rounds: slopes on logarithmic scales.

Power-law graphs, the paper's method (``preset="fast"``) with two threads, one size changed at a time, each
fit in a process of its own. A slope of 1 is growth in proportion, 0 none. Memory is what the process took at
most beyond what it had before the graph was drawn; the graph itself is in it.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from children import answer_parent, run_child
from common import publish, resident_bytes, table

from gbgnn import GBGNNClassifier, datasets

BASE = {"n_nodes": 60_000, "mean_degree": 20, "n_features": 64, "n_rounds": 8}
"""Four times and sixteen times as much of each is measured."""

FACTORS = (1, 4, 16)
N_LABELLED = 3_000  # the same everywhere: learners are not what grows
DROPPED = {"keep_learners": False}  # without, memory is flat in rounds


def fit(n_nodes: int, mean_degree: float, n_features: int, n_rounds: int) -> dict[str, Any]:
    """Fit once."""
    before = resident_bytes()
    shares = {"train": N_LABELLED / n_nodes, "val": N_LABELLED / n_nodes}
    data = datasets.power_law(n_nodes, mean_degree, n_features, **shares, seed=0)
    model = GBGNNClassifier(preset="fast", n_rounds=n_rounds, random_state=0, device="cpu", **DROPPED)
    started = time.perf_counter()
    model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))
    return {"seconds": time.perf_counter() - started, "before": before}


def slope(factors: list[float], values: list[float]) -> float:
    """Return the slope of a line through logarithms."""
    return float(np.polyfit(np.log(factors), np.log(values), 1)[0])


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    rows, data = [], {}
    for name, usual in BASE.items():
        own = []
        for factor in FACTORS:
            runs = [run_child("fit", **BASE | {name: usual * factor}) for _ in range(options.repeats)]
            seconds = min(run["seconds"] for run in runs)
            own.append((seconds, min(run["peak"] - run["before"] for run in runs)))
        times, sizes = zip(*own, strict=True)
        slopes = [slope(list(map(float, FACTORS)), list(each)) for each in (times, sizes)]
        values = ", ".join(f"{usual * factor:,}" for factor in FACTORS)
        shown = [", ".join(f"{t:.1f}" for t in times), ", ".join(f"{size / 1e6:,.0f}" for size in sizes)]
        rows.append([name, values, shown[0], f"{slopes[0]:.2f}", shown[1], f"{slopes[1]:.2f}"])
        data[name] = {"values": [usual * factor for factor in FACTORS], "seconds": times, "bytes": sizes}
    sizes = ", ".join(f"{name} {value:,}" for name, value in BASE.items())
    head = ["what grows", "values", "seconds", "slope", "memory, MB", "slope"]
    lines = [f"Otherwise {sizes}; {N_LABELLED:,} nodes labelled. The best of {options.repeats} fits.", ""]
    publish("growth", "How time and memory grow", [*lines, *table(head, rows)], data)


if __name__ == "__main__":
    answer_parent({"fit": fit})
    main()
