"""Do the committed tables still mean what they say? Some records are fitted again from their settings.

A record of ``results/table1`` and ``results/table4`` holds the settings that a search chose and its seed.
Most were made on a GPU; here they are fitted on this machine, so that rounding differs.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from common import publish, table

from gbgnn import GBGNNClassifier, datasets
from gbgnn.datasets import Dataset

ROOT = Path(__file__).parents[1] / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=["table1", "table4"])
    parser.add_argument("--sample", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    records = [(name, row) for name in given.tables for row in read(name)]
    chosen = np.random.default_rng(given.seed).choice(len(records), given.sample, replace=False)
    known: dict[str, Dataset] = {}
    rows = []
    for name, record in (records[i] for i in sorted(chosen)):
        identity = record["identity"]
        data = known.setdefault(identity["dataset"], datasets.load(identity["dataset"]))
        found = refit(record, data)
        recorded = {part: record["results"][f"{part}_accuracy"] for part in found}
        what = f"{identity['variant']}, L = {identity['hidden_layers']}" + ", FT" * identity["fine_tune"]
        shown = [f"{100 * value:.1f}" for part in found for value in (recorded[part], found[part])]
        rows.append([name, data.name, what, identity["run"], *shown])
        print(rows[-1], flush=True)
    moved = np.array([float(row[7]) - float(row[6]) for row in rows])
    head = ["table", "data", "variant", "run", "validation then", "now", "test then", "now"]
    lines = [
        *table(head, rows),
        "",
        f"Test accuracy: the same in {int((np.abs(moved) < 0.05).sum())} of {len(rows)}, mean difference "
        f"{moved.mean():+.2f} points, largest {np.abs(moved).max():.1f}.",
    ]
    publish("refit_records", "Records fitted again", lines, {"rows": rows})


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ROOT / name / "records.jsonl").read_text().splitlines()]


def refit(record: dict[str, Any], data: Dataset) -> dict[str, float]:
    """Return validation and test accuracy of a model with a record's settings and seed."""
    model = GBGNNClassifier(preset="fast").set_params(**record["settings"])
    model.set_params(random_state=record["identity"]["run"], device="cpu")
    model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))
    parts = {"val": data.val, "test": data.test}
    return {part: model.score(nodes, data.y[nodes]) for part, nodes in parts.items()}


if __name__ == "__main__":
    main()
