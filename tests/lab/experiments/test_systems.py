from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
import torch

from gbgnn import GBGNNClassifier
from gbgnn.errors import ParameterError
from gbgnn_lab.baselines import BASELINES, fit_baseline
from gbgnn_lab.experiments import systems
from gbgnn_lab.experiments.leaderboard import QUALITIES
from gbgnn_lab.experiments.systems import (
    OURS,
    SYSTEMS,
    BaselineSystem,
    BoostedSystem,
    MemoryMeter,
    find_systems,
    measure,
)

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
    assert [outcome.results[name] for name in QUALITIES] == [
        worth[name] for name in ("roc_auc", "average_precision", "log_loss")
    ]
    assert outcome.settings["depth"] == 4
    assert "last_test_accuracy" not in outcome.results


@pytest.mark.parametrize("system", [FAST, BaselineSystem("sgc", "SGC", {"epochs": 20})], ids=lambda s: s.name)
def test_test_labels_change_the_test_accuracy_and_nothing_else(tiny, scrambled, system):
    told, other = (measure(system, data, "cpu", 0).results for data in (tiny, scrambled))
    ours = ("test_accuracy", "last_test_accuracy", "fit_seconds", "memory", *QUALITIES)
    assert told["test_accuracy"] != other["test_accuracy"]
    assert {k: v for k, v in told.items() if k not in ours} == {
        k: v for k, v in other.items() if k not in ours
    }


def test_depth_is_a_number_of_hops(tiny):
    assert FAST.fit(tiny, seed=0, device="cpu", depth=4).facts["rounds"] == 5


def test_a_fine_tuned_model_has_no_last_round(tiny):
    tuned = BoostedSystem("tuned", "Tuned", {**FAST.settings, "fine_tune": True, "fine_tune__epochs": 2})
    assert tuned.fit(tiny, seed=0, device="cpu").last is None
    assert tuned.for_warmup().fit(tiny, seed=0, device="cpu").facts["rounds"] == 1


@pytest.mark.parametrize("name", SYSTEMS)
def test_warming_up_is_short(name):
    for_warmup = SYSTEMS[name].for_warmup()
    if isinstance(for_warmup, BoostedSystem):
        assert (for_warmup.settings["n_rounds"], for_warmup.settings["learner__epochs"]) == (1, 1)
    else:
        assert all(value == 1 for value in for_warmup.settings.values())
        assert set(for_warmup.settings) == {"epochs", "head_epochs"} & set(asdict(BASELINES[name].model))


CPU = torch.device("cpu")
BLOCK = 2**26


def test_the_peak_is_what_was_held_at_once():
    meter = MemoryMeter(CPU)
    np.ones(BLOCK, np.uint8)
    np.ones(BLOCK, np.uint8)
    assert 0.9 * BLOCK < meter.peak() < 2.5 * BLOCK


def test_an_earlier_peak_is_forgotten():
    np.ones(4 * BLOCK, np.uint8)
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
