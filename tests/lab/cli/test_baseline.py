from __future__ import annotations

import io
import json
import re
import sys

import numpy as np
import pytest
from rich.console import Console

from gbgnn import datasets
from gbgnn.cli import screen
from gbgnn_lab.baselines import BASELINES, fit_baseline


def test_list_names_every_baseline_with_its_paper(run) -> None:
    text = run("baseline", "--list").stdout
    for entry in BASELINES.values():
        assert entry.name in text
        assert entry.reference.split(",")[0] in text
    entries = json.loads(run("baseline", "--list", "--json").stdout)["baselines"]
    assert [entry["name"] for entry in entries] == list(BASELINES)
    gcnii = next(entry for entry in entries if entry["name"] == "gcnii")
    assert gcnii["settings"]["depth"] == 64
    assert gcnii["settings_by_dataset"]["pubmed"]["depth"] == 16
    assert gcnii["cited"] == {"cora": 85.5, "citeseer": 73.4, "pubmed": 80.2}


def test_table_has_mean_and_spread(run) -> None:
    result = run("baseline", "sgc", *run.tiny, "--runs", "3", "--seed", "4", "--set", "epochs=20")
    assert "SGC (Wu et al., Simplifying graph convolutional networks" in result.stdout
    assert "depth 2, learning_rate 0.2, weight_decay 5e-06, epochs 20" in result.stdout
    for word in (
        "seeds 4 to 6",
        "3 runs",
        "test accuracy %",
        "val accuracy %",
        "seconds a run",
        "peak memory",
    ):
        assert word in result.stdout
    assert result.stdout.count(" ± ") == 3
    assert [line[:7] for line in result.stderr.splitlines()] == ["run 1/3", "run 2/3", "run 3/3"]


def test_json_has_every_run_as_the_library_gives_it(run) -> None:
    words = ("--runs", "2", "--depth", "3", "--set", "units=8", "--set", "epochs=10", "--device", "cpu")
    report = json.loads(run("baseline", "gcn", *run.tiny, *words, "--json", "-q").stdout)
    data = datasets.csbm(n_nodes=60, per_class=6)
    expected = [
        fit_baseline("gcn", data, seed=seed, depth=3, units=8, epochs=10).predictions for seed in (0, 1)
    ]
    accuracies = [(labels == data.y)[data.test].mean() for labels in expected]
    assert [row["test_accuracy"] for row in report["runs"]] == accuracies
    assert report["mean"]["test_accuracy"] == np.mean(accuracies)
    assert report["std"]["test_accuracy"] == np.std(accuracies)
    assert (report["settings"]["depth"], report["settings"]["units"]) == (3, 8)
    assert (report["device"], report["dataset"]) == ("cpu", "csbm")
    assert report["peak_memory"] > 2**20
    assert report["cited_accuracy"] is None


def test_cited_accuracy_is_that_of_the_public_split(run, planetoid_folder) -> None:
    words = ("baseline", "sgc", "cora", "--data-dir", planetoid_folder, "--runs", "1", "-q")
    assert "81.0" in run(*words).stdout
    assert "cited: its paper" in run(*words).stdout
    assert json.loads(run(*words, "--split", "random", "--json").stdout)["cited_accuracy"] is None


def test_without_validation_and_test_nodes_there_is_a_dash(run, tables) -> None:
    (tables / "nodes.csv").write_text(
        "id,label,split,x,y\nann,red,train,1,0\nbob,red,,1,0.2\ncat,blue,train,0,1\ndan,,,0,1\neve,,,0,1\n"
    )
    text = run("baseline", "label_propagation", tables, "--runs", "1").stdout
    assert " -  " in text
    assert "seed 0" in text


def test_a_bar_on_a_terminal(run, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, color_system=None, width=100)
    plain = screen.console
    monkeypatch.setattr(screen, "console", lambda stderr=False: console if stderr else plain())
    run("baseline", "sgc", *run.tiny, "--runs", "2", "--set", "epochs=2")
    assert "run 0/2" in shown.getvalue()
    assert re.search(r"run 2/2 ━+ val 0\.\d+ ", shown.getvalue())


def test_embedded_digits_are_the_default(run) -> None:
    assert "digits: 1,797 nodes" in run("baseline", "label_propagation", "--runs", "1").stdout


def test_mistakes_are_one_line_before_anything_slow(run) -> None:
    assert "name a baseline" in run("baseline", code=2).stderr
    assert "Did you mean 'gcn'?" in run("baseline", "gnn", "nowhere", code=1).stderr
    assert "the baseline mlp has no setting 'depth'" in run("baseline", "mlp", "--depth", "2", code=1).stderr
    assert "--set must look like NAME=VALUE" in run("baseline", "gcn", "--set", "units", code=2).stderr
    assert "GCN.units must be an integer >= 1" in run("baseline", "gcn", "--set", "units=0", code=1).stderr


def test_without_the_extra_one_line_says_what_to_install(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    told = run("baseline", "gat", *run.tiny, code=1).stderr
    assert 'the baseline gat needs torch_geometric: pip install "gbgnn[lab]".' in told


def test_help_teaches_by_examples(run) -> None:
    assert 2 <= run("baseline", "--help").stdout.count("$ gbgnn baseline") <= 5
