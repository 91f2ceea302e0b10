from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gbgnn import datasets
from gbgnn.cli.data_source import (
    Source,
    describe,
    fingerprint,
    list_class_names,
    load_graph,
    own_node_ids,
)
from gbgnn.errors import DataError, ParameterError


def test_what_is_not_given_is_the_librarys_choice() -> None:
    assert Source("csbm", options={"n_nodes": 100}).load().graph.n_nodes == 100
    assert Source("karate", split="stratified", split_seed=3).load().split_name == "stratified, seed 3"


def test_unknown_keys_are_named() -> None:
    with pytest.raises(ParameterError, match=r"x: unknown key data.splits. Did you mean 'split'\?"):
        Source.from_document({"splits": 1}, "x")
    with pytest.raises(ParameterError, match=r"data must be a table, \[data\]; got 'cora'"):
        Source.from_document("cora", "x")


def test_paths_are_recorded_in_full_and_names_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "karate"):
        Path(name).mkdir()
    assert Source("mine").to_document()["dataset"] == str(tmp_path / "mine")
    assert Source("karate").to_document()["dataset"] == "karate"


def test_another_data_set_takes_over_no_options() -> None:
    own = Source("csbm", split_seed=2, normalize=True, options={"n_nodes": 60})
    assert own.override(dataset="karate") == Source("karate", normalize=True)
    assert own.override(dataset="csbm", options={"n_classes": 3}).options == {"n_nodes": 60, "n_classes": 3}


def test_fingerprint_sees_training_labels_and_no_test_label() -> None:
    data = datasets.load("karate")
    first = fingerprint(data)
    y = data.y.copy()
    y[data.test[0]] = 1 - y[data.test[0]]
    assert fingerprint(replace(data, y=y)) == first
    y[data.train] = 1 - y[data.train]
    other = fingerprint(replace(data, y=y))
    assert other["labels"] != first["labels"]
    assert other["graph"] == first["graph"]


def test_fingerprint_sees_sparse_features() -> None:
    data = datasets.load("karate")
    doubled = replace(data, graph=datasets.karate().graph.with_row_normalized_features())
    assert fingerprint(doubled) == fingerprint(data)  # rows that sum to one already
    mixed = replace(data, graph=type(data.graph)(data.graph.adjacency, 2 * np.eye(34)))
    assert fingerprint(mixed) != fingerprint(data)


def test_node_ids_of_a_run_are_refused_when_the_graph_changed() -> None:
    config = {"data": {"dataset": "karate"}, "run": {"data": fingerprint(datasets.load("karate"))}}
    assert len(own_node_ids(config, 34, data_dir=None)) == 34
    config["run"]["data"]["graph"] = "0"
    with pytest.raises(DataError, match="graph of karate changed since the fit"):
        own_node_ids(config, 34, data_dir=None)
    assert own_node_ids({}, 3, data_dir=None).tolist() == [0, 1, 2]


def test_words() -> None:
    data = datasets.load("karate")
    assert describe(data) == "karate: 34 nodes, 78 edges, 34 features, 2 classes (Mr. Hi, Officer)"
    assert list_class_names(data) == {"0": "Mr. Hi", "1": "Officer"}
    assert list_class_names(datasets.csbm(n_nodes=60, per_class=6)) == {}
    assert load_graph(Source("karate")).n_nodes == 34
