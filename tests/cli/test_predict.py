from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import gbgnn
from gbgnn import MLP, BestOf, FunctionalGradient, GBGNNClassifier, datasets
from gbgnn.cli.files import Saved, fingerprint
from gbgnn.cli.predict import _own_graph
from gbgnn.cli.prediction_files import write_csv, write_table
from gbgnn.cli.screen import spread
from gbgnn.errors import DataError
from gbgnn.learners import MLPHead
from gbgnn.losses import SoftmaxCrossEntropy
from gbgnn.propagation import Propagator
from gbgnn.testing import two_blocks

OLD = Path(__file__).parent.parent / "data" / "format2"


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_all_nodes_with_names_and_probabilities(run, fitted: Path) -> None:
    rows = _rows(run("predict", fitted).stdout)
    assert list(rows[0]) == ["node", "label", "proba_Mr. Hi", "proba_Officer"]
    model = gbgnn.load(fitted / "model.gbgnn")
    proba = np.array([[r["proba_Mr. Hi"], r["proba_Officer"]] for r in rows], dtype=np.float32)
    assert np.array_equal(proba, model.predict_proba(range(34)))
    names = np.array(["Mr. Hi", "Officer"])[model.predict(range(34))]
    assert [r["label"] for r in rows] == names.tolist()


def test_nodes_by_ids_or_file_in_the_order_asked(run, fitted: Path) -> None:
    rows = _rows(run("predict", fitted, "--nodes", "33, 0,33").stdout)
    assert [r["node"] for r in rows] == ["33", "0", "33"]
    Path("ids.txt").write_text("5\n\n7\n")
    assert [r["node"] for r in _rows(run("predict", fitted, "--nodes", "ids.txt").stdout)] == ["5", "7"]


def test_as_many_ids_as_one_likes_are_no_name_of_a_file(run, fitted: Path) -> None:
    ids = [str(i % 34) for i in range(400)]
    assert [r["node"] for r in _rows(run("predict", fitted, "--nodes", ",".join(ids)).stdout)] == ids


@pytest.mark.parametrize("ids", ["é" * 200, "x" * 5000, "a\0b"])
def test_odd_names_are_no_files_either(run, fitted: Path, ids: str) -> None:
    assert "1 node that the graph does not have" in run("predict", fitted, "--nodes", ids, code=1).stderr


def test_a_file_of_ids_is_text(run, fitted: Path) -> None:
    Path("ids.bin").write_bytes(b"\xff\xfe\x00")
    message = run("predict", fitted, "--nodes", "ids.bin", code=1).stderr
    assert "--nodes: ids.bin is not UTF-8 text" in message


def test_unknown_nodes_are_named(run, fitted: Path) -> None:
    message = run("predict", fitted, "--nodes", "3,99", code=1).stderr
    assert "1 node that the graph does not have (first: '99'; its ids look like 0 and 33)" in message


def test_a_bare_model_counts_from_zero(run, fitted: Path) -> None:
    rows = _rows(run("predict", fitted / "model.gbgnn").stdout)
    assert [r["node"] for r in rows] == [str(i) for i in range(34)]
    assert list(rows[0]) == ["node", "label", "proba_0", "proba_1"]


def test_own_ids_come_back(run, tables: Path) -> None:
    run("fit", tables, *run.quick, "-q", "--out", "r")
    rows = _rows(run("predict", "r").stdout)
    assert [r["node"] for r in rows] == ["ann", "bob", "cat", "dan", "eve"]
    assert set(rows[0]) == {"node", "label", "proba_blue", "proba_red"}


def test_another_graph_is_predicted_by_applying_the_rounds(run) -> None:
    run("fit", *run.tiny, *run.quick, "-q", "--out", "r")
    words = ("predict", "r", "--dataset", "csbm", "--data-option", "n_nodes=80", "--out", "o.csv")
    assert "80 nodes written to o.csv" in run(*words).stderr
    data = datasets.csbm(n_nodes=80, per_class=6)
    expected = gbgnn.load("r/model.gbgnn").predict(range(80), graph=data.graph)
    assert [r["label"] for r in _rows(Path("o.csv").read_text())] == list(map(str, expected))


