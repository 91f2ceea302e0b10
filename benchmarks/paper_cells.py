"""Cells of the paper's tables that our searches do not reach: what could be had, and what not.

Reads the records of ``gbgnn reproduce table1`` and ``table4``. Of every cell below the paper's mean, the
finalists of each search, those with the highest validation accuracy, are trained once more and judged by the
test nodes too: had the search been allowed to look at these, it could have taken the best. That is the
most that choosing better among these settings could give, and nothing that may be reported as a result.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, Runner, publish, table
from scipy.stats import ttest_ind_from_stats

from gbgnn.datasets import load
from gbgnn_lab.experiments.paper import ACCURACY, DATASETS, Accuracy, Cell
from gbgnn_lab.experiments.records import Record, RecordFile
from gbgnn_lab.experiments.systems import fit_model

RECORDS = Path(__file__).parents[1] / "results"
PAPER_RUNS = 10
SURE, CHANCE = 0.05, "no difference that could be told from chance"
Key = tuple[str, Cell]


def read_records() -> dict[Key, list[Record]]:
    """Return the records of every cell; those of table 1 stand for the same cell of table 4."""
    by_cell: dict[Key, dict[int, Record]] = defaultdict(dict)
    for name in ("table1", "table4"):
        for record in RecordFile(RECORDS / name / "records.jsonl").read():
            if record.failure is None:
                cell = Cell(record["variant"], record["hidden_layers"], record["fine_tune"])
                by_cell[record["dataset"], cell].setdefault(record["run"], record)
    return {key: [own[run] for run in sorted(own)] for key, own in by_cell.items()}


def accuracies(records: Sequence[Record]) -> np.ndarray:
    """Return the test accuracies of runs, in percent."""
    return np.array([100 * record.results["test_accuracy"] for record in records])


def find_missed(records: dict[Key, list[Record]]) -> dict[Key, Accuracy]:
    """Return what the paper prints of the cells in which our mean is lower, to a tenth of a point."""
    printed = {(name, cell): own for cell, row in ACCURACY.items() for name, own in row.items()}
    return {
        key: cited
        for key, cited in printed.items()
        if cited is not None and key in records and round(accuracies(records[key]).mean(), 1) < cited.mean
    }


def run(dataset: str, variant: str, layers: int, number: int, place: int) -> dict[str, float]:
    """Return how good a finalist of a search is."""
    records = read_records()[dataset, Cell(variant, layers)]
    record = next(each for each in records if each["run"] == number)
    data = load(dataset)
    model = fit_model(record.results["finalists"][place]["settings"], data, random_state=number, device="cpu")
    return {part: float(model.score(nodes := getattr(data, part), data.y[nodes])) for part in ("val", "test")}


def describe(key: Key, cited: Accuracy, records: Sequence[Record], runner: Runner) -> list[str]:
    """Return the row of a cell."""
    dataset, cell = key
    own = accuracies(records)
    said = (cited.mean, cited.std, PAPER_RUNS)
    p = ttest_ind_from_stats(own.mean(), own.std(ddof=1), len(own), *said, equal_var=False).pvalue
    tasks = [task for record in records for task in finalists_of(key, record)]
    row = [DATASETS[dataset], str(cell), str(cited), f"{own.mean():.1f} ± {own.std(ddof=1):.1f}", f"{p:.3f}"]
    is_chance = p >= SURE
    if not tasks:
        verdict = CHANCE if is_chance else "fine-tuning adds nothing to models that were searched for"
        return [*row, f"{own.max():.1f}", "-", "-", "-", verdict]
    found: dict[int, list[float]] = defaultdict(list)
    for task in tasks:
        found[task[3]].append(100 * runner.find(task)["test"])
    best = [max(values) for values in found.values()]
    every = [value for values in found.values() for value in values]
    out_of_reach = round(np.mean(best), 1) < cited.mean
    verdict = CHANCE if is_chance else "not by any choice" if out_of_reach else "by a better choice"
    return [
        *(*row, f"{own.max():.1f}", f"{np.mean(every):.1f}", f"{np.mean(best):.1f}", f"{max(best):.1f}"),
        verdict,
    ]


def finalists_of(key: Key, record: Record) -> list[tuple[Any, ...]]:
    """Return the finalists of a search, as tasks; those of fine-tuned cells are the boosted ones' own."""
    dataset, cell = key
    n_finalists = len(record.results.get("finalists") or ())
    return [(dataset, cell.variant, cell.hidden_layers, record["run"], i) for i in range(n_finalists)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=RESULTS / "paper_cells.jsonl")
    asked = parser.parse_args()
    records = read_records()
    missed = find_missed(records)
    runner = Runner(run, asked.cache, asked.jobs)
    runner([task for key in missed for record in records[key] for task in finalists_of(key, record)])
    header = ["data", "cell", "the paper", "ours", "p", "our best run"]
    header += ["mean of all finalists", "best finalist by test, mean of runs", "best of all"]
    header += ["could it be had?"]
    rows = [describe(key, cited, records[key], runner) for key, cited in missed.items()]
    about = (
        "Test accuracy in percent, mean ± sample standard deviation over runs. p: how likely means as far "
        f"apart as this are where they are the same (Welch's test, {PAPER_RUNS} runs of the paper's). The "
        "columns of finalists by test look at test labels and are results of nothing: they say what searches "
        "could have found among their finalists, had they looked. Fine-tuned cells have no finalists of "
        "their own; they start from those of the same cell without fine-tuning."
    )
    publish("paper_cells", "Cells of the paper that are not reached", [about, "", *table(header, rows)], rows)


if __name__ == "__main__":
    main()
