"""Tables without links: a graph of nearest neighbours and our default, against scikit-learn's own systems.

Tables of scikit-learn (breast cancer, digits, wine) with 1, 5 and 10 % of the rows labelled, and of every
class at least two. ``LabelSpreading`` and ``SelfTrainingClassifier`` are tuned over a small grid by cross
validation on the labelled rows; ``HistGradientBoosting`` sees these alone. Ours is
``GBGNNClassifier().fit(rows, y, graph=Graph.from_neighbors(X))``. Accuracy of all other rows, ten draws.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from common import publish, table
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from gbgnn import GBGNNClassifier, Graph

TABLES = {
    "breast cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
    "wine": datasets.load_wine,
}
SHARES = (0.01, 0.05, 0.1)


def draw_labelled(y: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Return rows to label, at least two of every class."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(y))
    first = np.concatenate([order[y[order] == each][:2] for each in np.unique(y)])
    rest = order[~np.isin(order, first)]
    return np.concatenate([first, rest[: max(0, round(share * len(y)) - len(first))]])


def fit_ours(X: np.ndarray, y: np.ndarray, rows: np.ndarray, seed: int) -> np.ndarray:
    model = GBGNNClassifier(random_state=seed)
    return model.fit_predict(rows, y[rows], graph=Graph.from_neighbors(X, k=10))


def fit_spreading(X: np.ndarray, y: np.ndarray, rows: np.ndarray, seed: int) -> np.ndarray:
    grid = [
        {"kernel": "knn", "n_neighbors": k, "alpha": a, "max_iter": 100}
        for k in (5, 10, 20)
        for a in (0.05, 0.2, 0.5)
    ]
    Z = StandardScaler().fit_transform(X)
    return choose(lambda setting: LabelSpreading(**setting), grid, Z, y, rows, seed)


def fit_self_training(X: np.ndarray, y: np.ndarray, rows: np.ndarray, seed: int) -> np.ndarray:
    grid = [{"C": c, "threshold": t} for c in (0.1, 1.0, 10.0) for t in (0.75, 0.9)]

    def build(setting: dict[str, Any]) -> Any:
        base = make_pipeline(StandardScaler(), LogisticRegression(C=setting["C"], max_iter=1000))
        return SelfTrainingClassifier(base, threshold=setting["threshold"])

    return choose(build, grid, X, y, rows, seed)


def fit_trees(X: np.ndarray, y: np.ndarray, rows: np.ndarray, seed: int) -> np.ndarray:
    model = HistGradientBoostingClassifier(
        min_samples_leaf=min(20, max(1, len(rows) // 20)), random_state=seed
    )
    return model.fit(X[rows], y[rows]).predict(X)


def choose(
    build: Callable[[dict[str, Any]], Any],
    grid: list[dict[str, Any]],
    X: np.ndarray,
    y: np.ndarray,
    rows: np.ndarray,
    seed: int,
) -> np.ndarray:
    """Return the predictions of the setting that is best in two folds of the labelled rows."""
    folds = list(StratifiedKFold(2, shuffle=True, random_state=seed).split(rows, y[rows]))
    scores = []
    for setting in grid:
        right = [
            np.mean(build(setting).fit(X, hide(y, rows[seen])).predict(X[rows[held]]) == y[rows[held]])
            for seen, held in folds
        ]
        scores.append(np.mean(right))
    return build(grid[int(np.argmax(scores))]).fit(X, hide(y, rows)).predict(X)


def hide(y: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return y with -1 for all rows that are not labelled, as scikit-learn has it."""
    hidden = np.full(len(y), -1)
    hidden[rows] = y[rows]
    return hidden


SYSTEMS = {
    "gbgnn, default": fit_ours,
    "LabelSpreading, tuned": fit_spreading,
    "SelfTraining, tuned": fit_self_training,
    "HistGradientBoosting": fit_trees,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    draws = parser.parse_args().draws
    warnings.filterwarnings("ignore")  # of scikit-learn's, that an iteration has not converged
    results: dict[str, Any] = {}
    rows_of_table = []
    for name, system in SYSTEMS.items():
        cells, seconds = [], []
        for title, read in TABLES.items():
            X, y = read(return_X_y=True)
            for share in SHARES:
                found = []
                for seed in range(draws):
                    labelled = draw_labelled(y, share, seed)
                    started = time.perf_counter()
                    predicted = system(X, y, labelled, seed)
                    seconds.append(time.perf_counter() - started)
                    others = np.setdiff1d(np.arange(len(y)), labelled)
                    found.append(float(np.mean(predicted[others] == y[others])))
                results.setdefault(title, {}).setdefault(f"{share:.0%}", {})[name] = found
                cells.append(f"{100 * np.mean(found):.1f} ± {100 * np.std(found):.1f}")
        rows_of_table.append([name, *cells, f"{np.mean(seconds):.2f}"])
        print(*rows_of_table[-1], sep="  ", flush=True)
    header = ["system", *(f"{title}, {share:.0%}" for title in TABLES for share in SHARES), "seconds"]
    note = f"Accuracy of the rows without a label in percent, mean ± standard deviation over {draws} draws."
    publish("without_links", "Tables without links", [note, "", *table(header, rows_of_table)], results)


if __name__ == "__main__":
    main()
