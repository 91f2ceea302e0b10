from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import FrozenTrial, TrialState, create_trial

from gbgnn.errors import ParameterError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.search import Integer, SearchSpace
from gbgnn.search.objective import BatchedTrials, FitObjective
from gbgnn.search.search import N_SEEDS, draw_seeds, mean_curve, reevaluate
from gbgnn.search.study import best_trials
from gbgnn.settings import build_model


def test_importances_are_shares_and_need_ten_trials(toy) -> None:
    assert toy.tune(9).importances() == {}
    shares = toy.tune(10).importances()
    assert set(shares) == set(toy.space.ranges)
    assert sum(shares.values()) == pytest.approx(1)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_without_a_complete_trial_there_is_no_best_one(toy) -> None:
    space = toy.space.changed({"learner__learning_rate": 1e30, "learner__optimizer": "sgd"})
    message = r"none of 2 trials was completed, .* The last one: round 1: a learner returned NaN or infinity"
    with pytest.raises(ParameterError, match=message):
        toy.tune(2, space=space)
    with pytest.raises(ParameterError, match="none of 0 trials was completed, so there is no best one"):
        toy.tune(2, timeout=1e-9)


@pytest.mark.parametrize("confirm", [0, 2])
def test_the_settings_are_those_of_the_model(toy, confirm: int) -> None:
    """So that a record of the run is written without another model."""
    result = toy.tune(3, seed=4, confirm=confirm)
    own = {"random_state": 4, "device": "cpu"}
    assert result.settings == {**toy.space.base, **result.best_settings, **own}
    again = build_model(result.settings)
    toy.known.fit(again)
    assert again.scores_.tolist() == result.model.scores_.tolist()


def test_the_study_has_the_checksums_of_its_data(toy, tmp_path: Path) -> None:
    result = toy.tune(1, storage=tmp_path / "s.log")
    assert result.study.user_attrs["data"] == toy.known.checksums()


SPACE = SearchSpace({"n_rounds": 4}, {"learner__units": Integer(1, 99)})
DOUBLE = {"dtype": "float64"}


def a_trial(value: float, *curve: float, units: int = 5) -> FrozenTrial:
    return create_trial(
        value=value,
        params={"learner__units": units},
        distributions=SPACE.distributions(),
        intermediate_values=dict(enumerate(curve, 1)),
    )


def numbered(*trials: FrozenTrial) -> list[FrozenTrial]:
    for number, trial in enumerate(trials):
        trial.number = number
    return list(trials)


def others(seed: int) -> list[int]:
    return draw_seeds(seed, 1 + N_SEEDS)[1:]


def same_curve(curve):
    return lambda models: [curve] * len(models)


def test_what_is_good_with_one_seed_alone_is_not_the_winner() -> None:
    lucky = a_trial(0.9, 0.1, 0.9, 0.1, units=7)
    steady = a_trial(0.8, 0.8, 0.7, 0.6, units=9)

    def curves(models):
        return [[0.1, 0.1, 0.1] if model.learner.units == 7 else [0.6, 0.7, 0.9] for model in models]

    ((first, second),) = reevaluate([(numbered(lucky, steady), 0)], SPACE.build, 2, curves)
    assert (first.number, second.number) == (1, 0)
    means = np.mean([[0.8, 0.7, 0.6], *[[0.6, 0.7, 0.9]] * N_SEEDS], axis=0)
    assert first.value == pytest.approx(means.max())
    assert first.settings == {"learner__units": 9, "n_rounds": 3, "select": "last"}


def test_every_trial_is_trained_with_the_other_seeds_of_its_search() -> None:
    asked: list[tuple[int, int]] = []

    def curves(models: list[GBGNNClassifier]):
        asked.extend((model.learner.units, model.random_state) for model in models)
        return [[0.5]] * len(models)

    searches = [(numbered(a_trial(0.5, 0.5, units=units)), seed) for units, seed in ((7, 0), (9, 4))]
    assert [len(found) for found in reevaluate(searches, SPACE.build, 3, curves)] == [1, 1]
    assert asked == [(7, seed) for seed in others(0)] + [(9, seed) for seed in others(4)]
    assert len({*draw_seeds(0, 6), *draw_seeds(4, 6)}) == 2 + 2 * N_SEEDS


