"""tune: search for the settings that are best on the validation nodes, once or with several seeds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import optuna
from numpy.typing import ArrayLike
from optuna.trial import FrozenTrial

from gbgnn._checks import check_integer, check_number
from gbgnn._isolation import n_cores
from gbgnn.base_estimator import GBGNNEstimator
from gbgnn.errors import ParameterError
from gbgnn.fitting import Labels, given_validation
from gbgnn.graph import Graph
from gbgnn.labels import as_nodes, check_length, check_range
from gbgnn.model import check_graph
from gbgnn.search.loop import DRAW, Runner, TrialReport, run_studies, start_proposing
from gbgnn.search.objective import (
    BatchedTrials,
    FitObjective,
    TrainingData,
    draw_seeds,
    mean_curve,
    run_one_by_one,
)
from gbgnn.search.spaces import SearchSpace
from gbgnn.search.study import BEST_ROUND, ENDS, ERROR, best_trials, finished_trials, open_study, state_name
from gbgnn.settings import Settings, build_model

N_SEEDS = 5  # a trial that is confirmed is trained with so many beside those that it had


@dataclass(frozen=True, eq=False)
class Confirmed:
    """Settings of a trial that were good with several seeds, and their mean validation accuracy.

    Among the settings are ``n_rounds``, the round after which the mean was highest, and ``select="last"``, so
    that no seed chooses its own.
    """

    settings: Settings
    value: float
    number: int


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search has found."""

    # The winner's settings that were searched; where several seeds were asked, n_rounds and select too.
    best_settings: Settings
    # Its validation accuracy as the trial had it, to which rounding in a population may add or take a node;
    # where several seeds were asked, their mean.
    best_value: float
    # A GBGNNClassifier or GBGNNRegressor, fitted with the winner's settings and seed; its learners are kept.
    model: Any
    # All that model was built with by gbgnn.settings.build_model: fixed settings, best ones, random_state and
    # device. A record of the run needs no other model for them.
    settings: Settings
    study: optuna.Study  # for Optuna's own tools
    seconds: float  # how long this search took; trials of an earlier one are not in it
    confirmed: Sequence[Confirmed]  # the trials that were confirmed, the best first; empty where none were

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials, in order."""
        return self.study.get_trials(deepcopy=False)

    @property
    def counts(self) -> dict[str, int]:
        """How many trials are ``complete``, ``pruned`` and ``failed``."""
        states = list(map(state_name, self.trials))
        return {state: states.count(state) for state in ENDS}

    def importances(self) -> dict[str, float]:
        """Return how much each setting has to do with a good value, as shares of one, the largest first.

        Empty while fewer than ten trials are complete: what they say is noise.
        """
        if self.counts["complete"] < 10:
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
    predict with, by its ``metric``: accuracy for classes and R2 for numbers, unless the space fixes another.
    A space with ``task="regression"`` is one of :class:`~gbgnn.GBGNNRegressor`. No other label is asked for,
    so none can leak.

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
    check_integer("tune", "seed", seed, 0)
    (found,) = tune_repeatedly(
        nodes,
        y,
        graph=graph,
        validation=validation,
        space=space,
        seeds=[seed],
        n_trials=n_trials,
        storage=storage,
        study_name=study_name,
        timeout=timeout,
        population=population,
        seeds_per_trial=seeds_per_trial,
        confirm=confirm,
        device=device,
        jobs=1,
        on_trial=None if on_trial is None else lambda _, report: on_trial(report),
    )
    return found


def tune_repeatedly(
    nodes: ArrayLike,
    y: ArrayLike,
    *,
    graph: Graph,
    validation: Labels,
    space: SearchSpace,
    seeds: Sequence[int],
    n_trials: int = 100,
    storage: str | os.PathLike[str] | None = None,
    study_name: str = "gbgnn",
    timeout: float | None = None,
    population: int | None = 100,
    seeds_per_trial: int = 1,
    confirm: int = 0,
    device: Any = "auto",
    jobs: int | None = None,
    on_trial: Callable[[int, TrialReport], None] | None = None,
) -> list[SearchResult]:
    """Search a space once for every seed, as :func:`tune` does, with the trials of all seeds trained at once.

    This is for knowing how much a search depends on chance, and fills a GPU that one search does not. Every
    search draws the trials that it would draw by itself, and in double precision their values are equal.

    Parameters
    ----------
    nodes, y, graph, validation, space, n_trials, storage, timeout, seeds_per_trial, confirm, device
        As in :func:`tune`.
    seeds
        One for each search.
    study_name
        As in :func:`tune`; of several seeds each has a study of its own, ``gbgnn-seed0`` for example.
    population
        How many trials each search draws at a time; so many times the number of seeds are trained at once.
        None trains one after another, and so do spaces that a population cannot train.
    jobs
        How many processes draw: TPE is slower than a GPU. None takes one for each core, at most one for each
        seed; 1 draws in this process.
    on_trial
        Called after every trial with its seed and what is known of its search.
    """
    started = time.perf_counter()
    seeds = [int(seed) for seed in seeds]
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise ParameterError(f"seeds must be one or more integers >= 0, no two the same; got {seeds}.")
    check_integer("tune", "n_trials", n_trials, 1)
    check_integer("tune", "population", population, 1, optional=True)
    check_integer("tune", "seeds_per_trial", seeds_per_trial, 1)
    check_integer("tune", "confirm", confirm, 0)
    check_integer("tune", "jobs", jobs, 1, optional=True)
    if timeout is not None:
        check_number("tune", "timeout", timeout, 0, open_low=True)
    data, distributions = TrainingData(nodes, y, graph, validation), space.distributions()
    _check_data(data, space, confirm)
    objective = FitObjective(space, data, device)
    batched = BatchedTrials(objective, seeds_per_trial)
    at_once = population if population is not None and batched.can_train() else None
    if seeds_per_trial > 1 and at_once is None:
        raise ParameterError(
            "seeds_per_trial > 1 trains a trial with all its seeds at once; give population=, and a space "
            "that one can train, without fine-tuning for example."
        )
    record = {"space": space.to_document(), "data": data.checksums(), "seeds per trial": seeds_per_trial}
    names = {seed: study_name if len(seeds) == 1 else f"{study_name}-seed{seed}" for seed in seeds}
    studies = {seed: open_study(storage, names[seed], record) for seed in seeds}
    run: Runner = partial(run_one_by_one, distributions, objective)
    with start_proposing(distributions, min(jobs or n_cores(), len(seeds))) as propose:
        run_studies(
            studies,
            run if at_once is None else partial(batched.run, propose),
            n_trials=n_trials,
            at_once=at_once or 1,
            deadline=None if timeout is None else started + timeout,
            on_trial=on_trial,
        )
    searches = [(finished_trials(studies[seed]), seed) for seed in seeds]
    curves = data.curves if at_once is None else batched.curves
    confirmed = reevaluate(searches, objective.build, confirm, curves, seeds_per_trial)
    seconds = (time.perf_counter() - started) / len(seeds)
    pairs = zip(studies.items(), confirmed, strict=True)
    return [fit_winner(study, found, objective, seed, seconds) for (seed, study), found in pairs]


def _check_data(data: TrainingData, space: SearchSpace, confirm: int) -> None:
    """Raise for what no trial could be trained on, before there is a study."""
    check_graph(data.graph)
    ids = as_nodes(data.nodes)
    check_range(ids, data.graph.n_nodes)
    check_length(data.y, len(ids), "y")
    if not space.ranges:
        raise ParameterError("the space has no range, so there is nothing to search; give at least one.")
    kind = build_model(space.base).task_for(data.y).fit(data.y)
    given_validation(data.validation, ids, kind, data.graph)
    space.check(data.y)
    if confirm and any(name.partition("__")[0] == "fine_tune" for name in {**space.base, **space.ranges}):
        raise ParameterError(
            "confirm is for spaces without fine-tuning, because it chooses the number of rounds by their "
            "accuracy before fine-tuning; leave it at 0."
        )


def fit_winner(
    study: optuna.Study, confirmed: Sequence[Confirmed], objective: FitObjective, seed: int, seconds: float
) -> SearchResult:
    """Fit the winner of a search that is over, and return what was found."""
    done = finished_trials(study)
    found = best_trials(done, 1)
    if not found:
        reasons = [trial.user_attrs[ERROR] for trial in done if ERROR in trial.user_attrs]
        why = f" The last one: {reasons[-1]}" if reasons else ""
        raise ParameterError(
            f"none of {len(done)} trials was completed, so there is no best one; search longer, or "
            f"elsewhere.{why}"
        )
    best = found[0]
    chosen, value = best.params, best.values[0]
    if confirmed:
        chosen, value = confirmed[0].settings, confirmed[0].value
        best = study.get_trials(deepcopy=False)[confirmed[0].number]
    winner_seed = best.user_attrs.get(DRAW, [seed])[0]  # a trial may also have been added by hand
    settings = {**objective.space.base, **chosen, "random_state": winner_seed, "device": objective.device}
    model = build_model(settings)
    objective.data.fit(model)
    return SearchResult(chosen, value, model, settings, study, seconds, confirmed)


def reevaluate(
    searches: Sequence[tuple[Sequence[FrozenTrial], int]],
    build: Callable[[Settings, int], GBGNNEstimator],
    n_best: int,
    curves: Callable[[Sequence[GBGNNEstimator]], Sequence[Sequence[float]]],
    seeds_per_trial: int = 1,
) -> list[list[Confirmed]]:
    """Train the best trials of searches again with other seeds; return them by search, the best mean first.

    The best of a thousand trials is good, and was lucky on these validation nodes. What luck a seed has had,
    another seed has not; so the mean accuracy over several seeds says more of settings than one model does,
    and after which round it is highest says more of how many rounds to take.

    Searches are their trials and their seeds; ``curves`` trains models and returns the validation accuracy of
    each after every round. Where none are to be trained again, the best trial of several seeds stands as it
    is; of trials with one seed each, none is returned.
    """

    def stop_at(trial: FrozenTrial, n_rounds: int, value: float) -> Confirmed:
        return Confirmed({**trial.params, "n_rounds": n_rounds, "select": "last"}, value, trial.number)

    if not n_best:
        standing = [best_trials(trials, 1 if seeds_per_trial > 1 else 0) for trials, _ in searches]
        return [[stop_at(t, t.user_attrs[BEST_ROUND], t.values[0]) for t in best] for best in standing]
    rivals = [best_trials(trials, n_best) for trials, _ in searches]
    models = []
    for own, (_, seed) in zip(rivals, searches, strict=True):
        others = draw_seeds(seed, seeds_per_trial + N_SEEDS)[seeds_per_trial:]
        for trial in own:
            models += [build(trial.params, other) for other in others]
    found = iter(curves(models))
    confirmed = []
    for own in rivals:
        judged = []
        for trial in own:
            curve = list(trial.intermediate_values.values())
            mean = mean_curve([*[curve] * seeds_per_trial, *islice(found, N_SEEDS)])
            best = int(mean.argmax()) + 1
            judged.append(stop_at(trial, best, float(mean[best - 1])))
        confirmed.append(sorted(judged, key=lambda each: (-each.value, each.number)))
    return confirmed
