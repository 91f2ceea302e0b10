from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gbgnn._version import __version__
from gbgnn.errors import DataError, GBGNNWarning
from gbgnn.labels import NodeSplit
from gbgnn_lab.experiments import records
from gbgnn_lab.experiments.records import (
    Record,
    RecordFile,
    check_splits,
    describe_environment,
    find_cpu_name,
    identify_data,
    identity_key,
    judge,
    open_records,
    read_records,
)

VALUES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4)


@pytest.fixture
def file(tmp_path: Path) -> RecordFile:
    return RecordFile(tmp_path / "deep" / "records.jsonl")


def test_records_come_back_as_they_were(file):
    record = Record({"run": 0}, {"units": 8}, {"test_accuracy": 0.5}, None, 1.5, {"date": "2026-01-02"})
    failed = Record({"run": 1}, failure="naïve", seconds=2.0)
    file.append(record)
    file.append(failed)
    assert file.read() == [record, failed]


def test_a_file_that_is_not_there_has_no_records(file):
    assert file.read() == []


def test_the_newest_record_of_an_identity_counts(file):
    file.append(Record({"run": 0, "dataset": "cora"}, failure="out of memory"))
    file.append(Record({"run": 1, "dataset": "cora"}))
    file.append(Record({"dataset": "cora", "run": 0}, results={"test_accuracy": 0.8}))
    assert [(record["run"], record.failure) for record in file.read()] == [(0, None), (1, None)]


@given(st.dictionaries(st.text(max_size=4), VALUES), st.randoms())
def test_keys_do_not_depend_on_order(identity, random):
    items = list(identity.items())
    random.shuffle(items)
    assert identity_key(dict(items)) == identity_key(identity)


def test_a_half_written_line_is_passed_over_and_then_replaced(file):
    file.append(Record({"run": 0}))
    whole = file.path.read_bytes()
    file.path.write_bytes(whole + b'{"identity": {"run": 1}, "resul')
    with pytest.warns(
        GBGNNWarning, match="the last line is cut off; its run was killed and will be made again"
    ):
        assert [record["run"] for record in file.read()] == [0]
    file.append(Record({"run": 2}))
    assert [record["run"] for record in file.read()] == [0, 2]


def test_a_file_that_is_half_a_line_is_emptied(file):
    file.path.parent.mkdir()
    file.path.write_bytes(b'{"iden')
    file.append(Record({"run": 0}))
    assert [record["run"] for record in file.read()] == [0]


@pytest.mark.parametrize("line", ["not JSON", '{"other": 1}', "[]"])
def test_a_broken_line_is_named(file, line):
    file.append(Record({"run": 0}))
    with file.path.open("a") as opened:
        opened.write(line + "\n")
    with pytest.raises(DataError, match="records.jsonl: line 2 is not a record .*; remove the line"):
        file.read()


def test_a_folder_has_the_records_of_every_experiment(tmp_path):
    open_records(tmp_path, "one").append(Record({"run": 1}))
    open_records(tmp_path, "two").append(Record({"run": 2}))
    assert [record["run"] for record in read_records(tmp_path, "two", "none", "one")] == [2, 1]
    assert (tmp_path / "one" / "records.jsonl").exists()


def test_several_writers_do_not_mix_their_lines(file):
    long = "x" * 20_000

    def write(writer: int) -> None:
        for run in range(20):
            RecordFile(file.path).append(Record({"writer": writer, "run": run}, settings={"long": long}))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    found = file.read()
    assert len(found) == 80
    assert all(record.settings["long"] == long for record in found)


@pytest.mark.skipif(os.name != "posix", reason="no SIGKILL")
def test_a_killed_writer_loses_nothing_that_was_recorded(file):
    code = f"""
        from gbgnn_lab.experiments.records import Record, RecordFile
        file, run = RecordFile({str(file.path)!r}), 0
        while True:
            file.append(Record({{"run": run}}, settings={{"long": "x" * 5000}}))
            print(run, flush=True)
            run += 1
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE) as process:
        time.sleep(0.1)
        said = [int(process.stdout.readline()) for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        said += [int(line) for line in process.stdout.read().split()]
    file.append(Record({"run": "after"}))
    runs = [record["run"] for record in file.read()]
    assert runs[: len(said)] == said
    assert runs[-1] == "after"
    assert len(runs) - 1 - len(said) in (0, 1)  # recorded, but killed before it could say so


def test_a_record_says_what_made_it():
    made = describe_environment("cpu", "gbgnn reproduce table1")
    assert made["versions"]["gbgnn"] == __version__
    assert made["versions"]["torch"] == torch.__version__
    assert made["machine"]["threads"] == torch.get_num_threads()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", made["date"])
    assert platform.node() not in json.dumps(made) or not platform.node()


def test_packages_that_are_not_there_are_left_out(monkeypatch):
    monkeypatch.setattr(records, "PACKAGES", ("numpy", "no_such_package"))
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


def test_identity_tells_apart_what_matters(tiny, scrambled):
    known, other = identify_data(tiny), identify_data(scrambled)
    assert known["data"]["test"] != other["data"]["test"]
    assert known["data"] | {"test": ""} == other["data"] | {"test": ""}
    swapped = identify_data(tiny.with_split(NodeSplit(tiny.val, tiny.train, tiny.test), "swapped"))
    assert (swapped["split"], swapped["data"]["graph"]) == ("swapped", known["data"]["graph"])
    assert swapped["data"]["labels"] != known["data"]["labels"]


def test_accuracy_is_the_share_of_hits(tiny):
    predictions = tiny.y.copy()
    predictions[tiny.test[:3]] = (predictions[tiny.test[:3]] + 1) % 3
    assert judge(predictions, tiny) == {"val_accuracy": 1.0, "test_accuracy": 1 - 3 / len(tiny.test)}


def test_a_part_without_nodes_has_no_accuracy(tiny):
    bare = replace(tiny, split=NodeSplit(tiny.train, tiny.val))
    assert judge(np.array(tiny.y), bare)["test_accuracy"] is None


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (("train",), "no val nodes, so there is nothing to choose"),
        (("train", "val"), "no test nodes, .* judge"),
    ],
)
def test_data_needs_nodes_to_choose_and_to_judge_by(tiny, parts, words):
    check_splits(tiny)
    with pytest.raises(DataError, match=words):
        check_splits(replace(tiny, split=NodeSplit(*(getattr(tiny, part) for part in parts))))
