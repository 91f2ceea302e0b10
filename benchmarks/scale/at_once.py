"""Twenty fits at once on one machine, each in a process of its own, beside the same fits one after the other.

Digits (trees and graph networks would be too slow to do twenty times) with the paper's method, and csbm with
the default. What oversubscribed threads would cost shows in the ratio: with one core each fit waits for the
others, and twenty at once take as long as twenty in turn, or less.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from children import answer_parent, run_child
from common import publish, table

from gbgnn import GBGNNClassifier, datasets

WHAT: dict[str, dict[str, Any]] = {
    "digits, paper's method": {"name": "digits", "settings": {"preset": "fast", "n_rounds": 40}},
    "csbm, default": {"name": "csbm", "settings": {}},
}


def fit(name: str, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Fit, and say how good the model is."""
    data = datasets.load(name)
    model = GBGNNClassifier(**settings, random_state=seed, device="cpu")
    started = time.perf_counter()
    model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))
    score = model.score(data.test, data.y[data.test])
    return {"seconds": time.perf_counter() - started, "score": float(score)}


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=20)
    options = parser.parse_args()
    cores = os.cpu_count() or 1
    rows, data = [], {}
    for what, own in WHAT.items():
        times: dict[int, float] = {}
        told: dict[int, list[dict[str, Any]]] = {}
        for n_beside in (1, options.fits):

            def one(seed: int, own: dict[str, Any] = own) -> dict[str, Any]:
                return run_child("fit", threads=cores, seed=seed, **own)

            started = time.perf_counter()
            with ThreadPoolExecutor(n_beside) as pool:
                told[n_beside] = list(pool.map(one, range(options.fits)))
            times[n_beside] = time.perf_counter() - started
        same = [a["score"] for a in told[1]] == [b["score"] for b in told[options.fits]]
        alone, at_once = times[1], times[options.fits]
        rows.append(
            [what, f"{alone:.0f}", f"{at_once:.0f}", f"{at_once / alone:.2f}", "yes" if same else "**no**"]
        )
        data[what] = {"in_turn": alone, "at_once": at_once, "same": same}
    head = ["what", "in turn, s", "at once, s", "ratio", "same accuracies"]
    lines = [
        f"{options.fits} processes, each with {cores} threads if it wants them; start and imports included. "
        "None failed.",
        "",
        *table(head, rows),
    ]
    publish("at_once", f"{options.fits} fits at once", lines, data)


if __name__ == "__main__":
    answer_parent({"fit": fit})
    main()
