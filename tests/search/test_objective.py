from __future__ import annotations

import math

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.trial import TrialState, create_trial
from sklearn.metrics import get_scorer

from gbgnn import GBGNNClassifier
from gbgnn.errors import GBGNNWarning, ParameterError, WeakLearnerError
from gbgnn.metrics import Metric
from gbgnn.search.loop import Batch
from gbgnn.search.objective import (
    N_STARTUP_TRIALS,
    N_WARMUP_ROUNDS,
    FitObjective,
    MedianStopping,
    TrainingData,
    medians,
    run_one_by_one,
)
from gbgnn.search.study import open_study, state_name


@pytest.fixture
def study() -> optuna.Study:
    return open_study(None, "mine", {})


def run(study: optuna.Study, space, known: TrainingData, draw) -> optuna.trial.FrozenTrial:
    objective = FitObjective(space, known, "cpu")
    ((trial,),) = run_one_by_one(space.distributions(), objective, [Batch(study, [draw])])
    return trial


def test_the_value_is_the_accuracy_at_the_best_round(toy, study: optuna.Study) -> None:
    trial = run(study, toy.space, toy.known, (5, 0, 0))
    model = toy.space.build(trial.params, seed=5).set_params(device="cpu")
    assert trial.values == [toy.known.fit(model)]
    history = model.history_["val_accuracy"]
    assert trial.values[0] == max(history) == history[model.best_round_ - 1]
    assert trial.intermediate_values == dict(enumerate(history, start=1))
    assert trial.user_attrs["best_round"] == model.best_round_


@pytest.mark.parametrize("metric", ["f1_macro", "neg_log_loss"])
def test_the_value_is_that_of_the_metric_of_the_space(toy, study: optuna.Study, metric: str) -> None:
    space = toy.space.changed({"metric": metric})
    trial = run(study, space, toy.known, (5, 0, 0))
    model = space.build(trial.params, seed=5).set_params(device="cpu")
    assert trial.values == [toy.known.fit(model)]
    history = model.history_[f"val_{metric}"]
    assert trial.intermediate_values == dict(enumerate(history, start=1))
    assert trial.values[0] == pytest.approx(max(history))
    nodes, y = toy.known.validation
    judged = get_scorer(metric)(model, nodes, y)
    assert trial.values[0] == pytest.approx(judged)
    assert trial.values[0] != model.score(nodes, y)
    assert toy.known.curves([space.build(trial.params, seed=5).set_params(device="cpu")]) == [history]


def test_a_fine_tuned_model_is_judged_tuned(toy, study: optuna.Study) -> None:
    fine_tuned = {"fine_tune__epochs": 4, "fine_tune__learning_rate": 0.05, "fine_tune__keep": "tuned"}
    space = toy.space.changed({"fine_tune": True, **fine_tuned})
    trial = run(study, space, toy.known, (0, 0, 0))
    model = space.build(trial.params, seed=0).set_params(device="cpu")
    toy.known.fit(model)
    assert trial.values == [model.fine_tuning_["after"]["val_accuracy"]]
    assert len(trial.intermediate_values) == 7


@pytest.mark.parametrize("fine_tune", [False, True])
def test_a_hopeless_trial_is_given_up_and_not_fine_tuned(toy, study: optuna.Study, fine_tune: bool) -> None:
    for _ in range(N_STARTUP_TRIALS):
        better_than_perfect = dict.fromkeys(range(1, 10), 2.0)
        study.add_trial(optuna.trial.create_trial(value=2.0, intermediate_values=better_than_perfect))
    space = toy.space.changed({"fine_tune": True, "fine_tune__epochs": 10**6} if fine_tune else {})
    trial = run(study, space, toy.known, (0, 0, 0))
    assert state_name(trial) == "pruned"
    assert list(trial.intermediate_values) == [1, 2, 3, 4, 5]
    assert trial.values == [trial.intermediate_values[5]]


def test_a_model_without_a_round_is_a_failed_trial(toy, study: optuna.Study) -> None:
    diverging = {"learner__optimizer": "sgd", "learner__learning_rate": 1e30}
    space = toy.space.changed(diverging)
    trial = run(study, space, toy.known, (0, 0, 0))
    assert (state_name(trial), trial.values) == ("failed", None)
    model = space.build(trial.params, seed=0).set_params(device="cpu")
    with pytest.raises(WeakLearnerError) as error:
        toy.known.fit(model)
    assert trial.user_attrs["error"] == str(error.value)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_is_no_verdict_on_the_model_is_passed_on(toy, study: optuna.Study, error, monkeypatch) -> None:
    def fit(self, *args, **kwargs):
        raise error

    monkeypatch.setattr(GBGNNClassifier, "fit", fit)
    with pytest.raises(error):
        run(study, toy.space, toy.known, (0, 0, 0))
    assert [state_name(trial) for trial in study.trials] == ["interrupted"]


def test_warnings_of_trials_are_not_shown(toy, study: optuna.Study, recwarn) -> None:
    space = toy.space.changed({"fine_tune__learning_rate": 1e30, "fine_tune__optimizer": "sgd"})
    trial = run(study, space, toy.known, (0, 0, 0))
    assert state_name(trial) == "complete"
    assert not [warning for warning in recwarn if issubclass(warning.category, GBGNNWarning)]


