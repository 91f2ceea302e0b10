from __future__ import annotations

import mmap
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from gbgnn import GBGNNClassifier, GBGNNRegressor
from gbgnn.datasets import csbm
from gbgnn.errors import ParameterError
from gbgnn.features import Neighbourhood
from gbgnn.learners import Stages
from gbgnn.presets import Facts, adapt
from gbgnn_lab.baselines import BASELINES, fit_baseline
from gbgnn_lab.baselines.searching import SearchedModel
from gbgnn_lab.experiments import systems
from gbgnn_lab.experiments.measures import MEASURES
from gbgnn_lab.experiments.systems import (
    OURS,
    SYSTEMS,
    BaselineSystem,
    BoostedSystem,
    MemoryMeter,
    draw_tiny,
    find_systems,
    make_model,
    measure,
)

BESIDE = MEASURES["classification"].beside
FAST = BoostedSystem("fast", "Fast", {"n_rounds": 3, "learner__epochs": 5, "learner__units": 8})


def test_every_baseline_is_a_system():
    assert set(SYSTEMS) == {system.name for system in OURS} | set(BASELINES)


def test_systems_are_found_by_name_and_none_stands_for_all():
    assert [system.name for system in find_systems(["sgc", "gbgnn"])] == ["sgc", "gbgnn"]
    assert find_systems([]) == list(SYSTEMS.values())
    with pytest.raises(
        ParameterError, match="unknown system 'gbgn'. Did you mean 'gbgnn'. Known: gbgnn, .*gcn"
    ):
        find_systems(["gbgn"])


def test_gbgnn_is_measured_as_it_is_fitted(tiny):
    outcome = measure(FAST, tiny, "cpu", 3)
    model = GBGNNClassifier().set_params(**FAST.settings, random_state=3, device="cpu")
    model.fit(tiny.train, tiny.y[tiny.train], graph=tiny.graph, validation=(tiny.val, tiny.y[tiny.val]))
    assert outcome.results["test_accuracy"] == model.score(tiny.test, tiny.y[tiny.test])
    *_, last = model.staged_score(tiny.test, tiny.y[tiny.test])
    assert outcome.results["last_test_accuracy"] == last
    assert outcome.results["best_round"] == model.best_round_
    assert outcome.results["rounds"] == 3
    assert outcome.results["memory"] >= 0
    assert outcome.settings == FAST.settings


def test_a_baseline_is_measured_as_it_is_fitted(tiny):
    outcome = measure(BaselineSystem("sgc", "SGC", {"epochs": 20}), tiny, "cpu", 3, 4)
    fitted = fit_baseline("sgc", tiny, seed=3, depth=4, epochs=20)
    assert outcome.results["test_accuracy"] == np.mean(fitted.predictions[tiny.test] == tiny.y[tiny.test])
    assert outcome.results["val_accuracy"] == fitted.val_accuracy
    worth = fitted.judge(tiny.test, tiny.y[tiny.test])
    assert {name: outcome.results[f"test_{name}"] for name in worth} == worth
    assert {name.removeprefix("test_") for name in BESIDE} < set(worth)
    assert outcome.settings["depth"] == 4
    assert "last_test_accuracy" not in outcome.results


@pytest.mark.parametrize("system", [FAST, BaselineSystem("sgc", "SGC", {"epochs": 20})], ids=lambda s: s.name)
def test_test_labels_change_the_test_accuracy_and_nothing_else(tiny, scrambled, system):
    told, other = (measure(system, data, "cpu", 0).results for data in (tiny, scrambled))
    assert told["test_accuracy"] != other["test_accuracy"]
    kept = [k for k in told if "test" not in k and k not in ("fit_seconds", "memory")]
    assert {k: told[k] for k in kept} == {k: other[k] for k in kept}
    assert {"val_accuracy", "val_log_loss"} < set(kept)


def test_depth_is_a_number_of_hops(tiny):
    assert FAST.fit(tiny, seed=0, device="cpu", depth=4).facts["rounds"] == 5


def test_a_fine_tuned_model_has_no_last_round(tiny):
    tuned = BoostedSystem("tuned", "Tuned", {**FAST.settings, "fine_tune": True, "fine_tune__epochs": 2})
    assert tuned.fit(tiny, seed=0, device="cpu").last is None
    assert tuned.for_warmup(tiny).fit(tiny, seed=0, device="cpu").facts["rounds"] == 1


