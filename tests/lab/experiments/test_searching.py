from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gbgnn import GBGNNClassifier
from gbgnn.datasets import csbm
from gbgnn.tasks import Classification
from gbgnn_lab.experiments import searching
from gbgnn_lab.experiments.paper import VARIANTS, Cell
from gbgnn_lab.experiments.searching import cell_space, search


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
    space.check(Classification().fit(range(7)))
    assert space.base["learner__hidden_layers"] == cell.hidden_layers
    assert ("fine_tune" in space.base) is cell.fine_tune
