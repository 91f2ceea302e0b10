from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gbgnn import datasets
from gbgnn.cli.smoothing import explain
from gbgnn.graph import Graph
from gbgnn.propagation import NormalizedAdjacency, NormalizedLaplacian, RandomWalk
from gbgnn.smoothing import smoothing_profile
from gbgnn.testing import path4


def test_table_spectrum_and_meaning(run) -> None:
    text = run("smoothing", "karate", "--rounds", "60").stdout
    assert "karate: 34 nodes, 78 edges, 34 features; P augmented" in text
    for word in ("hop", "norm", "distance", "predicted", "energy", "rank", "lambda_2         0.896"):
        assert word in text
    rows = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()]
    assert [int(row[0]) for row in rows][:2] == [0, 4]
    assert rows[-1][0] == "60"
    assert "After 21 hops 99 % of the signal (its squared norm) is in the top eigenspace" in text


def test_json_is_the_profile(run) -> None:
    report = json.loads(
        run("smoothing", "karate", "-T", "3", "--propagation", "random_walk", "--json").stdout
    )
    expected = smoothing_profile(datasets.load("karate").graph, rounds=3, propagation=RandomWalk())
    assert report["rounds"] == expected.rows()
    assert report["lambda_2"] == expected.lambda_2
    assert (report["dataset"], report["propagation"], report["n_nodes"]) == ("karate", "random_walk", 34)
    assert report["meaning"] == explain(expected)


def test_embedded_digits_are_the_default(run) -> None:
    assert "digits: 1,797 nodes" in run("smoothing", "--rounds", "1").stdout


def test_plot_is_written(run) -> None:
    text = run("smoothing", *run.tiny, "--rounds", "2", "--plot", "out/curve.svg").stdout
    assert "drawn to out/curve.svg" in text
    assert "Over-smoothing: csbm, P augmented" in Path("out/curve.svg").read_text()


def test_tables_need_no_labels(run, tables: Path) -> None:
    (tables / "nodes.csv").write_text(
        "id,x,y\nann,1,0\nbob,1,0.2\ncat,0,1\ndan,0.1,1\neve,0.2,0.9\nfay,1,1\n"
    )
    text = run("smoothing", tables, "--normalize", "--propagation", "normalized").stdout
    assert "6 nodes" in text
    assert "components       2, 1 isolated node" in text
    assert "1 direction, eigenvalue 1" in text


def test_wrong_ending_name_and_rounds_are_errors_before_anything_slow(run) -> None:
    assert "must end in .png, .svg or .pdf" in run("smoothing", "--plot", "curve.jpeg", code=1).stderr
    told = run("smoothing", "karate", "--propagation", "augmentd", code=1).stderr
    assert "unknown propagation 'augmentd'. Did you mean 'augmented'?" in told
    assert "--rounds" in run("smoothing", "--rounds", "-1", code=2).stderr


def test_without_matplotlib_only_the_plot_fails(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    run("smoothing", "karate", "--rounds", "1")
    told = run("smoothing", "karate", "--plot", "curve.png", code=1).stderr
    assert 'needs matplotlib: pip install "gbgnn[plot]"' in told


def test_what_is_missing_is_said(run) -> None:
    text = run("smoothing", "karate", "--rounds", "1", "--rank-limit", "10").stdout
    assert "effective_rank   none: min(N, C) = 34 is above rank_limit = 10" in text
    assert "rank" not in text.splitlines()[2]


def test_curves_where_the_terminal_has_the_signs(run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "█" in run("smoothing", "karate", "--rounds", "5").stdout
    assert "█" not in run("smoothing", "karate", "--rounds", "0").stdout


def test_meaning_in_every_case() -> None:
    graph = path4()
    short = smoothing_profile(graph, rounds=2)
    assert explain(short).startswith("After 2 hops 88 % of the signal")
    assert explain(short).endswith("; 99 % are certain after 7 hops.")
    assert "differ by a fixed factor only" in explain(short)
    assert explain(smoothing_profile(graph, rounds=0)).startswith("Before the first hop 62 %")
    bipartite = smoothing_profile(graph, rounds=2, propagation=NormalizedAdjacency())
    assert "need not fade, because lambda_2 is not smaller than every top" in explain(bipartite)
    walk = smoothing_profile(graph, rounds=2, propagation=RandomWalk(self_loops=True))
    assert explain(walk).endswith("differ by a fixed factor only.")
    lost = replace(short, distance=None, missing={"distance": "not found"})
    assert explain(lost).startswith("How near the features come to the top eigenspace is not known")
    triangle = Graph(np.ones((3, 3)) - np.eye(3), np.eye(3))
    plane = smoothing_profile(triangle, rounds=1, propagation=NormalizedLaplacian())
    assert explain(plane) == "After 1 hop 99 % of the signal (its squared norm) is in the top eigenspace."
    alone = Graph([[0]], [[1.0]])
    nothing = smoothing_profile(alone, rounds=3, propagation=NormalizedAdjacency())
    assert explain(nothing) == "After 1 hop nothing is left: P sends the features to zero."
    assert explain(smoothing_profile(Graph([[0]], [[0.0]]))) == "The features are zero."


def test_help_teaches_by_examples(run) -> None:
    text = run("smoothing", "--help").stdout
    assert 2 <= text.count("$ gbgnn smoothing") <= 5
