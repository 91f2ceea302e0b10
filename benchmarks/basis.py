"""Training in coordinates of the labelled rows (``MLP(basis="rows")``) beside training on the features.

On real graphs: seconds of a fit and validation accuracy, the same seeds in both bases. A name or file ending
in ``@20`` gets a development split with 20 labels a class. On synthetic graphs with more and more features:
seconds of a fit. Both ways are timed in turns, and the fastest of several
counts on both sides. No test label is read.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from common import PLANETOID, publish, table
from development import development_data

from gbgnn import MLP, GBGNNClassifier, datasets
from gbgnn.datasets import Dataset

BASES = ("features", "rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--datasets", nargs="+", default=list(PLANETOID))
    parser.add_argument("--features", type=int, nargs="+", default=[100, 300, 1000, 3000, 10000])
    given = parser.parse_args()
    rows, growth = [], []
    for name in given.datasets:
        data = load(name).without_test_labels()
        seconds = times(data, given.rounds, given.repeats)
        found = {basis: accuracies(data, basis, given.rounds, given.seeds) for basis in BASES}
        rows.append(
            [data.name, data.graph.n_features, len(data.train), *seconds, *map(shown, found.values())]
        )
        print(rows[-1], flush=True)
    for n_features in given.features:
        data = datasets.csbm(n_nodes=2000, n_classes=7, per_class=20, n_features=n_features, seed=0)
        growth.append([n_features, *times(data, given.rounds, given.repeats)])
        print(growth[-1], flush=True)
    both = ["features, s", "rows, s", "faster"]
    head = ["data", "features", "labelled", *both, "validation, features", "validation, rows"]
    lines = [
        *table(head, ratios(rows, 3)),
        "",
        f"Validation accuracy in percent, mean and standard deviation over {given.seeds} seeds. "
        "And 2,000 nodes of a block model, 140 labelled:",
        "",
        *table(["features", *both], ratios(growth, 1)),
    ]
    title = f"Two bases of the first layer, {given.rounds} rounds"
    publish("basis", title, lines, {"data": rows, "growth": growth})


def load(name: str) -> Dataset:
    path, _, few = name.partition("@20")
    data = datasets.load(path)
    return development_data(data, seed=0) if name.endswith("@20") and not few else data


def build(basis: str, n_rounds: int, seed: int) -> GBGNNClassifier:
    return GBGNNClassifier(learner=MLP(basis=basis), n_rounds=n_rounds, random_state=seed, device="cpu")


def fit(data: Dataset, basis: str, n_rounds: int, seed: int) -> GBGNNClassifier:
    validation = (data.val, data.y[data.val])
    model = build(basis, n_rounds, seed)
    return model.fit(data.train, data.y[data.train], graph=data.graph, validation=validation)


def accuracies(data: Dataset, basis: str, n_rounds: int, n_seeds: int) -> list[float]:
    """Return the validation accuracy after the last round, which no one has chosen, for every seed."""
    return [fit(data, basis, n_rounds, seed).history_["val_accuracy"][-1] for seed in range(n_seeds)]


def times(data: Dataset, n_rounds: int, n_repeats: int) -> list[float]:
    """Return the seconds of a fit in each basis."""
    found: dict[str, list[float]] = {basis: [] for basis in BASES}
    for basis in BASES:
        fit(data, basis, 1, seed=0)  # what happens once
    for _ in range(n_repeats):
        for basis in BASES:
            started = time.perf_counter()
            fit(data, basis, n_rounds, seed=0)
            found[basis].append(time.perf_counter() - started)
    return [min(each) for each in found.values()]


def shown(values: list[float]) -> str:
    return f"{100 * np.mean(values):.1f} ± {100 * np.std(values, ddof=1):.1f}"


def ratios(rows: list[list], at: int) -> list[list]:
    """Return rows for a table, with the ratio after the two times."""
    return [
        [*row[:at], f"{row[at]:.2f}", f"{row[at + 1]:.2f}", f"{row[at] / row[at + 1]:.1f} x", *row[at + 2 :]]
        for row in rows
    ]


if __name__ == "__main__":
    main()
