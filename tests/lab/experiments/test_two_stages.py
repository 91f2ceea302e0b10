from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gbgnn import GBGNNClassifier
from gbgnn_lab.experiments import two_stages
from gbgnn_lab.experiments.paper import Cell
from gbgnn_lab.experiments.searching import cell_space, search
from gbgnn_lab.experiments.two_stages import search_fine_tuning


@pytest.fixture(scope="module")
def kept(tiny):
    from gbgnn_lab.experiments.options import Protocol

    (outcome,) = search(Cell("kta"), tiny, [1], Protocol(trials=2, space="quick"), "cpu")
    return outcome.results["finalists"]


@pytest.mark.parametrize("space", ["quick", "paper"])
def test_the_recorded_settings_give_the_recorded_accuracy(tiny, protocol, kept, space):
    asked = replace(protocol, space=space)
    outcome = search_fine_tuning(Cell("kta", fine_tune=True), tiny, 1, asked, kept, "cpu")
    settings = json.loads(json.dumps(outcome.settings))
    model = GBGNNClassifier().set_params(**settings, random_state=1, device="cpu")
    model.fit(tiny.train, tiny.y[tiny.train], graph=tiny.graph, validation=(tiny.val, tiny.y[tiny.val]))
    assert model.score(tiny.test, tiny.y[tiny.test]) == outcome.results["test_accuracy"]
    assert model.score(tiny.val, tiny.y[tiny.val]) == outcome.results["search_accuracy"]
    assert (model.fine_tuning_["kept"] == "tuned") or space == "quick"


def test_test_labels_change_the_test_accuracy_and_nothing_else(tiny, scrambled, protocol, kept):
    cell = Cell("kta", fine_tune=True)
    told, other = (search_fine_tuning(cell, data, 1, protocol, kept, "cpu") for data in (tiny, scrambled))
    assert told.settings == other.settings
    assert told.results.pop("test_accuracy") != other.results.pop("test_accuracy")
    assert told.results == other.results


def test_boosting_is_done_once_per_finalist(tiny, protocol, kept, monkeypatch):
    fits = []
    boost = two_stages._boost
    monkeypatch.setattr(two_stages, "_boost", lambda *args: fits.append(args) or boost(*args))
    said: list[str] = []
    many = replace(protocol, tune_trials=4)
    outcome = search_fine_tuning(Cell("kta", fine_tune=True), tiny, 1, many, kept, "cpu", said.append)
    assert len(fits) == len(outcome.results["boosted_accuracy"]) == len(kept) == 2
    assert said[-1].startswith("fine-tuning 4 of 4, best ")


def test_a_finalist_has_the_rounds_that_predict_and_no_more_than_the_space_allows(tiny, kept):
    cell = Cell("kta", fine_tune=True)
    paper, quick = (cell_space(cell, kind, 15) for kind in ("paper", "quick"))
    finalist = two_stages._boost(kept[0], quick, tiny, 1, "cpu")
    assert finalist.settings["n_rounds"] == finalist.model.best_round_ == kept[0]["best_round"]
    deep = {"settings": {**kept[0]["settings"], "n_rounds": 90}, "best_round": 70}
    assert two_stages._boost(deep, paper, tiny, 1, "cpu").settings["n_rounds"] == 40
    unknown = {"settings": kept[0]["settings"], "best_round": None}
    assert two_stages._boost(unknown, quick, tiny, 1, "cpu").settings["n_rounds"] == 6


def test_finalists_are_fine_tuned_on_what_they_were_boosted_on(tiny, kept):
    """Features that one finalist has normalised are another's as they are."""
    first, second = kept
    quick = cell_space(Cell("kta", fine_tune=True), "quick", 15)
    for each in (first, {**second, "settings": {**second["settings"], "feature_norm": None}}):
        finalist = two_stages._boost(each, quick, tiny, 1, "cpu")
        model = finalist.fine_tuned({"fine_tune__epochs": 3})
        settings = {**finalist.settings, "fine_tune__epochs": 3, "random_state": 1, "device": "cpu"}
        whole = GBGNNClassifier().set_params(**settings)
        whole.fit(tiny.train, tiny.y[tiny.train], graph=tiny.graph, validation=(tiny.val, tiny.y[tiny.val]))
        assert model.scores_.tolist() == whole.scores_.tolist()