@pytest.mark.parametrize("name", SYSTEMS)
def test_warming_up_is_short(name, tiny):
    for_warmup = SYSTEMS[name].for_warmup(tiny)
    if isinstance(for_warmup, BoostedSystem):
        assert (for_warmup.settings["n_rounds"], for_warmup.settings["learner"].epochs) == (1, 1)
    else:
        assert all(value == 1 for value in for_warmup.settings.values())
        assert set(for_warmup.settings) == {"epochs", "head_epochs"} & set(asdict(BASELINES[name].model))


def test_the_default_is_untouched_and_warms_up_with_the_parts_that_it_will_have(numeric):
    ours = SYSTEMS["gbgnn"]
    assert ours.settings == {}
    many = csbm(n_nodes=600, per_class=150, n_features=4)
    for data in (many, replace(many, y=many.graph.features[:, 0], task="regression", task_reason="")):
        model = make_model(ours.settings, data)
        y = data.y[data.train]
        facts = Facts.of(data.graph, model.task_for(y), data.train, y, has_validation=True)
        assert isinstance(adapt(model, facts).learner, Stages)
        short = ours.for_warmup(data)
        learner = short.settings["learner"]
        assert (learner.first.n_trees, learner.then.epochs, short.settings["n_rounds"]) == (1, 1, 2)
        assert isinstance(short.settings["neighbourhood"], Neighbourhood)
        assert short.fit(draw_tiny(data.task), seed=0, device="cpu").facts["rounds"] >= 1
    assert ours.for_warmup(numeric).settings["learner"].epochs == 1


@pytest.mark.parametrize("name", [name for name, system in SYSTEMS.items() if system.predicts_numbers])
def test_numbers_are_measured(numeric, name):
    few = {"n_rounds": 2, "learner__epochs": 3} if name.startswith("gbgnn") else {}
    few = {"time_limit": 0.001} if name == "gbgnn-best" else few
    is_searched = name in BASELINES and isinstance(BASELINES[name].model, SearchedModel)
    few |= {"dropout": 0.2, "units": 8, "epochs": 2} if is_searched else {}
    system = replace(SYSTEMS[name], settings={**SYSTEMS[name].settings, **few})
    results = measure(system, numeric, "cpu", 0).results
    assert {f"{part}_{kind}" for part in ("val", "test") for kind in ("r2", "mae", "rmse")} < set(results)
    assert results["test_r2"] <= 1
    assert results["test_mae"] <= results["test_rmse"]
    assert "test_accuracy" not in results


def test_numbers_are_predicted_as_the_regressor_does(numeric):
    outcome = measure(FAST, numeric, "cpu", 3)
    model = GBGNNRegressor().set_params(**FAST.settings, random_state=3, device="cpu")
    validation = numeric.val, numeric.y[numeric.val]
    model.fit(numeric.train, numeric.y[numeric.train], graph=numeric.graph, validation=validation)
    assert outcome.results["test_r2"] == model.score(numeric.test, numeric.y[numeric.test])
    assert "last_test_accuracy" not in outcome.results


CPU = torch.device("cpu")
BLOCK = 2**26


def hold(n_bytes):
    """Hold fresh memory for a moment; an array may get what the process has had before."""
    block = mmap.mmap(-1, n_bytes)
    np.frombuffer(block, np.uint8).fill(1)
    block.close()


def test_the_peak_is_what_was_held_at_once():
    meter = MemoryMeter(CPU)
    hold(BLOCK)
    hold(BLOCK)
    assert 0.9 * BLOCK < meter.peak() < 2.5 * BLOCK


def test_an_earlier_peak_is_forgotten():
    hold(4 * BLOCK)
    assert MemoryMeter(CPU).peak() < BLOCK


def test_elsewhere_the_peak_so_far_is_where_counting_starts(monkeypatch, tmp_path):
    monkeypatch.setattr(systems, "_STATUS", tmp_path / "none")
    monkeypatch.setattr(systems, "_CLEAR", tmp_path / "no" / "file")
    monkeypatch.setattr(systems, "peak_memory", lambda device: 100)
    assert MemoryMeter(CPU).peak() == 0
    monkeypatch.setattr(systems, "peak_memory", lambda device: None)
    assert MemoryMeter(CPU).peak() is None


def test_on_a_gpu_what_torch_allocates_counts(monkeypatch):
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 40)
    statistics = {"allocated_bytes": {"all": {"peak": 100}}}
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lambda device: statistics)
    assert MemoryMeter(torch.device("cuda")).peak() == 60