def test_another_graph_is_built_and_the_model_applied_once(run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("fit", *run.tiny, *run.quick, "-q", "--out", "r")
    built: list[int] = []
    applied: list[int] = []
    build, evaluate = Propagator.__init__, MLPHead.evaluate

    def counted_build(self: Propagator, *args: Any, **kwargs: Any) -> None:
        built.append(1)
        build(self, *args, **kwargs)

    def counted_evaluate(self: MLPHead, *args: Any) -> Any:
        applied.append(1)
        return evaluate(self, *args)

    monkeypatch.setattr(Propagator, "__init__", counted_build)
    monkeypatch.setattr(MLPHead, "evaluate", counted_evaluate)
    monkeypatch.setattr("gbgnn.packing.check_sound", lambda model: None)  # which applies it too
    run("predict", "r", "--dataset", "csbm", "--data-option", "n_nodes=80", "--out", "o.csv")
    assert len(built) == 1
    assert len(applied) == gbgnn.load("r/model.gbgnn").best_round_
    run("predict", "r", "--out", "own.csv")  # the graph of the fit is looked up
    assert len(built) == 1


def test_a_model_file_of_format_2_is_predicted_with(run) -> None:
    expected = json.loads((OLD / "expected.json").read_text())["gradient"]
    rows = _rows(run("predict", OLD / "gradient.gbgnn").stdout)
    assert [r["label"] for r in rows] == expected["predict"]
    proba = [[float(r[f"proba_{name}"]) for name in ("ant", "bee", "cat")] for r in rows]
    np.testing.assert_allclose(proba, expected["proba"], atol=1e-6)


def test_nodes_without_any_label_are_predicted(run, tables: Path) -> None:
    run("fit", tables, *run.quick, "-q", "--out", "r")
    new = Path("new")
    new.mkdir()
    (new / "edges.csv").write_text("source,target\nzoe,yan\n")
    (new / "nodes.csv").write_text("id,x,y\nzoe,1,0\nyan,0,1\n")
    rows = _rows(run("predict", "r", "--graph", new).stdout)
    assert [r["node"] for r in rows] == ["zoe", "yan"]
    assert {r["label"] for r in rows} <= {"red", "blue"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dataset", "csbm"], "graph has 16 features per node, but the model was fitted with 34."),
        (["--out", "x.txt"], "--out must end in .csv or .parquet; got x.txt."),
        (["--dataset", "nowhere"], "no data set or path is named 'nowhere'"),
    ],
)
def test_mistakes_are_one_line(run, fitted: Path, words: list[str], message: str) -> None:
    result = run("predict", fitted, *words, code=1)
    assert message in result.stderr
    assert result.stdout == ""


def test_no_such_run(run) -> None:
    assert "there is no run or model nowhere." in run("predict", "nowhere", code=1).stderr
    Path("x.gbgnn").write_text("not a model")
    assert "x.gbgnn is damaged, truncated or no model file" in run("predict", "x.gbgnn", code=1).stderr


COLUMNS = ["node", "label", "proba_blue", "proba_red"]
PROBA = np.array([[0.1, 0.9], [0.75, 0.25]], dtype=np.float32)
TABLE = dict(zip(COLUMNS, [np.array(["ann", "bob, jr"]), np.array(["red", "blue"]), *PROBA.T], strict=True))


def test_csv_has_the_digits_that_matter() -> None:
    file = io.StringIO()
    write_csv(file, [TABLE])
    assert file.getvalue() == 'node,label,proba_blue,proba_red\nann,red,0.1,0.9\n"bob, jr",blue,0.75,0.25\n'


