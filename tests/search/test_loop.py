from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from functools import partial

import numpy as np
import optuna
import pytest
from optuna.trial import FrozenTrial

from gbgnn.search import Choice, Integer, Real, SearchSpace, TrialReport
from gbgnn.search.loop import N_RANDOM_TRIALS, Batch, ask, propose, run_studies, start_proposing
from gbgnn.search.objective import run_one_by_one
from gbgnn.search.study import in_memory_study, open_study

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


SPACE = SearchSpace(
    {},
    {
        "n_rounds": Integer(1, 99),
        "learning_rate": Real(0, 1),
        "rule": Choice(["a", "b"]),
        "learner__units": Integer(7, 7),
    },
)
SETTINGS = SPACE.distributions()


def _new() -> optuna.Study:
    return open_study(None, "mine", {})


def _play(study: optuna.Study, n_trials: int) -> None:
    first = len(study.trials)
    for i in range(first, first + n_trials):
        trial = ask(study, SETTINGS, (0, 0, i))
        study.tell(trial, trial.params["learning_rate"])


def test_trials_depend_on_their_draw_and_on_those_before_alone() -> None:
    """So a study in two pieces, whose sampler is another, equals one in a piece, beyond the random start."""
    n_trials = N_RANDOM_TRIALS + 4
    whole, broken = _new(), _new()
    _play(whole, n_trials)
    _play(broken, n_trials - 2)
    _play(other := in_memory_study(broken.trials), 2)
    assert [t.params for t in other.trials] == [t.params for t in whole.trials]
    assert len({tuple(t.params.values()) for t in whole.trials}) == n_trials


def test_another_seed_or_stream_draws_other_trials() -> None:
    drawn = [ask(_new(), SETTINGS, draw).params for draw in [(0, 0, 0), (1, 0, 0), (0, 1, 0)]]
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]


def test_the_order_of_the_ranges_does_not_matter() -> None:
    turned = SearchSpace({}, dict(reversed(SPACE.ranges.items())))
    one, other = (ask(_new(), space.distributions(), (0, 0, 0)).params for space in (SPACE, turned))
    assert one == other


def test_trials_are_optunas_own() -> None:
    """The same seed in Optuna's sampler, which looks at all trials to find the space, proposes the same."""
    ours, theirs = _new(), _new()
    for i in range(N_RANDOM_TRIALS + 6):
        draw = (3, 1, i)
        trial = ask(ours, SETTINGS, draw)
        seed = int(np.random.SeedSequence(draw).generate_state(1)[0])
        theirs.sampler = optuna.samplers.TPESampler(seed=seed)
        other = theirs.ask(SETTINGS)
        assert other.params == trial.params
        for study, told in ((ours, trial), (theirs, other)):
            study.tell(told, told.params["learning_rate"])


def test_a_trial_keeps_away_from_those_that_run() -> None:
    """With the same random numbers, many at once are not the same."""
    study = _new()
    _play(study, N_RANDOM_TRIALS + 2)
    crowd = [ask(study, SETTINGS, (9, 9, 9)).params["learning_rate"] for _ in range(8)]
    assert len(set(crowd)) > 1


def test_a_draw_is_written_down() -> None:
    assert ask(_new(), SETTINGS, (1, 2, 3)).user_attrs["draw"] == [1, 2, 3]


@pytest.mark.parametrize("n_before", [0, N_RANDOM_TRIALS + 2])
def test_proposals_are_the_trials_that_the_study_would_draw(n_before: int) -> None:
    """Each keeps away from those before it, which nobody has trained yet; the study does not change."""
    study, draws = _new(), [(5, 0, i) for i in range(6)]
    _play(study, n_before)
    proposed = propose(study.trials, SETTINGS, draws)
    assert len(study.trials) == n_before
    assert proposed == [ask(study, SETTINGS, draw).params for draw in draws]
    assert all(set(settings) == set(SPACE.ranges) for settings in proposed)


def test_proposals_depend_on_the_arguments_alone() -> None:
    """So that another process, to which trials are sent, proposes the same, and as often as it is asked."""
    study, draws = _new(), [(5, 0, i) for i in range(3)]
    _play(study, N_RANDOM_TRIALS + 2)
    sent = pickle.loads(pickle.dumps((study.trials, SETTINGS, draws)))
    assert propose(study.trials, SETTINGS, draws) == propose(*sent) == propose(*sent)
    assert propose(study.trials[:-1], SETTINGS, draws) != propose(*sent)


def test_trials_that_run_elsewhere_are_not_heeded() -> None:
    """They may be over at any time, and what is proposed is to be the same when it is asked for again."""
    study, draws = _new(), [(5, 0, i) for i in range(3)]
    _play(study, N_RANDOM_TRIALS + 2)
    before = propose(study.trials, SETTINGS, draws)
    ask(study, SETTINGS, (6, 0, 0))
    assert propose(study.trials, SETTINGS, draws) == before


def test_without_draws_nothing_is_proposed() -> None:
    assert propose([], SETTINGS, []) == []


@pytest.mark.parametrize("n_processes", [1, 2])
def test_batches_are_proposed_alike_in_any_number_of_processes(n_processes: int) -> None:
    study, draws = _new(), [(5, 0, i) for i in range(2)]
    _play(study, N_RANDOM_TRIALS + 1)
    batches = [Batch(study, draws, study.trials), Batch(_new(), draws)]
    with start_proposing(SETTINGS, n_processes) as proposing:
        assert proposing(batches) == [propose(study.trials, SETTINGS, draws), propose([], SETTINGS, draws)]
