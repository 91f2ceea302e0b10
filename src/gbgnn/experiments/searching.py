"""The paper's protocol for a cell: a search by validation accuracy, its winner judged by the test nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from optuna.trial import TrialState

from gbgnn.datasets import Dataset
from gbgnn.experiments.judging import judge
from gbgnn.experiments.paper import Cell
from gbgnn.experiments.protocol import N_KEPT, Protocol
from gbgnn.experiments.records import Fields
from gbgnn.experiments.running import Outcome, Tell, as_plain
from gbgnn.tuning import SearchSpace, TrialReport, TuningResult, default_space, paper_space, tune


def space_of(cell: Cell, kind: str, n_train: int) -> SearchSpace:
    """Return what is searched of a cell.

    Examples
    --------
    >>> print(space_of(Cell("ii"), "paper", n_train=140).ranges["learner__batch_size"])
    1 to 140
    """
    options: dict[str, Any] = {"hidden_layers": cell.hidden_layers, "fine_tune": cell.fine_tune}
    if kind == "paper":
        return paper_space(cell.variant, n_train=n_train, **options)
    space = default_space(cell.variant, **options)
    if kind == "default":
        return space
    fewer: Fields = {"n_rounds": 6, "learner__epochs": 20, "learner__units": {"low": 16, "high": 64}}
    if cell.fine_tune:
        fewer["fine_tune__epochs"] = 10
    return space.changed(fewer)


def search(
    cell: Cell, data: Dataset, run: int, protocol: Protocol, device: Any, tell: Tell | None = None
) -> Outcome:
    """Search a cell without fine-tuning, and judge the winner.

    Parameters
    ----------
    cell, data, protocol
        What is searched, on what, and how.
    run
        The seed of the search and of all models in it.
    device
        Where to train.
    tell
        Told after every trial.
    """
    seen = data.without_test_labels()
    space = space_of(cell, protocol.space, len(seen.train))

    def on_trial(report: TrialReport) -> None:
        if tell is not None:
            best = "" if report.best_value is None else f", best {100 * report.best_value:.1f}"
            tell(f"trial {report.n_done:,} of {report.n_trials:,}{best}")

    found = tune(
        seen.train,
        seen.y[seen.train],
        graph=seen.graph,
        validation=(seen.val, seen.y[seen.val]),
        space=space,
        n_trials=protocol.trials,
        seed=run,
        population=protocol.population,
        device=device,
        on_trial=on_trial,
    )
    predictions = found.model.predict(np.arange(data.graph.n_nodes))
    results = {
        **judge(predictions, data),
        "search_accuracy": found.best_value,
        "best_round": found.model.best_round_,
        "counts": found.counts,
        "finalists": best_trials(found, space),
    }
    return Outcome(as_plain({**space.base, **found.best_settings}), as_plain(results))


def best_trials(found: TuningResult, space: SearchSpace) -> list[Fields]:
    """Return the settings, validation accuracy and best round of the best few trials, the best first."""
    complete = [trial for trial in found.trials if trial.state is TrialState.COMPLETE]
    ordered = sorted(complete, key=lambda trial: (-trial.values[0], trial.number))[:N_KEPT]
    return [
        {
            "settings": {**space.base, **trial.params},
            "val_accuracy": trial.values[0],
            "best_round": trial.user_attrs.get("best_round"),
        }
        for trial in ordered
    ]
