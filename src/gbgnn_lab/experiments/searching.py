"""The paper's protocol for a cell: a search by validation accuracy, its winner judged by the test nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gbgnn._json import as_plain
from gbgnn.datasets import Dataset
from gbgnn.search import (
    SearchResult,
    SearchSpace,
    TrialReport,
    default_space,
    paper_space,
    tune_repeatedly,
)
from gbgnn.search.study import BEST_ROUND, best_trials
from gbgnn_lab.experiments.evaluation import judge
from gbgnn_lab.experiments.jobs import Outcome
from gbgnn_lab.experiments.options import N_KEPT, Protocol
from gbgnn_lab.experiments.paper import Cell
from gbgnn_lab.experiments.progress import Tell
from gbgnn_lab.experiments.records import Fields


def cell_space(cell: Cell, kind: str, n_train: int) -> SearchSpace:
    """Return what is searched of a cell.

    Examples
    --------
    >>> cell_space(Cell("ii"), "paper", n_train=140).ranges["learner__batch_size"].high
    140
    """
    make = paper_space if kind == "paper" else default_space
    space = make(cell.variant, n_train=n_train, hidden_layers=cell.hidden_layers, fine_tune=cell.fine_tune)
    if kind != "quick":
        return space
    fewer: Fields = {"n_rounds": 6, "learner__epochs": 20, "learner__units": {"low": 16, "high": 64}}
    if cell.fine_tune:
        fewer["fine_tune__epochs"] = 10
    return space.changed(fewer)


def search(
    cell: Cell, data: Dataset, runs: Sequence[int], protocol: Protocol, device: Any, tell: Tell | None = None
) -> list[Outcome]:
    """Search a cell without fine-tuning, once for every run, and judge the winners.

    Parameters
    ----------
    cell, data, protocol
        What is searched, on what, and how.
    runs
        The seeds, each of a search and of all models in it. Where the protocol has a population, the models
        of all runs are trained at once.
    device
        Where to train.
    tell
        Told after every trial.
    """
    seen = data.without_test_labels()
    space = cell_space(cell, protocol.space, len(seen.train))
    reports: dict[int, TrialReport] = {}

    def on_trial(run: int, report: TrialReport) -> None:
        reports[run] = report
        if tell is not None:
            n_done = sum(each.n_done for each in reports.values())
            best = [each.best_value for each in reports.values() if each.best_value is not None]
            average = f", best {100 * np.mean(best):.1f}" if best else ""
            tell(f"trial {n_done:,} of {len(runs) * protocol.trials:,}{average}")

    found = tune_repeatedly(
        seen.train,
        seen.y[seen.train],
        graph=seen.graph,
        validation=(seen.val, seen.y[seen.val]),
        space=space,
        seeds=runs,
        n_trials=protocol.trials,
        population=protocol.population,
        seeds_per_trial=protocol.seeds_per_trial,
        confirm=protocol.confirm,
        device=device,
        on_trial=on_trial,
    )
    return [_judge(each, space, data) for each in found]


def _judge(found: SearchResult, space: SearchSpace, data: Dataset) -> Outcome:
    predictions = found.model.predict(np.arange(data.graph.n_nodes))
    results = {
        **judge(predictions, data),
        "search_accuracy": found.best_value,
        "best_round": found.model.best_round_,
        "counts": found.counts,
        "finalists": list_finalists(found, space),
    }
    return Outcome(as_plain({**space.base, **found.best_settings}), as_plain(results))


def list_finalists(found: SearchResult, space: SearchSpace) -> list[Fields]:
    """Return settings, validation accuracy and rounds of the best few trials, the confirmed ones if any."""
    best = [
        (trial.params, trial.values[0], trial.user_attrs.get(BEST_ROUND))
        for trial in best_trials(found.trials, N_KEPT)
    ]
    if found.confirmed:
        best = [(each.settings, each.value, each.settings["n_rounds"]) for each in found.confirmed[:N_KEPT]]
    return [
        {"settings": {**space.base, **settings}, "val_accuracy": value, "best_round": rounds}
        for settings, value, rounds in best
    ]
