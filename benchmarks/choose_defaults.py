"""How the default settings were chosen: by validation accuracy alone, one setting for all data sets.

Every candidate is a change to one base setting. Test labels are not read anywhere in this file. The
candidate with the highest mean validation accuracy (last round, no choice of round) wins.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from common import PLANETOID, publish, table

from gbgnn import MLP, FunctionalGradient, GBGNNClassifier, InputInjection, datasets

BASE = {
    "aggregation": "adjacency",
    "mixing": None,
    "n_rounds": 30,
    "shrinkage": 0.1,
    "hidden_layers": 1,
    "units": 64,
    "dropout": 0.5,
    "weight_decay": 5e-3,
    "learning_rate": 0.01,
    "epochs": 50,
}
CHANGES = [
    {},
    {"aggregation": "injection", "mixing": 0.9},
    {"aggregation": "injection", "mixing": 0.95},
    {"aggregation": "kta"},
    {"weight_decay": 1e-3},
    {"weight_decay": 1e-2},
    {"weight_decay": 2e-2},
    {"learning_rate": 0.02, "epochs": 25},
    {"learning_rate": 0.02, "epochs": 25, "weight_decay": 1e-2},
    {"learning_rate": 0.02, "epochs": 25, "weight_decay": 1e-2, "units": 32},
    {"learning_rate": 0.05, "epochs": 10, "weight_decay": 1e-2},
    {"shrinkage": 0.2},
    {"shrinkage": 0.05},
    {"n_rounds": 20},
    {"n_rounds": 50},
    {"dropout": 0.0},
    {"hidden_layers": 0, "learning_rate": 0.05},
]


def build(settings: dict[str, object], seed: int) -> GBGNNClassifier:
    aggregation = settings["aggregation"]
    mlp = {
        k: settings[k]
        for k in ("hidden_layers", "units", "dropout", "weight_decay", "learning_rate", "epochs")
    }
    return GBGNNClassifier(
        aggregation=InputInjection(mixing=settings["mixing"]) if settings["mixing"] else aggregation,
        learner=MLP(**mlp),
        rule=FunctionalGradient(learning_rate=settings["shrinkage"]),
        n_rounds=settings["n_rounds"],
        keep_learners=False,
        random_state=seed,
        device="cpu",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(parser.parse_args().seeds)
    sets = {name: [datasets.load(name)] * len(seeds) for name in PLANETOID}
    sets["digits"] = [datasets.load("digits", seed=seed) for seed in seeds]
    results = []
    for change in CHANGES:
        settings, row = {**BASE, **change}, {"change": change}
        for name, loaded in sets.items():
            started, accuracies = time.perf_counter(), []
            for seed, data in zip(seeds, loaded, strict=True):
                model = build(settings, seed)
                validation = (data.val, data.y[data.val])
                model.fit(data.train, data.y[data.train], graph=data.graph, validation=validation)
                accuracies.append(model.history_[-1]["val_accuracy"])
            row[name] = float(np.mean(accuracies))
            row[f"{name}_seconds"] = (time.perf_counter() - started) / len(seeds)
        row["mean"] = float(np.mean([row[name] for name in sets]))
        results.append(row)
        print(row, flush=True)
    results.sort(key=lambda row: -row["mean"])
    rows = [
        [row["change"] or "base", f"{100 * row['mean']:.2f}", *(f"{100 * row[name]:.1f}" for name in sets)]
        for row in results
    ]
    lines = [f"Base: {BASE}. Validation accuracy at the last round, mean over {len(seeds)} seeds.", ""]
    publish(
        "choose_defaults", "Choosing the defaults", [*lines, *table(["change", "mean", *sets], rows)], results
    )


if __name__ == "__main__":
    main()
