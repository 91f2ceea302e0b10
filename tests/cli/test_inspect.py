from __future__ import annotations

import json
from pathlib import Path

import pytest

from gbgnn import MLP, FunctionalGradient, GBGNNClassifier
from gbgnn.cli.screen import spread
from gbgnn.losses import SoftmaxCrossEntropy
from gbgnn.testing import two_blocks

OLD = Path(__file__).parent.parent / "data" / "format2"


@pytest.fixture
def learned(run) -> Path:
    run("fit", *run.tiny, *run.quick, "-q", "--aggregation", "kta", "--kta-degree", "1", "--out", "r")
    return Path("r")


def test_rounds_settings_and_coefficients(run, learned: Path) -> None:
    text = run("inspect", learned).stdout
    for word in ("4 rounds", "all rounds were trained", "kta degree=1", "gamma_total", "P^2", "alignment"):
        assert word in text
    assert "* the round that predicts" in text


def test_json_holds_everything(run, learned: Path) -> None:
    report = json.loads(run("inspect", learned, "--json").stdout)
    assert len(report["history"]) == len(report["etas"]) == len(report["hops"]) == 4
    assert report["etas"] == [row["eta"] for row in report["history"]]
    assert report["metrics"]["best_round"] == report["best_round"]
    assert report["run"]["command"].startswith("gbgnn")


@pytest.mark.usefixtures("third_is_best")
@pytest.mark.parametrize("aggregation", ["adjacency", "kta", "lazy"])
def test_a_tuned_model_shows_what_fine_tuning_did(run, aggregation: str) -> None:
    words = ("--fine-tune", "--fine-tune-epochs", "6", "--keep", "tuned", "--aggregation", aggregation)
    run("fit", *run.tiny, *run.quick, *words, "-q", "--out", "r")
    report = json.loads(run("inspect", "r", "--json").stdout)
    assert (len(report["etas"]), report["best_round"], len(report["history"])) == (3, 3, 4)
    tuning = report["fine_tuning"]
    accuracies = (tuning[k]["val_accuracy"] for k in ("before", "after"))
    changed = "val accuracy {:.4f} to {:.4f}".format(*accuracies)
    for saved in ("r", "r/model.gbgnn"):
        text = run("inspect", saved).stdout
        assert f"fine-tuned 6 epochs: {changed}, val loss " in text
        assert "the tuned model was kept" in text
        assert "epochs=6" in text
        assert "moves=learners,etas,aggregation" in text
        assert "losses and steps of the rounds are from before fine-tuning" in text
        assert ("P^8" in text) == (aggregation == "kta")
        first, last = (tuning["history"][k]["val_loss"] for k in (0, -1))
        assert f" {first:.4f} to {last:.4f}" in text  # the curve


def test_a_model_that_was_not_tuned_does_not_speak_of_it(run, learned: Path) -> None:
    assert "tun" not in run("inspect", learned).stdout


def test_learned_matrices_are_no_coefficients(run) -> None:
    run("fit", *run.tiny, *run.quick, "-q", "--aggregation", "linear", "--out", "r")
    text = run("inspect", "r").stdout
    assert "* the round that predicts" in text
    assert "alignment" not in text


def test_fewer_rounds_on_demand(run, learned: Path) -> None:
    text = run("inspect", learned / "model.gbgnn", "--rounds", "2").stdout
    assert "rounds not shown (--rounds)" in text
    assert "gamma_total" not in run("inspect", learned, "--rounds", "0").stdout


def test_classes_by_name(run, fitted: Path) -> None:
    text = run("inspect", fitted).stdout
    assert "classes: 0 (Mr. Hi), 1 (Officer)" in text
    assert "val_loss" not in text


def test_another_metric_stands_where_accuracy_would(run) -> None:
    tuned = ("--fine-tune", "--fine-tune-epochs", "3", "--metric", "f1_macro")
    told = run("fit", *run.tiny, *run.quick, *tuned, "--out", "r")
    assert "fine-tuned 3 epochs: val f1_macro " in told.stdout
    text = run("inspect", "r").stdout
    for word in ("metric               f1_macro", "val_f1_macro", "fine-tuned 3 epochs: val f1_macro "):
        assert word in text
    assert "accuracy" not in text
    report = json.loads(run("inspect", "r", "--json").stdout)
    assert report["metric"] == "f1_macro"
    assert "val_f1_macro" in report["history"][0]


@pytest.mark.parametrize("name", ["gradient", "soft_samme", "given"])
def test_a_model_file_of_format_2_is_shown(run, name: str) -> None:
    path = OLD / f"{name}.gbgnn"
    text = run("inspect", path).stdout
    classes = "ant, bee, cat" if name != "given" else "0, 1, 2"
    for word in (f"{name}.gbgnn: 3 rounds", "3 features, learners kept", f"classes: {classes}", "val_acc"):
        assert word in text
    assert ("fine-tuned 6 epochs: val accuracy " in text) == (name == "soft_samme")
    assert ("given matrix=24,24" in text) == (name == "given")
    assert json.loads(run("inspect", path, "--json").stdout)["format_version"] == 2


def test_a_loss_is_shown_by_its_name(run) -> None:
    graph, y = two_blocks(20)
    rule = FunctionalGradient(loss=SoftmaxCrossEntropy())
    model = GBGNNClassifier(rule=rule, n_rounds=2, learner=MLP(epochs=3), random_state=0)
    model.fit(range(10), y[:10], graph=graph).save("m.gbgnn")
    assert "loss=softmax " in run("inspect", "m.gbgnn").stdout


def test_spread_has_both_ends() -> None:
    assert spread(3, 5, 1) == [0, 1, 2]
    assert spread(10, 2, 9) == [0, 9]
    assert spread(10, 1, 4) == [0, 4]
