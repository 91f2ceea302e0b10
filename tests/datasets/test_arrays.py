from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from gbgnn import Graph, NodeSplit
from gbgnn._stored import VERSION, is_stored
from gbgnn.datasets import Dataset, karate, load_dataset, save_dataset
from gbgnn.errors import DataError


def _dataset(features, weights=(1.0, 1.0)):
    adjacency = sp.csr_array((np.array(weights), ([0, 1], [1, 0])), shape=(3, 3))
    graph = Graph(adjacency, features, node_ids=["ann", "bob", "cät"], repairs=["dropped 2 self loops"])
    split = NodeSplit([0], [1])
    names = ("a", "b")
    return Dataset("toy", graph, np.array([0, 1, -1]), split, names, "here", "mine", "public")


@pytest.mark.parametrize("features", [np.eye(3, 2), sp.csr_array(np.eye(3, 5, dtype=np.float32))])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.5, 0.5), (0.5, 2.0)])
def test_what_is_saved_is_what_is_loaded(features, weights, tmp_path):
    data = _dataset(features, weights)
    back = load_dataset(save_dataset(data, tmp_path / "toy.gbgraph"))
    assert (back.graph.adjacency != data.graph.adjacency).nnz == 0
    assert back.graph.adjacency.dtype == data.graph.adjacency.dtype
    assert type(back.graph.features) is type(data.graph.features)
    assert back.graph.features.dtype == data.graph.features.dtype
    assert not np.any((back.graph.features != data.graph.features).sum())
    assert back.graph.node_ids.tolist() == ["ann", "bob", "cät"]
    assert back.graph.repairs == data.graph.repairs
    assert back.y.tolist() == [0, 1, -1]
    for part in ("train", "val", "test"):
        assert np.array_equal(getattr(back, part), getattr(data, part))
    for field in ("name", "class_names", "source", "licence", "split_name"):
        assert getattr(back, field) == getattr(data, field)


def test_text_labels_and_missing_class_names_survive(tmp_path):
    data = replace(_dataset(np.eye(3)), y=np.array(["ä", "b", ""]), class_names=None)
    back = load_dataset(save_dataset(data, tmp_path / "toy.gbgraph"))
    assert back.y.tolist() == ["ä", "b", ""]
    assert back.class_names is None


def test_an_older_data_set_is_replaced_and_no_scratch_is_left(tmp_path):
    save_dataset(_dataset(np.eye(3)), tmp_path / "x.gbgraph")
    save_dataset(karate(), tmp_path / "x.gbgraph")
    assert load_dataset(tmp_path / "x.gbgraph").name == "karate"
    assert [path.name for path in tmp_path.iterdir()] == ["x.gbgraph"]


def test_a_folder_of_another_kind_is_left_alone(tmp_path):
    (tmp_path / "precious").mkdir()
    with pytest.raises(DataError, match="exists and is not a gbgnn data set"):
        save_dataset(karate(), tmp_path / "precious")


def test_a_failed_save_leaves_nothing(tmp_path, monkeypatch):
    def _full(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(np, "save", _full)
    with pytest.raises(OSError, match="disk full"):
        save_dataset(karate(), tmp_path / "x.gbgraph")
    assert list(tmp_path.iterdir()) == []


OPERATIONS = [(np, "save"), *((Path, name) for name in ("mkdir", "write_text", "rename"))]
OPERATIONS += [(tempfile, "mkdtemp"), (shutil, "rmtree")]


@pytest.mark.parametrize("n_done", range(20))
def test_whatever_fails_the_old_or_the_new_data_set_is_in_place(n_done, tmp_path, monkeypatch):
    folder = save_dataset(_dataset(np.eye(3)), tmp_path / "x.gbgraph")
    calls = []

    def failing(work):
        def call(*args, **options):
            calls.append(work)
            if len(calls) == n_done + 1:
                raise OSError("disk full")
            return work(*args, **options)

        return call

    with monkeypatch.context() as patch:
        for owner, name in OPERATIONS:
            patch.setattr(owner, name, failing(getattr(owner, name)))
        failed = False
        try:
            save_dataset(karate(), folder)
        except OSError:
            failed = True
    assert failed == (n_done < len(calls))
    assert load_dataset(folder).name in (["toy", "karate"] if failed else ["karate"])


def test_an_old_data_set_that_cannot_be_put_back_is_kept(tmp_path, monkeypatch):
    folder = save_dataset(_dataset(np.eye(3)), tmp_path / "x.gbgraph")
    rename = Path.rename

    def once(path, target):
        if path != folder:
            raise OSError(f"{path} cannot be moved")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", once)
    with pytest.raises(OSError, match="old cannot be moved") as caught:
        save_dataset(karate(), folder)
    kept = Path(str(caught.value).removesuffix(" cannot be moved"))
    assert load_dataset(kept).name == "toy"


def test_the_description_can_be_read_by_eye(tmp_path):
    folder = save_dataset(karate(), tmp_path / "x.gbgraph")
    meta = json.loads((folder / "meta.json").read_text())
    assert (meta["version"], meta["n_nodes"], meta["n_edges"]) == (VERSION, 34, 78)
    assert is_stored(folder)


@pytest.fixture
def stored(tmp_path):
    return save_dataset(karate(), tmp_path / "x.gbgraph")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, r"format version 99, written by gbgnn .* reads up to version 1"),
        ({"format": "other"}, "does not describe a gbgnn data set"),
        ({"arrays": {"../evil": ["int64", [1]]}}, r"names the unknown array '\.\./evil'"),
        ({"arrays": {}}, "is damaged: .* lacks 'indices'"),
    ],
)
def test_descriptions_that_cannot_be_trusted_are_refused(change, message, stored):
    meta = json.loads((stored / "meta.json").read_text())
    (stored / "meta.json").write_text(json.dumps(meta | change))
    with pytest.raises(DataError, match=message):
        load_dataset(stored)


