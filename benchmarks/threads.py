"""Whether the number of torch threads shows in a fit, and by how much; and with deterministic algorithms."""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import torch
from common import publish, table

from gbgnn import BoostedTrees, FineTuner, GBGNNClassifier, datasets

FAST = {"preset": "fast"}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("the paper's method", "cora", FAST | {"n_rounds": 10}),
    ("the paper's method", "citeseer", FAST | {"n_rounds": 10}),
    ("the paper's method", "pubmed", FAST | {"n_rounds": 10}),
    ("kernel target alignment", "cora", {"aggregation": "kta", "n_rounds": 5}),
    ("SAMME.R, double precision", "cora", {"rule": "samme_r", "dtype": "float64", "n_rounds": 5}),
    ("learned mixing of columns", "cora", {"aggregation": "nonlinear", "n_rounds": 2}),
    ("over-parameterised learner", "pubmed", {"learner": "wide", "n_rounds": 1}),
    ("fine-tuned", "cora", FAST | {"n_rounds": 5, "fine_tune": FineTuner(epochs=20)}),
    ("fine-tuned", "pubmed", FAST | {"n_rounds": 5, "fine_tune": FineTuner(epochs=20)}),
    ("trees", "pubmed", {"learner": BoostedTrees(n_trees=5), "n_rounds": 1}),
    ("the default", "cora", {"n_rounds": 20}),
]
THREADS = (1, 2, 4)


def fit_scores(data: datasets.Dataset, settings: dict[str, Any], n_threads: int) -> np.ndarray:
    """Return the probabilities of all nodes."""
    torch.set_num_threads(n_threads)
    model = GBGNNClassifier(random_state=0, device="cpu", **settings)
    with warnings.catch_warnings(action="ignore"):
        model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))
    return model.predict_proba(np.arange(data.graph.n_nodes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    rows, found = [], []
    for title, name, settings in CASES:
        data = datasets.load(name)
        plain = [fit_scores(data, settings, n) for n in THREADS]
        torch.use_deterministic_algorithms(True)
        exact = [fit_scores(data, settings, n) for n in THREADS]
        torch.use_deterministic_algorithms(False)
        moved = max(float(abs(other - plain[0]).max()) for other in plain)
        labels = max(float((other.argmax(1) != plain[0].argmax(1)).mean()) for other in plain)
        is_same = all(other.tobytes() == plain[0].tobytes() for other in exact)
        found.append({"case": title, "data": name, "moved": moved, "labels": labels, "exact": is_same})
        told = "the same bytes" if moved == 0 else f"{moved:.1e}, {100 * labels:.2f} % of labels"
        rows.append([title, name, told, "the same bytes" if is_same else "NOT the same"])
        print(rows[-1], flush=True)
    lines = [
        f"Probabilities of all nodes with {', '.join(map(str, THREADS))} torch threads, seed 0: the largest "
        "difference from one thread, and how many labels it changes.",
        "",
        *table(["what", "data", "as it is", "`torch.use_deterministic_algorithms(True)`"], rows),
    ]
    publish("threads", "Does the number of threads show?", lines, found)


if __name__ == "__main__":
    main()
