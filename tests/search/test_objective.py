from __future__ import annotations

import optuna
import pytest
from sklearn.metrics import get_scorer

from gbgnn import GBGNNClassifier, WideReLU
from gbgnn.errors import GBGNNWarning, WeakLearnerError
from gbgnn.search.objective import needs_learners, run_trial, train
from gbgnn.search.study import N_STARTUP_TRIALS, open_study, state_name


@pytest.fixture
def study() -> optuna.Study:
    return open_study(None, "mine", {})


def test_the_value_is_the_accuracy_at_the_best_round(toy, study: optuna.Study) -> None:
    trial = run_trial(study, toy.space, toy.task, (5, 0, 0), "cpu")
    model = toy.space.build(trial.params, seed=5).set_params(device="cpu")
    assert trial.values == [toy.task.fit(model)]
    history = model.history_["val_accuracy"]
    assert trial.values[0] == max(history) == history[model.best_round_ - 1]
    assert trial.intermediate_values == dict(enumerate(history, start=1))
    assert trial.user_attrs["best_round"] == model.best_round_


@pytest.mark.parametrize("metric", ["f1_macro", "neg_log_loss"])
def test_the_value_is_that_of_the_metric_of_the_space(toy, study: optuna.Study, metric: str) -> None:
    space = toy.space.changed({"metric": metric})
    trial = run_trial(study, space, toy.task, (5, 0, 0), "cpu")
    model = space.build(trial.params, seed=5).set_params(device="cpu")
    assert trial.values == [toy.task.fit(model)]
    history = model.history_[f"val_{metric}"]
    assert trial.intermediate_values == dict(enumerate(history, start=1))
    assert trial.values[0] == pytest.approx(max(history))
    nodes, y = toy.task.validation
    judged = get_scorer(metric)(model, nodes, y)
    assert trial.values[0] == pytest.approx(judged)
    assert trial.values[0] != model.score(nodes, y)
    assert toy.task.curves([space.build(trial.params, seed=5).set_params(device="cpu")]) == [history]


def test_a_fine_tuned_model_is_judged_tuned(toy, study: optuna.Study) -> None:
    fine_tuned = {"fine_tune__epochs": 4, "fine_tune__learning_rate": 0.05, "fine_tune__keep": "tuned"}
    space = toy.space.changed({"fine_tune": True, **fine_tuned})
    trial = run_trial(study, space, toy.task, (0, 0, 0), "cpu")
    model = space.build(trial.params, seed=0).set_params(device="cpu")
    toy.task.fit(model)
    assert trial.values == [model.fine_tuning_["after"]["val_accuracy"]]
    assert len(trial.intermediate_values) == 7


@pytest.mark.parametrize("fine_tune", [False, True])
def test_a_hopeless_trial_is_given_up_and_not_fine_tuned(toy, study: optuna.Study, fine_tune: bool) -> None:
    for _ in range(N_STARTUP_TRIALS):
        better_than_perfect = dict.fromkeys(range(1, 10), 2.0)
        study.add_trial(optuna.trial.create_trial(value=2.0, intermediate_values=better_than_perfect))
    space = toy.space.changed({"fine_tune": True, "fine_tune__epochs": 10**6} if fine_tune else {})
    trial = run_trial(study, space, toy.task, (0, 0, 0), "cpu")
    assert state_name(trial) == "pruned"
    assert list(trial.intermediate_values) == [1, 2, 3, 4, 5]
    assert trial.values == [trial.intermediate_values[5]]


def test_a_model_without_a_round_is_a_failed_trial(toy, study: optuna.Study) -> None:
    diverging = {"learner__optimizer": "sgd", "learner__learning_rate": 1e30}
    space = toy.space.changed(diverging)
    trial = run_trial(study, space, toy.task, (0, 0, 0), "cpu")
    assert (state_name(trial), trial.values) == ("failed", None)
    model = space.build(trial.params, seed=0).set_params(device="cpu")
    with pytest.raises(WeakLearnerError) as error:
        toy.task.fit(model)
    assert trial.user_attrs["error"] == str(error.value)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_is_no_verdict_on_the_model_is_passed_on(toy, study: optuna.Study, error, monkeypatch) -> None:
    def fit(self, *args, **kwargs):
        raise error

    monkeypatch.setattr(GBGNNClassifier, "fit", fit)
    with pytest.raises(error):
        run_trial(study, toy.space, toy.task, (0, 0, 0), "cpu")
    assert [state_name(trial) for trial in study.trials] == ["interrupted"]


def test_warnings_of_trials_are_not_shown(toy, study: optuna.Study, recwarn) -> None:
    space = toy.space.changed({"fine_tune__learning_rate": 1e30, "fine_tune__optimizer": "sgd"})
    trial = run_trial(study, space, toy.task, (0, 0, 0), "cpu")
    assert state_name(trial) == "complete"
    assert not [warning for warning in recwarn if issubclass(warning.category, GBGNNWarning)]


def test_learners_are_kept_for_fine_tuning_alone(toy, study: optuna.Study) -> None:
    model = GBGNNClassifier(n_rounds=2, learner=WideReLU(), random_state=0, device="cpu")
    train(study, study.ask(), model, toy.task)
    assert model.ensemble_[0].head is None
    assert [needs_learners(GBGNNClassifier(fine_tune=word)) for word in (None, False, True)] == [
        False,
        False,
        True,
    ]
