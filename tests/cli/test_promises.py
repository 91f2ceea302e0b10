from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import gbgnn
from gbgnn import Calibrated, PredictionIntervals, PredictionSets, datasets

DATA = ("csbm", "--data-option", "n_nodes=300", "--data-option", "per_class=10")
QUICK = ("--preset", "fast", "--rounds", "3", "--epochs", "30", "--units", "8", "--seed", "0", "-q")


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def held(run) -> Path:
    """A run with half of its validation nodes set aside."""
    run("fit", *DATA, *QUICK, "--calibration-fraction", "0.5", "--out", "r")
    return Path("r")


@pytest.fixture
def data():
    return datasets.csbm(n_nodes=300, per_class=10).set_aside(0.5)


def test_sets_are_those_of_the_nodes_that_were_set_aside(run, held: Path, data) -> None:
    rows = _rows(run("predict", held, "--sets", "0.9").stdout)
    model = gbgnn.load(held / "model.gbgnn")
    assert sorted(model.validation_nodes_) == sorted(data.val)
    sets = PredictionSets(model).fit(data.calibration, data.y[data.calibration])
    assert sets.caveat_ is None
    names = sets.classes_.astype(str)
    assert [row["set"] for row in rows] == ["|".join(names[own]) for own in sets.predict_set(range(300))]
    assert len({row["set"] for row in rows}) > 1


def test_calibrated_probabilities_are_written(run, held: Path, data) -> None:
    run("predict", held, "--calibrate", "graph", "--out", "o.parquet")
    found = pq.read_table("o.parquet")
    model = gbgnn.load(held / "model.gbgnn", graph=data.graph)
    expected = Calibrated(model, method="graph").fit(data.calibration, data.y[data.calibration])
    np.testing.assert_allclose(found["proba_0"], expected.predict_proba(range(300))[:, 0], rtol=1e-5)
    assert "set" not in found.column_names


def test_evaluate_says_how_good_they_are(run, held: Path, data) -> None:
    told = run("evaluate", held, "--sets", "0.9", "--calibrate", "temperature")
    assert "sets of 90 %:" in told.stdout
    assert f"% of {len(data.test)} test nodes have the truth in theirs" in told.stdout
    assert "ECE" in told.stdout
    assert f"; {len(data.calibration)} set aside for calibration" in told.stderr
    assert "warning" not in told.stderr
    report = json.loads(run("evaluate", held, "--sets", "0.9", "--json").stdout)
    assert report["sets"]["n_nodes"] == len(data.test)
    assert 0.8 < report["sets"]["coverage"] <= 1
    plain = json.loads(run("evaluate", held, "--json").stdout)
    assert "sets" not in plain
    assert 0 <= plain["splits"]["test"]["ece"] <= 1


@pytest.mark.filterwarnings("default::gbgnn.errors.GBGNNWarning")
def test_validation_nodes_do_where_none_were_set_aside_with_a_warning(run) -> None:
    run("fit", *DATA, *QUICK, "--out", "r")
    told = run("evaluate", "r", "--sets", "0.8").stderr
    assert "validation nodes, by which the model was chosen" in told
    assert "a confidence of 0.8 is not guaranteed exactly" in told


def test_numbers_have_intervals(run) -> None:
    random = np.random.default_rng(0)
    Path("n").mkdir()
    x = random.normal(size=120)
    lines = [f"{i},{a},{a + b}" for i, (a, b) in enumerate(zip(x, random.normal(size=120), strict=True))]
    Path("n/nodes.csv").write_text("\n".join(["id,a,label", *lines]) + "\n")
    edges = [f"{i},{(i + 1) % 120}" for i in range(120)]
    Path("n/edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    run("fit", "n", "--split", "stratified", *QUICK, "--calibration-fraction", "0.5", "--out", "r")
    rows = _rows(run("predict", "r", "--sets", "0.8").stdout)
    lower, upper = (np.array([float(row[name]) for row in rows]) for name in ("lower", "upper"))
    assert (lower < upper).all()
    told = run("evaluate", "r", "--sets", "0.8").stdout
    assert "intervals of 80 %:" in told
    assert "width" in told
    model, data = gbgnn.load("r/model.gbgnn"), datasets.load("n", split="stratified").set_aside(0.5)
    own = PredictionIntervals(model, confidence=0.8).fit(data.calibration, data.y[data.calibration])
    np.testing.assert_allclose(own.predict_interval(range(120))[:, 0], lower)
    message = run("evaluate", "r", "--calibrate", "temperature", code=1).stderr
    assert "Calibrated is for one class per node; this model predicts numbers" in message


def test_a_file_of_sets_promises_by_itself(run, held: Path, data) -> None:
    model = gbgnn.load(held / "model.gbgnn")
    calibrated = Calibrated(model).fit(data.val, data.y[data.val])
    sets = PredictionSets(calibrated, confidence=0.8).fit(data.calibration, data.y[data.calibration])
    gbgnn.save(sets, "sets.gbgnn")
    rows = _rows(run("predict", "sets.gbgnn", "--nodes", "0,7").stdout)
    assert [row["set"] for row in rows] == [
        "|".join(np.array(["0", "1"])[own]) for own in sets.predict_set([0, 7])
    ]
    assert float(rows[0]["proba_0"]) == pytest.approx(calibrated.predict_proba([0])[0, 0], rel=1e-5)
    shown = run("inspect", "sets.gbgnn").stdout
    assert "around the model: sets" in shown
    assert "around the model: calibrated" in shown
    told = run(
        "evaluate", "sets.gbgnn", "csbm", "--data-option", "n_nodes=300", "--data-option", "per_class=10"
    )
    assert "sets of 80 %:" in told.stdout


def test_what_promises_nothing_is_said(run, held: Path) -> None:
    other = ("--dataset", "karate", "--sets", "0.9")
    assert "promise nothing of another graph" in run("predict", held, *other, code=2).stderr
    words = ("evaluate", held, "csbm", "--data-option", "n_nodes=80", "--sets", "0.9")
    assert "leave out other data" in run(*words, code=2).stderr
    bare = run("predict", held / "model.gbgnn", "--sets", "0.9", code=1).stderr
    assert "is a bare model file" in bare
    assert "(0, 1); got 90" in run("predict", held, "--sets", "90", code=1).stderr
    assert "temperature, graph" in run("predict", held, "--calibrate", "platt", code=1).stderr
    run("fit", "karate", *QUICK, "--out", "k")
    assert "karate has no validation nodes" in run("predict", "k", "--sets", "0.9", code=1).stderr
    message = run("fit", "karate", *QUICK, "--calibration-fraction", "0.5", "--out", "k2", code=1).stderr
    assert "0 validation nodes cannot be split" in message
