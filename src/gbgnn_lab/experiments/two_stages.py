"""Fine-tuned cells: a search in two stages.

The first stage is the search of the same cell without fine-tuning, whose record is taken. The second takes
the settings of its best trials, the finalists, boosts each of them once, and searches the settings of
fine-tuning from there. (The paper searches both at once: every trial boosts a model for the sake of one
attempt at tuning it, and most trials tune a bad one. Boosting knows nothing of what comes after, so settings
that are good without tuning are good to start from.) A finalist has as many rounds as predicted best in the
first stage, and no more than the space of the fine-tuned cell allows: 40 for KTA in the paper's.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import TPESampler

from gbgnn._json import as_plain
from gbgnn.datasets import Dataset
from gbgnn.estimators import GBGNNClassifier
from gbgnn.finetuning import FineTuner, fine_tune_model
from gbgnn.fitting import build_problem
from gbgnn.problem import Problem
from gbgnn.search import SearchSpace
from gbgnn.search.study import open_study
from gbgnn.tasks import Classification
from gbgnn_lab.experiments.evaluation import judge
from gbgnn_lab.experiments.jobs import Outcome
from gbgnn_lab.experiments.options import Protocol
from gbgnn_lab.experiments.paper import Cell
from gbgnn_lab.experiments.progress import Tell
from gbgnn_lab.experiments.records import Fields
from gbgnn_lab.experiments.searching import space_of

_BLOCK = "fine_tune__"


@dataclass(frozen=True, eq=False)
class Finalist:
    """Settings that did well without fine-tuning, and the model that was boosted with them."""

    settings: Fields
    model: GBGNNClassifier

    def tuned(self, tuning: Mapping[str, Any], problem: Problem) -> GBGNNClassifier:
        """Return a fine-tuned copy, equal to a model fitted with all of these settings at once."""
        model = copy.copy(self.model)
        tuner = FineTuner(**{name.removeprefix(_BLOCK): value for name, value in tuning.items()})
        model.model_ = fine_tune_model(self.model.model_, problem, tuner)
        return model


def search_tuning(
    cell: Cell,
    data: Dataset,
    run: int,
    protocol: Protocol,
    kept: Sequence[Mapping[str, Any]],
    device: Any,
    tell: Tell | None = None,
) -> Outcome:
    """Search the fine-tuning of a cell from its best boosted models, and judge the winner.

    Parameters
    ----------
    cell, data, run, protocol, device, tell
        As in :func:`~gbgnn_lab.experiments.searching.search`.
    kept
        The ``finalists`` in the record of the same run of the cell without fine-tuning.
    """
    seen = data.without_test_labels()
    space = space_of(cell, protocol.space, len(seen.train))
    finalists = [_boost(each, space, seen, run, device) for each in kept[: protocol.finalists]]
    model, validation = finalists[0].model, (seen.val, seen.y[seen.val])
    labels = seen.train, seen.y[seen.train]
    problem = build_problem(
        model, Classification(), *labels, seen.graph, validation=validation, seed=model.seed_
    )
    fixed, ranges = _fixed(space), _ranges(space, len(finalists))
    study = open_study(None, "fine-tuning", {})
    study.sampler = TPESampler(seed=run)
    best_value, best_model, best_settings = -1.0, finalists[0].model, finalists[0].settings
    for n_done in range(1, protocol.tune_trials + 1):
        trial = study.ask(ranges)
        chosen = dict(trial.params)
        finalist = finalists[chosen.pop("finalist")]
        model = finalist.tuned({**fixed, **chosen}, problem)
        value = model.score(seen.val, seen.y[seen.val])
        study.tell(trial, value)
        if value > best_value:
            best_value, best_model = value, model
            best_settings = {**finalist.settings, "fine_tune": True, **fixed, **chosen}
        if tell is not None:
            tell(f"tuning {n_done:,} of {protocol.tune_trials:,}, best {100 * best_value:.1f}")
    predictions = best_model.predict(np.arange(data.graph.n_nodes))
    results = {
        **judge(predictions, data),
        "search_accuracy": best_value,
        "best_round": best_model.best_round_,
        "boosted_accuracy": [finalist.model.score(seen.val, seen.y[seen.val]) for finalist in finalists],
    }
    return Outcome(as_plain(best_settings), as_plain(results))


def _boost(kept: Mapping[str, Any], space: SearchSpace, seen: Dataset, run: int, device: Any) -> Finalist:
    """Boost a finalist once."""
    rounds = kept["best_round"] or kept["settings"]["n_rounds"]
    most = getattr(space.ranges.get("n_rounds"), "high", rounds)
    settings = {**kept["settings"], "n_rounds": min(rounds, most)}
    model = GBGNNClassifier().set_params(**settings, random_state=run, device=device)
    validation = (seen.val, seen.y[seen.val])
    return Finalist(
        settings, model.fit(seen.train, seen.y[seen.train], graph=seen.graph, validation=validation)
    )


def _fixed(space: SearchSpace) -> Fields:
    return {name: value for name, value in space.base.items() if name.startswith(_BLOCK)}


def _ranges(space: SearchSpace, n_finalists: int) -> dict[str, BaseDistribution]:
    ranges = {name: given.distribution() for name, given in space.ranges.items() if name.startswith(_BLOCK)}
    return {**ranges, "finalist": CategoricalDistribution(range(n_finalists))}