def test_of_equals_the_first_trial_and_the_first_round_win() -> None:
    trials = numbered(a_trial(0.5, 0.5, 0.5), a_trial(0.5, 0.5, 0.5))
    (found,) = reevaluate([(trials, 0)], SPACE.build, 2, same_curve([0.5, 0.5]))
    assert [each.number for each in found] == [0, 1]
    assert {each.settings["n_rounds"] for each in found} == {1}


def test_only_complete_trials_are_confirmed_and_the_best_of_them() -> None:
    pruned = create_trial(state=TrialState.PRUNED, value=0.99)
    trials = numbered(a_trial(0.5), pruned, a_trial(0.7), a_trial(0.6), a_trial(0.7))
    assert [trial.number for trial in best_trials(trials, 3)] == [2, 4, 3]
    assert reevaluate([([pruned], 0)], SPACE.build, 3, same_curve([])) == [[]]


@given(
    st.lists(
        st.lists(st.floats(0, 1), min_size=4, max_size=4),
        min_size=1,
        max_size=5,
    )
)
def test_whole_curves_are_averaged_round_by_round(curves: list[list[float]]) -> None:
    np.testing.assert_allclose(mean_curve(curves), np.mean(curves, axis=0), atol=1e-15)


def test_of_values_below_zero_nothing_is_no_better_than_the_worst() -> None:
    np.testing.assert_allclose(mean_curve([[-1.0, -0.5], [], [-2.0]]), [-5 / 3, -1.5])
    np.testing.assert_allclose(mean_curve([[0.5, 0.25], []]), [0.25, 0.125])


@pytest.mark.parametrize("metric", ["f1_macro", "neg_log_loss"])
def test_the_metric_of_the_space_confirms(toy, metric: str) -> None:
    space = toy.space.changed({"metric": metric, **DOUBLE})
    found = toy.tune(4, space=space, population=4, confirm=2, seed=2)
    winner = found.trials[found.confirmed[0].number]
    models = [space.build(winner.params, seed).set_params(device="cpu") for seed in draw_seeds(2, 6)]
    for model in models:
        toy.known.fit(model)
    mean = np.mean([model.history_[f"val_{metric}"] for model in models], axis=0)
    assert found.best_value == pytest.approx(mean.max())
    assert found.best_settings["n_rounds"] == mean.argmax() + 1


@pytest.mark.parametrize("population", [None, 6])
def test_the_winner_is_the_best_mean_over_models_fitted_one_by_one(toy, population) -> None:
    space = toy.space.changed(DOUBLE)
    found = toy.tune(6, space=space, population=population, confirm=3, seed=2)
    means = {}
    for trial in best_trials(found.trials, 3):
        models = [space.build(trial.params, seed).set_params(device="cpu") for seed in draw_seeds(2, 6)]
        mean = np.mean(toy.known.curves(models), axis=0)
        means[trial.number] = (mean.max(), mean.argmax() + 1)
    assert {each.number: each.settings["n_rounds"] for each in found.confirmed} == {
        number: rounds for number, (_, rounds) in means.items()
    }
    best = max(means, key=lambda number: (means[number][0], -number))
    assert found.confirmed[0].number == best
    assert found.best_value == pytest.approx(means[best][0])
    assert found.best_settings["n_rounds"] == means[best][1] == len(found.model.history_)
    assert (found.model.best_round_, found.model.random_state) == (means[best][1], 2)


def test_the_model_is_the_trial_stopped_at_that_round(toy) -> None:
    found = toy.tune(4, space=toy.space.changed(DOUBLE), confirm=4)
    winner = found.trials[found.confirmed[0].number]
    history = found.model.history_["val_accuracy"]
    assert history == list(winner.intermediate_values.values())[: len(history)]


def test_nothing_is_confirmed_unless_asked_for(toy) -> None:
    found = toy.tune(3)
    assert found.confirmed == []
    assert "n_rounds" not in found.best_settings


def test_curves_are_those_of_models_trained_alone(toy) -> None:
    space = toy.space.changed(DOUBLE)
    models = [
        space.build(corner, seed).set_params(device="cpu") for seed in (0, 1) for corner in space.corners()
    ]
    alone = toy.known.curves(models)
    assert BatchedTrials(FitObjective(space, toy.known, "cpu")).curves(models) == alone
    assert {len(curve) for curve in alone} == {7}


