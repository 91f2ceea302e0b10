"""One trial: a model is built, fitted, watched round by round, and judged by the validation nodes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import optuna
from numpy.typing import ArrayLike
from optuna.trial import FrozenTrial, TrialState

from gbgnn.callbacks import Callback, RoundReport
from gbgnn.errors import GBGNNWarning, WeakLearnerError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.fitting import Labels
from gbgnn.graph import Graph
from gbgnn.search.sampler import Draw, ask
from gbgnn.search.spaces import SearchSpace
from gbgnn.search.study import ERROR
from gbgnn.search.workers import PROCESS, worker_name


@dataclass(frozen=True, eq=False)
class Task:
    """What every trial is trained on. There is no place for other labels.

    Parameters
    ----------
    nodes, y
        The training nodes and their classes.
    graph
        Edges and features of all nodes.
    validation
        (nodes, y) by which trials are judged.
    """

    nodes: ArrayLike
    y: ArrayLike
    graph: Graph
    validation: Labels

    def fit(self, model: GBGNNClassifier) -> float:
        """Fit the model and return how good it is on the validation nodes, fine-tuned where it is to be."""
        model.fit(self.nodes, self.y, graph=self.graph, validation=self.validation)
        return model.model_.evaluate(*self.validation)

    def curves(self, models: Iterable[GBGNNClassifier]) -> list[list[float]]:
        """Fit models, and return how good each is on validation nodes after every round, or none."""
        return [self._curve(model) for model in models]

    def _curve(self, model: GBGNNClassifier) -> list[float]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GBGNNWarning)
                self.fit(model)
        except WeakLearnerError:
            return []
        return list(model.history_[f"val_{model.history_.metric}"])


@dataclass(eq=False)
class ReportRounds(Callback):
    """Tells Optuna how good every round is on the validation nodes, and gives up when it says so.

    By an exception, because a fit that is asked to stop would still be fine-tuned.
    """

    trial: optuna.Trial

    def on_round(self, report: RoundReport) -> None:
        """Report, and ask whether to go on."""
        assert report.validation_score is not None  # a search has validation nodes
        self.trial.report(report.validation_score, report.t)
        if self.trial.should_prune():
            raise optuna.TrialPruned


def run_trial(study: optuna.Study, space: SearchSpace, task: Task, draw: Draw, device: Any) -> FrozenTrial:
    """Draw a trial, train its model, and tell the study what came of it.

    Parameters
    ----------
    study, space, task
        Where the trial belongs, what it may take, and what it is trained on.
    draw
        Numbers that make it this trial and no other; the first one is the seed of the model.
    device
        Where to train.
    """
    trial = ask(study, space, draw)
    trial.set_user_attr(PROCESS, worker_name())
    return train(study, trial, space.build(trial.params, seed=draw[0]).set_params(device=device), task)


def train(study: optuna.Study, trial: optuna.Trial, model: GBGNNClassifier, task: Task) -> FrozenTrial:
    """Train the model of a trial, and tell the study what came of it.

    A model of which not even one round could be trained is a failed trial; other errors, and Ctrl-C, are
    passed on, and the trial is left to be drawn again.
    """
    model.set_params(callbacks=[ReportRounds(trial)], keep_learners=needs_learners(model))
    try:
        with warnings.catch_warnings():
            # A search tries settings that no one would choose; a thousand trials may warn a thousand times.
            warnings.simplefilter("ignore", GBGNNWarning)
            value = task.fit(model)
    except optuna.TrialPruned:
        return study.tell(trial, state=TrialState.PRUNED)
    except WeakLearnerError as error:
        trial.set_user_attr(ERROR, str(error))
        return study.tell(trial, state=TrialState.FAIL)
    except BaseException:
        study.tell(trial, state=TrialState.FAIL)
        raise
    trial.set_user_attr("best_round", model.best_round_)
    return study.tell(trial, value)


def needs_learners(model: GBGNNClassifier) -> bool:
    """Say whether a trial must keep its learners: fine-tuning moves them, nothing else asks for them."""
    return model.fine_tune not in (None, False)
