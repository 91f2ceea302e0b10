"""A million labelled rows: the network of the paper's method by small batches and all rows at once.

1.5 million nodes of 32 columns, 1.2 million of them labelled, three links a node, eight classes that columns
and neighbours tell of. Every fit is a process of its own with two threads: seconds of the fit, data ready
before it, those that processors computed in it, and the most memory that the process ever held.
``--rows 120000`` is a tenth.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).parents[1]))
from children import answer_parent, run_child
from common import publish, resident_bytes, table

from gbgnn import MLP, GBGNNClassifier, Graph

N_COLUMNS, N_CLASSES, N_ROUNDS = 32, 8, 2
LEARNERS = {
    "default": {},
    "all rows at once, 50 epochs": {"batch_size": "all"},
    "all rows at once, 5 epochs": {"batch_size": "all", "epochs": 5},
}


def make(n_rows: int) -> tuple[Graph, np.ndarray, np.ndarray]:
    """Return a graph, its classes, and its nodes in a random order: those with labels first."""
    random, n = np.random.default_rng(0), n_rows * 5 // 4
    y = random.integers(N_CLASSES, size=n)
    # Of each class two lumps, so that no linear model tells classes apart.
    centres = random.standard_normal((2 * N_CLASSES, N_COLUMNS)).astype(np.float32)
    X = random.standard_normal((n, N_COLUMNS), dtype=np.float32)
    X += 0.6 * centres[y + N_CLASSES * random.integers(2, size=n)]
    order = np.argsort(y, kind="stable")
    starts = np.searchsorted(y[order], np.arange(N_CLASSES + 1))
    one, other = random.integers(n, size=(2, 3 * n // 2))
    alike = random.random(len(one)) < 0.5
    own = y[one[alike]]
    other[alike] = order[starts[own] + (random.random(len(own)) * np.diff(starts)[own]).astype(int)]
    A = sp.coo_array((np.ones(len(one), np.float32), (one, other)), shape=(n, n)).tocsr()
    A.setdiag(0)
    A.eliminate_zeros()
    A = A.maximum(A.T).tocsr()
    A.data[:] = 1
    return Graph(A, X), y, random.permutation(n)


def fit(n_rows: int, learner: str) -> dict[str, Any]:
    """Fit on so many labelled rows, and judge on the others."""
    graph, y, order = make(n_rows)
    settings = dict(LEARNERS[learner])
    if settings.get("batch_size") == "all":
        settings["batch_size"] = n_rows
    model = GBGNNClassifier(
        preset="fast", learner=MLP(**settings), n_rounds=N_ROUNDS, random_state=0, device="cpu"
    )
    train, test = order[:n_rows], order[n_rows:]
    before, computed, started = resident_bytes(), time.process_time(), time.perf_counter()
    model.fit(train, y[train], graph=graph)
    return {
        "seconds": time.perf_counter() - started,
        "computing": time.process_time() - computed,
        "before": before,
        "accuracy": float(model.score(test, y[test])),
    }


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_200_000)
    parser.add_argument("--learners", nargs="+", choices=list(LEARNERS), default=list(LEARNERS))
    parser.add_argument("--no-page", action="store_true", help="print only")
    answer_parent({"fit": fit})
    options = parser.parse_args()
    # Threads that wait for others that are not running would take their time from them.
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    found = {}
    for learner in options.learners:
        found[learner] = run_child("fit", n_rows=options.rows, learner=learner)
        print(learner, found[learner], flush=True)
    header = ("learner", "seconds", "of computing", "peak memory", "before the fit", "accuracy")
    rows = [
        (
            learner,
            f"{each['seconds']:.1f}",
            f"{each['computing']:.1f}",
            f"{each['peak'] / 1e6:,.0f} MB",
            f"{each['before'] / 1e6:,.0f} MB",
            f"{100 * each['accuracy']:.1f}",
        )
        for learner, each in found.items()
    ]
    about = f"{options.rows:,} labelled rows, {N_ROUNDS} rounds of one hidden layer of 64 units."
    lines = [about, "", *table(header, rows)]
    if options.no_page:
        print("\n".join(lines))
    else:
        publish("scale_labels", "A million labelled rows", lines, found)


if __name__ == "__main__":
    main()
