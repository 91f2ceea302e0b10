from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gbgnn import GBGNNClassifier
from gbgnn.datasets import csbm
from gbgnn_lab.experiments import searching
from gbgnn_lab.experiments.paper import VARIANTS, Cell
from gbgnn_lab.experiments.records import Record
from gbgnn_lab.experiments.searching import cell_space, search, search_fine_tuning


def fit(settings, data, run):
    model = GBGNNClassifier().set_params(**settings, random_state=run, device="cpu")
    validation = (data.val, data.y[data.val])
    return model.fit(data.train, data.y[data.train], graph=data.graph, validation=validation)


@pytest.fixture
def double(monkeypatch):
    """Double precision, in which rounding turns no prediction."""

    def exact(*given):
        return cell_space(*given).changed({"dtype": "float64"})

    monkeypatch.setattr(searching, "cell_space", exact)


@pytest.mark.parametrize("confirm", [0, 2])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_recorded_settings_give_the_recorded_accuracy(tiny, protocol, variant, confirm):
    (outcome,) = search(Cell(variant), tiny, [3], replace(protocol, confirm=confirm), "cpu")
    model = fit(json.loads(json.dumps(outcome.settings)), tiny, run=3)
    assert model.score(tiny.test, tiny.y[tiny.test]) == outcome.results["test_accuracy"]
    assert model.score(tiny.val, tiny.y[tiny.val]) == outcome.results["val_accuracy"]
    assert model.best_round_ == outcome.results["best_round"]


@pytest.mark.parametrize("population", [None, 2])
def test_test_labels_change_the_test_accuracy_and_nothing_else(tiny, scrambled, protocol, population):
    asked = replace(protocol, population=population)
    found = (search(Cell("adj"), data, [0, 1], asked, "cpu") for data in (tiny, scrambled))
    for told, other in zip(*found, strict=True):
        assert told.settings == other.settings
        accuracies = told.results.pop("test_accuracy"), other.results.pop("test_accuracy")
        assert accuracies[0] != accuracies[1]
        assert told.results == other.results


@pytest.mark.parametrize("confirm", [0, 2])
@pytest.mark.parametrize("population", [None, 2])
def test_each_run_is_what_it_is_by_itself(tiny, protocol, population, confirm, double):
    asked = replace(protocol, trials=3, population=population, confirm=confirm)
    found = search(Cell("ii"), tiny, [5, 0], asked, "cpu")
    alone = [search(Cell("ii"), tiny, [run], asked, "cpu")[0] for run in (5, 0)]
    assert [(each.settings, each.results) for each in found] == [
        (each.settings, each.results) for each in alone
    ]
    assert found[0].settings != found[1].settings


@pytest.mark.parametrize("confirm", [0, 2])
def test_the_finalists_are_the_best_trials_in_order(tiny, protocol, confirm):
    (outcome,) = search(Cell("adj"), tiny, [0], replace(protocol, confirm=confirm), "cpu")
    values = [kept["val_accuracy"] for kept in outcome.results["finalists"]]
    assert values == sorted(values, reverse=True)
    assert values[0] == outcome.results["search_accuracy"]
    assert outcome.results["finalists"][0]["settings"] == outcome.settings
    assert len(values) == outcome.results["counts"]["complete"]


def test_trials_are_told_of(tiny, protocol):
    said: list[str] = []
    search(Cell("adj"), tiny, [0], protocol, "cpu", said.append)
    assert [words.partition(",")[0] for words in said] == ["trial 1 of 2", "trial 2 of 2"]


@pytest.mark.parametrize("population", [None, 2])
def test_several_runs_tell_their_mean_best_accuracy(protocol, population):
    said: list[str] = []
    hard = csbm(n_nodes=150, n_classes=3, per_class=5, homophily=0.45, separation=0.5)
    found = search(Cell("adj"), hard, [0, 1], replace(protocol, population=population), "cpu", said.append)
    counts = [f"trial {n} of 4" for n in range(1, 5)]
    assert [words.partition(",")[0] for words in said] == counts
    bests = [outcome.results["search_accuracy"] for outcome in found]
    assert bests[0] != bests[1]
    assert said[-1] == f"trial 4 of 4, best {50 * sum(bests):.1f}"


