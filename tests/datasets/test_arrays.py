from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from gbgnn import Graph, NodeSplit
from gbgnn.datasets import Dataset, karate, load_dataset, read_npz, save_dataset
from gbgnn.datasets.arrays import VERSION, is_stored
from gbgnn.errors import DataError, ParameterError

PLAIN = {
    "indptr": [0, 1, 2, 2],
    "indices": [1, 2],
    "feat": [[1.0, 3.0], [0.0, 2.0], [5.0, 5.0]],
    "y": [0, 1, 1],
    "train_mask": [True, True, False],
    "test_mask": [False, False, True],
}


@pytest.fixture
def saved(tmp_path):
    def _saved(without=(), **arrays):
        path = tmp_path / "toy.npz"
        given = {key: value for key, value in arrays.items() if key not in without}
        np.savez(path, **{key: np.asarray(value) for key, value in given.items()})
        return path

    return _saved


def _benchmark():
    adjacency = sp.csr_array(np.array([[0, 2.0, 0], [2.0, 0, 0], [0, 0, 0]]))
    attributes = sp.csr_array(np.eye(3, 4))
    arrays = {"labels": [0, 1, 1], "node_names": ["a", "b", "c"], "class_names": [b"one", b"two"]}
    for prefix, matrix in (("adj", adjacency), ("attr", attributes)):
        parts = {part: getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
        arrays |= {f"{prefix}_{part}": value for part, value in parts.items()}
    return arrays


def test_plain_parts_are_mirrored_into_an_undirected_graph(saved):
    data = read_npz(saved(**PLAIN))
    assert data.name == "toy"
    assert data.graph.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert (data.train.tolist(), data.val.tolist(), data.test.tolist()) == ([0, 1], [], [2])


def test_directed_rows_hear_their_columns(saved):
    matrix = read_npz(saved(**PLAIN), directed=True).graph.adjacency
    assert matrix.toarray().tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_weights_are_kept(saved):
    assert read_npz(saved(**PLAIN, data=[0.5, 2.0])).graph.adjacency[0, 1] == 0.5


def test_sparse_features_stay_sparse_and_can_be_normalized(saved):
    parts = {"feat_data": [4.0], "feat_indices": [1], "feat_indptr": [0, 1, 1, 1], "feat_shape": [3, 2]}
    data = read_npz(saved(["feat"], **PLAIN, **parts), normalize_features=True)
    assert isinstance(data.graph.features, sp.csr_array)
    assert data.graph.features.toarray().tolist() == [[0, 1], [0, 0], [0, 0]]


def test_one_of_several_masks_is_picked(saved):
    masks = {"train_mask": np.eye(3, dtype=bool), "test_mask": np.eye(3, k=1, dtype=bool)}
    path = saved(**{**PLAIN, **masks})
    assert read_npz(path).split_name == "public"
    assert read_npz(path, split=1).train.tolist() == [1]
    assert read_npz(path, split=1).test.tolist() == [0]
    with pytest.raises(ParameterError, match="from 0 to 2; got 3"):
        read_npz(path, split=3)


def test_benchmark_files_are_read(saved):
    data = read_npz(saved(**_benchmark()), split="stratified")
    assert data.graph.adjacency[0, 1] == 2
    assert data.graph.n_features == 4
    assert data.graph.node_ids.tolist() == ["a", "b", "c"]
    assert data.class_names == ("one", "two")


def test_dense_benchmark_matrices_are_read(saved):
    arrays = {"adj_matrix": np.eye(2)[::-1], "attr_matrix": np.eye(2), "labels": [0, 1]}
    assert read_npz(saved(**arrays), split="auto").graph.n_edges == 1


def test_notes_that_would_need_unpickling_are_left_unread(saved):
    path = saved(**_benchmark(), metadata=np.array({"a": 1}, dtype=object))
    assert read_npz(path, split="auto").graph.n_nodes == 3


def test_a_bare_matrix_needs_features_and_labels(tmp_path):
    sp.save_npz(tmp_path / "bare.npz", sp.csr_array(np.eye(2)[::-1]))
    with pytest.raises(DataError, match="adjacency matrix but no features; give features="):
        read_npz(tmp_path / "bare.npz")
    with pytest.raises(DataError, match="but no y; give y="):
        read_npz(tmp_path / "bare.npz", features=np.eye(2))
    data = read_npz(tmp_path / "bare.npz", features=np.eye(2), y=["a", "b"], split="auto")
    assert data.y.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("without", "changes", "message"),
    [
        ((), {"y": np.array([0, 1, None], dtype=object)}, "'y' cannot be read without unpickling"),
        (("indptr", "indices"), {}, "holds feat, test_mask, train_mask, y; expected indptr and indices"),
        ((), {"indices": [1, 9]}, r"CSR parts \* do not fit together"),
        ((), {"indptr": [[0, 1, 2, 2]]}, "must be flat arrays"),
        (("feat",), {"feat_indptr": [0, 0, 0, 0]}, "lacks the array 'feat_indices'"),
        (("train_mask",), {}, "comes without a split"),
        ((), {"train_mask": [True]}, r"train_mask has shape \(1,\); expected \(3,\) or \(3, k\)"),
        (
            (),
            {"train_mask": np.eye(3, 2, dtype=bool), "test_mask": np.eye(3, dtype=bool)},
            r"different numbers of splits: \[2, 3\]",
        ),
        ((), {"y": [0, 1]}, "y has 2 labels but the graph has 3 nodes"),
    ],
)
def test_what_is_wrong_is_named(without, changes, message, saved):
    with pytest.raises(DataError, match=message):
        read_npz(saved(without, **{**PLAIN, **changes}))


def test_damaged_files_are_data_errors(saved, tmp_path):
    path = saved(**PLAIN)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"not an \.npz archive, or only the first part"):
        read_npz(path)
    # Damage inside the archive: the checksum of the first member no longer fits.
    path.write_bytes(content.replace(b"descr", b"dxscr", 1))
    with pytest.raises(DataError, match=r"toy\.npz"):
        read_npz(path)
    with pytest.raises(DataError, match=r"no\.npz is not a file"):
        read_npz(tmp_path / "no.npz")


@pytest.mark.dataset
def test_real_graphs_are_read(graphs_folder):
    computers = read_npz(graphs_folder / "amazon_computers.npz")
    assert (computers.graph.n_nodes, computers.graph.n_edges) == (13752, 245861)
    assert (computers.graph.n_features, computers.n_classes) == (767, 10)
    assert isinstance(computers.graph.features, sp.csr_array)
    chameleon = [read_npz(graphs_folder / "chameleon_filtered.npz", split=k) for k in (0, 9)]
    assert chameleon[0].graph.n_nodes == 890
    assert chameleon[1].split_name == "public 9 of 10"
    assert not np.array_equal(chameleon[0].train, chameleon[1].train)


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
