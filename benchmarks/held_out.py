"""Choosing by validation nodes alone: half of them are for the fit, the other half judges it.

Five graphs from graphs/ in GBGNN_DATA. Regressions have random splits, of which half or a tenth of the nodes
is for training, and so have airports; credit and minesweeper have their published ones. No test node is
looked at, and random splits are others than those of tables_and_links.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ranking import SHARES, draw_split
from sklearn.metrics import log_loss, r2_score

from gbgnn import GBGNNClassifier, GBGNNRegressor, Graph, NodeSplit
from gbgnn.datasets import load

NUMBERS = [
    (name, kind)
    for name in ("county_election_2016", "california_housing_knn5")
    for kind in ("50/25/25", "10/10/80")
]
CLASSES = [("minesweeper", "published"), ("credit_nifty", "published"), ("airport_hgcn", "50/25/25")]
CASES = NUMBERS + CLASSES

NOTE = (
    "R2 of the regressions (more is better), log loss of the others (less is better), of validation nodes "
    "that the fit did not see, mean over the splits"
)


def read(name: str, kind: str, seed: int) -> tuple[Graph, np.ndarray, NodeSplit]:
    """Return a graph, its y, and training, validation and judging nodes."""
    path = Path(os.environ["GBGNN_DATA"]) / "graphs" / f"{name}.npz"
    data = load(str(path))
    with np.load(path) as arrays:
        if kind in SHARES:
            is_filled = arrays["vote_missing"] if "vote_missing" in arrays else np.zeros(len(data.y), bool)
            split = draw_split(np.flatnonzero(~is_filled), SHARES[kind], 1000 + seed)
            train, val = split.train, split.val
        else:
            masks = [arrays[f"{part}_mask"] for part in ("train", "val")]
            train, val = (np.flatnonzero(mask if mask.ndim == 1 else mask[:, seed]) for mask in masks)
    val = np.random.default_rng(seed).permutation(val)
    return data.graph, data.y, NodeSplit(train, val[: len(val) // 2], val[len(val) // 2 :])


def judge(settings: Mapping[str, Any], name: str, kind: str, seed: int) -> dict[str, float]:
    """Return how good a model with some settings is, and how long its fit took."""
    graph, y, split = read(name, kind, seed)
    is_regression = (name, kind) in NUMBERS
    model = (GBGNNRegressor if is_regression else GBGNNClassifier)(random_state=seed, **settings)
    started = time.process_time(), time.perf_counter()
    model.fit(split.train, y[split.train], graph=graph, validation=(split.val, y[split.val]))
    seconds = time.process_time() - started[0], time.perf_counter() - started[1]
    judged = split.test
    if is_regression:
        score = r2_score(y[judged], model.predict(judged))
    else:
        score = log_loss(y[judged], model.predict_proba(judged), labels=model.classes_)
    return {"score": float(score), "cpu_seconds": seconds[0], "seconds": seconds[1]}


def tabulate(
    tasks: Sequence[tuple[Any, ...]], found: Sequence[dict[str, float]], clock: str
) -> tuple[list[list[str]], dict[str, Any]]:
    """Return a row per choice, the first item of a task, with a column per case and the mean seconds."""
    results: dict[str, Any] = {}
    for (choice, name, kind, _), each in zip(tasks, found, strict=True):
        results.setdefault(choice, {}).setdefault(f"{name}, {kind}", []).append(each)
    rows = []
    for choice, cases in results.items():
        means = [np.mean([each["score"] for each in runs]) for runs in cases.values()]
        seconds = np.mean([each[clock] for runs in cases.values() for each in runs])
        rows.append([choice, *(f"{mean:.4f}" for mean in means), f"{seconds:.1f}"])
    return rows, results


def header(first: str) -> list[str]:
    """Return the heads of the columns."""
    return [first, *(f"{name}, {kind}" for name, kind in CASES), "seconds"]
