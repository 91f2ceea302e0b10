from __future__ import annotations

import json
from pathlib import Path

import pytest

import gbgnn

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
        "any steps",
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
    bound = report["bounds"]["corrected"]
    assert (bound["delta"], bound["confidence"], bound["is_vacuous"]) == (0.2, 0.9, True)
    assert len(bound["complexities"]) == 6
    terms = ("training", "complexity", "partition", "deviation")
    assert bound["total"] == pytest.approx(sum(bound[term] for term in terms))
    assert report["bounds"]["any steps"]["total"] > bound["total"]
    assert len(report["bound_by_depth"]["rounds"]) == 6


def test_exact_complexities_are_smaller(run, bounded: Path) -> None:
    reports = [
        json.loads(run("certify", bounded, "--json", "--complexity", how).stdout)
        for how in ("closed", "monte_carlo")
    ]
    closed, drawn = (report["bounds"]["corrected"]["complexity"] for report in reports)
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
    assert "3 classes, each against the rest" in text
    assert "by depth" not in text


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
