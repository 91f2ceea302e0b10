from __future__ import annotations

import json
import platform
import re

import torch

from gbgnn._version import __version__
from gbgnn_lab.experiments import environment as module
from gbgnn_lab.experiments.environment import describe_environment, find_cpu_name


def test_a_record_says_what_made_it():
    made = describe_environment("cpu", "gbgnn reproduce table1")
    assert made["versions"]["gbgnn"] == __version__
    assert made["versions"]["torch"] == torch.__version__
    assert made["machine"]["threads"] == torch.get_num_threads()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", made["date"])
    assert platform.node() not in json.dumps(made) or not platform.node()


def test_packages_that_are_not_there_are_left_out(monkeypatch):
    monkeypatch.setattr(module, "PACKAGES", ("numpy", "no_such_package"))
    assert set(describe_environment("cpu", "")["versions"]) == {"gbgnn", "python", "numpy"}


def test_a_gpu_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda place: f"a {place.type} device")
    assert describe_environment("auto", "")["machine"]["gpu"] == "a cuda device"


def test_the_processor_has_a_name(tmp_path, monkeypatch):
    info = tmp_path / "cpuinfo"
    info.write_text("vendor: X\nmodel name\t: Abacus 9000\n")
    assert find_cpu_name(info) == "Abacus 9000"
    info.write_text("vendor: X\n")
    assert (
        find_cpu_name(info)
        == find_cpu_name(tmp_path / "none")
        == (platform.processor() or platform.machine())
    )
