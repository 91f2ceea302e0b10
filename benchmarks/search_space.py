"""What one change of the settings is worth: what the ranges of ``default_space`` rest on.

Around one point of the space, one setting at a time is changed, and models are trained on development splits
(see development.py), several seeds on each. Shown is the accuracy on all nodes that did not train, mean over
the rounds from the fourth on, and how far it is from the unchanged one. No test node of the public splits is
looked at.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from common import PLANETOID, publish, table
from development import curves_on, development_data
from numpy.typing import NDArray

from gbgnn import datasets
from gbgnn.datasets import Dataset
from gbgnn.search import default_space

FIRST_ROUND = 4
CENTRE: dict[str, Any] = {
    "learner__epochs": 80,
    "learner__learning_rate": 0.012,
    "learner__weight_decay": 0.014,
    "learner__units": 64,
    "learner__dropout": 0.5,
    "rule__learning_rate": 0.02,
}
OF_VARIANT: dict[str, dict[str, Any]] = {
    "adj": {"rule__error_floor": 3e-3},
    "kta": {"rule__error_floor": 3e-3, "aggregation__epochs": 20, "aggregation__learning_rate": 3e-3},
    "ii": {"rule__error_floor": 3e-3, "aggregation__mixing": 0.9},
    "samme_r": {},
}
"""What else the centre of a variant has."""
STEPS: dict[str, list[Any]] = {"rule__learning_rate": [5e-3, 5e-2, 0.3, 1.0]}
CHANGES: dict[str, dict[str, list[Any]]] = {
    "adj": {
        **STEPS,
        "rule__error_floor": [1e-7, 3e-2],
        "learner__weight_decay": [1e-3, 5e-3, 2.5e-2],
        "learner__learning_rate": [3e-3, 5e-2],
        "learner__epochs": [30, 200],
        "learner__units": [16, 256],
        "learner__dropout": [0.0],
        "learner__standardize": [False],
        "feature_norm": [None],
    },
    "kta": {**STEPS, "aggregation__learning_rate": [1e-3, 1e-2, 5e-2], "feature_norm": [None]},
    "ii": {**STEPS, "aggregation__mixing": [0.6, 0.8, 1.0]},
    "samme_r": {**STEPS, "learner__weight_decay": [5e-3]},
}
DEEPER: list[dict[str, Any]] = [
    {"learner__hidden_layers": layers, "learner__weight_decay": decay}
    for layers in (0, 2, 3, 4)
    for decay in (5e-4, 2e-3, 5e-3, 1.4e-2)
]
"""Changes of the first variant."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--datasets", nargs="+", default=list(PLANETOID))
    parser.add_argument("--variants", nargs="+", default=["adj", "ii", "samme_r"])
    given = parser.parse_args()
    splits = {
        name: [development_data(datasets.load(name), seed) for seed in range(given.splits)]
        for name in given.datasets
    }
    rows, data = [], []
    for variant in given.variants:
        centre = CENTRE | OF_VARIANT[variant]
        found: dict[str, NDArray[np.float64]] = {}  # of the centre, by data set
        for change in changes_of(variant):
            cells = []
            for name, many in splits.items():
                model = {**centre, **change, "n_rounds": given.rounds, "select": "last"}
                accuracies = [accuracy(variant, model, each, given.seeds, given.device) for each in many]
                found.setdefault(name, np.array(accuracies))
                cells.append(
                    tell(np.array(accuracies), found[name]) if change else f"{100 * found[name].mean():.2f}"
                )
                data.append([variant, change, name, accuracies])
            label = ", ".join(f"{key} = {value}" for key, value in change.items()) or "the centre"
            rows.append([variant, label, *cells])
            print(*rows[-1], flush=True)
    publish("search_space", "One change of the settings", table(["", "", *splits], rows), data)


def changes_of(variant: str) -> list[dict[str, Any]]:
    """Return what is changed, first nothing."""
    singles = [{name: value} for name, values in CHANGES[variant].items() for value in values]
    return [{}, *singles, *(DEEPER if variant == "adj" else [])]


def accuracy(variant: str, settings: dict[str, Any], data: Dataset, n_seeds: int, device: str) -> float:
    """Return the accuracy on all nodes that did not train, mean over seeds and rounds."""
    nodes = np.concatenate([data.val, data.test])
    space = default_space(variant).replaced(settings)
    models = [space.build({}, seed).set_params(device=device) for seed in range(n_seeds)]
    curves = curves_on(nodes, data, models)
    return float(np.mean([np.mean(curve[FIRST_ROUND - 1 :] or [0.0]) for curve in curves]))


def tell(accuracies: NDArray[np.float64], centre: NDArray[np.float64]) -> str:
    """Return how far accuracies are from the centre's, and the standard error of that."""
    apart = 100 * (accuracies - centre)
    return f"{apart.mean():+.2f} ± {apart.std(ddof=1) / len(apart) ** 0.5:.2f}"


if __name__ == "__main__":
    main()
