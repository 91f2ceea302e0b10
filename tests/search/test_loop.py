from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import optuna
from optuna.trial import FrozenTrial

from gbgnn.search import Choice, Real, TrialReport
from gbgnn.search.loop import run_studies
from gbgnn.search.objective import run_one_by_one
from gbgnn.search.sampler import N_RANDOM_TRIALS, Batch
from gbgnn.search.study import open_study

RANGES = {"kind": Choice(["a", "b"]), "x": Real(0, 1)}
N_TRIALS = N_RANDOM_TRIALS + 4  # so that TPE has its say


def objective(trial: optuna.Trial) -> float:
    return float(trial.params["x"]) + (trial.params["kind"] == "a")


run = partial(run_one_by_one, RANGES, objective)


def studies(*seeds: int) -> dict[int, optuna.Study]:
    return {seed: open_study(None, f"seed {seed}", {}) for seed in seeds}


def told(study: optuna.Study) -> list[tuple[dict, list[float], list[int]]]:
    return [(trial.params, trial.values, trial.user_attrs["draw"]) for trial in study.trials]


def test_interleaved_studies_are_what_each_is_by_itself() -> None:
    both, seen = studies(3, 1), []
    run_studies(both, run, n_trials=N_TRIALS, on_trial=lambda seed, report: seen.append(seed))
    assert seen == [3, 1] * N_TRIALS
    for seed, study in both.items():
        run_studies(alone := studies(seed), run, n_trials=N_TRIALS)
        assert told(study) == told(alone[seed])


def test_a_study_goes_on_to_the_number_it_is_to_have() -> None:
    mine, whole = studies(0), studies(0)
    for n_trials in (3, N_TRIALS, N_TRIALS - 1):
        run_studies(mine, run, n_trials=n_trials)
    run_studies(whole, run, n_trials=N_TRIALS)
    assert told(mine[0]) == told(whole[0])


def test_trials_are_planned_so_many_at_a_time() -> None:
    planned = []

    def watched(batches: Sequence[Batch]) -> list[list[FrozenTrial]]:
        planned.append([(len(batch.draws), len(batch.before)) for batch in batches])
        return run(batches)

    both = studies(0, 1)
    run_studies({0: both[0]}, run, n_trials=2)
    run_studies(both, watched, n_trials=7, at_once=3)
    assert planned == [[(3, 2), (3, 0)], [(2, 5), (3, 3)], [(1, 6)]]


def test_reports_are_those_of_the_own_study() -> None:
    seen: list[tuple[int, TrialReport]] = []
    both = studies(0, 1)
    run_studies(both, run, n_trials=5, at_once=2, on_trial=lambda *said: seen.append(said))
    for seed, study in both.items():
        own = [report for other, report in seen if other == seed]
        values = [trial.values[0] for trial in study.trials]
        assert [report.value for report in own] == values
        assert [report.best_value for report in own] == [max(values[: i + 1]) for i in range(5)]
        assert [(report.n_done, report.n_trials, report.state) for report in own] == [
            (i, 5, "complete") for i in range(1, 6)
        ]


def test_nothing_begins_after_the_deadline() -> None:
    mine = studies(0)
    run_studies(mine, run, n_trials=5, deadline=time.perf_counter() - 1)
    assert mine[0].trials == []
