from __future__ import annotations

import pickle
from collections import defaultdict

import numpy as np
import pytest
import scipy.sparse as sp

from gbgnn.datasets import CATALOG, load, read_planetoid
from gbgnn.datasets.catalog import FoundFiles
from gbgnn.datasets.planetoid import planetoid_order, read_cora_raw
from gbgnn.errors import DataError

COUNTS = [
    ("cora", 140, 0),
    ("citeseer", 120, 15),
    ("pubmed", 60, 0),
]


def _write_toy(folder, **changes):
    """Seven nodes: 0-3 in allx (two of them labelled in x), test rows 4 and 6; 5 is listed nowhere."""
    parts = {
        "x": sp.csr_matrix(np.eye(2, 3)),
        "y": np.eye(2),
        "allx": sp.csr_matrix(np.ones((4, 3))),
        "ally": np.array([[1, 0], [0, 1], [1, 0], [0, 1]]),
        "tx": sp.csr_matrix(np.array([[6.0, 0, 0], [0, 4.0, 0]])),
        "ty": np.array([[0, 1], [1, 0]]),
        "graph": defaultdict(list, {0: [1, 1, 0], 1: [0], 6: [4], 4: [6]}),
        **changes,
    }
    index = parts.pop("index", "6\n4\n")
    (folder / "ind.toy.test.index").write_text(index)
    for part, value in parts.items():
        (folder / f"ind.toy.{part}").write_bytes(pickle.dumps(value, 4))


def test_test_rows_go_where_the_index_says(tmp_path):
    _write_toy(tmp_path)
    data = read_planetoid(tmp_path, "toy", normalize_features=False)
    assert data.y.tolist() == [0, 1, 0, 1, 0, -1, 1]
    assert data.graph.features.toarray()[4:].tolist() == [[0, 4, 0], [0, 0, 0], [6, 0, 0]]
    assert (data.train.tolist(), data.val.tolist(), data.test.tolist()) == ([0, 1], [2, 3], [4, 6])
    assert data.graph.n_edges == 2
    assert data.graph.repairs == ("dropped 1 self loops", "merged 1 repeated edges")


