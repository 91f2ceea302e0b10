"""Fine-tuning KTA on PubMed at 40 and 100 rounds: the cell that the paper left empty for want of memory.

Settings are those in the middle of ``default_space``, the number of rounds is fixed, and fine-tuning has its
defaults. The tuned model is judged, whether it beat the boosted one or not, over ten seeds on the CPU, one
thread a run. Memory is the peak of boosting and tuning together, above what the process held with the data.
"""

from __future__ import annotations

import argparse
import gc
from pathlib import Path

import numpy as np
import torch
from common import Runner, publish, reset_peak_memory, resident_bytes, table
from search_space import CENTRE, OF_VARIANT

from gbgnn import FineTuner, datasets
from gbgnn.search import default_space

ROUNDS = (40, 100)
N_SEEDS = 10


def run(n_rounds: int, seed: int) -> list[float]:
    """Return validation accuracy before and after, test accuracy, peak megabytes and seconds per epoch."""
    torch.set_num_threads(1)
    data = datasets.load("pubmed")
    fixed = {**CENTRE, **OF_VARIANT["kta"], "n_rounds": n_rounds, "select": "last"}
    model = default_space("kta").replaced(fixed).build({}, seed)
    model.set_params(fine_tune=FineTuner(keep="tuned"), device="cpu")
    gc.collect()
    reset_peak_memory()
    held = resident_bytes()
    model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))
    megabytes = (resident_bytes(peak=True) - held) / 1e6
    tuning = model.fine_tuning_
    seconds = sum(row["seconds"] for row in tuning["history"]) / len(tuning["history"])
    before, after = (100 * tuning[when]["val_accuracy"] for when in ("before", "after"))
    return [before, after, 100 * model.score(data.test, data.y[data.test]), megabytes, seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=Path("finetuning-pubmed.jsonl"))
    given = parser.parse_args()
    tasks = [(n_rounds, seed) for n_rounds in ROUNDS for seed in range(N_SEEDS)]
    done = np.reshape(Runner(run, given.cache, given.jobs)(tasks), (len(ROUNDS), N_SEEDS, -1))
    rows = []
    for n_rounds, found in zip(ROUNDS, done, strict=True):
        mean, std = found.mean(axis=0), found.std(axis=0, ddof=1)
        accuracies = [f"{mean[i]:.1f} ± {std[i]:.1f}" for i in range(3)]
        rows.append([n_rounds, *accuracies, f"{found[:, 3].max():,.0f}", f"{mean[4]:.2f}"])
    head = ["rounds", "validation before", "after", "test", "highest peak, MB", "s an epoch"]
    title = "Fine-tuning KTA on PubMed"
    publish("finetuning_pubmed", title, table(head, rows), [tasks, done.tolist()])


if __name__ == "__main__":
    main()
