"""How trees of the default are grown: rows and columns that a tree sees, and its leaves; see held_out.py."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from common import Runner, publish, table
from held_out import CASES, CLASSES, NOTE, header, judge, tabulate

from gbgnn import BoostedTrees, FunctionalGradient, Neighbourhood

CHOICES: dict[str, dict[str, Any]] = {
    "all rows and columns, 31 leaves": {},
    "70 % of the rows": {"subsample": 0.7},
    "half of the columns": {"column_share": 0.5},
    "both": {"subsample": 0.7, "column_share": 0.5},
    "70 % of the rows, 15 leaves": {"subsample": 0.7, "max_leaves": 15},
    "both, 15 leaves": {"subsample": 0.7, "column_share": 0.5, "max_leaves": 15},
    "15 leaves": {"max_leaves": 15},
    "15 leaves, 63 bins": {"max_leaves": 15, "max_bins": 63},
    "15 leaves, 63 bins, steps of 0.1": {"max_leaves": 15, "max_bins": 63, "learning_rate": 0.1},
    "15 leaves, trees on all groups at once alone": {"max_leaves": 15, "columns": "all"},
    "15 leaves, classes weigh what they do at validation": {"max_leaves": 15, "class_weight": "validation"},
    "the same, and grown twice": {"max_leaves": 15, "class_weight": "validation", "n_variants": 2},
    "the same, and a forest of 100 trees": {
        **{"max_leaves": 15, "class_weight": "validation", "n_variants": 2},
        "n_forest": 100,
    },
}


def run(choice: str, name: str, kind: str, seed: int) -> dict[str, float]:
    """Return how good trees on a neighbourhood are, and how long they took."""
    chosen = {"n_trees": 1000, "learning_rate": 0.06, "patience": 20} | CHOICES[choice]
    class_weight = chosen.pop("class_weight", None)
    settings = {
        "learner": BoostedTrees(**chosen),
        "rule": FunctionalGradient(target="loss", learning_rate=1.0),
        "aggregation": "identity",
        "neighbourhood": Neighbourhood(),
        "n_rounds": 1,
        "device": "cpu",
    }
    if (name, kind) in CLASSES:
        settings["class_weight"] = class_weight
    return judge(settings, name, kind, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=Path("tree_choices.jsonl"))
    asked = parser.parse_args()
    tasks = [(choice, *case, seed) for choice in CHOICES for case in CASES for seed in range(asked.splits)]
    rows, results = tabulate(tasks, Runner(run, asked.cache, asked.jobs)(tasks), "cpu_seconds")
    note = f"{NOTE} ({asked.splits}); mean CPU seconds of a fit."
    lines = [note, "", *table(header("a tree sees"), rows)]
    publish("tree_choices", "How the default grows its trees", lines, results)


if __name__ == "__main__":
    main()
