"""How the default settings were chosen: by validation accuracy alone, one setting for all data sets.

Every candidate is a change to one base setting. Test labels are not read anywhere in this file.
Candidates are ranked by mean validation accuracy at the last round. Two seeds move a mean by some 0.4
points; rows within that of the best count as equal, and among equals the base is kept. Beside
the three citation graphs, digits and a block model it looks at two more real graphs where their files
are at hand (``graphs/`` beside the Planetoid files).
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import PLANETOID, publish, table
from joblib import Parallel, delayed

from gbgnn import MLP, FunctionalGradient, GBGNNClassifier, InputInjection, Lazy, datasets
from gbgnn.datasets import Dataset

BASE: dict[str, Any] = {
    "aggregation": "adjacency",
    "mixing": None,
    "n_rounds": 20,
    "shrinkage": 0.3,
    "hidden_layers": 1,
    "units": 64,
    "dropout": 0.5,
    "weight_decay": 5e-3,
    "learning_rate": 0.01,
    "epochs": 50,
}
CHANGES: list[dict[str, Any]] = [
    {},
    {"aggregation": "kta"},
    {"aggregation": "injection", "mixing": 0.8},
    {"aggregation": "injection", "mixing": 0.9},
    {"aggregation": "injection", "mixing": 0.9, "shrinkage": 0.1, "n_rounds": 50},
    {"aggregation": "lazy", "mixing": 0.5},
    {"aggregation": "lazy", "mixing": 0.7},
    {"shrinkage": 0.1},
    {"shrinkage": 0.2},
    {"shrinkage": 0.4},
    {"shrinkage": 0.5},
    {"n_rounds": 10},
    {"n_rounds": 30},
    {"weight_decay": 1e-3},
    {"weight_decay": 1e-2},
    {"weight_decay": 2e-2},
    {"dropout": 0.0},
    {"units": 32},
    {"units": 128},
    {"hidden_layers": 0, "learning_rate": 0.05},
    {"hidden_layers": 2},
    {"learning_rate": 0.02, "epochs": 25},
    {"learning_rate": 0.02, "epochs": 50},
    {"epochs": 100},
]
MLP_SETTINGS = ("hidden_layers", "units", "dropout", "weight_decay", "learning_rate", "epochs")


def build(settings: dict[str, Any], seed: int) -> GBGNNClassifier:
    mixed = {"injection": InputInjection, "lazy": Lazy}.get(settings["aggregation"])
    return GBGNNClassifier(
        aggregation=mixed(mixing=settings["mixing"]) if mixed else settings["aggregation"],
        learner=MLP(**{name: settings[name] for name in MLP_SETTINGS}),
        rule=FunctionalGradient(learning_rate=settings["shrinkage"]),
        n_rounds=settings["n_rounds"],
        keep_learners=False,
        random_state=seed,
        device="cpu",
    )


def load(name: str, seed: int) -> Dataset:
    """Return a data set; digits and Computers have a random split per seed, Chameleon comes with ten."""
    if name == "computers":
        return datasets.load(_graphs() / "amazon_computers.npz", split="random", seed=seed)
    if name == "chameleon":
        return datasets.load(_graphs() / "chameleon_filtered.npz", split=seed % 10)
    if name == "csbm":
        settings = {"n_nodes": 5000, "n_classes": 4, "homophily": 0.6, "n_features": 64, "n_val": 1000}
        return datasets.csbm(**settings, seed=seed)
    return datasets.load(name, seed=seed)


def validation_accuracy(change: dict[str, Any], name: str, seed: int) -> tuple[float, float]:
    torch.set_num_threads(1)
    data, started = load(name, seed), time.perf_counter()
    model = build({**BASE, **change}, seed)
    model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))
    return 100 * model.history_[-1]["val_accuracy"], time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    names = [*PLANETOID, "digits", "csbm", *(["computers", "chameleon"] if _graphs().is_dir() else [])]
    runs = [(change, name, seed) for change in CHANGES for name in names for seed in range(args.seeds)]
    done = Parallel(args.jobs, verbose=5)(delayed(validation_accuracy)(*run) for run in runs)
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for (change, name, _), result in zip(runs, done, strict=True):
        found.setdefault(repr(change), {}).setdefault(name, []).append(result)
    means = {change: {name: np.mean(r, axis=0) for name, r in by.items()} for change, by in found.items()}
    score = {change: float(np.mean([by[name][0] for name in names])) for change, by in means.items()}
    rows = [
        [
            change if change != "{}" else "base",
            f"{score[change]:.2f}",
            *(f"{means[change][name][0]:.1f}" for name in names),
            f"{sum(means[change][name][1] for name in names):.1f}",
        ]
        for change in sorted(score, key=lambda change: -score[change])
    ]
    lines = [
        f"Base: `{BASE}`.",
        "",
        f"Validation accuracy at the last round, mean over {args.seeds} seeds. Seconds: one fit of each set, "
        "added up, on one thread.",
        "",
        *table(["change", "mean", *names, "seconds"], rows),
    ]
    publish("choose_defaults", "Choosing the defaults", lines, {"base": BASE, "found": found})


def _graphs() -> Path:
    folder = Path(os.environ.get("GBGNN_DATA", ""))
    return folder / "graphs" if (folder / "graphs").is_dir() else folder.parent / "graphs"


if __name__ == "__main__":
    main()
