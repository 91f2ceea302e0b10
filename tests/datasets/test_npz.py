from __future__ import annotations

import zipfile
from contextlib import suppress

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.datasets import read_npz
from gbgnn.datasets.splits import find_splits
from gbgnn.errors import DataError, GBGNNError, ParameterError

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
    assert read_npz(path).split_name == "public 0 of 3"
    assert len(read_npz(path).own_splits) == 3
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
    with pytest.raises(DataError, match="edges but no features; give features="):
        read_npz(tmp_path / "bare.npz")
    with pytest.raises(DataError, match="but no y; give y="):
        read_npz(tmp_path / "bare.npz", features=np.eye(2))
    data = read_npz(tmp_path / "bare.npz", features=np.eye(2), y=["a", "b"], split="auto")
    assert data.y.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("without", "changes", "message"),
    [
        ((), {"y": np.array([0, 1, None], dtype=object)}, "'y' cannot be read without unpickling"),
        (
            ("indptr", "indices"),
            {},
            "holds feat, test_mask, train_mask, y, and no edges: expected indptr and indices",
        ),
        ((), {"indices": [1, 9]}, r"CSR parts \* do not fit together"),
        ((), {"indptr": [[0, 1, 2, 2]]}, "must be flat arrays"),
        (("feat",), {"feat_indptr": [0, 0, 0, 0]}, "lacks the array 'feat_indices'"),
        (("train_mask",), {}, "holds test_mask but no train_mask or train_idx"),
        (("train_mask", "test_mask"), {}, "comes without a split"),
        ((), {"train_mask": [True]}, r"train_mask has shape \(1,\); expected \(3,\), \(3, k\) or \(k, 3\)"),
        (
            (),
            {"train_mask": np.eye(3, 2, dtype=bool), "test_mask": np.eye(3, dtype=bool)},
            r"different numbers of splits: \[2, 3\]",
        ),
        ((), {"y": [0, 1]}, "y has 2 labels but the graph has 3 nodes"),
        ((), {"train_mask": [0, 2, 1]}, "train_mask holds 2; a mask is true or false"),
        ((), {"train_mask": ["a", "b", "c"]}, "train_mask holds <U1; expected truth values or row numbers"),
        (("train_mask",), {"train_idx": [0, 3]}, "train_idx holds 3; row numbers go from 0 to 2"),
        (("train_mask",), {"train_idx": [0.5]}, r"train_idx holds 0\.5; row numbers"),
        (("train_mask",), {"train_idx": [[[0]]]}, r"train_idx has shape \(1, 1, 1\)"),
        (("indptr", "indices"), {"edges": [[0, 1, 2]]}, r"edges holds int64 of shape \(1, 3\)"),
        (("indptr", "indices"), {"edges": [[0, 7]]}, "the edges name node 7, but there are 3 rows"),
        (("indptr", "indices"), {"edges": [[0, 1]], "edge_weight": [1, 2]}, "2 edge weights for 1 edges"),
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


def test_no_test_label_decides_between_classes_and_numbers(saved):
    arrays = {"edges": [[0, 1]], "x": np.eye(30), "train_idx": np.arange(20), "test_idx": np.arange(20, 30)}
    y = np.arange(30) % 3.0
    more = np.where(np.arange(30) < 20, y, 100 + np.arange(30))
    reasons = {read_npz(saved(**arrays, y=each)).task_reason for each in (y, more)}
    assert reasons == {"y has 3 different whole numbers in training and validation: classification"}
    with pytest.raises(DataError, match=r"holds 0\.5 at node 29; classes must be whole"):
        read_npz(saved(**arrays, y=np.where(np.arange(30) < 29, y, 0.5)))


@pytest.mark.dataset
def test_real_numbers_are_a_regression_and_notes_name_what_is_passed_over(graphs_folder):
    county = read_npz(graphs_folder / "county_election_2016.npz", split="stratified")
    assert county.is_regression
    assert county.task_reason == "y has 3,113 different numbers, not all whole: regression"
    assert county.notes == ("passed over fips, vote_missing, feat_missing, which have no meaning here",)
    assert county.graph.feature_names[:3] == ("MedianIncome", "MigraRate", "BirthRate")
    assert len(county.train) + len(county.val) + len(county.test) == 3234


@pytest.mark.parametrize("key", ["feat_names", "feature_names", "attr_names"])
def test_columns_have_the_names_of_the_file(key, saved):
    for names in (["age", "income"], [b"age", b"income"]):
        data = read_npz(saved(**PLAIN, **{key: names}))
        assert data.graph.feature_names == ("age", "income")
        assert data.graph.is_named
        assert data.notes == ()


@pytest.mark.parametrize(
    "names",
    [
        ["age"],
        ["age", "age"],
        ["age", ""],
        [1, 2],
        [["age", "income"]],
        np.array(["age", None], dtype=object),
    ],
)
def test_names_that_are_no_text_per_column_are_passed_over(names, saved):
    data = read_npz(saved(**PLAIN, feat_names=names))
    assert data.graph.feature_names == ("x0", "x1")
    assert data.notes == ("passed over feat_names, which has no meaning here",)


def test_names_of_the_file_are_not_those_of_other_features(saved):
    data = read_npz(saved(**PLAIN, feat_names=["age", "income"]), features=np.eye(3, 2))
    assert not data.graph.is_named


HETEROPHILOUS = {
    "node_features": np.arange(10.0).reshape(5, 2),
    "node_labels": [0, 1, 0, 1, 1],
    "edges": [[0, 1], [1, 2], [3, 4]],
    "train_masks": [[1, 1, 0, 0, 0], [0, 0, 1, 1, 0]],
    "val_masks": [[0, 0, 1, 0, 0], [0, 1, 0, 0, 0]],
    "test_masks": [[0, 0, 0, 1, 1], [1, 0, 0, 0, 1]],
}


def test_files_of_heterophilous_graphs_are_read_as_published(saved):
    first, second = (read_npz(saved(**HETEROPHILOUS), split=k) for k in (None, 1))
    assert (first.graph.n_nodes, first.graph.n_edges, first.graph.n_features) == (5, 3, 2)
    assert first.y.tolist() == [0, 1, 0, 1, 1]
    assert (first.split_name, second.split_name) == ("public 0 of 2", "public 1 of 2")
    assert (second.train.tolist(), second.val.tolist(), second.test.tolist()) == ([2, 3], [1], [0, 4])
    assert first.notes == ()


def test_a_column_per_pair_and_weights_are_read(saved):
    arrays = {key: HETEROPHILOUS[key] for key in ("node_features", "node_labels")}
    edges = {"edge_index": [[0, 1, 3], [1, 2, 4]], "edge_weight": [[2.0], [1.0], [3.0]]}
    graph = read_npz(saved(**arrays, **edges), split="auto", directed=True).graph
    assert graph.adjacency[1, 0] == 2
    assert graph.adjacency[0, 1] == 0


def test_a_valid_mask_and_lists_of_rows_are_splits(saved):
    masks = {"train_mask": [1, 0, 0], "valid_mask": [0, 1, 0], "test_mask": [0, 0, 1]}
    data = read_npz(saved(**{**PLAIN, **masks}))
    assert (data.train.tolist(), data.val.tolist(), data.test.tolist()) == ([0], [1], [2])
    lists = {"train_idx": [2, 0], "val_idx": [1]}
    data = read_npz(saved(["train_mask", "test_mask"], **PLAIN, **lists))
    assert (data.train.tolist(), data.val.tolist(), data.split_name) == ([0, 2], [1], "public")


def test_what_is_not_understood_is_named(saved):
    data = read_npz(saved(**PLAIN, latlon=np.eye(3), population=[1, 2, 3]))
    assert data.notes == ("passed over latlon, population, which have no meaning here",)


def test_a_target_of_numbers_is_found_out_and_can_be_overruled(saved):
    data = read_npz(saved(**{**PLAIN, "y": [0.5, 1.25, 2.0]}))
    assert (data.task, data.y.dtype) == ("regression", np.float64)
    assert (
        data.task_reason == "y has 2 different numbers, not all whole, in training and validation: regression"
    )
    assert read_npz(saved(**PLAIN), task="regression").y.tolist() == [0.0, 1.0, 1.0]
    with pytest.raises(DataError, match=r"y holds 0\.5 at node 0; classes must be whole"):
        read_npz(saved(**{**PLAIN, "y": [0.5, 1, 2]}), task="classification")


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(0, 2**32 - 1), st.booleans())
def test_masks_and_lists_in_any_layout_give_the_same_splits(n_splits, seed, by_rows):
    rng = np.random.default_rng(seed)
    n_nodes, sizes = 30, (9, 7, 6)  # more of each than splits
    order = np.array([rng.permutation(n_nodes) for _ in range(n_splits)])
    parts = np.split(order, np.cumsum(sizes), axis=1)[:3]
    masks = np.zeros((3, n_splits, n_nodes), bool)
    for mask, part in zip(masks, parts, strict=True):
        np.put_along_axis(mask, part, True, axis=1)
    names = ("train", "valid", "test")
    as_masks = {f"{n}_mask": m if by_rows else m.T for n, m in zip(names, masks, strict=True)}
    as_lists = {f"{n}_idx": p if by_rows else p.T for n, p in zip(names, parts, strict=True)}
    for arrays in (as_masks, as_lists):
        found = find_splits(arrays.get, n_nodes, "toy")
        assert len(found) == n_splits
        for k, split in enumerate(found):
            for part, mask in zip((split.train, split.val, split.test), masks, strict=True):
                assert part.tolist() == np.flatnonzero(mask[k]).tolist()


