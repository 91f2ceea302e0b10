from __future__ import annotations

import numpy as np
import torch

from gbgnn_lab.experiments import memory
from gbgnn_lab.experiments.memory import MemoryMeter

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
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "none")
    monkeypatch.setattr(memory, "_CLEAR", tmp_path / "no" / "file")
    monkeypatch.setattr(memory, "peak_memory", lambda device: 100)
    assert MemoryMeter(CPU).peak() == 0
    monkeypatch.setattr(memory, "peak_memory", lambda device: None)
    assert MemoryMeter(CPU).peak() is None


def test_on_a_gpu_what_torch_allocates_counts(monkeypatch):
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 40)
    statistics = {"allocated_bytes": {"all": {"peak": 100}}}
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lambda device: statistics)
    assert MemoryMeter(torch.device("cuda")).peak() == 60
