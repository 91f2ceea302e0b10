from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gbgnn.errors import DataError, MissingDependencyError, ParameterError
from gbgnn_lab.experiments import EXPERIMENTS, Options, rebuild, reproduce, suite
from gbgnn_lab.experiments.records import RecordFile
from gbgnn_lab.experiments.suite import load_data

TINY = {"n_nodes": 60, "per_class": 5, "n_classes": 3}


def options(tmp_path, **changes):
    asked = {"datasets": ("csbm",), "data_options": TINY, "quick": True, "out": tmp_path, "runs": 1}
    return Options(**asked | {"trials": 2, "tune_trials": 2, "device": "cpu"} | changes)


def test_there_are_five_experiments():
    assert list(EXPERIMENTS) == ["table1", "table4", "figures", "comparison", "depth"]


def test_data_sets_are_loaded_by_name():
    options = Options(datasets=("csbm",), data_options={"n_nodes": 60, "per_class": 6})
    assert load_data(options)["csbm"].graph.n_nodes == 60


def test_two_data_sets_of_one_name_are_refused():
    options = Options(datasets=("csbm", "csbm"), data_options={"n_nodes": 60, "per_class": 6})
    with pytest.raises(ParameterError, match=r"two of the data sets have the same name \(csbm, csbm\)"):
        load_data(options)


def test_data_without_validation_nodes_is_refused():
    with pytest.raises(DataError, match="karate has no val nodes"):
        load_data(Options(datasets=("karate",)))


def test_a_quick_table_1_is_made_and_made_again_from_its_records(tmp_path):
    report = reproduce("table1", options(tmp_path))
    assert report.folder == tmp_path / "quick" / "table1"
    assert sorted(path.name for path in report.folder.glob("[!.]*")) == [
        "records.jsonl",
        "table.csv",
        "table.md",
        "table.tex",
    ]
    assert report.markdown().startswith("# Table 1: GB-GNN with and without fine-tuning (quick run)\n")
    assert "Quick run: few runs of small searches" in report.notes[0]
    assert report.n_failed == 0
    before = {path.name: path.read_bytes() for path in report.folder.iterdir()}
    for path in report.files:
        path.unlink()
    rebuild("table1", options(tmp_path))
    assert {path.name: path.read_bytes() for path in report.folder.iterdir()} == before


def test_records_say_how_to_make_them_again(tmp_path):
    reproduce("table1", options(tmp_path, variants=("adj",)))
    record = RecordFile(tmp_path / "quick" / "table1" / "records.jsonl").read()[0]
    assert record.environment["command"].startswith(
        "gbgnn reproduce table1 --dataset csbm --variant adj --runs 1"
    )
    assert {"versions", "machine", "date"} <= set(record.environment)


def test_the_later_experiments_use_what_the_tables_found(tmp_path):
    reproduce("table1", options(tmp_path, variants=("adj",)))
    report = reproduce("figures", options(tmp_path, layers=(1,)))
    assert "the best search in table1 or table4" in report.markdown()
    assert {path.name for path in report.files} >= {"curves-adj.png", "curves-gradient.png"}
    report = reproduce("comparison", options(tmp_path, systems=("label_propagation",)))
    assert {row["system"] for row in report.data} == {"GB-GNN-Adj", "GB-GNN-Adj + FT", "label_propagation"}
    assert all(row["memory"] >= 0 for row in report.data)


def test_figures_wait_until_there_is_matplotlib(tmp_path, monkeypatch):
    def missing(*args):
        raise MissingDependencyError("drawing figures", "matplotlib", "plot")

    asked = options(tmp_path, systems=("sgc",), depths=(1,))
    monkeypatch.setattr(suite, "write_figure", missing)
    report = reproduce("depth", asked)
    assert report.missing == 'drawing figures needs matplotlib: pip install "gbgnn[plot]".'
    assert [path.name for path in report.files] == ["table.md", "table.tex", "table.csv"]
    monkeypatch.undo()
    assert [path.name for path in rebuild("depth", asked).files][-1] == "depth.png"


def test_unknown_experiments_and_missing_records_are_named(tmp_path):
    with pytest.raises(
        ParameterError, match="reproduce.name must be one of table1, .*; got 'tabel1'. Did you mean"
    ):
        reproduce("tabel1")
    for _ in ("no file", "an empty one"):
        with pytest.raises(DataError, match="are no records in .*records.jsonl; run the experiment first"):
            rebuild("table1", Options(out=tmp_path))
        path = tmp_path / "table1" / "records.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.touch()


@pytest.mark.skipif(os.name != "posix", reason="no SIGKILL")
def test_a_killed_experiment_goes_on_without_repeating_runs(tmp_path):
    code = (
        "from gbgnn_lab.experiments import Options, reproduce\n"
        f"reproduce('table1', Options(datasets=('csbm',), data_options={TINY!r}, quick=True, "
        f"out={str(tmp_path)!r}, runs=40, trials=2, variants=('adj',), tune_trials=1, device='cpu'))\n"
    )
    path = tmp_path / "quick" / "table1" / "records.jsonl"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        while not (path.exists() and path.read_bytes().count(b"\n") >= 3):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    before = path.read_text().splitlines()
    n_kept = len([line for line in before if line.endswith("}")])
    assert 3 <= n_kept < 80
    runs = n_kept + 2
    reproduce("table1", options(tmp_path, variants=("adj",), runs=runs, tune_trials=1))
    after = [json.loads(line)["identity"] for line in path.read_text().splitlines()]
    boosted = [identity["run"] for identity in after if not identity["fine_tune"]]
    assert boosted == list(range(runs))
    assert path.read_text().splitlines()[:n_kept] == before[:n_kept]


def test_nothing_but_the_core_and_optuna_is_needed(tmp_path):
    blocked = ["typer", "rich", "matplotlib", "safetensors", "torch_geometric", "pooch"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({blocked!r}))\n"
        "from gbgnn_lab.experiments.__main__ import main\n"
        f"asked = '--quick --runs 1 --device cpu --dataset csbm --out'.split() + [{str(tmp_path)!r}]\n"
        "assert main(['table1', '--variant', 'adj', '--trials', '2', '--tune-trials', '1', *asked]) == 0\n"
        "assert main(['depth', '--system', 'sgc', '--depth', '1', *asked]) == 0\n"
        "assert 'gbgnn.cli.app' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "failed" not in done.stdout
    assert "run 1/1  csbm (random, seed 0), sgc, depth 1, run 0: val " in done.stderr
    assert not list(Path(tmp_path).rglob("*.png"))


def test_the_papers_experiments_are_about_classes(numeric, tmp_path):
    edges = numeric.graph.adjacency
    path = tmp_path / "prices.npz"
    np.savez(path, indptr=edges.indptr, indices=edges.indices, feat=numeric.graph.features, y=numeric.y)
    with pytest.raises(
        DataError, match="prices has numbers to predict, and the paper's .* gbgnn compare takes both"
    ):
        load_data(Options(datasets=(str(path),)))
