from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gbgnn.errors import DataError
from gbgnn_lab.experiments import leaderboard
from gbgnn_lab.experiments.jobs import run_jobs
from gbgnn_lab.experiments.leaderboard import compare, load_splits, plan_jobs
from gbgnn_lab.experiments.options import CompareOptions
from gbgnn_lab.experiments.records import RecordFile

TINY = {"n_nodes": 60, "per_class": 5, "n_classes": 3}


@pytest.fixture
def folder(tmp_path, tiny):
    """Two files: one with three splits of its own, one without any."""
    graph = tiny.graph
    plain = {
        "indptr": graph.adjacency.indptr,
        "indices": graph.adjacency.indices,
        "feat": graph.features,
        "y": tiny.y,
    }
    part = np.random.default_rng(0).integers(3, size=(60, 3))
    masks = {f"{name}_mask": part == i for i, name in enumerate(("train", "val", "test"))}
    np.savez(tmp_path / "own.npz", **plain, **masks)
    np.savez(tmp_path / "bare.npz", **plain)
    return tmp_path


@pytest.fixture
def here(monkeypatch):
    """Runs in this process, which is faster."""

    def run(jobs, file, *, is_alone, **rest):
        assert is_alone
        run_jobs(jobs, file, **rest)

    monkeypatch.setattr(leaderboard, "run_jobs", run)


def names(options, name):
    return [data.split_name for data in load_splits(options, str(name))]


def test_own_splits_are_taken_where_there_are_several(folder):
    options = CompareOptions(names=("x",), splits=2)
    assert names(options, folder / "own.npz") == ["public 0 of 3", "public 1 of 3"]
    assert len(names(replace(options, splits=10), folder / "own.npz")) == 3
    first, second = load_splits(options, str(folder / "own.npz"))
    assert first.graph is second.graph
    assert first.train.tolist() != second.train.tolist()


def test_data_without_splits_has_them_drawn(folder):
    options = CompareOptions(names=("x",), splits=2)
    assert names(options, folder / "bare.npz") == ["stratified, seed 0", "stratified, seed 1"]


def test_a_single_split_of_its_own_is_the_only_one():
    options = CompareOptions(names=("csbm",), data_options=TINY)
    assert names(options, "csbm") == ["random, seed 0"]


def test_splits_are_drawn_where_that_is_asked_for(folder):
    options = CompareOptions(names=("x",), splits=2, split="stratified")
    assert names(options, folder / "own.npz") == ["stratified, seed 0", "stratified, seed 1"]


def test_classes_too_small_for_folds_do_no_harm(folder, tiny):
    y = np.array(tiny.y)
    y[y == 2] = 1
    y[0] = 2
    with np.load(folder / "own.npz") as arrays:
        one = {
            key: value[:, 0] if value.ndim == 2 and "mask" in key else value for key, value in arrays.items()
        }
    np.savez(folder / "small.npz", **one | {"y": y})
    assert names(CompareOptions(names=("x",)), folder / "small.npz") == ["public"]


def test_systems_are_ranked_and_failures_shown(folder, here, monkeypatch):
    options = CompareOptions(
        names=(str(folder / "own.npz"),),
        systems=("sgc", "label_propagation"),
        splits=2,
        runs=1,
        out=folder / "board",
    )
    monkeypatch.setattr(leaderboard, "measure", _fail_for_sgc)
    report = compare(options)
    assert report.n_failed == 2
    assert "| - | SGC | failed | 0 | - | - |" in report.markdown()
    assert "Failed, SGC on own: 2 runs: MemoryError: too large" in report.notes
    assert report.notes[0].startswith("own: 2 splits (public 0 of 3 to public 1 of 3; ")
    monkeypatch.undo()
    again = compare(options)
    assert again.n_failed == 0
    assert {row["system"]: row["runs"] for row in again.data} == {"sgc": 2, "label_propagation": 2}
    assert [path.name for path in again.files] == ["table.md", "table.tex", "table.csv"]


def test_what_was_asked_for_before_does_not_show(folder, here):
    asked = {"names": ("csbm",), "data_options": TINY, "runs": 1, "out": folder / "board"}
    compare(CompareOptions(**asked, systems=("label_propagation", "mlp")))
    report = compare(CompareOptions(**asked, systems=("label_propagation",)))
    assert [row["system"] for row in report.data] == ["label_propagation"]
    assert len(RecordFile(folder / "board" / "records.jsonl").read()) == 2


def test_ten_runs_are_shared_among_the_splits(folder):
    jobs, notes = plan_jobs(CompareOptions(names=(str(folder / "own.npz"), "csbm"), systems=("mlp",)))
    assert len(jobs) == 9 + 10
    assert notes[0].endswith("3 seeds each.")
    assert notes[1].endswith("10 seeds each.")


def test_data_without_validation_nodes_is_refused(tmp_path):
    with pytest.raises(DataError, match="karate has no val nodes"):
        compare(CompareOptions(names=("karate",), systems=("mlp",), out=tmp_path))


def _fail_for_sgc(system, data, device, run, tell):
    from gbgnn_lab.experiments.systems import measure

    if system.name == "sgc":
        raise MemoryError("too large")
    return measure(system, data, device, run)