def test_a_flipped_bit_in_a_compressed_file_is_a_data_error(saved):
    path = saved(**PLAIN)
    with np.load(path) as archive:
        np.savez_compressed(path, **archive)
    raw = path.read_bytes()
    for place in range(60, 200, 7):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 4]) + raw[place + 1 :])
        with suppress(GBGNNError):
            read_npz(path)


def test_pointers_that_overflow_their_type_are_found(saved):
    # 100 + 100 is -56 in int8, and the difference to it 100 again.
    indptr = np.array([0, 100, -56, -56], np.int8)
    arrays = {"indptr": indptr, "indices": np.zeros(120, np.int32), "x": np.eye(3), "y": [0, 1, 0]}
    with pytest.raises(DataError, match="indptr falls from 100 to -56 at row 1"):
        read_npz(saved(**arrays, train_idx=[0, 1]))


def test_an_array_is_no_larger_than_its_file(saved):
    path = saved(**PLAIN)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = next(name for name in members if name.startswith(("x", "feat", "node_feat")))
    members[name] = members[name].replace(b"(3,", b"(3000000000000,")
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in members.items():
            archive.writestr(each, content)
    with pytest.raises(DataError, match="more than is there"):
        read_npz(path)


def test_a_bomb_is_not_unpacked(saved, monkeypatch):
    path = saved(**PLAIN)
    np.savez_compressed(path, **PLAIN | {"y": np.zeros(10**6)})
    monkeypatch.setattr("gbgnn._memory._LARGE", 10**6)
    with pytest.raises(DataError, match="as files do that are made to fill the memory"):
        read_npz(path)


