"""What docs/decisions/0010 rests on: the scale of SAMME's steps, weight decay and the best epoch.

Adj, KTA and II with the settings that won in ``results/variants.json``, three sets, 100 epochs of Adam. All
numbers are validation accuracies; test labels are not read.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import PLANETOID, Runner, publish, table
from variants import build, winner_of

from gbgnn import FineTuner, Samme, datasets
from gbgnn.boosting.rules.samme import step

ERRORS, RATES, DECAYS = (None, 0.2, 0.05, 0.01), (1e-3, 1e-2), (0.0, 1e-3)


@dataclass(kw_only=True, eq=False, repr=False)
class Scaled(Samme):
    """SAMME whose steps are scaled to that of a learner with another error before tuning, or not at all."""

    soft_error: float | None = 0.05

    def soft_total(self, n_classes: int) -> float | None:
        """Return the step of that learner."""
        return None if self.soft_error is None else step(self.soft_error, n_classes)


def run(variant: str, name: str, error: float | None, rate: float, decay: float, device: str) -> list[float]:
    """Return the validation accuracy before tuning, at its end and at its best epoch."""
    torch.set_num_threads(1)
    data, settings = datasets.load(name), winner_of(variant, name, 1)
    tuner = FineTuner(learning_rate=rate, weight_decay=decay, keep="tuned")
    model = build(variant, settings, 1, seed=0).set_params(
        rule=Scaled(error_floor=settings["floor"], soft_error=error),
        fine_tune=tuner,
        keep_learners=True,
        select="last",
        device=device,
    )
    model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))
    tuning = model.fine_tuning_
    seen = [row["val_accuracy"] for row in tuning["history"]]
    return [100 * tuning["before"]["val_accuracy"], 100 * seen[-1], 100 * max(seen)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cache", type=Path, default=Path("finetuning-choices.jsonl"))
    args = parser.parse_args()
    tasks = [
        (variant, name, error, rate, decay, args.device)
        for name in PLANETOID
        for variant in ("Adj", "KTA", "II")
        for error in ERRORS
        for rate in RATES
        for decay in DECAYS
    ]
    done = Runner(run, args.cache, args.jobs)(tasks)
    rows: list[list[Any]] = []
    for error in ERRORS:
        for decay in DECAYS:
            found = [r for t, r in zip(tasks, done, strict=True) if t[2] == error and t[4] == decay]
            before, end, best = np.mean(found, axis=0)
            rows.append([error or "not scaled", decay, f"{end - before:+.1f}", f"{best - before:+.1f}"])
    lines = [
        "Change of validation accuracy by fine-tuning, in points, mean over 3 variants, 3 sets and 2 rates.",
        "",
        *table(["steps scaled to an error of", "weight decay", "at the end", "at the best epoch"], rows),
    ]
    publish("finetuning_choices", "Fine-tuning: what the defaults rest on", lines, [tasks, done])


if __name__ == "__main__":
    main()