def test_damaged_arrays_are_refused(stored):
    whole = (stored / "indices.npy").read_bytes()
    (stored / "indices.npy").write_bytes(whole[:-5])
    with pytest.raises(DataError, match=r"indices\.npy is missing or damaged"):
        load_dataset(stored)
    np.save(stored / "indices.npy", np.arange(3))
    with pytest.raises(DataError, match=r"indices\.npy holds int64 of shape \(3,\), but meta\.json says"):
        load_dataset(stored)
    (stored / "indices.npy").unlink()
    with pytest.raises(DataError, match="missing or damaged"):
        load_dataset(stored)


def test_edges_that_point_nowhere_are_refused(stored):
    indices = np.load(stored / "indices.npy")
    indices[0] = 99
    np.save(stored / "indices.npy", indices)
    with pytest.raises(DataError, match="the stored edges do not fit together"):
        load_dataset(stored)


def test_a_damaged_description_is_refused(stored, tmp_path):
    (stored / "meta.json").write_text("{")
    with pytest.raises(DataError, match=r"meta\.json is damaged"):
        load_dataset(stored)
    assert not is_stored(stored)
    with pytest.raises(DataError, match=r"it has no meta\.json"):
        load_dataset(tmp_path)


def test_a_table_is_not_stored_as_numbers(tmp_path):
    data = karate()
    table = Graph(data.graph.adjacency, {"club": ["a", "b"] * 17, "age": [*range(33), None]})
    with pytest.raises(
        DataError, match="this graph has a table, whose text, categories and gaps would be lost"
    ):
        save_dataset(replace(data, graph=table), tmp_path / "club.gbgraph")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["[" * 10**5, '{"a": ' * 10**5])
def test_a_description_nested_too_deeply_is_a_data_error(text, tmp_path):
    folder = save_dataset(karate(), tmp_path / "k.gbgraph")
    (folder / "meta.json").write_text(text)
    with pytest.raises(DataError, match="is damaged"):
        load_dataset(folder)


def test_a_pipe_in_place_of_an_array_keeps_nobody_waiting(tmp_path):
    folder = save_dataset(karate(), tmp_path / "k.gbgraph")
    (folder / "indices.npy").unlink()
    os.mkfifo(folder / "indices.npy")
    with pytest.raises(DataError, match=r"indices\.npy is missing or damaged: it is no file"):
        load_dataset(folder)


@pytest.mark.parametrize("described", [None, [], 3, ["<i4"]])
def test_arrays_are_described_by_type_and_shape(described, tmp_path):
    folder = save_dataset(karate(), tmp_path / "k.gbgraph")
    meta = json.loads((folder / "meta.json").read_text())
    meta["arrays"]["indices"] = described
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(DataError, match="damaged: meta.json does not say what indices holds"):
        load_dataset(folder)


def test_weights_are_of_a_type_that_graphs_have(tmp_path):
    folder = save_dataset(karate(), tmp_path / "k.gbgraph")
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | {"dtype": "<U300000000"}))
    with pytest.raises(DataError, match="weights cannot be '<U300000000'"):
        load_dataset(folder)
