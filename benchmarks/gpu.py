"""The same call on a GPU: its agreement with the CPU, its reproducibility and its cost.

Needs a CUDA device. The graphs are contextual stochastic block models, 10 edges a node, 64 features, 4
classes, 100 labels per class.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from common import publish, table

from gbgnn import FineTuner, GBGNNClassifier, datasets
from gbgnn.datasets import Dataset


def fit(data: Dataset, device: str, **settings: object) -> tuple[GBGNNClassifier, float]:
    started = time.perf_counter()
    keep = "fine_tune" in settings
    model = GBGNNClassifier(random_state=0, device=device, keep_learners=keep, **settings)
    model.fit(data.train, data.y[data.train], graph=data.graph)
    return model, time.perf_counter() - started


def tune(n_rounds: int, device: str) -> float:
    """Return the seconds of an epoch of fine-tuning, after the first few."""
    data = datasets.csbm(n_nodes=20_000, n_classes=4, n_features=64, per_class=100, seed=0)
    tuner = FineTuner(epochs=30, keep="tuned")
    model = GBGNNClassifier(
        aggregation="kta",
        rule="samme",
        n_rounds=n_rounds,
        select="last",
        fine_tune=tuner,
        random_state=0,
        device=device,
    )
    model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))
    return float(np.mean([row["seconds"] for row in model.fine_tuning_["history"][5:]]))


def main() -> None:
    small = datasets.csbm(n_nodes=20_000, n_classes=4, n_features=64, per_class=100, seed=0)
    nodes, agreement = np.arange(small.graph.n_nodes), []
    for settings in (
        {},
        {"aggregation": "kta"},
        {"rule": "samme"},
        {"rule": "samme_r"},
        {"aggregation": "linear"},
        {"learner": "constrained"},
        {"learner": "wide", "n_rounds": 5},
        {"dtype": "float64"},
        {"fine_tune": True},
        {"fine_tune": True, "aggregation": "kta", "rule": "samme"},
        {"fine_tune": True, "aggregation": "injection", "rule": "samme_r"},
    ):
        fit(small, "cuda", **settings)  # warms the device up
        on_gpu, again = (fit(small, "cuda", **settings)[0] for _ in range(2))
        on_cpu, _ = fit(small, "cpu", **settings)
        same_bytes = on_gpu.scores_.tobytes() == again.scores_.tobytes()
        agree = (on_gpu.predict(nodes) == on_cpu.predict(nodes)).mean()
        accuracy = on_gpu.score(small.test, small.y[small.test])
        agreement.append(
            [settings or "defaults", same_bytes, f"{100 * agree:.2f} %", f"{100 * accuracy:.1f} %"]
        )
    rows = []
    for n_nodes in (20_000, 200_000, 2_000_000):
        data = datasets.csbm(n_nodes=n_nodes, n_classes=4, n_features=64, per_class=100, seed=0)
        torch.cuda.reset_peak_memory_stats()
        fit(data, "cuda", n_rounds=1)
        model, seconds = fit(data, "cuda")
        peak = torch.cuda.max_memory_allocated() / 2**30
        cpu_seconds = fit(data, "cpu")[1] if n_nodes <= 200_000 else float("nan")
        score = model.score(data.test, data.y[data.test])
        rows.append(
            [
                f"{n_nodes:,}",
                f"{data.graph.n_edges:,}",
                f"{seconds:.2f}",
                f"{cpu_seconds:.2f}",
                f"{peak:.2f}",
                f"{100 * score:.1f} %",
            ]
        )
    tuning = [
        [f"{n_rounds}", *(f"{1000 * tune(n_rounds, on):.0f}" for on in ("cuda", "cpu"))]
        for n_rounds in (5, 20, 40)
    ]
    lines = [
        "Agreement of predicted classes over 20,000 nodes:",
        "",
        *table(["settings", "same bytes twice", "CPU = GPU", "test accuracy"], agreement),
        "",
        "A default fit, building P and moving the data included:",
        "",
        *table(["nodes", "edges", "GPU, s", "CPU, s", "GPU peak, GiB", "test accuracy"], rows),
        "",
        "An epoch of fine-tuning, 20,000 nodes, KTA, SAMME, all parts moving, 500 validation nodes watched:",
        "",
        *table(["rounds", "GPU, ms", "CPU, ms"], tuning),
    ]
    publish(
        "gpu",
        "On a GPU",
        lines,
        {"agreement": [list(map(str, row)) for row in agreement], "scale": rows, "tuning": tuning},
    )


if __name__ == "__main__":
    main()
