from __future__ import annotations

import time

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from gbgnn.datasets import chung_lu, csbm, load, load_dataset, power_law, synthetic
from gbgnn.errors import ParameterError


def _share_of_equal_ends(data):
    rows, cols = data.graph.adjacency.nonzero()
    return np.mean(data.y[rows] == data.y[cols])


@pytest.mark.parametrize("homophily", [0.0, 0.2, 0.8, 1.0])
def test_homophily_and_degree_of_csbm_are_as_asked(homophily):
    data = csbm(n_nodes=900, n_classes=3, homophily=homophily, mean_degree=8, seed=5)
    assert _share_of_equal_ends(data) == pytest.approx(homophily, abs=1e-3)
    assert data.graph.n_edges == 3600
    assert np.bincount(data.y).tolist() == [300, 300, 300]
    assert data.graph.n_self_loops == 0


def test_edges_favour_no_node_numbers():
    data = csbm(n_nodes=2000, mean_degree=20, seed=0)
    degrees = np.diff(data.graph.adjacency.indptr)
    assert degrees[:1000].mean() == pytest.approx(degrees[1000:].mean(), rel=0.05)


def test_features_lie_around_class_means():
    data = csbm(n_nodes=4000, n_features=5, separation=3.0, seed=1)
    for label in (0, 1):
        cloud = data.graph.features[data.y == label]
        assert np.linalg.norm(cloud.mean(axis=0)) == pytest.approx(3, abs=0.1)
        assert cloud.std(axis=0) == pytest.approx(np.ones(5), abs=0.1)


def test_same_seed_same_csbm():
    one, two, other = csbm(seed=3), csbm(seed=3), csbm(seed=4)
    assert (one.graph.adjacency != two.graph.adjacency).nnz == 0
    assert np.array_equal(one.graph.features, two.graph.features)
    assert np.array_equal(one.train, two.train)
    assert (one.graph.adjacency != other.graph.adjacency).nnz > 0


def test_sizes_of_the_split_can_be_set():
    data = csbm(n_nodes=300, per_class=4, n_val=10, n_test=20)
    assert (len(data.train), len(data.val), len(data.test)) == (8, 10, 20)


def test_two_hundred_thousand_nodes_take_seconds():
    start = time.perf_counter()
    data = csbm(n_nodes=200_000, n_classes=4, mean_degree=10, n_features=4)
    assert time.perf_counter() - start < 20
    assert data.graph.n_edges == 1_000_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"homophily": 1.2}, r"csbm\.homophily must be in \[0, 1\]; got 1\.2"),
        ({"n_nodes": 3}, r"csbm\.n_nodes must be an integer >= 4"),
        ({"n_nodes": 40, "mean_degree": 30}, "edges between nodes of equal class, more than half"),
        ({"n_nodes": 10}, "per_class=20"),
    ],
)
def test_impossible_wishes_to_csbm_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        csbm(**{"mean_degree": 2, **options})


@pytest.mark.parametrize("homophily", [0.0, 0.3, 0.9, 1.0])
def test_power_law_has_the_homophily_and_the_degree_asked_for(homophily):
    data = power_law(n_nodes=20_000, mean_degree=15, homophily=homophily, n_classes=7, n_features=1)
    assert _share_of_equal_ends(data) == pytest.approx(homophily, abs=0.01)
    assert data.graph.n_edges == pytest.approx(150_000, rel=0.01)
    assert set(np.bincount(data.y)) <= {20_000 // 7, 20_000 // 7 + 1}


def test_power_law_features_alone_are_clearly_worse_than_mixed_once():
    data = power_law(n_nodes=5000, seed=1)
    A, X, y = data.graph.adjacency, data.graph.features, data.y
    mean = sp.diags_array(1 / (1 + A.sum(axis=1))) @ (A @ X + X)
    alone, mixed = (
        LogisticRegression().fit(Z[data.train], y[data.train]).score(Z[data.test], y[data.test])
        for Z in (X, mean)
    )
    assert alone < 0.6
    assert mixed > alone + 0.2
    assert mixed < 0.99


def test_power_law_is_the_same_for_the_same_seed_in_memory_and_in_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(chung_lu, "_ENTRIES", 9000)
    monkeypatch.setattr(synthetic, "_NUMBERS", 5000)
    options = {"n_nodes": 2003, "mean_degree": 12, "n_features": 8, "seed": 3}
    one, two, other = power_law(**options), power_law(**options), power_law(**options | {"seed": 4})
    stored = power_law(**options, folder=tmp_path / "x.gbgraph")
    assert one.graph.checksum == two.graph.checksum == stored.graph.checksum != other.graph.checksum
    assert one.graph.n_edges == stored.graph.n_edges
    for data in (two, stored, load(tmp_path / "x.gbgraph"), load("power_law", **options)):
        for field in ("y", "train", "val", "test"):
            assert np.array_equal(getattr(one, field), getattr(data, field))
        for field in ("name", "split_name", "source", "licence", "task", "class_names", "n_classes"):
            assert getattr(one, field) == getattr(data, field)
    assert one.split.draw == stored.split.draw == "uniform"


def test_power_law_in_a_folder_replaces_a_data_set(tmp_path):
    for n_nodes in (300, 400):
        power_law(n_nodes=n_nodes, mean_degree=4, folder=tmp_path / "x.gbgraph")
    assert load_dataset(tmp_path / "x.gbgraph").graph.n_nodes == 400
    assert [path.name for path in tmp_path.iterdir()] == ["x.gbgraph"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"homophily": -0.1}, r"power_law\.homophily must be in \[0, 1\]; got -0\.1"),
        ({"exponent": 2}, r"power_law\.exponent must be .*2.*; got 2"),
        ({"n_nodes": 3_000_000_000}, r"power_law\.n_nodes must be an integer from 10 to 2147483647"),
        ({"mean_degree": 0}, r"power_law\.mean_degree must be .*0.*; got 0"),
        (
            {"n_nodes": 100},
            r"no node more than a quarter of a class for neighbours, here 5; lower mean_degree",
        ),
        ({"device": "abacus"}, r"power_law.device='abacus' cannot be used"),
    ],
)
def test_impossible_wishes_to_power_law_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        power_law(**options)
