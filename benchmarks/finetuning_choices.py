"""What the choices in fine-tuning rest on: the scale of SAMME's steps, the best epoch, rate and weight decay.

Models are boosted on development splits (see development.py) and tuned for a hundred epochs. Shown is by how
much the accuracy changes, in points: of the validation nodes at the end, and of nodes that are held out at
the epoch that the validation nodes choose. No test node of the public splits is looked at.

The first table has the paper's SAMME, with steps of 1 and a floor of the error of 1e-7, and is the mean over
variants and data sets. The second has the middle of ``default_space``, which searches rate and weight decay.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import PLANETOID, Runner, publish, table
from development import development_data
from search_space import CENTRE, OF_VARIANT

from gbgnn import FineTuner, Samme, datasets
from gbgnn.boosting import Voting
from gbgnn.boosting.voting import ClassVoting, samme_step
from gbgnn.search import default_space
from gbgnn.tasks import Task

N_ROUNDS, DEFAULT_ERROR = 10, 0.05
SCALES = list(product((None, 0.2, 0.05, 0.01), (1e-3,), (0.0, 1e-3)))
RATES = list(product((DEFAULT_ERROR,), (1e-4, 1e-3, 1e-2), (1e-5, 1e-3, 1e-2)))
"""An error to scale to, a rate and a weight decay."""


@dataclass(frozen=True)
class ScaledVoting(ClassVoting):
    """SAMME's vote, its steps scaled to that of a learner with another error before tuning, or not at all."""

    soft_error: float | None = DEFAULT_ERROR

    def fine_tuning_total(self) -> float | None:
        """Return the step of that learner."""
        return None if self.soft_error is None else samme_step(self.soft_error, self.n_classes)


@dataclass(kw_only=True, eq=False, repr=False)
class Scaled(Samme):
    """SAMME that votes so."""

    soft_error: float | None = DEFAULT_ERROR

    def voting_for(self, task: Task) -> Voting:
        """Return the vote with that error."""
        return ScaledVoting(task.n_columns, task.n_columns, soft_error=self.soft_error)


def run(
    variant: str,
    name: str,
    split: int,
    is_papers: bool,
    error: float | None,
    rate: float,
    decay: float,
    device: str,
) -> list[float]:
    """Return the change at the end, on validation nodes, and at the best epoch, on those held out."""
    torch.set_num_threads(1)
    data = development_data(datasets.load(name), split)
    own = CENTRE | OF_VARIANT[variant] | {"n_rounds": N_ROUNDS, "select": "last"}
    rule = {part: own.pop(f"rule__{part}") for part in ("learning_rate", "error_floor")}
    if is_papers:
        rule = {}
    model = default_space(variant).replaced(own).build({}, seed=0)
    model.set_params(rule=Scaled(**rule, soft_error=error), device=device)
    accuracies = []
    for tuner in (None, FineTuner(learning_rate=rate, weight_decay=decay, keep="tuned")):
        model.set_params(fine_tune=tuner)
        model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))
        accuracies.append(model.score(data.test, data.y[data.test]))
    tuning = model.fine_tuning_
    at_end = tuning["history"][-1]["val_accuracy"] - tuning["before"]["val_accuracy"]
    return [100 * at_end, 100 * (accuracies[1] - accuracies[0])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--datasets", nargs="+", default=list(PLANETOID))
    parser.add_argument("--variants", nargs="+", default=["adj", "kta", "ii"])
    parser.add_argument("--cache", type=Path, default=Path("finetuning-choices.jsonl"))
    given = parser.parse_args()
    execute = Runner(run, given.cache, given.jobs)
    places = list(product(given.variants, given.datasets, range(given.splits)))

    def changes(is_papers: bool, choices: list[Any]) -> Any:
        tasks = [(*place, is_papers, *choice, given.device) for choice in choices for place in places]
        shape = len(choices), len(given.variants), len(given.datasets), given.splits, 2
        return np.reshape(execute(tasks), shape)

    scales, rates = changes(True, SCALES), changes(False, RATES)
    publish(
        "finetuning_choices",
        "Fine-tuning: what the choices rest on",
        report(given, scales, rates),
        {"scales": [SCALES, scales.tolist()], "rates": [RATES, rates.tolist()]},
    )


def report(given: argparse.Namespace, scales: Any, rates: Any) -> list[str]:
    """Return the two tables."""
    bare = {decay: found for (error, _, decay), found in zip(SCALES, scales, strict=True) if error is None}
    first = []
    for (error, _, decay), found in zip(SCALES, scales, strict=True):
        gained = ["-", "-"] if error is None else both(found - bare[decay])
        first.append([error or "not scaled", decay, *both(found), *gained])
    second = [
        [rate, decay, *(told(found[:, i, :, 1]) for i in range(len(given.datasets)))]
        for (_, rate, decay), found in zip(RATES, rates, strict=True)
    ]
    head = ["at the end", "at the best epoch", "end, than not scaled", "best epoch, than not scaled"]
    return [
        "Change of accuracy by fine-tuning, in points, mean ± standard error over variants "
        f"({', '.join(given.variants)}), {given.splits} development splits and, in the first table, "
        "data sets.",
        "",
        "At the end: of validation nodes after all epochs. At the best epoch: of held-out nodes at the epoch "
        "that validation nodes choose. Than not scaled: the difference to the same model without scaling. "
        "The first table has the paper's SAMME, the second, at the best epoch, the middle of "
        "`default_space`.",
        "",
        *table(["steps scaled to an error of", "weight decay", *head], first),
        "",
        *table(["learning rate", "weight decay", *given.datasets], second),
    ]


def both(changes: Any) -> list[str]:
    """Return what is told of the end and of the best epoch."""
    return [told(changes[..., i]) for i in range(2)]


def told(changes: Any) -> str:
    """Return the mean and its standard error."""
    return f"{np.mean(changes):+.2f} ± {np.std(changes, ddof=1) / changes.size**0.5:.2f}"


if __name__ == "__main__":
    main()
