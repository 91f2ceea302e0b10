"""tune: search for the settings that are best on the validation nodes."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import optuna
from numpy.typing import ArrayLike
from optuna.trial import FrozenTrial, TrialState

from gbgnn._checks import check_integer, check_number
from gbgnn._checksums import graph_checksum, labels_checksum
from gbgnn.errors import ParameterError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.fitting import Labels, check_length, given_validation
from gbgnn.graph import Graph, as_nodes, check_range
from gbgnn.model import check_graph
from gbgnn.registry import as_part
from gbgnn.search.batched_trials import Batch, BatchedTrials
from gbgnn.search.objective import Task, run_trial
from gbgnn.search.reevaluate import Confirmed, best_trials, find_winners
from gbgnn.search.sampler import Draw, propose
from gbgnn.search.spaces import SearchSpace, Settings
from gbgnn.search.study import ERROR, finished, open_study, state_name
from gbgnn.search.workers import register_worker

_LEAST_COMPLETE = 10


@dataclass(frozen=True, eq=False)
class TrialReport:
    """What is known after a trial.

    Parameters
    ----------
    state
        ``"complete"``, ``"pruned"`` or ``"failed"``.
    value
        Validation accuracy; of a pruned trial, that of its last round; of a failed one, None.
    best_value
        The best of all complete trials so far; None while there is none.
    n_done, n_trials
        How many are finished, and how many there are to be.
    """

    state: str
    value: float | None
    best_value: float | None
    n_done: int
    n_trials: int


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search has found.

    Parameters
    ----------
    best_settings
        The winner's settings, those that were searched; where several seeds were asked, ``n_rounds`` and
        ``select`` too.
    best_value
        Its validation accuracy as the trial had it, to which rounding in a population may add or take a node;
        where several seeds were asked, their mean.
    counts
        How many trials are ``complete``, ``pruned`` and ``failed``.
    model
        Fitted with the winner's settings and seed; its learners are kept.
    study
        The study, for Optuna's own tools.
    seconds
        How long this search took; trials of an earlier one are not in it.
    confirmed
        The trials that were confirmed, the best first; empty where none were.
    """

    best_settings: Settings
    best_value: float
    counts: dict[str, int]
    model: GBGNNClassifier
    study: optuna.Study
    seconds: float
    confirmed: Sequence[Confirmed] = ()

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials, in order."""
        return self.study.get_trials(deepcopy=False)

    def importances(self) -> dict[str, float]:
        """Return how much each setting has to do with a good value, as shares of one, the largest first.

        Empty while fewer than ten trials are complete: what they say is noise.
        """
        if self.counts["complete"] < _LEAST_COMPLETE:
            return {}
        return optuna.importance.get_param_importances(self.study)


def tune(
    nodes: ArrayLike,
    y: ArrayLike,
    *,
    graph: Graph,
    validation: Labels,
    space: SearchSpace,
    n_trials: int = 100,
    seed: int = 0,
    storage: str | os.PathLike[str] | None = None,
    study_name: str = "gbgnn",
    timeout: float | None = None,
    population: int | None = None,
    seeds_per_trial: int = 1,
    confirm: int = 0,
    device: Any = "auto",
    on_trial: Callable[[TrialReport], None] | None = None,
) -> SearchResult:
    """Search a space for the settings that are best on the validation nodes.

    Trials are proposed by TPE, given up by the median stopping rule, and judged by the model they would
    predict with, by its ``metric``: accuracy, unless the space fixes another. No other label is asked for, so
    none can leak.

    Parameters
    ----------
    nodes, y, graph, validation
        As in :meth:`GBGNNClassifier.fit <gbgnn.GBGNNClassifier.fit>`; validation nodes are needed.
    space
        What is searched; see :func:`default_space` and :func:`paper_space`.
    n_trials
        How many finished trials the study is to have, those of earlier searches and of other processes
        included.
    seed
        Of the search and of every model in it. The same seed gives the same trials, whether or not the
        search was interrupted on the way, as long as one process works at a time.
    storage, study_name
        Where trials are kept: in memory; in a file ending in ``.log`` or ``.journal``; or in the database
        of a URL. The same storage and name go on with a study; several processes may do so at once.
    timeout
        Begin no trial after so many seconds; None has no limit.
    population
        Draw so many trials at a time and train them at once, which is faster by far; None trains one after
        another, and so do spaces that a population cannot train, such as those with fine-tuning.
    seeds_per_trial
        Train every trial with so many seeds, and judge it by the mean of their accuracies, after the round
        where that is highest: fewer trials, each worth more. Needs a population.
    confirm
        Train so many of the best trials again with five other seeds, and take the settings, and the number of
        rounds, that are best on average. The best of many trials was lucky; this asks for more than luck.
        Not for spaces with fine-tuning.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or a torch device.
    on_trial
        Called after every trial.

    Examples
    --------
    >>> from gbgnn import datasets
    >>> from gbgnn.search import default_space
    >>> data = datasets.csbm(n_nodes=60, per_class=6)
    >>> space = default_space("adj").changed({"n_rounds": 3, "learner__epochs": [5, 10]})
    >>> train, validation = (data.train, data.y[data.train]), (data.val, data.y[data.val])
    >>> result = tune(*train, graph=data.graph, validation=validation, space=space, n_trials=3)
    >>> result.counts
    {'complete': 3, 'pruned': 0, 'failed': 0}
    >>> result.model.score(*validation) == result.best_value
    True
    """
    check_integer("tune", "n_trials", n_trials, 1)
    check_integer("tune", "seed", seed, 0)
    check_integer("tune", "population", population, 1, optional=True)
    check_integer("tune", "seeds_per_trial", seeds_per_trial, 1)
    check_integer("tune", "confirm", confirm, 0)
    if timeout is not None:
        check_number("tune", "timeout", timeout, 0, open_low=True)
    started = time.perf_counter()
    check_task(nodes, y, graph, validation, space, confirm)
    task = Task(nodes, y, graph, validation)
    data = {"graph": graph_checksum(graph), "labels": labels_checksum([(nodes, y), validation])}
    batches = BatchedTrials(space, task, device, seeds_per_trial)
    together = population is not None and batches.can_train()
    if seeds_per_trial > 1 and not together:
        raise ParameterError(
            "seeds_per_trial > 1 trains a trial with all its seeds at once; give population=, and a space "
            "that one can train, without fine-tuning for example."
        )
    record = {"space": space.to_document(), "data": data, "seeds per trial": seeds_per_trial}
    study = open_study(storage, study_name, record)
    size = population if together and population is not None else 1
    with register_worker(study) as stream:
        while draws := next_draws(study, (seed, stream), n_trials, size):
            if timeout is not None and time.perf_counter() - started > timeout:
                break
            done = finished(study)
            for trial in _run(study, space, task, draws, device, batches if together else None):
                done.append(trial)
                if on_trial is not None:
                    on_trial(report_of(done, n_trials))
    curves = batches.curves if together else task.curves
    (found,) = find_winners([(finished(study), seed)], space, confirm, curves, seeds_per_trial)
    return conclude(study, space, task, seed, found, device, time.perf_counter() - started)


def next_draws(study: optuna.Study, stream: Draw, n_trials: int, size: int) -> list[Draw]:
    """Return what to draw next: so many at a time, until the study has all its trials."""
    done = finished(study)
    first = sum(trial.user_attrs.get("draw", [])[:2] == list(stream) for trial in done)
    return [(*stream, first + i) for i in range(min(size, n_trials - len(done)))]


def conclude(
    study: optuna.Study,
    space: SearchSpace,
    task: Task,
    seed: int,
    confirmed: Sequence[Confirmed],
    device: Any,
    seconds: float,
) -> SearchResult:
    """Fit the winner of a search that is over, and return what was found."""
    best = _best(study)
    settings, value = best.params, best.values[0]
    if confirmed:
        settings, value = confirmed[0].settings, confirmed[0].value
        best = study.get_trials(deepcopy=False)[confirmed[0].number]
    own_seed = best.user_attrs.get("draw", [seed])[0]  # a trial may also have been added by hand
    model = space.build(settings, own_seed).set_params(device=device)
    task.fit(model)
    return SearchResult(settings, value, counts(study), model, study, seconds, confirmed)


def counts(study: optuna.Study) -> dict[str, int]:
    """Return how many trials are complete, pruned and failed."""
    states = Counter(map(state_name, finished(study)))
    return {state: states[state] for state in ("complete", "pruned", "failed")}


def check_task(
    nodes: ArrayLike, y: ArrayLike, graph: Graph, validation: Labels, space: SearchSpace, confirm: int
) -> None:
    """Raise for what no trial could be trained on, before there is a study."""
    check_graph(graph)
    ids = as_nodes(nodes)
    check_range(ids, graph.n_nodes)
    check_length(y, len(ids), "y")
    if not space.ranges:
        raise ParameterError("the space has no range, so there is nothing to search; give at least one.")
    kind = as_part("task", space.base.get("task", GBGNNClassifier().task)).fit(y)
    given_validation(validation, ids, kind, graph)
    space.check(kind)
    if confirm and any(name.partition("__")[0] == "fine_tune" for name in {**space.base, **space.ranges}):
        raise ParameterError(
            "confirm is for spaces without fine-tuning, because it chooses the number of rounds by their "
            "accuracy before tuning; leave it at 0."
        )


def _best(study: optuna.Study) -> FrozenTrial:
    """Return the first of the best trials."""
    done = finished(study)
    best = best_trials(done, 1)
    if not best:
        reasons = [trial.user_attrs[ERROR] for trial in done if ERROR in trial.user_attrs]
        why = f" The last one: {reasons[-1]}" if reasons else ""
        raise ParameterError(
            f"none of {len(done)} trials was completed, so there is no best one; search longer, or "
            f"elsewhere.{why}"
        )
    return best[0]


def _run(
    study: optuna.Study,
    space: SearchSpace,
    task: Task,
    draws: Sequence[Draw],
    device: Any,
    batches: BatchedTrials | None,
) -> list[FrozenTrial]:
    """Draw trials and train them: all at once, or one by one."""
    if batches is None:
        return [run_trial(study, space, task, draw, device) for draw in draws]
    return batches.run([Batch(study, draws, propose(finished(study), space, draws))])[0]


def report_of(done: Sequence[FrozenTrial], n_trials: int) -> TrialReport:
    """Return what is known after the last of the finished trials."""
    values = [trial.values[0] for trial in done if trial.state is TrialState.COMPLETE]
    last = done[-1]
    value = None if last.values is None else last.values[0]
    return TrialReport(state_name(last), value, max(values, default=None), len(done), n_trials)