def test_models_that_no_population_can_train_have_curves_too(toy) -> None:
    space = toy.space.changed({"learner": "wide", "rule": "gradient", **DOUBLE})
    models = [space.build({"aggregation__mixing": 0.5}, seed).set_params(device="cpu") for seed in (0, 1)]
    assert BatchedTrials(FitObjective(space, toy.known, "cpu")).curves(models) == toy.known.curves(models)


def test_a_model_without_a_round_has_an_empty_curve(toy) -> None:
    diverging = toy.space.changed({"learner__optimizer": "sgd", "learner__learning_rate": 1e30})
    (corner, *_) = diverging.corners()
    assert toy.known.curves([diverging.build(corner, 0).set_params(device="cpu")]) == [[]]


def test_fine_tuning_is_refused(toy) -> None:
    space = toy.space.changed({"fine_tune": True, "fine_tune__epochs": 2})
    with pytest.raises(ParameterError, match="confirm is for spaces without fine-tuning"):
        toy.tune(2, space=space, confirm=1)


def test_a_wrong_number_is_refused(toy) -> None:
    with pytest.raises(ParameterError, match="tune.confirm must be an integer >= 0; got -1"):
        toy.tune(2, confirm=-1)


@pytest.mark.parametrize("confirm", [0, 2])
def test_a_trial_with_several_seeds_is_their_mean(toy, confirm: int) -> None:
    space = toy.space.changed(DOUBLE)
    found = toy.tune(4, space=space, population=4, seeds_per_trial=3, confirm=confirm, seed=1)
    for trial in found.trials:
        models = [space.build(trial.params, seed).set_params(device="cpu") for seed in draw_seeds(1, 3)]
        mean = np.mean(toy.known.curves(models), axis=0)
        np.testing.assert_allclose(list(trial.intermediate_values.values()), mean, atol=1e-12)
        assert trial.values[0] == pytest.approx(mean.max())
        assert trial.user_attrs["best_round"] == mean.argmax() + 1
    winner = found.trials[found.confirmed[0].number]
    if not confirm:
        assert winner is max(found.trials, key=lambda trial: (trial.values[0], -trial.number))
        assert found.best_settings["n_rounds"] == winner.user_attrs["best_round"]
    assert found.model.best_round_ == len(found.model.history_) == found.best_settings["n_rounds"]


def test_a_trial_is_confirmed_beside_the_seeds_it_had() -> None:
    asked: list[int] = []

    def curves(models):
        asked.extend(model.random_state for model in models)
        return [[0.0]] * len(models)

    ((found,),) = reevaluate([(numbered(a_trial(0.8, 0.8)), 0)], SPACE.build, 1, curves, 3)
    assert found.value == pytest.approx(3 * 0.8 / (3 + N_SEEDS))
    assert asked == draw_seeds(0, 3 + N_SEEDS)[3:]


def test_several_seeds_need_a_population_and_a_refusal_leaves_no_study(toy, tmp_path) -> None:
    with pytest.raises(ParameterError, match="seeds_per_trial > 1 trains a trial with all its seeds at once"):
        toy.tune(2, seeds_per_trial=2, storage=tmp_path / "s.log")
    assert not (tmp_path / "s.log").exists()
    with pytest.raises(ParameterError, match="tune.seeds_per_trial must be an integer >= 1; got 0"):
        toy.tune(2, seeds_per_trial=0)


def test_trials_with_another_number_of_seeds_are_another_study(toy, tmp_path) -> None:
    toy.tune(2, population=2, storage=tmp_path / "s.log")
    with pytest.raises(ParameterError, match="was made with another seeds per trial"):
        toy.tune(2, population=2, storage=tmp_path / "s.log", seeds_per_trial=2)


@pytest.mark.parametrize("population", [None, 2])
def test_what_is_confirmed_is_trained_on_the_device_of_the_search(toy, population, monkeypatch) -> None:
    devices = []
    usual = GBGNNClassifier.set_params

    def set_params(self, **params):
        devices.extend([params["device"]] if "device" in params else [])
        return usual(self, **params)

    monkeypatch.setattr(GBGNNClassifier, "set_params", set_params)
    toy.tune(2, population=population, confirm=2)
    assert len(devices) >= 2 + 2 * N_SEEDS + 1  # the trials, those that confirm them, the winner
    assert set(devices) == {"cpu"}