@pytest.mark.parametrize("matrix", [np.ones((2, 2, 2)), np.ones((3, 2)), np.array([["a", "b"]] * 2)])
def test_an_adjacency_matrix_is_square_and_of_numbers(saved, matrix):
    with pytest.raises(DataError, match="expected a square matrix of numbers"):
        read_npz(saved(adj_matrix=matrix, x=np.eye(2), y=[0, 1]), split="stratified")


@pytest.mark.parametrize("code", [0x110000, 2**31, 0xD800])
def test_text_is_made_of_signs(saved, code):
    names = np.array(["a", "b", "c"])
    names.view(np.uint32)[1] = code
    with pytest.raises(DataError, match="array 'node_names' holds what is no text"):
        read_npz(saved(**PLAIN, node_names=names))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class_names": "ab"}, r"class_names has shape \(\); expected a name for each class"),
        ({"feat": 3.0, "indptr": None}, "the edges name node 1, but there are 0 rows of features"),
    ],
)
def test_single_values_are_no_lists(saved, changes, message):
    arrays = {**PLAIN, **changes}
    if arrays["indptr"] is None:
        arrays = {k: v for k, v in arrays.items() if k not in ("indptr", "indices")} | {"edges": [[1, 2]]}
    with pytest.raises(DataError, match=message):
        read_npz(saved(**arrays))
