"""tune_repeatedly: the same search with several seeds, the trials of all trained at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import optuna
from numpy.typing import ArrayLike

from gbgnn._checks import check_integer
from gbgnn._isolation import Processes, n_cores
from gbgnn.errors import ParameterError
from gbgnn.fitting import Labels
from gbgnn.graph import Graph
from gbgnn.search.batched_trials import Batch, BatchedTrials
from gbgnn.search.loop import (
    SearchResult,
    TrialReport,
    check_task,
    conclude,
    next_draws,
    report_of,
)
from gbgnn.search.objective import Task
from gbgnn.search.reevaluate import find_winners
from gbgnn.search.sampler import Draw, propose
from gbgnn.search.spaces import SearchSpace, Settings
from gbgnn.search.study import finished, open_study


def tune_repeatedly(
    nodes: ArrayLike,
    y: ArrayLike,
    *,
    graph: Graph,
    validation: Labels,
    space: SearchSpace,
    seeds: Sequence[int],
    n_trials: int = 100,
    population: int = 100,
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
    nodes, y, graph, validation, space, n_trials, seeds_per_trial, confirm, device
        As in :func:`tune`. The space must be one that a population can train.
    seeds
        One for each search.
    population
        How many trials each search draws at a time; so many times the number of seeds are trained at once.
    jobs
        How many processes draw: TPE is slower than a GPU. None takes one for each core, at most one for each
        seed; 1 draws in this process.
    on_trial
        Called after every trial with its seed and what is known of its search.

    Examples
    --------
    >>> from gbgnn import datasets
    >>> from gbgnn.search import default_space
    >>> data = datasets.csbm(n_nodes=60, per_class=6)
    >>> space = default_space("adj").changed({"n_rounds": 3, "learner__epochs": [5, 10]})
    >>> train, validation = (data.train, data.y[data.train]), (data.val, data.y[data.val])
    >>> known = {"graph": data.graph, "validation": validation, "space": space, "jobs": 1}
    >>> results = tune_repeatedly(*train, **known, seeds=[0, 1], n_trials=3)
    >>> [result.counts["complete"] for result in results]
    [3, 3]
    """
    check_integer("tune_repeatedly", "n_trials", n_trials, 1)
    check_integer("tune_repeatedly", "population", population, 1)
    check_integer("tune_repeatedly", "seeds_per_trial", seeds_per_trial, 1)
    check_integer("tune_repeatedly", "confirm", confirm, 0)
    check_integer("tune_repeatedly", "jobs", jobs, 1, optional=True)
    seeds = [int(seed) for seed in seeds]
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise ParameterError(f"seeds must be one or more integers >= 0, no two the same; got {seeds}.")
    check_task(nodes, y, graph, validation, space, confirm)
    started, task = time.perf_counter(), Task(nodes, y, graph, validation)
    batches = BatchedTrials(space, task, device, seeds_per_trial)
    if not batches.can_train():
        raise ParameterError(
            "no population can train the models of this space, those with fine-tuning for example; search "
            "with tune(), once for every seed."
        )
    studies = {seed: open_study(None, f"seed {seed}", {}) for seed in seeds}
    n_drawing = min(jobs or n_cores(), len(seeds))
    with ThreadPoolExecutor(n_drawing) as pool, Processes(threads=1) as processes:

        def draw(study: optuna.Study, draws: Sequence[Draw]) -> Batch:
            given = (finished(study), space, draws)
            settings: list[Settings] = propose(*given) if n_drawing == 1 else processes.call(propose, *given)
            return Batch(study, draws, settings)

        while draws := {
            seed: own for seed in seeds if (own := next_draws(studies[seed], (seed, 0), n_trials, population))
        }:
            drawn = pool.map(draw, [studies[seed] for seed in draws], draws.values())
            before = {seed: finished(studies[seed]) for seed in draws}
            for seed, ended in zip(draws, batches.run(list(drawn)), strict=True):
                for trial in ended:
                    before[seed].append(trial)
                    if on_trial is not None:
                        on_trial(seed, report_of(before[seed], n_trials))
    searches = [(finished(studies[seed]), seed) for seed in seeds]
    confirmed = find_winners(searches, space, confirm, batches.curves, seeds_per_trial)
    seconds = (time.perf_counter() - started) / len(seeds)
    return [
        conclude(studies[seed], space, task, seed, found, device, seconds)
        for seed, found in zip(seeds, confirmed, strict=True)
    ]