def test_bags_of_words_are_normalized_unless_asked_otherwise(tmp_path):
    _write_toy(tmp_path)
    X = read_planetoid(tmp_path, "toy").graph.features
    assert X.sum(axis=1) == pytest.approx([1, 1, 1, 1, 1, 0, 1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"index": "six\n4\n"}, "one node number per line"),
        ({"index": ""}, "is empty; it must list the test nodes"),
        ({"index": "6\n"}, "must list 2 distinct nodes, all after the 4"),
        ({"index": "4\n4\n"}, "must list 2 distinct nodes"),
        ({"index": "2\n4\n"}, "must list 2 distinct nodes"),
        ({"allx": np.ones((4, 3))}, r"ind\.toy\.allx holds a ndarray, not the csr_array"),
        ({"ally": np.ones(4)}, r"ind\.toy\.ally holds a ndarray"),
        ({"ty": np.ones((3, 2))}, "disagree about the size"),
        ({"tx": sp.csr_matrix(np.ones((2, 9)))}, "disagree about the size"),
        ({"graph": {0: [99]}}, "names a node beyond the 7 nodes"),
        ({"graph": {"a": [1]}}, "must map node numbers to lists"),
        ({"graph": [1]}, r"ind\.toy\.graph holds a list"),
        ({"graph": {0: [2**70]}}, "must map node numbers to lists"),
        ({"graph": dict.fromkeys(range(4), list(range(4)) * 50)}, "its lists are longer than the file"),
        ({"index": "4\n1000000000\n"}, "names node 1000000000, but the other files describe at most 10"),
        ({"index": f"4\n{10**30}\n"}, "one node number per line"),
        ({"ally": np.ones((4, 2))}, "rows of zeros with at most one 1"),
        ({"ty": np.array([[0, 2], [1, 0]])}, "rows of zeros with at most one 1"),
        ({"y": np.eye(2, 3)}, "disagree about the size"),
        ({"ty": np.ones((2, 0))}, "disagree about the size"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(changes, message, tmp_path):
    _write_toy(tmp_path, **changes)
    with pytest.raises(DataError, match=message):
        read_planetoid(tmp_path, "toy")


def test_missing_files_are_named(tmp_path):
    _write_toy(tmp_path)
    (tmp_path / "ind.toy.tx").unlink()
    with pytest.raises(DataError, match=r"lacks ind\.toy\.tx\."):
        read_planetoid(tmp_path, "toy")


@pytest.mark.dataset
@pytest.mark.parametrize(("name", "n_train", "n_unlabelled"), COUNTS)
def test_counts_are_those_of_the_literature(name, n_train, n_unlabelled, planetoid_folder):
    data, entry = load(name, data_dir=planetoid_folder), CATALOG[name]
    graph = data.graph
    assert (graph.n_nodes, graph.n_edges) == (entry.n_nodes, entry.n_edges)
    assert (graph.n_features, data.n_classes) == (entry.n_features, entry.n_classes)
    assert (len(data.train), len(data.val), len(data.test)) == (n_train, 500, 1000)
    assert np.array_equal(data.train, np.arange(n_train))
    assert np.bincount(data.y[data.train]).tolist() == [20] * entry.n_classes
    assert np.sum(data.y == -1) == n_unlabelled
    assert not graph.is_directed
    assert not graph.is_weighted
    assert graph.n_self_loops == 0
    assert isinstance(graph.features, sp.csr_array)
    assert graph.features.dtype == np.float32
    rows = graph.features.sum(axis=1)
    assert rows[data.y >= 0].max() == pytest.approx(1, abs=1e-5)
    assert data.split_name == "public"
    assert data.licence


@pytest.mark.dataset
def test_raw_features_can_be_had(planetoid_folder):
    raw = load("cora", data_dir=planetoid_folder, normalize_features=False).graph.features
    assert set(np.unique(raw.data)) == {1.0}


@pytest.mark.dataset
@pytest.mark.parametrize("layout", [".", "planetoid", "CiteSeer/raw"])
def test_every_layout_loads(layout, planetoid_folder, tmp_path):
    (tmp_path / layout).mkdir(parents=True, exist_ok=True)
    for path in planetoid_folder.glob("ind.citeseer.*"):
        (tmp_path / layout / path.name).symlink_to(path)
    assert load("citeseer", data_dir=tmp_path).graph.n_edges == 4552


@pytest.mark.dataset
def test_a_changed_byte_is_noticed(planetoid_folder, tmp_path):
    for path in planetoid_folder.glob("ind.cora.*"):
        content = path.read_bytes()
        (tmp_path / path.name).write_bytes(content + b" " if path.suffix == ".index" else content)
    with pytest.raises(DataError, match=r"ind\.cora\.test\.index is not the cora file of the catalogue"):
        load("cora", data_dir=tmp_path)


@pytest.mark.dataset
def test_other_splits_of_cora_leave_the_graph_alone(planetoid_folder):
    public = load("cora", data_dir=planetoid_folder)
    drawn = load("cora", data_dir=planetoid_folder, split="random", seed=1, per_class=3, n_test=None)
    assert (len(drawn.train), len(drawn.val), len(drawn.test)) == (21, 500, 2708 - 521)
    assert np.array_equal(public.y, drawn.y)
    fold = load("cora", data_dir=planetoid_folder, split=2)
    assert fold.split_name == "fold 2 of 5, seed 0"


def test_raw_cora_is_read_by_its_own_reader(monkeypatch, tmp_path):
    seen = []
    files = CATALOG["cora"].file_sets[1]
    monkeypatch.setattr(
        "gbgnn.datasets.planetoid.find_or_download", lambda *_, **__: FoundFiles(files, tmp_path)
    )
    monkeypatch.setattr("gbgnn.datasets.planetoid.read_cora_raw", lambda folder: seen.append(folder))
    with pytest.raises(TypeError):
        load("cora")
    assert seen == [tmp_path]


pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402 only where pyarrow is there

# Subject number of Planetoid's class 0, 1, ..., 6 in the raw table.
SUBJECTS = np.array([4, 2, 5, 0, 3, 6, 1])


def _write(folder, papers, subjects, words, sources, targets):
    nodes = {"nodeId": papers, "subject": subjects, "features": list(words)}
    parquet.write_table(pa.table(nodes), folder / "cora_nodes.parquet.gzip")
    ends = {"sourceNodeId": sources, "targetNodeId": targets}
    parquet.write_table(pa.table(ends), folder / "cora_rels.parquet.gzip")


def test_the_order_lists_every_paper_once():
    order = planetoid_order()
    assert len(np.unique(order)) == 2708


def test_rows_are_put_into_planetoids_order(tmp_path):
    order = planetoid_order()
    papers = np.sort(order)
    words = np.stack([papers % 2, papers % 3], axis=1)
    _write(tmp_path, papers, np.zeros(2708, int), words, order[[0, 1, 1]], order[[1, 0, 5]])
    graph, y, split = read_cora_raw(tmp_path)
    assert np.array_equal(graph.features.toarray(), np.stack([order % 2, order % 3], axis=1))
    assert set(y) == {3}
    assert graph.adjacency[[0, 1, 5], [1, 0, 1]].tolist() == [1, 1, 1]
    assert graph.n_edges == 2
    assert (len(split.train), len(split.val), len(split.test)) == (140, 500, 1000)


def test_another_set_of_papers_is_refused(tmp_path):
    _write(tmp_path, np.arange(2), np.zeros(2, int), np.eye(2), [0], [1])
    with pytest.raises(DataError, match="does not hold the 2,708 papers"):
        read_cora_raw(tmp_path)


@pytest.mark.dataset
def test_the_raw_tables_give_the_same_data_as_the_planetoid_files(planetoid_folder, tmp_path):
    """Write Cora the way the raw tables hold it, shuffled, and read it back."""
    known = load("cora", data_dir=planetoid_folder, normalize_features=False)
    order, rng = planetoid_order(), np.random.default_rng(0)
    shuffled = rng.permutation(2708)
    low, high = np.nonzero(np.triu(known.graph.adjacency.toarray()))
    words = known.graph.features.toarray().astype(np.int64)[shuffled]
    _write(tmp_path, order[shuffled], SUBJECTS[known.y[shuffled]], words, order[low], order[high])
    graph, y, split = read_cora_raw(tmp_path)
    assert (graph.adjacency != known.graph.adjacency).nnz == 0
    assert (graph.features != known.graph.features).nnz == 0
    assert np.array_equal(y, known.y)
    for part in ("train", "val", "test"):
        assert np.array_equal(getattr(split, part), getattr(known, part))
