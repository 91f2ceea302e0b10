from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gbgnn
from gbgnn import datasets
from gbgnn.cli.theory import explain
from gbgnn.graph import Graph
from gbgnn.propagation import NormalizedAdjacency, NormalizedLaplacian, RandomWalk
from gbgnn.smoothing import smoothing_profile
from gbgnn.testing import path4

BOUNDED = ("--learner", "constrained", "--rounds", "6", "--epochs", "10", "--seed", "0", "-q")


@pytest.fixture
def bounded(run) -> Path:
    """A run whose model has hard norms, on two classes."""
    run("fit", *run.tiny, *BOUNDED, "--out", "bounded")
    return Path("bounded")


def test_certificate_bounds_and_what_they_mean(run, bounded: Path) -> None:
    text = run("certify", bounded).stdout
    for words in (
        "condition met in 6 of 6 rounds; every promise was kept",
        "t*, the round of smallest gradient: training error",
        "test error, with confidence 0.95, is at most",
        "training error at margin 0.5",
        "sharp",
        "as printed in the paper, which does not hold",
        "vacuous: every error is at most 1",
        "by depth, training error bounded too",
    ):
        assert words in text
    assert "guaranteed" not in run("certify", bounded, "--rounds", "0").stdout


def test_json_has_every_round_and_every_term(run, bounded: Path) -> None:
    report = json.loads(run("certify", bounded, "--json", "--delta", "0.2", "--confidence", "0.9").stdout)
    certificate = report["certificate"]
    assert certificate["holds"] is True
    assert certificate["met"] == [1, 2, 3, 4, 5, 6]
    assert [row["round"] for row in certificate["rounds"]] == certificate["met"]
    model = gbgnn.load(bounded / "model.gbgnn")
    assert certificate["gamma_total"] == model.certificate_.gamma_total
    assert report["no_bound_because"] is None
    bound = report["bounds"]["sharp"]
    assert (bound["delta"], bound["confidence"], bound["is_vacuous"]) == (0.2, 0.9, True)
    assert len(bound["complexities"]) == 6
    terms = ("training", "complexity", "deviation", "imbalance")
    assert bound["total"] == pytest.approx(sum(bound[term] for term in terms))
    assert bound["partition"] == 0 < report["bounds"]["corrected"]["partition"]
    assert len(report["bound_by_depth"]["rounds"]) == 6


def test_exact_complexities_are_smaller(run, bounded: Path) -> None:
    reports = [
        json.loads(run("certify", bounded, "--json", "--complexity", how).stdout)
        for how in ("closed", "monte_carlo")
    ]
    closed, drawn = (report["bounds"]["sharp"]["complexity"] for report in reports)
    assert drawn < closed


def test_a_model_without_norms_has_a_certificate_only(run, fitted: Path) -> None:
    text = run("certify", fitted).stdout
    assert "every promise was kept" in text
    assert "no bound of the test error: no bound covers MLP" in text
    report = json.loads(run("certify", fitted, "--json").stdout)
    assert report["bounds"] == {}
    assert report["bound_by_depth"] is None


def test_by_another_metric_the_training_error_is_not_known(run) -> None:
    run("fit", *run.tiny, *BOUNDED, "--metric", "roc_auc", "--out", "r")
    text = run("certify", "r").stdout
    assert "t*, the round of smallest gradient: training error <= " in text
    assert "test error, with confidence 0.95, is at most" in text


def test_a_model_file_of_format_2_has_its_certificate(run) -> None:
    text = run("certify", Path(__file__).parent.parent / "data" / "format2" / "gradient.gbgnn").stdout
    assert "every promise was kept" in text
    assert "no bound of the test error: no bound covers MLP" in text


def test_several_classes_have_no_bound_by_depth(run) -> None:
    options = ("--data-option", "n_classes=3", "--data-option", "n_nodes=60", "--data-option", "per_class=6")
    run("fit", "csbm", *options, *BOUNDED, "--out", "three")
    text = run("certify", "three").stdout
    assert "3 classes, each against the rest" in text  # of the first form
    assert "by depth" not in text


def test_bounds_say_which_draw_they_assume(run) -> None:
    for split, words in (
        ("uniform", "uniform draw from all 60; this split drew them so"),
        ("stratified", "uniform draw from all 60, in each of 2 strata; this split drew them so"),
        ("0", "uniform draw from all 60, in each of 2 strata; this split drew them so"),
    ):
        run("fit", *run.tiny[:3], *BOUNDED, "--split", split, "--out", split)
        text = run("certify", split).stdout
        assert words in text
    run("fit", "karate", *BOUNDED, "--out", "public")
    assert "from all 34; how they were drawn is not known" in run("certify", "public").stdout


def test_an_error_of_weighted_nodes_is_not_compared_with_one_of_counted_ones(run) -> None:
    Path("w.toml").write_text("[class_weight]\n0 = 1.0\n1 = 1e-6\n")
    run("fit", *run.tiny, *BOUNDED, "--config", "w.toml", "--out", "weighted")
    text = run("certify", "weighted").stdout
    assert "smallest gradient: weighted training error <= " in text
    assert "by depth" not in text
    assert "test error, with confidence 0.95, is at most" in text


def test_a_bare_file_needs_its_data(run, bounded: Path) -> None:
    path = bounded / "model.gbgnn"
    assert "name the data with --dataset" in run("certify", path).stdout
    result = run("certify", path, "--dataset", "karate", code=1)
    assert "features per node, but the model was fitted with" in result.stderr


def test_another_graph_is_refused(run, bounded: Path) -> None:
    result = run("certify", bounded, "--dataset", "karate", code=1)
    assert "the graph of karate is not the one of the fit" in result.stderr


def test_plot_is_written_and_other_endings_are_refused_first(run, bounded: Path) -> None:
    assert "drawn to c.svg" in run("certify", bounded, "--plot", "c.svg").stdout
    assert Path("c.svg").read_text().startswith("<?xml")
    assert "must end in .png, .svg or .pdf" in run("certify", "nowhere", "--plot", "c.gif", code=1).stderr


def test_wrong_margin_is_one_line(run, bounded: Path) -> None:
    assert "delta must be in (0, 1); got 1.5" in run("certify", bounded, "--delta", "1.5", code=1).stderr


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


def test_clusters_are_a_floor_where_all_labels_train(run, bounded: Path) -> None:
    text = run("certify", bounded, "--clusters").stdout
    assert "other 48 nodes are not of the class that is commonest among the labelled nodes" in text
    report = json.loads(run("certify", bounded, "--clusters", "--json").stdout)
    assert report["clusters"]["n_labelled"] == 12
    assert json.loads(run("certify", bounded, "--json").stdout)["clusters"] is None
    told = run("certify", bounded / "model.gbgnn", "--clusters", code=1).stderr
    assert "--clusters needs the data of the fit" in told
