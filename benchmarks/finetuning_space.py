"""What fine-tuning is worth with one rate and weight decay or another: what ``default_space`` searches of it.

Models in the middle of ``default_space`` are boosted on development splits (see development.py) and tuned for
a hundred epochs. The validation nodes choose the epoch, or the model as it was boosted; shown is by how much
the accuracy on nodes that are held out changes, in points, mean and standard error over splits and variants.
No test node of the public splits is looked at.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np
import torch
from common import PLANETOID, Runner, publish, table
from development import development_data
from search_space import CENTRE, OF_VARIANT

from gbgnn import FineTuner, datasets
from gbgnn.tuning import default_space

VARIANTS, RATES, DECAYS = ("adj", "kta"), (1e-4, 1e-3, 1e-2), (1e-5, 1e-3, 1e-2)


def run(variant: str, name: str, split: int, rate: float, decay: float, n_rounds: int, device: str) -> float:
    """Return the change of the accuracy on the nodes held out."""
    torch.set_num_threads(1)
    data = development_data(datasets.load(name), split)
    fixed = {**CENTRE, **OF_VARIANT[variant], "n_rounds": n_rounds, "select": "last"}
    model = default_space(variant).replaced(fixed).build({}, seed=0).set_params(device=device)
    accuracies = []
    for tuner in (None, FineTuner(learning_rate=rate, weight_decay=decay)):
        model.set_params(fine_tune=tuner)
        model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))
        accuracies.append(model.score(data.test, data.y[data.test]))
    return 100 * (accuracies[1] - accuracies[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--datasets", nargs="+", default=list(PLANETOID))
    parser.add_argument("--cache", type=Path, default=Path("finetuning-space.jsonl"))
    given = parser.parse_args()
    where = list(product(VARIANTS, given.datasets, range(given.splits)))
    settings = list(product(RATES, DECAYS))
    tasks = [(*place, *both, given.rounds, given.device) for both in settings for place in where]
    changes = np.reshape(Runner(run, given.cache, given.jobs)(tasks), (len(settings), len(where)))
    rows = []
    for both, found in zip(settings, changes, strict=True):
        parts = [[c for c, place in zip(found, where, strict=True) if place[1] == n] for n in given.datasets]
        rows.append([*both, *(f"{np.mean(p):+.2f} ± {np.std(p, ddof=1) / len(p) ** 0.5:.2f}" for p in parts)])
    head = ["learning rate", "weight decay", *given.datasets]
    publish("finetuning_space", "What fine-tuning is worth", table(head, rows), [tasks, changes.tolist()])


if __name__ == "__main__":
    main()