def test_both_files_hold_the_same(tmp_path: Path) -> None:
    write_table(tmp_path / "x.parquet", [TABLE])
    table = pq.read_table(tmp_path / "x.parquet").to_pydict()
    assert list(table) == COLUMNS
    assert table["node"] == ["ann", "bob, jr"]
    assert table["proba_red"] == PROBA[:, 1].tolist()
    write_table(tmp_path / "x.csv", [TABLE])
    assert (tmp_path / "x.csv").read_text().splitlines()[1] == "ann,red,0.1,0.9"
    assert {p.name for p in tmp_path.iterdir()} == {"x.csv", "x.parquet"}


def test_node_ids_of_a_run_are_refused_when_the_graph_changed() -> None:
    config = {"data": {"dataset": "karate"}, "run": {"data": fingerprint(datasets.load("karate"))}}
    model = SimpleNamespace(n_nodes=34, kept_scores=np.zeros((34, 1)))
    graph, ids = _own_graph(Saved(Path("club"), config, {}), model, None)
    assert (graph, len(ids)) == (None, 34)
    config["run"]["data"]["graph"] = "0"
    with pytest.raises(DataError, match="graph of karate changed since the fit"):
        _own_graph(Saved(Path("club"), config, {}), model, None)
    assert _own_graph(Saved(Path("bare.gbgnn"), {}, {}), model, None)[1].tolist() == list(range(34))


def test_the_data_of_the_fit(run, fitted: Path) -> None:
    report = json.loads(run("evaluate", fitted, "--json").stdout)
    assert report["splits"] == json.loads((fitted / "metrics.json").read_text())["splits"]
    text = run("evaluate", fitted).stdout
    assert "accuracy" in text
    assert "macro-F1" in text


def test_a_bare_model_needs_data(run, fitted: Path) -> None:
    assert "is a bare model file" in run("evaluate", fitted / "model.gbgnn", code=1).stderr
    report = json.loads(run("evaluate", fitted / "model.gbgnn", "karate", "--json").stdout)
    assert report["splits"] == json.loads((fitted / "metrics.json").read_text())["splits"]


def test_another_split_of_the_same_graph_needs_no_learners(run) -> None:
    run("fit", *run.tiny, *run.quick, "-q", "--no-keep-learners", "--out", "r")
    report = json.loads(run("evaluate", "r", "--split", "stratified", "--json").stdout)
    assert report["splits"]["train"]["nodes"] == 36
    other = ("evaluate", "r", "csbm", "--data-option", "n_nodes=80", "--data-option", "per_class=6")
    assert "learners were not kept" in run(*other, code=1).stderr


def test_another_graph(run) -> None:
    run("fit", *run.tiny, *run.quick, "-q", "--out", "r")
    report = json.loads(run("evaluate", "r", "csbm", "--data-option", "n_nodes=80", "--json").stdout)
    assert sum(part["nodes"] for part in report["splits"].values()) == 80


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
    assert all(row["seconds"] > 0 for row in report["history"])  # which the record knows, not the model
    report = json.loads(run("inspect", learned / "model.gbgnn", "--json").stdout)
    assert {row["seconds"] for row in report["history"]} == {None}
    assert "seconds" in run("inspect", learned).stdout
    assert "seconds" not in run("inspect", learned / "model.gbgnn").stdout


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


def test_inspect_says_which_learner_was_chosen(run) -> None:
    graph, y = two_blocks(60)
    small, large = MLP(units=2, epochs=3), MLP(units=7, epochs=30)
    model = GBGNNClassifier(learner=BestOf(one=small, other=large), n_rounds=2, random_state=0)
    nodes, held_out = np.arange(30), np.arange(30, 45)
    model.fit(nodes, y[nodes], graph=graph, validation=(held_out, y[held_out])).save("m.gbgnn")
    (told, _) = model.history_["learner"]
    losses = ", ".join(f"{loss:.3f}" for loss in told["chosen"]["val_losses"])
    expected = f"round 1, the best by validation losses {losses}: {told['chosen']['learner']}"
    assert expected in " ".join(run("inspect", "m.gbgnn").stdout.split())


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
