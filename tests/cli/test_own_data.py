"""Commands on data as people have it: their tables, files with several splits, numbers, GraphLand folders."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest


def test_tables_of_ones_own_are_fitted_and_predicted_in_a_line(run, people: tuple[str, ...]) -> None:
    told = run("fit", *people, "--target", "churn", "--drop", "income", *run.quick, "--out", "r")
    for line in (
        "people: 40 nodes, 80 edges, 1 feature, 2 classes (no, yes)",
        "task: column 'churn' has 2 different labels: classification",
        "split: drawn (stratified, seed 0): train 24, val 8, test 8",
        "ids are column 'who' of people.parquet",
        "edges lead from column 'caller' to column 'callee' of calls.parquet",
        "edges weigh as in column 'weight' of calls.parquet",
    ):
        assert line in told.stderr
    for head in ("accuracy", "AUC", "avg. precision", "log loss"):
        assert head in told.stdout
    run("predict", "r", "--out", "own.parquet")
    table = pq.read_table("own.parquet").to_pydict()
    assert list(table) == ["node", "label", "proba_no", "proba_yes"]
    assert table["node"] == [f"p{i}" for i in range(40)]
    run("predict", "r", "--node-table", "people.csv", "--edges", "calls.csv", "--out", "again.parquet")
    again = pq.read_table("again.parquet").to_pydict()
    assert again["label"] == table["label"]
    assert again["proba_yes"] == pytest.approx(table["proba_yes"], abs=1e-6)
    report = json.loads(run("evaluate", "r", "--json").stdout)
    assert report["splits"] == json.loads(Path("r/metrics.json").read_text())["splits"]
    assert report["split"] == "stratified, seed 0"
    run("fit", "--config", "r/config.toml", "-q", "--out", "repeated")  # the record has the tables
    assert json.loads(Path("repeated/metrics.json").read_text())["splits"] == report["splits"]


def test_tables_are_tuned_and_converted_alike(run, people: tuple[str, ...]) -> None:
    given = ("--target", "churn", "--drop", "income")
    told = run("tune", *people, *given, "--trials", "1", "--rounds", "2", "--epochs", "3", "--out", "t")
    assert "task: column 'churn' has 2 different labels" in told.stderr
    words = ("convert", "calls.parquet", "people.parquet", "p.gbgraph", "--edges", "calls.csv", *given)
    facts = json.loads(run(*words, "--split", "stratified", "--json").stdout)
    assert (facts["nodes"], facts["features"], facts["weighted"]) == (40, 1, True)
    assert "ids are column 'who' of people.parquet" in facts["notes"]


def test_text_columns_are_features_and_fractions_are_no_classes(run, people: tuple[str, ...]) -> None:
    message = run("fit", *people, "--target", "income", "--task", "classification", code=1).stderr
    assert "column 'income' holds 0.25 at node 0; classes must be whole" in message
    assert "R2" in run("fit", *people, "--target", "calls", "--task", "regression").stdout


def test_a_file_with_several_splits_says_which_one_was_used(run) -> None:
    masks = np.zeros((3, 2, 20), bool)
    for k in range(2):
        masks[0, k, k : 8 + k], masks[1, k, 10:14], masks[2, k, 14:] = True, True, True
    named = dict(zip(("train_masks", "val_masks", "test_masks"), masks, strict=True))
    y, edges = np.arange(20) % 2, np.array([[i, (i + 2) % 20] for i in range(20)])
    np.savez("two.npz", node_features=np.eye(20), node_labels=y, edges=edges, notes=[1], **named)
    facts = json.loads(run("datasets", "info", "two.npz", "--json").stdout)
    assert (facts["split"], facts["own_splits"]) == ("public 0 of 2", 2)
    assert facts["notes"] == ["passed over notes, which has no meaning here"]
    told = run("fit", "two.npz", "--split", "1", *run.quick, "--out", "r").stderr
    assert "split: number 1 of the 2 that come with the data (--split K takes another): train 8" in told
    told = run("fit", "two.npz", "--split", "stratified", *run.quick, "--out", "s").stderr
    assert "split: drawn (stratified, seed 0; the data's own 2 splits not used)" in told
    assert json.loads(Path("r/metrics.json").read_text())["split"] == "public 1 of 2"


def test_sizes_of_a_split_that_is_not_drawn_are_a_clear_error(run, tables: Path) -> None:
    message = run("fit", tables, "--data-option", "per_class=1", code=1).stderr
    assert "per_class is a size of a random split; draw one with --split random. load(" in message
    message = run("fit", "karate", "--split", "random", "--data-option", "train=0.5", code=1).stderr
    assert "train is a size of a stratified split" in message


def test_numbers_are_fitted_judged_and_predicted(run, people: tuple[str, ...]) -> None:
    given = ("--target", "income", "--drop", "churn")
    told = run("fit", *people, *given, *run.quick, "--out", "r")
    assert "1 feature, numbers from 0.25 to " in told.stderr
    for head in ("R2", "MAE", "RMSE"):
        assert head in told.stdout
    metrics = json.loads(Path("r/metrics.json").read_text())
    assert metrics["task"] == "regression"
    assert set(metrics["splits"]["test"]) == {"nodes", "r2", "mae", "rmse"}
    run("predict", "r", "--out", "p.parquet")
    assert list(pq.read_table("p.parquet").to_pydict()) == ["node", "prediction"]
    assert json.loads(run("evaluate", "r", "--json").stdout)["splits"] == metrics["splits"]
    run("tune", *people, *given, "--trials", "1", "--rounds", "2", "--epochs", "3", "--out", "t")
    message = run("fit", *people, *given, "--class-weight", "balanced", code=1).stderr
    assert "class_weight is no setting of a regressor" in message


def test_settings_of_graphland_are_chosen_by_name(run, timed: Path) -> None:
    told = run("fit", timed, "--setting", "TH", *run.quick, "--out", "r").stderr
    assert "task: info.yaml says binary_classification" in told
    assert "split: TH, which comes with the data: train 30, val 15, test 15" in told
    assert "info.yaml judges by AP" in told
    message = run("fit", timed, "--setting", "RL", code=1).stderr
    assert "no split_masks_RL.csv, so no setting RL; it has TH" in message


def test_in_the_inductive_setting_later_nodes_cannot_change_the_model(run, timed: Path) -> None:
    words = ("fit", timed, "--setting", "THI", *run.quick)
    told = run(*words, "--out", "r").stderr
    assert "inductive: training sees 30 nodes and the edges among them" in told
    lines = (timed / "features.csv").read_text().splitlines()
    changed = [*lines[:31], *(f"{i},9.0,0.5,7" for i in range(30, 60))]  # of nodes that come later
    (timed / "features.csv").write_text("\n".join(changed))
    run(*words, "--out", "s")
    first, second = (json.loads(Path(out, "metrics.json").read_text())["splits"] for out in "rs")
    assert first["train"] == second["train"]
    assert first["test"] != second["test"]
    assert json.loads(run("evaluate", "s", "--json").stdout)["splits"] == second
    assert len(run("predict", "s").stdout.splitlines()) == 61
    run(*words, "--learner", "constrained", "--out", "bounded")
    assert "training saw a part of the graph only" in run("certify", "bounded").stdout
    for verb in ("evaluate", "predict"):
        message = run(verb, "s", "--sets", "0.9", code=1).stderr
        assert "is inductive: validation and test nodes come with graphs of their own" in message
    message = run("tune", timed, "--setting", "THI", code=1).stderr
    assert "is inductive, so no validation node is there" in message
