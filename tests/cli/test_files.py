from __future__ import annotations

import math
import tempfile
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbgnn import GBGNNClassifier, datasets
from gbgnn.cli.files import (
    describe,
    fingerprint,
    list_class_names,
    open_saved,
    read_toml,
    rescued,
    to_toml,
)
from gbgnn.cli.source import Source
from gbgnn.errors import DataError, ModelFileError, ParameterError
from gbgnn.runs import MODEL, RunFolder


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
    assert own.override(dataset="csbm", options=["n_classes=3"]).options == {"n_nodes": 60, "n_classes": 3}


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


def test_words() -> None:
    data = datasets.load("karate")
    assert describe(data) == "karate: 34 nodes, 78 edges, 34 features, 2 classes (Mr. Hi, Officer)"
    assert list_class_names(data) == {"0": "Mr. Hi", "1": "Officer"}
    assert list_class_names(datasets.csbm(n_nodes=60, per_class=6)) == {}
    assert Source("karate").load_graph().n_nodes == 34


def test_what_is_no_model(tmp_path: Path) -> None:
    place = RunFolder(tmp_path / "run")
    with pytest.raises(ModelFileError, match="there is no run or model .*run.$"):
        open_saved(place.path)
    place.start({"config.toml": ""})
    with pytest.raises(ModelFileError, match=r"There is an unfinished .*run.partial"):
        open_saved(place.path)
    with pytest.raises(ModelFileError, match=r"holds neither model.gbgnn nor checkpoint.gbgnn"):
        open_saved(place.partial)


def test_a_run_is_its_model_with_its_record_and_a_file_is_bare(fitted: Path) -> None:
    saved = open_saved(fitted)
    assert saved.model_path == fitted / "model.gbgnn"
    assert saved.class_names == {"0": "Mr. Hi", "1": "Officer"}
    assert saved.metrics["dataset"] == "karate"
    bare = open_saved(fitted / "model.gbgnn")
    assert (bare.config, bare.metrics, bare.class_names, bare.graph_checksum) == ({}, {}, {}, None)


TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
SCALARS = st.one_of(
    st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False), TEXT, st.lists(st.integers(0, 9))
)
TABLES = st.recursive(
    st.dictionaries(TEXT, SCALARS, min_size=1, max_size=3),
    lambda inner: st.dictionaries(TEXT, st.one_of(SCALARS, inner), min_size=1, max_size=3),
    max_leaves=6,
)


@given(TABLES)
def test_what_is_written_is_read_back(document: dict) -> None:
    assert tomllib.loads(to_toml(document)) == document


def test_none_and_empty_tables_are_left_out_and_keys_become_text() -> None:
    assert to_toml({"a": None, "b": {}, "c": {0: math.inf}}) == "[c]\n0 = inf\n"


def test_a_file_that_is_not_toml_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("a = = 1")
    with pytest.raises(DataError, match=r"x.toml is not a TOML file"):
        read_toml(path)
    path.write_bytes(b"a = '\xff'")
    with pytest.raises(DataError, match="not a TOML file"):
        read_toml(path)


def test_a_model_in_a_folder_that_is_going_is_put_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, run = datasets.load("karate"), RunFolder(tmp_path / "r")
    model = GBGNNClassifier(n_rounds=1, random_state=0, device="cpu", preset="fast")
    model.fit(data.train, data.y[data.train], graph=data.graph)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run.partial.mkdir()
    model.save(run.partial / MODEL)
    for error, is_elsewhere in ((FileNotFoundError("history"), True), (PermissionError("history"), False)):
        with pytest.raises(OSError, match="history") as raised, rescued(model, run):
            raise error
        assert (" is in " in raised.value.__notes__[0]) == is_elsewhere
    (saved,) = tmp_path.glob("r-*.gbgnn")
    assert saved.read_bytes() == (run.partial / MODEL).read_bytes()
