"""The graph network that follows the trees of the default: its size, and what it hears; see held_out.py.

Trees are those of LightGBM where it is installed, else scikit-learn's.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from common import Runner, publish, table
from held_out import CASES, NOTE, header, judge, tabulate

from gbgnn import BoostedTrees, FunctionalGradient, GraphNetwork, Neighbourhood, Stages

TREES = BoostedTrees(n_trees=1000, learning_rate=0.06, max_leaves=15, patience=20)
NETWORKS: dict[str, dict[str, Any]] = {
    "8 blocks of 32": {"epochs": 150},
    "hears no labels": {"label_share": 0.0, "epochs": 150},
    "3 blocks of 64": {"depth": 3, "units": 64, "epochs": 150},
    "5 blocks of 64": {"depth": 5, "units": 64, "epochs": 150},
    "8 blocks of 64": {"units": 64, "epochs": 150},
    "12 blocks of 32": {"depth": 12, "epochs": 150},
    "no dropout": {"dropout": 0.0, "epochs": 150},
    "dropout 0.4": {"dropout": 0.4, "epochs": 150},
    "300 epochs": {},
}
NEIGHBOURHOOD = {"aggregation": "identity", "neighbourhood": Neighbourhood()}
CHOICES: dict[str, dict[str, Any]] = {
    "trees alone": {"learner": TREES, "n_rounds": 1, **NEIGHBOURHOOD},
    "network alone": {"learner": GraphNetwork(epochs=150), "n_rounds": 1},
    **{
        f"trees, then {name}": {
            "learner": Stages(first=TREES, then=GraphNetwork(**own)),
            "n_rounds": 2,
            **NEIGHBOURHOOD,
        }
        for name, own in NETWORKS.items()
    },
}


def run(choice: str, name: str, kind: str, seed: int, *, device: str) -> dict[str, float]:
    """Return how good a choice is, and how long it took."""
    rule = FunctionalGradient(target="loss", learning_rate=1.0, retries=0)
    settings = {"rule": rule, "propagation": "random_walk", "select": "last", "device": device}
    return judge(settings | CHOICES[choice], name, kind, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=Path("network_choices.jsonl"))
    asked = parser.parse_args()
    tasks = [(choice, *case, seed) for choice in CHOICES for case in CASES for seed in range(asked.splits)]
    found = Runner(partial(run, device=asked.device), asked.cache, asked.jobs)(tasks)
    rows, results = tabulate(tasks, found, "seconds")
    note = f"{NOTE} ({asked.splits}); mean seconds of a fit, {asked.jobs} at once, on {asked.device}."
    lines = [note, "", *table(header("rounds"), rows)]
    publish("network_choices", "The network that follows the trees of the default", lines, results)


if __name__ == "__main__":
    main()
