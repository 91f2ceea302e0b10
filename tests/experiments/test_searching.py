from __future__ import annotations

import json

import pytest

from gbgnn import GBGNNClassifier
from gbgnn.experiments.paper import VARIANTS, Cell
from gbgnn.experiments.searching import search, space_of


def fit(settings, data, run):
    model = GBGNNClassifier().set_params(**settings, random_state=run, device="cpu")
    validation = (data.val, data.y[data.val])
    return model.fit(data.train, data.y[data.train], graph=data.graph, validation=validation)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_recorded_settings_give_the_recorded_accuracy(tiny, protocol, variant):
    (outcome,) = search(Cell(variant), tiny, [3], protocol, "cpu")
    model = fit(json.loads(json.dumps(outcome.settings)), tiny, run=3)
    assert model.score(tiny.test, tiny.y[tiny.test]) == outcome.results["test_accuracy"]
    assert model.score(tiny.val, tiny.y[tiny.val]) == outcome.results["val_accuracy"]
    assert model.best_round_ == outcome.results["best_round"]


def test_test_labels_change_the_test_accuracy_and_nothing_else(tiny, scrambled, protocol):
    (told,), (other,) = (search(Cell("adj"), data, [0], protocol, "cpu") for data in (tiny, scrambled))
    assert told.settings == other.settings
    accuracies = told.results.pop("test_accuracy"), other.results.pop("test_accuracy")
    assert accuracies[0] != accuracies[1]
    assert told.results == other.results


def test_the_finalists_are_the_best_trials_in_order(tiny, protocol):
    (outcome,) = search(Cell("adj"), tiny, [0], protocol, "cpu")
    values = [kept["val_accuracy"] for kept in outcome.results["finalists"]]
    assert values == sorted(values, reverse=True)
    assert values[0] == outcome.results["search_accuracy"]
    assert outcome.results["finalists"][0]["settings"] == outcome.settings
    assert len(values) == outcome.results["counts"]["complete"]


def test_trials_are_told_of(tiny, protocol):
    said: list[str] = []
    search(Cell("adj"), tiny, [0], protocol, "cpu", said.append)
    assert [words.partition(",")[0] for words in said] == ["trial 1 of 2", "trial 2 of 2"]


@pytest.mark.parametrize("kind", ["paper", "default", "quick"])
@pytest.mark.parametrize("cell", [Cell("kta"), Cell("ii", 3), Cell("samme_r", fine_tune=True)])
def test_every_cell_has_a_space_that_fits_the_model(cell, kind):
    space = space_of(cell, kind, n_train=140)
    space.check(n_classes=7)
    assert space.base["learner__hidden_layers"] == cell.hidden_layers
    assert ("fine_tune" in space.base) is cell.fine_tune
