from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import log_loss

import gbgnn
from gbgnn import MLP, GBGNNClassifier, datasets
from gbgnn.cli.files import Saved, fingerprint
from gbgnn.cli.predict import _own_ids, cross_entropy, measure, score_splits, write_csv, write_table
from gbgnn.errors import DataError, ParameterError
from gbgnn.learners import MLPHead
from gbgnn.propagation import Propagator

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


def test_unknown_nodes_are_named(run, fitted: Path) -> None:
    message = run("predict", fitted, "--nodes", "3,99", code=1).stderr
    assert "1 nodes that the graph does not have (first: '99'; its ids look like 0 and 33)" in message


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

    def counted_evaluate(self: MLPHead, X: Any) -> Any:
        applied.append(1)
        return evaluate(self, X)

    monkeypatch.setattr(Propagator, "__init__", counted_build)
    monkeypatch.setattr(MLPHead, "evaluate", counted_evaluate)
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
        (["--out", "x.txt"], "--out must end in .csv or .parquet"),
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
TABLE = (COLUMNS, np.array(["ann", "bob, jr"]), ["red", "blue"], PROBA)


def test_csv_has_the_digits_that_matter() -> None:
    file = io.StringIO()
    write_csv(file, *TABLE)
    assert file.getvalue() == 'node,label,proba_blue,proba_red\nann,red,0.1,0.9\n"bob, jr",blue,0.75,0.25\n'


def test_both_files_hold_the_same(tmp_path: Path) -> None:
    write_table(tmp_path / "x.parquet", *TABLE)
    table = pq.read_table(tmp_path / "x.parquet").to_pydict()
    assert list(table) == COLUMNS
    assert table["node"] == ["ann", "bob, jr"]
    assert table["proba_red"] == PROBA[:, 1].tolist()
    write_table(tmp_path / "x.csv", *TABLE)
    assert (tmp_path / "x.csv").read_text().splitlines()[1] == "ann,red,0.1,0.9"
    assert {p.name for p in tmp_path.iterdir()} == {"x.csv", "x.parquet"}


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"--out must end in .csv or .parquet; got .*x.xlsx"):
        write_table(tmp_path / "x.xlsx", *TABLE)


def test_node_ids_of_a_run_are_refused_when_the_graph_changed() -> None:
    config = {"data": {"dataset": "karate"}, "run": {"data": fingerprint(datasets.load("karate"))}}
    assert len(_own_ids(Saved(Path("club"), config, {}), 34, None)) == 34
    config["run"]["data"]["graph"] = "0"
    with pytest.raises(DataError, match="graph of karate changed since the fit"):
        _own_ids(Saved(Path("club"), config, {}), 34, None)
    assert _own_ids(Saved(Path("bare.gbgnn"), {}, {}), 3, None).tolist() == [0, 1, 2]


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


def test_scores_are_the_models_own() -> None:
    data = datasets.csbm(n_nodes=60, per_class=6)
    model = GBGNNClassifier(n_rounds=2, learner=MLP(epochs=3, units=4), random_state=0)
    model.fit(data.train, data.y[data.train], graph=data.graph)
    scores = score_splits(model, data)
    assert list(scores) == ["train", "val", "test"]
    assert scores["test"]["accuracy"] == model.score(data.test, data.y[data.test])
    expected = log_loss(data.y[data.test], model.predict_proba(data.test))
    assert scores["test"]["loss"] == pytest.approx(expected, rel=1e-5)
    assert score_splits(model, data, graph=data.graph) == scores


def test_an_empty_split_is_left_out() -> None:
    data = datasets.load("karate")
    model = GBGNNClassifier(n_rounds=1, learner=MLP(epochs=3, units=4), random_state=0)
    model.fit(data.train, data.y[data.train], graph=data.graph)
    assert list(score_splits(model, data)) == ["train", "test"]


def test_a_class_that_was_never_seen_counts_as_wrong() -> None:
    truth, classes = np.array([1, 5, 9]), np.array([1, 5])
    proba = np.array([[0.5, 0.5], [0.0, 1.0], [0.5, 0.5]])
    row = measure(truth, np.array([1, 5, 5]), proba, classes)
    assert row["nodes"] == 3
    assert row["accuracy"] == pytest.approx(2 / 3)
    assert row["loss"] == pytest.approx((np.log(2) - np.log(np.finfo(float).eps)) / 3)
    assert row["macro_f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_certainty_costs_nothing() -> None:
    assert str(cross_entropy(np.array([0]), np.array([[1.0, 0.0]]), np.array([0, 1]))) == "0.0"