@pytest.mark.parametrize("kind", ["paper", "default", "quick"])
@pytest.mark.parametrize("cell", [Cell("kta"), Cell("ii", 3), Cell("samme_r", fine_tune=True)])
def test_every_cell_has_a_space_that_fits_the_model(cell, kind):
    space = cell_space(cell, kind, n_train=140)
    space.check(range(7))
    assert space.base["learner__hidden_layers"] == cell.hidden_layers
    assert ("fine_tune" in space.base) is cell.fine_tune


@pytest.fixture(scope="module")
def kept(tiny):
    from gbgnn_lab.experiments.options import Protocol

    (outcome,) = search(Cell("kta"), tiny, [1], Protocol(trials=2, space="quick"), "cpu")
    return outcome.results["finalists"]


def first(kept):
    """The record of the search without fine-tuning."""
    return Record({}, results={"finalists": kept})


@pytest.mark.parametrize("space", ["quick", "paper"])
def test_fine_tuned_the_recorded_settings_give_the_recorded_accuracy(tiny, protocol, kept, space):
    asked = replace(protocol, space=space)
    outcome = search_fine_tuning(Cell("kta", fine_tune=True), tiny, 1, asked, first(kept), "cpu")
    settings = json.loads(json.dumps(outcome.settings))
    model = GBGNNClassifier().set_params(**settings, random_state=1, device="cpu")
    model.fit(tiny.train, tiny.y[tiny.train], graph=tiny.graph, validation=(tiny.val, tiny.y[tiny.val]))
    assert model.score(tiny.test, tiny.y[tiny.test]) == outcome.results["test_accuracy"]
    assert model.score(tiny.val, tiny.y[tiny.val]) == outcome.results["search_accuracy"]
    assert (model.fine_tuning_["kept"] == "tuned") or space == "quick"


def test_fine_tuned_test_labels_change_the_test_accuracy_and_nothing_else(tiny, scrambled, protocol, kept):
    cell = Cell("kta", fine_tune=True)
    told, other = (
        search_fine_tuning(cell, data, 1, protocol, first(kept), "cpu") for data in (tiny, scrambled)
    )
    assert told.settings == other.settings
    assert told.results.pop("test_accuracy") != other.results.pop("test_accuracy")
    assert told.results == other.results


def test_boosting_is_done_once_per_finalist(tiny, protocol, kept, monkeypatch):
    fits = []
    boost = searching._boost
    monkeypatch.setattr(searching, "_boost", lambda *args: fits.append(args) or boost(*args))
    said: list[str] = []
    many = replace(protocol, tune_trials=4)
    outcome = search_fine_tuning(Cell("kta", fine_tune=True), tiny, 1, many, first(kept), "cpu", said.append)
    assert len(fits) == len(outcome.results["boosted_accuracy"]) == len(kept) == 2
    assert said[-1].startswith("fine-tuning 4 of 4, best ")


def test_a_finalist_has_the_rounds_that_predict_and_no_more_than_the_space_allows(tiny, kept):
    cell = Cell("kta", fine_tune=True)
    paper, quick = (cell_space(cell, kind, 15) for kind in ("paper", "quick"))
    finalist = searching._boost(kept[0], quick, tiny, 1, "cpu")
    assert finalist.settings["n_rounds"] == finalist.model.best_round_ == kept[0]["best_round"]
    deep = {"settings": {**kept[0]["settings"], "n_rounds": 90}, "best_round": 70}
    assert searching._boost(deep, paper, tiny, 1, "cpu").settings["n_rounds"] == 40
    unknown = {"settings": kept[0]["settings"], "best_round": None}
    assert searching._boost(unknown, quick, tiny, 1, "cpu").settings["n_rounds"] == 6


def test_finalists_are_fine_tuned_on_what_they_were_boosted_on(tiny, kept):
    """Features that one finalist has normalised are another's as they are."""
    first, second = kept
    quick = cell_space(Cell("kta", fine_tune=True), "quick", 15)
    for each in (first, {**second, "settings": {**second["settings"], "feature_norm": None}}):
        finalist = searching._boost(each, quick, tiny, 1, "cpu")
        model = finalist.fine_tuned({"fine_tune__epochs": 3})
        settings = {**finalist.settings, "fine_tune__epochs": 3, "random_state": 1, "device": "cpu"}
        whole = GBGNNClassifier().set_params(**settings)
        whole.fit(tiny.train, tiny.y[tiny.train], graph=tiny.graph, validation=(tiny.val, tiny.y[tiny.val]))
        assert model.scores_.tolist() == whole.scores_.tolist()
