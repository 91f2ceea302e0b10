"""The paper's protocol for a cell: a search by validation accuracy, its winner judged by the test nodes.

A fine-tuned cell is searched in two stages. The first is the search of the same cell without fine-tuning,
whose record is taken. The second takes the settings of its best trials, the finalists, boosts each of them
once, and searches the settings of fine-tuning from there. (The paper searches both at once: every trial
boosts a model for the sake of one attempt at fine-tuning it, and most trials fine-tune a bad one. Boosting
knows nothing of what comes after, so settings that are good without are good to start from.) A finalist has
as many rounds as predicted best in the first stage, and no more than the space of the fine-tuned cell allows:
40 for KTA in the paper's.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gbgnn.datasets import Dataset
from gbgnn.errors import ParameterError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.finetuning import FineTuner, fine_tune_model
from gbgnn.fitting import build_problem
from gbgnn.problem import Problem
from gbgnn.search import SearchResult, SearchSpace, TrialReport, default_space, paper_space, tune_repeatedly
from gbgnn.search.loop import run_studies
from gbgnn.search.objective import run_one_by_one
from gbgnn.search.study import BEST_ROUND, best_trials, open_study
from gbgnn.tasks import Classification
from gbgnn_lab.experiments.jobs import Outcome, Tell
from gbgnn_lab.experiments.options import N_KEPT, Protocol
from gbgnn_lab.experiments.paper import Cell
from gbgnn_lab.experiments.records import Fields, Record, judge
from gbgnn_lab.experiments.systems import fit_model

if TYPE_CHECKING:
    from optuna import Trial

_BLOCK = "fine_tune__"


def cell_space(cell: Cell, kind: str, n_train: int) -> SearchSpace:
    """Return what is searched of a cell."""
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

    A run is the seed of a search and of all models in it. Where the protocol has a population, the models of
    all runs are trained at once.
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
    # The best few trials, the confirmed ones if any.
    best = [
        (trial.params, trial.values[0], trial.user_attrs.get(BEST_ROUND))
        for trial in best_trials(found.trials, N_KEPT)
    ]
    if found.confirmed:
        best = [(each.settings, each.value, each.settings["n_rounds"]) for each in found.confirmed[:N_KEPT]]
    results = {
        **judge(found.model.predict(np.arange(data.graph.n_nodes)), data),
        "search_accuracy": found.best_value,
        "best_round": found.model.best_round_,
        "counts": found.counts,
        "finalists": [
            {"settings": {**space.base, **settings}, "val_accuracy": value, "best_round": rounds}
            for settings, value, rounds in best
        ],
    }
    return Outcome({**space.base, **found.best_settings}, results)


@dataclass(frozen=True, eq=False)
class Finalist:
    """Settings that did well without fine-tuning, the model that was boosted with them, and on what."""

    settings: Fields
    model: GBGNNClassifier
    problem: Problem

    def fine_tuned(self, chosen: Fields) -> GBGNNClassifier:
        """Return a fine-tuned copy, equal to a model fitted with all of these settings at once."""
        model = copy.copy(self.model)
        tuner = FineTuner(**{name.removeprefix(_BLOCK): value for name, value in chosen.items()})
        model.model_ = fine_tune_model(self.model.model_, self.problem, tuner)
        return model


def search_fine_tuning(
    cell: Cell,
    data: Dataset,
    run: int,
    protocol: Protocol,
    first: Record,
    device: Any,
    tell: Tell | None = None,
) -> Outcome:
    """Search the fine-tuning of a cell from its best boosted models; return the winner, judged.

    ``first`` is the record of the same run of the cell without fine-tuning, with the finalists.
    """
    from optuna.distributions import CategoricalDistribution  # it is there: gbgnn.search would have said so

    if first.failure is not None:
        raise ParameterError(
            f"there is nothing to fine-tune: the search without fine-tuning failed ({first.failure})"
        )
    seen = data.without_test_labels()
    space, validation = cell_space(cell, protocol.space, len(seen.train)), (seen.val, seen.y[seen.val])
    finalists = []
    for kept in first.results["finalists"][: protocol.finalists]:
        finalists.append(_boost(kept, space, seen, run, device))
    fixed = {name: value for name, value in space.base.items() if name.startswith(_BLOCK)}
    ranges = {name: given for name, given in space.distributions().items() if name.startswith(_BLOCK)}
    ranges["finalist"] = CategoricalDistribution(range(len(finalists)))
    best_value, best_model, best_settings = -1.0, finalists[0].model, finalists[0].settings

    def objective(trial: Trial) -> float:
        nonlocal best_value, best_model, best_settings
        chosen = {**fixed, **trial.params}
        finalist = finalists[chosen.pop("finalist")]
        model = finalist.fine_tuned(chosen)
        value = float(model.score(*validation))
        if value > best_value:
            best_value, best_model = value, model
            best_settings = {**finalist.settings, "fine_tune": True, **chosen}
        return value

    def on_trial(_: int, report: TrialReport) -> None:
        if tell is not None:
            tell(f"fine-tuning {report.n_done:,} of {report.n_trials:,}, best {100 * best_value:.1f}")

    run_studies(
        {run: open_study(None, "fine-tuning", {})},
        partial(run_one_by_one, ranges, objective),
        n_trials=protocol.tune_trials,
        on_trial=on_trial,
    )
    results = {
        **judge(best_model.predict(np.arange(data.graph.n_nodes)), data),
        "search_accuracy": best_value,
        "best_round": best_model.best_round_,
        "boosted_accuracy": [finalist.model.score(*validation) for finalist in finalists],
    }
    return Outcome(best_settings, results)


def _boost(kept: Fields, space: SearchSpace, seen: Dataset, run: int, device: Any) -> Finalist:
    """Boost a finalist once."""
    rounds = kept["best_round"] or kept["settings"]["n_rounds"]
    most = getattr(space.ranges.get("n_rounds"), "high", rounds)
    settings = {**kept["settings"], "n_rounds": min(rounds, most)}
    model = fit_model(settings, seen, random_state=run, device=device)
    labels, how = seen.y[seen.train], {"validation": (seen.val, seen.y[seen.val]), "seed": model.seed_}
    problem = build_problem(model, Classification(), seen.train, labels, seen.graph, **how)
    return Finalist(settings, model, problem)
