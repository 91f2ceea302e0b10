"""Choices for few labels: consistency over all nodes, views, gates; on development splits.

Cora, CiteSeer and PubMed with 20 labels a class, 500 validation nodes and 1000 that judge, drawn from all but
the public test nodes (development.py).
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import Runner, publish, table
from development import development_data
from sklearn.metrics import log_loss

from gbgnn import ConsistentNetwork, FunctionalGradient, GBGNNClassifier, Turns
from gbgnn.datasets import load

DATASETS = ("cora", "citeseer", "pubmed")
QUICK: dict[str, Any] = {"n_views": 2, "n_hops": 5}
GATE: dict[str, Any] = {"gate_decay": 0.005, "learning_rate": 0.01, "weight_decay": 0.0005}
NETWORKS: dict[str, dict[str, Any]] = {
    "4 views, 8 hops": {},
    "2 views, 5 hops": QUICK,
    "2 views, 5 hops, a gate": QUICK | GATE,
    "2 views, 5 hops, steps of 0.1": QUICK | {"learning_rate": 0.1},
    "2 views, 5 hops, no consistency": QUICK | {"consistency": 0.0},
    "4 views, 8 hops, a gate": GATE,
    "4 views, 8 hops, consistency 2": {"consistency": 2.0},
    "4 views, 8 hops, rows of l1": {"row_norm": "l1", "weight_decay": 0.0005},
    "4 views, 8 hops, 64 units": {"units": 64},
    "4 views, pagerank": {"hops": "pagerank", "n_hops": 10},
    "4 views, 8 hops, columns dropped": {"feature_dropout": 0.3},
    "4 views, 8 hops, weight decay 0.004": {"weight_decay": 0.004},
}
L1 = ConsistentNetwork(row_norm="l1", weight_decay=0.0005, n_hops=4)


def alone(network: ConsistentNetwork, **more: Any) -> dict[str, Any]:
    rule = FunctionalGradient(target="loss", learning_rate=1.0, retries=0)
    return {"learner": network, "rule": rule, "n_rounds": 1, "class_weight": "validation", **more}


def rounds(learner: Any, n_rounds: int, step: float) -> dict[str, Any]:
    rule = FunctionalGradient(target="loss", learning_rate=step, retries=0)
    return alone(learner, rule=rule, n_rounds=n_rounds, select="last")


CHOICES: dict[str, dict[str, Any]] = {
    "the paper's method": {"preset": "fast"},
    **{name: alone(ConsistentNetwork(**own)) for name, own in NETWORKS.items()},
    "4 views, 8 hops, classes weigh the same": alone(ConsistentNetwork(), class_weight=None),
    "4 rounds alike, step 0.4": rounds(ConsistentNetwork(), 4, 0.4),
    "4 rounds taking turns, step 0.4": rounds(Turns(odd=ConsistentNetwork(), even=L1), 4, 0.4),
    "4 rounds taking turns, step 0.4, teacher": rounds(
        Turns(
            odd=ConsistentNetwork(teacher=0.3), even=ConsistentNetwork(**L1.get_params() | {"teacher": 0.3})
        ),
        4,
        0.4,
    ),
}


def run(choice: str, name: str, seed: int, *, device: str) -> dict[str, float]:
    """Return how good a choice is, and how long it took."""
    data = development_data(load(name), seed)
    model = GBGNNClassifier(random_state=seed, device=device, **CHOICES[choice])
    started = time.process_time(), time.perf_counter()
    model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))
    used, passed = time.process_time() - started[0], time.perf_counter() - started[1]
    proba, y = model.predict_proba(data.test), data.y[data.test]
    return {
        "accuracy": float((model.classes_[proba.argmax(axis=1)] == y).mean()),
        "loss": float(log_loss(y, proba, labels=model.classes_)),
        "validation": float(model.score(data.val, data.y[data.val])),
        "seconds": used if device == "cpu" else passed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--choices", nargs="+", choices=CHOICES, default=list(CHOICES))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=Path("few_label_choices.jsonl"))
    parser.add_argument("--no-page", action="store_true")
    asked = parser.parse_args()
    tasks = [
        (choice, name, seed) for choice in asked.choices for seed in range(asked.splits) for name in DATASETS
    ]
    found = Runner(partial(run, device=asked.device), asked.cache, asked.jobs)(tasks)
    columns: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    for (choice, name, _), result in zip(tasks, found, strict=True):
        columns[choice, name].append(result)

    def mean(choice: str, name: str, figure: str) -> float:
        return float(np.mean([result[figure] for result in columns[choice, name]]))

    rows = [
        [
            choice,
            *(
                f"{100 * mean(choice, name, 'accuracy'):.1f} ({mean(choice, name, 'loss'):.3f})"
                for name in DATASETS
            ),
            " / ".join(f"{mean(choice, name, 'seconds'):.1f}" for name in DATASETS),
        ]
        for choice in asked.choices
    ]
    lines = table(["choice", *DATASETS, "seconds"], rows)
    if asked.no_page:
        print("\n".join(lines))
        return
    note = (
        f"Accuracy in percent (log loss) of nodes that no fit saw, mean over {asked.splits} development "
        f"splits; mean seconds of a fit, {asked.jobs} at once, on {asked.device}."
    )
    results = [{"choice": choice, "data": name, "runs": runs} for (choice, name), runs in columns.items()]
    publish("few_label_choices", "Choices for few labels", [note, "", *lines], results)


if __name__ == "__main__":
    main()
