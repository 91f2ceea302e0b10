from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gbgnn import Graph, NodeSplit, datasets
from gbgnn.cli.held_out import find_others
from gbgnn.datasets import Dataset

SMALL = ("csbm", "--data-option", "n_nodes=200", "--data-option", "n_test=60", "--data-option", "per_class=9")
FAST = ("--preset", "fast", "--rounds", "3", "--epochs", "5", "--seed", "0", "-q")


@pytest.fixture
def partly(run) -> Path:
    """A run whose split leaves nodes out."""
    run("fit", *SMALL, *FAST, "--out", "partly")
    return Path("partly")


def test_the_first_line_says_what_is_certain_of_other_nodes(run, partly: Path) -> None:
    text = run("evaluate", partly).stdout
    first, second, third, *_ = text.splitlines()
    assert first.startswith("with 95 % confidence at most ")
    assert first.endswith(" of the other 82 nodes are wrong")
    assert " of the 60 held out are (" in second
    assert third.endswith("a uniform draw from all that did not train; this split drew them so")
    assert "with 80 % confidence" in run("evaluate", partly, "--confidence", "0.8").stdout


def test_json_has_the_bound_or_why_there_is_none(run, partly: Path) -> None:
    for command in ("evaluate", "certify"):
        report = json.loads(run(command, partly, "--json").stdout)
        assert report["others"]["n_others"] == 82
        assert report["others"]["assumption_holds"] is True
        assert report["no_others_because"] is None
    metrics = json.loads((partly / "metrics.json").read_text())
    assert metrics["others"] == report["others"]
    run("fit", *run.tiny, *FAST, "--out", "whole")
    report = json.loads(run("evaluate", "whole", "--json").stdout)
    assert report["others"] is None
    assert "every labelled node is in the split" in report["no_others_because"]
    assert "with 95 %" not in run("evaluate", "whole").stdout


def test_certify_has_classes_and_levels(run, partly: Path) -> None:
    text = run("certify", partly).stdout
    assert text.index("with 95 % confidence at most") < text.index("condition met in")
    for words in ("called", "sure by at least", "wrong of those held out", "90 %", "confidence together"):
        assert words in text


def test_validation_nodes_may_speak_if_it_is_said_what_they_chose(run, partly: Path) -> None:
    assert "needs --choices" in run("evaluate", partly, "--held-out", "val", code=2).stderr
    assert "must be test or val; got 'train'" in run("evaluate", partly, "--held-out", "train", code=2).stderr
    report = json.loads(run("evaluate", partly, "--held-out", "val", "--choices", "3", "--json").stdout)
    assert (report["others"]["n_held_out"], report["others"]["n_others"]) == (40, 142)
    assert "chose this model among 3" in report["others"]["notes"][1]


def test_an_average_has_no_certificate_but_a_bound(run) -> None:
    run("fit", *SMALL, "--preset", "best", "--time-limit", "1", "--seed", "0", "-q", "--out", "several")
    text = run("certify", "several").stdout
    assert "of the other 82 nodes are wrong" in text
    assert "no certificate: there is no certificate of an average of" in text
    report = json.loads(run("certify", "several", "--json").stdout)
    assert report["certificate"] is None
    assert "average" in report["no_certificate_because"]
    assert "--plot draws a certificate" in run("certify", "several", "--plot", "c.svg", code=1).stderr


def test_without_its_data_a_model_says_nothing_of_others(run, partly: Path) -> None:
    report = json.loads(run("certify", partly / "model.gbgnn", "--json").stdout)
    assert report["others"] is None
    assert "name the data with --dataset" in report["no_others_because"]


def test_another_graph_is_a_population_of_its_own(run, partly: Path) -> None:
    run("evaluate", partly, *SMALL[:1], "--data-option", "n_nodes=300", "--data-option", "n_test=60")
    report = json.loads(
        run(
            *("evaluate", partly, "csbm", "--data-option", "n_nodes=300", "--data-option", "n_test=60"),
            "--json",
        ).stdout
    )
    assert report["others"]["n_held_out"] == 60


def labelled(y: list[int], split: NodeSplit, source: str = "") -> Dataset:
    return Dataset("d", Graph(np.zeros((len(y), len(y))), np.eye(len(y))), np.array(y), split, source=source)


def test_who_could_have_been_held_out() -> None:
    split = NodeSplit([0], [1], [2])
    scarce = labelled([0, 1, 0, -1, -1], split)
    assert find_others(scarce, "test").tolist() == [3, 4]
    assert find_others(scarce, "val").tolist() == [2, 3, 4]
    known = labelled([0, 1, 0, 1, -1], split)
    assert find_others(known, "test").tolist() == [3]
    assert find_others(labelled([0, 1, 0, -1, -1], split, "a catalogue"), "test").tolist() == []


def test_numbers_and_arriving_nodes_have_none(run) -> None:
    from gbgnn.cli.held_out import bound_others

    y = np.linspace(0, 1, 6)
    graph = Graph(np.zeros((6, 6)), np.eye(6))
    numbers = Dataset("r", graph, y, NodeSplit([0, 1], [2], [3]))
    assert "numbers have none" in bound_others(None, numbers)[1]
    data = datasets.load("karate")
    arriving = Dataset(
        "a", data.graph, data.y, data.split, arrivals=np.where(data.y < 9, 2, 0) * (data.y < -1)
    )
    assert "part by part" in bound_others(None, arriving)[1]
    assert "has no val nodes" in bound_others(None, data, part="val", n_choices=1)[1]
