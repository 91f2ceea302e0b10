"""The default step of kernel target alignment, on development splits (see development.py).

Models with the defaults and ``KernelTargetAlignment(learning_rate=...)``. Shown is the accuracy on all
nodes that did not train after 5, 10 and 20 rounds, mean over splits and seeds. No test node of the public
splits is looked at.
"""

from __future__ import annotations

import argparse

import numpy as np
from common import PLANETOID, publish, table
from development import curves_on, development_data, padded
from numpy.typing import NDArray

from gbgnn import MLP, GBGNNClassifier, KernelTargetAlignment, datasets
from gbgnn.datasets import Dataset

RATES, SHOWN, N_ROUNDS = (0.05, 0.02, 0.01, 0.005), (5, 10, 20), 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--datasets", nargs="+", default=list(PLANETOID))
    given = parser.parse_args()
    rows = []
    for name in given.datasets:
        splits = [development_data(datasets.load(name), seed) for seed in range(given.splits)]
        for rate in RATES:
            curve = np.mean([accuracies(each, rate, given.seeds, given.device) for each in splits], axis=0)
            rows.append([name, rate, *(round(100 * float(curve[t - 1]), 2) for t in SHOWN)])
            print(*rows[-1], flush=True)
    head = ["data", "learning rate", *(f"after {t} rounds" for t in SHOWN)]
    publish("alignment_rate", "The step of kernel target alignment", table(head, rows), rows)


def accuracies(data: Dataset, rate: float, n_seeds: int, device: str) -> NDArray[np.float64]:
    """Return the accuracy on all nodes that did not train after every round, mean over seeds."""
    models = [
        GBGNNClassifier(
            aggregation=KernelTargetAlignment(learning_rate=rate),
            learner=MLP(basis="rows"),
            n_rounds=N_ROUNDS,
            random_state=seed,
            device=device,
        )
        for seed in range(n_seeds)
    ]
    nodes = np.concatenate([data.val, data.test])
    mean: NDArray[np.float64] = padded(curves_on(nodes, data, models), N_ROUNDS).mean(axis=0)
    return mean


if __name__ == "__main__":
    main()
