"""How far probabilities can be trusted: no calibration, one temperature, temperatures along the graph, GATS.

Per seed a model (preset="fast") is fitted with up to 500 held-out nodes as validation nodes, which also
calibrate it, as is usual; at most a third of the held-out nodes. ECE (15 bins) and log loss are of all other
held-out nodes. GATS is the laboratory's (``gbgnn_lab/baselines/gats.py``), with its authors' settings.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import RESULTS, Runner, publish, table
from held_out_graphs import CLASSES, HeldOutGraph, read
from scipy.special import softmax

from gbgnn import Calibrated, GBGNNClassifier
from gbgnn.calibration import find_proba
from gbgnn.reliability import Reliability
from gbgnn_lab.baselines.gats import GATS, fit_gats

METHODS = ("none", "temperature", "graph", "GATS")
MOST = 500


def run(name: str, seed: int) -> dict[str, Any]:
    """Return accuracy, and for every method ECE, log loss and seconds, of one seed."""
    data = read(name)
    drawn = np.random.default_rng(seed).permutation(data.held_out)
    n_known = min(MOST, len(drawn) // 3)
    known, others = drawn[:n_known], drawn[n_known:]
    y = data.y
    model = GBGNNClassifier(preset="fast", random_state=seed)
    model.fit(data.train, y[data.train], graph=data.graph, validation=(known, y[known]))
    is_right = model.predict(others) == y[others]
    result: dict[str, Any] = {"accuracy": float(is_right.mean()), "nodes": len(others)}
    for method in METHODS:
        started = time.perf_counter()
        proba = calibrate(method, model, data, known, seed)[others]
        seconds = time.perf_counter() - started
        targets = model.task_.encode(y[others])
        own = proba[np.arange(len(others)), targets]
        result[method] = {
            "ece": Reliability.measure(proba.max(axis=1), is_right).ece,
            "log_loss": float(-np.log(np.maximum(own, 1e-12)).mean()),
            "seconds": seconds,
        }
    return result


def calibrate(
    method: str, model: GBGNNClassifier, data: HeldOutGraph, known: np.ndarray, seed: int
) -> np.ndarray:
    """Return the probabilities of all nodes."""
    if method == "none":
        return find_proba(model.model_)
    if method != "GATS":
        fitted = Calibrated(model, method=method).fit(known, data.y[known])
        return find_proba(fitted.model_)
    torch.manual_seed(seed)
    scores = torch.as_tensor(np.log(np.maximum(find_proba(model.model_), 1e-12))).float()
    layer = GATS(data.graph, data.train, scores.shape[1])
    encode = model.task_.encode
    pairs = ((nodes, encode(data.y[nodes])) for nodes in (known, data.train))
    temperatures = fit_gats(layer, scores, *pairs)
    return softmax(scores.double().numpy() / temperatures[:, None], axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--graphs", nargs="*", default=CLASSES)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=RESULTS / "calibration.jsonl")
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    tasks = [(name, seed) for name in asked.graphs for seed in range(asked.seeds)]
    found = Runner(run, asked.cache, asked.jobs)(tasks)
    data: dict[str, list[dict[str, Any]]] = {}
    for (name, _), each in zip(tasks, found, strict=True):
        data.setdefault(name, []).append(each)
    lines = [*(__doc__ or "").strip().splitlines(), ""]
    for figure, title, scale, digits in (("ece", "ECE, %", 100, 1), ("log_loss", "log loss", 1, 3)):
        rows = []
        for name, runs in data.items():
            cells = [f"{100 * np.mean([each['accuracy'] for each in runs]):.1f}"]
            for method in METHODS:
                values = scale * np.array([each[method][figure] for each in runs])
                cells.append(f"{values.mean():.{digits}f} ± {values.std():.{digits}f}")
            rows.append([name, *cells])
        lines += [f"## {title}", "", *table(["graph", "accuracy, %", *METHODS], rows), ""]
    seconds = [
        [name, *(f"{np.mean([each[method]['seconds'] for each in runs]):.2f}" for method in METHODS)]
        for name, runs in data.items()
    ]
    lines += ["## Seconds to calibrate", "", *table(["graph", *METHODS], seconds)]
    publish("calibration", f"Calibration on held-out nodes, {asked.seeds} seeds", lines, data)


if __name__ == "__main__":
    main()
