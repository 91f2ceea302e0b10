"""How trees of the default are grown: rows and columns that a tree sees, and its leaves; by held-out nodes.

Five graphs from graphs/ in GBGNN_DATA. The validation nodes of a split are halved: one half stops the trees
and averages them, the other judges. Test nodes are not looked at. Regressions have random splits, of which
half or a tenth of the nodes is for training, and so have airports; credit and minesweeper have their
published ones.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import Runner, publish, table
from regression import SHARES, draw_split, fresh, read_graph
from sklearn.metrics import log_loss, r2_score

from gbgnn import GBGNNClassifier, GBGNNRegressor, NodeSplit
from gbgnn.presets import Facts, adapt

BASE = {"subsample": 1.0, "column_share": 1.0, "max_leaves": 31}
CHOICES: dict[str, dict[str, Any]] = {
    "all rows and columns, 31 leaves": {},
    "70 % of the rows": {"subsample": 0.7},
    "half of the columns": {"column_share": 0.5},
    "both": {"subsample": 0.7, "column_share": 0.5},
    "70 % of the rows, 15 leaves": {"subsample": 0.7, "max_leaves": 15},
    "both, 15 leaves": {"subsample": 0.7, "column_share": 0.5, "max_leaves": 15},
    "15 leaves": {"max_leaves": 15},
}
NUMBERS = [(name, kind) for name in ("county_election_2016", "california_housing_knn5") for kind in SHARES]
CLASSES = [("minesweeper", "published"), ("credit_nifty", "published"), ("airport_hgcn", "50/25/25")]


def find_split(name: str, kind: str, known: np.ndarray, seed: int) -> NodeSplit:
    """Return training, validation and judging nodes: the latter two are halves of the validation nodes."""
    if kind in SHARES:
        split = draw_split(known, SHARES[kind], 1000 + seed)  # other splits than those of regression.py
        train, val = split.train, split.val
    else:
        with np.load(Path(os.environ["GBGNN_DATA"]) / "graphs" / f"{name}.npz") as arrays:
            masks = [arrays[f"{part}_mask"] for part in ("train", "val")]
        train, val = (np.flatnonzero(mask if mask.ndim == 1 else mask[:, seed]) for mask in masks)
    val = np.random.default_rng(seed).permutation(val)
    return NodeSplit(train, val[: len(val) // 2], val[len(val) // 2 :])


def run(choice: str, name: str, kind: str, seed: int) -> dict[str, float]:
    """Return how good the default is with other trees, and how much CPU time it took."""
    graph, y, known = read_graph(name)
    is_regression = (name, kind) in NUMBERS
    targets = y if is_regression else y.astype(np.int64)
    split = find_split(name, kind, known, seed)
    model: Any = GBGNNRegressor if is_regression else GBGNNClassifier
    model = adapt(model(random_state=seed), Facts.of(graph, len(split.train), has_validation=True))
    model.set_params(**{f"learner__{setting}": value for setting, value in (BASE | CHOICES[choice]).items()})
    started = time.process_time()
    validation = (split.val, targets[split.val])
    model.fit(split.train, targets[split.train], graph=fresh(graph), validation=validation)
    judged = split.test
    if is_regression:
        score = r2_score(targets[judged], model.predict(judged))
    else:
        score = log_loss(targets[judged], model.predict_proba(judged), labels=model.classes_)
    return {"score": float(score), "seconds": time.process_time() - started}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=Path("tree_choices.jsonl"))
    asked = parser.parse_args()
    tasks = [
        (choice, *data, seed)
        for data in NUMBERS + CLASSES
        for seed in range(asked.splits)
        for choice in CHOICES
    ]
    results: dict[str, Any] = {}
    for (choice, name, kind, _), found in zip(
        tasks, Runner(run, asked.cache, asked.jobs)(tasks), strict=True
    ):
        results.setdefault(f"{name}, {kind}", {}).setdefault(choice, []).append(found)
    rows = [[choice, *(_cell(results[data][choice], "score") for data in results)] for choice in CHOICES]
    for row, choice in zip(rows, CHOICES, strict=True):
        row.append(f"{np.mean([each['seconds'] for data in results.values() for each in data[choice]]):.1f}")
    note = (
        f"Mean over {asked.splits} splits: R2 of the regressions (more is better), log loss of the others "
        "(less is better), of nodes that neither stopped the trees nor averaged them; mean CPU seconds of a "
        "fit."
    )
    header = ["a tree sees", *results, "seconds"]
    publish("tree_choices", "How the default grows its trees", [note, "", *table(header, rows)], results)


def _cell(runs: list[dict[str, float]], name: str) -> str:
    return f"{np.mean([each[name] for each in runs]):.4f}"


if __name__ == "__main__":
    main()