@pytest.mark.parametrize("fine_tune", [False, True])
def test_learners_are_kept_for_fine_tuning_alone(toy, study, fine_tune: bool, monkeypatch) -> None:
    kept = []
    monkeypatch.setattr(TrainingData, "fit", lambda self, model: kept.append(model.keep_learners) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(study, toy.space.changed({"fine_tune": fine_tune}), toy.known, (0, 0, 0))
    assert kept == [fine_tune]


class NoNumber(Metric):
    name = "no_number"

    def score(self, predicted) -> float:
        return float("nan")


def test_a_value_that_is_not_a_number_is_a_failed_trial(toy, study: optuna.Study) -> None:
    """And not an interrupted one, which would be drawn again for ever."""
    trial = run(study, toy.space.replaced({"metric": NoNumber()}), toy.known, (0, 0, 0))
    assert (state_name(trial), trial.user_attrs["error"]) == (
        "failed",
        "the metric of the validation nodes is not a number.",
    )


def test_any_objective_can_be_searched(toy, study: optuna.Study) -> None:
    ranges = toy.space.distributions()
    draws = [(0, 0, i) for i in range(3)]
    (ended,) = run_one_by_one(
        ranges, lambda trial: trial.params["aggregation__mixing"], [Batch(study, draws)]
    )
    assert [trial.values[0] for trial in ended] == [t.params["aggregation__mixing"] for t in study.trials]


def test_checksums_are_those_of_the_graph_and_of_all_labels(toy) -> None:
    known = toy.known
    other = TrainingData(
        known.nodes, known.y, known.graph, (known.validation[0][1:], known.validation[1][1:])
    )
    assert known.checksums() == toy.known.checksums()
    assert known.checksums()["graph"] == other.checksums()["graph"] == known.graph.checksum
    assert known.checksums()["labels"] != other.checksums()["labels"]


values = st.integers(-5, 5).map(lambda n: n / 5)
curves = st.lists(
    st.lists(values | st.just(math.nan), min_size=1, max_size=N_WARMUP_ROUNDS + 3),
    min_size=N_STARTUP_TRIALS - 1,
    max_size=N_STARTUP_TRIALS + 5,
)


@pytest.mark.filterwarnings("ignore:All-NaN")  # numpy's, in Optuna
@settings(max_examples=100)
@given(curves, st.lists(values, min_size=1, max_size=N_WARMUP_ROUNDS + 4))
def test_our_medians_prune_when_optuna_does(past: list[list[float]], mine: list[float]) -> None:
    pruner = optuna.pruners.MedianPruner(n_startup_trials=N_STARTUP_TRIALS, n_warmup_steps=N_WARMUP_ROUNDS)
    study = optuna.create_study(direction="maximize", pruner=pruner)
    for curve in past:
        study.add_trial(create_trial(value=0.5, intermediate_values=dict(enumerate(curve, start=1))))
    study.add_trial(create_trial(state=TrialState.PRUNED, intermediate_values={N_WARMUP_ROUNDS: 9.0}))
    stopping, trial = MedianStopping([medians(study.trials)]), study.ask()
    for t, value in enumerate(mine, start=1):
        trial.report(value, t)
        assert trial.should_prune() == bool(stopping(t, {0: value}))


@pytest.mark.parametrize(
    ("accuracies", "dropped"),
    [
        # Before a limit there is none, and at it is not below it.
        ([{0: 0.1, 1: 0.1}, {0: 0.5, 1: 0.5}], [[], [1]]),
        # The best so far counts, not the last.
        ([{0: 0.1, 1: 0.7}, {0: 0.1, 1: 0.1}], [[], [0]]),
        # Who is gone is not named again.
        ([{0: 0.6, 1: 0.9}, {1: 0.2}], [[], []]),
    ],
)
def test_the_median_rule_drops_whose_best_is_below_its_own_limit(accuracies, dropped) -> None:
    rule = MedianStopping([{2: 0.5}, {2: 0.6, 3: 0.9}])
    assert [rule(t, told) for t, told in enumerate(accuracies, start=1)] == dropped


def test_members_of_a_trial_are_given_up_together_by_their_mean() -> None:
    stopping = MedianStopping([{1: 0.5, 2: 0.5}, {1: 0.5, 2: 0.5}], 2)
    assert stopping(1, {0: 0.9, 1: 0.1, 2: 0.9, 3: 0.05}) == [2, 3]
    assert stopping(2, {0: 0.1}) == []  # the best mean so far was high enough; 1 has ended by itself


def test_what_is_not_a_number_is_below_every_limit() -> None:
    assert MedianStopping([{1: -9.0}])(1, {0: math.nan}) == [0]


def test_a_preset_that_searches_by_itself_is_no_trial(toy) -> None:
    objective = FitObjective(toy.space.changed({"preset": "best"}), toy.known, "cpu")
    with pytest.raises(ParameterError, match='preset="best" searches by itself'):
        objective.build({}, seed=0)
