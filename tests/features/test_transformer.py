from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import estimator_html_repr

from gbgnn import Graph, GraphFeatures
from gbgnn.errors import GraphError, ParameterError
from gbgnn.features import transformer
from gbgnn.testing import two_blocks

BARE = {"structure": (), "encodings": ()}


def all_rows(graph: Graph, **settings: Any) -> np.ndarray:
    return GraphFeatures(**settings).fit_transform(np.arange(graph.n_nodes), graph=graph)


def directed_graph(n_nodes: int = 30, seed: int = 0) -> Graph:
    random = np.random.default_rng(seed)
    A = random.uniform(0.5, 2, (n_nodes, n_nodes)) * (random.random((n_nodes, n_nodes)) < 0.1)
    return Graph(A, random.normal(size=(n_nodes, 3)))


def named(graph: Graph, names: list[str], X: Any = None) -> Graph:
    """Return the graph as a table would make it: with names, and with gaps where X has them."""
    copy = Graph(graph.adjacency, graph.features)
    copy.__dict__["feature_names"] = names
    if X is not None:
        copy.__dict__["features"] = X
    return copy


def test_columns_worked_by_hand() -> None:
    path = Graph([[0.0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]], [[1.0], [2.0], [4.0], [8.0]])
    features = GraphFeatures(hops=2, structure=("degree", "clustering"), encodings=("walk",), n_encodings=1)
    found = features.set_output(transform="pandas").fit_transform([1, 3], graph=path)
    nan = np.nan
    assert found.columns.tolist() == [
        *("x0", "x0_mean_1", "x0_std_1", "x0_min_1", "x0_max_1"),
        *("x0_mean_2", "x0_std_2", "x0_min_2", "x0_max_2", "degree", "clustering", "walk_2"),
    ]
    np.testing.assert_allclose(found.loc[0], [2, 2.5, 1.5, 1, 4, 2, 0, 2, 2, 2, 0, 1])
    np.testing.assert_allclose(found.loc[1], [8, *[nan] * 8, 0, 0, 0])


def test_directions_are_told_apart() -> None:
    # 0 -> 1 -> 2: A[i, j] leads from j to i.
    chain = named(Graph([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]], [[1.0], [2.0], [4.0]]), ["age"])
    features = GraphFeatures(hops=1, statistics=("mean",), structure=("degree",), encodings=())
    found = features.set_output(transform="pandas").fit_transform([0, 1, 2], graph=chain)
    assert features.directed_
    assert found.columns.tolist() == ["age", "in_age_mean_1", "out_age_mean_1", "in_degree", "out_degree"]
    np.testing.assert_array_equal(found["in_age_mean_1"], [np.nan, 1, 2])
    np.testing.assert_array_equal(found["out_age_mean_1"], [2, 4, np.nan])
    np.testing.assert_array_equal(found[["in_degree", "out_degree"]], [[0, 1], [1, 1], [1, 0]])


def test_direction_can_be_left_out_and_insisted_on() -> None:
    graph = directed_graph()
    both = Graph(graph.adjacency.maximum(graph.adjacency.T), graph.features)
    np.testing.assert_array_equal(all_rows(graph, directed=False), all_rows(both))
    names = GraphFeatures(directed=True, **BARE).fit([0], graph=both).get_feature_names_out()
    assert sum(name.startswith("in_") for name in names) == sum(name.startswith("out_") for name in names) > 0


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_rows_move_with_the_nodes(seed: int) -> None:
    graph = directed_graph(seed=seed)
    order = np.random.default_rng(seed).permutation(graph.n_nodes)
    moved = Graph(sp.csr_array(graph.adjacency[order][:, order]), graph.features[order])
    # Eigenvectors of a small graph may have an eigenvalue in common: their own test moves larger ones.
    chosen = {"encodings": ("walk",), "n_encodings": 3}
    np.testing.assert_allclose(all_rows(moved, **chosen), all_rows(graph, **chosen)[order], atol=1e-7)


def test_gaps_have_columns_of_their_own() -> None:
    graph, _ = two_blocks(20, n_features=2)
    X = graph.features.copy()
    X[3:9, 1] = np.nan
    gappy = named(graph, ["age", "income"], X)
    features = GraphFeatures(hops=2, statistics=("mean", "missing"), **BARE)
    found = features.set_output(transform="pandas").fit_transform(np.arange(20), graph=gappy)
    assert found.columns.tolist() == [
        *("age", "income", "age_mean_1", "income_mean_1", "income_missing_1"),
        *("age_mean_2", "income_mean_2", "income_missing_2"),
    ]
    A = graph.adjacency.toarray()
    np.testing.assert_allclose(found["income_missing_1"], (A @ np.isnan(X[:, 1])) / A.sum(axis=1), atol=1e-12)
    assert found["income"].isna().sum() == 6
    sparse = named(graph, ["age", "income"], sp.csr_array(X))
    np.testing.assert_allclose(features.fit_transform(np.arange(20), graph=sparse), found)


def test_blocks_of_columns_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = two_blocks(30, n_features=7)
    widths = []
    describe = transformer.Neighbours.statistics

    def watch(self: Any, X: np.ndarray, *given: Any) -> Any:
        widths.append(X.shape[1])
        return describe(self, X, *given)

    monkeypatch.setattr(transformer.Neighbours, "statistics", watch)
    whole = all_rows(graph)
    for block_bytes, expected in (
        (2**28, [7]),
        (1, [1] * 7),
        (30 * transformer._COLUMN_BYTES * 3, [3, 3, 1]),
    ):
        widths.clear()
        np.testing.assert_allclose(all_rows(graph, block_bytes=block_bytes), whole, rtol=1e-12, atol=1e-12)
        assert widths == expected


def test_sparse_features_give_what_dense_ones_do() -> None:
    graph, _ = two_blocks(30)
    sparse = Graph(graph.adjacency, sp.csr_array(graph.features))
    np.testing.assert_allclose(all_rows(sparse, block_bytes=10**4), all_rows(graph), atol=1e-12)


def test_rows_are_those_asked_for_in_the_precision_of_the_graph() -> None:
    graph, _ = two_blocks(30)
    features = GraphFeatures().fit([0], graph=graph)
    np.testing.assert_array_equal(features.transform([7, 2, 7]), all_rows(graph)[[7, 2, 7]])
    single = Graph(graph.adjacency, graph.features.astype(np.float32))
    assert all_rows(single).dtype == np.float32
    np.testing.assert_allclose(all_rows(single), all_rows(graph), rtol=1e-4, atol=1e-4)


def test_another_graph_is_described_as_it_is() -> None:
    graph, other = two_blocks(30)[0], two_blocks(40, seed=1)[0]
    features = GraphFeatures().fit(np.arange(30), graph=graph)
    np.testing.assert_array_equal(features.transform(np.arange(40), graph=other), all_rows(other))
    with pytest.raises(
        GraphError, match=r"graph has 3 columns \(x0, x1, x2\), but .* fitted to 5 \(x0, x1, x2"
    ):
        features.transform([0], graph=directed_graph())
    with pytest.raises(GraphError, match="they must be the same"):
        features.transform([0], graph=named(other, list("edcba")))


def test_settings_changed_after_a_fit_are_for_the_next_one() -> None:
    graph, _ = two_blocks(30)
    features = GraphFeatures().fit([0], graph=graph)
    before, names = features.transform([1, 2]), features.get_feature_names_out().tolist()
    features.set_params(hops=1, statistics=("max",), structure=(), n_encodings=2)
    np.testing.assert_array_equal(features.transform([1, 2]), before)
    assert features.get_feature_names_out().tolist() == names


def test_names_that_would_be_the_same_are_made_different() -> None:
    graph = named(two_blocks(10, n_features=3)[0], ["degree", "a", "a_mean_1"])
    names = GraphFeatures(hops=1, encodings=()).fit([0], graph=graph).get_feature_names_out()
    assert len(set(names)) == len(names)
    assert {"degree", "degree_", "a_mean_1", "a_mean_1_"} <= set(names)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_have_names(library: str) -> None:
    pytest.importorskip(library)
    graph, _ = two_blocks(12)
    features = GraphFeatures().set_output(transform=library)
    for found in (features.fit_transform([0, 1], graph=graph), features.transform([0, 1])):
        assert list(found.columns) == features.get_feature_names_out().tolist()
        np.testing.assert_array_equal(found.to_numpy(), all_rows(graph)[:2])


def test_clone_pickle_and_repr() -> None:
    graph, _ = two_blocks(20)
    features = GraphFeatures(hops=1, encodings=()).fit([0], graph=graph)
    copied = pickle.loads(pickle.dumps(features))
    np.testing.assert_array_equal(copied.transform([3]), features.transform([3]))
    assert clone(features).get_params() == features.get_params()
    assert repr(features) == "GraphFeatures(encodings=(), hops=1)"
    assert "GraphFeatures" in estimator_html_repr(features)
    assert not features.__sklearn_tags__().input_tags.two_d_array
    with pytest.raises(NotFittedError):
        clone(features).transform([0])


def pipeline() -> Pipeline:
    trees = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2)
    return make_pipeline(GraphFeatures(n_encodings=2).set_output(transform="pandas"), trees)


def test_pipeline_predicts_from_ids() -> None:
    graph, y = two_blocks(60)
    model = pipeline().fit(np.arange(40), y[:40], graphfeatures__graph=graph)
    assert model.score(np.arange(40, 60), y[40:]) > 0.8
    assert model[-1].feature_names_in_.tolist() == model[0].get_feature_names_out().tolist()


def test_grid_search_over_hops() -> None:
    graph, y = two_blocks(40)
    search = GridSearchCV(pipeline(), {"graphfeatures__hops": [0, 1, 2]}, cv=2, error_score="raise")
    search.fit(np.arange(40), y, graphfeatures__graph=graph)
    assert search.best_params_["graphfeatures__hops"] in (0, 1, 2)
    assert search.predict([0, 1]).shape == (2,)


def test_metadata_routing_hands_the_graph_on() -> None:
    graph, y = two_blocks(40)
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(
            pipeline(), np.arange(40), y, params={"graph": graph}, cv=2, error_score="raise"
        )
        search = GridSearchCV(pipeline(), {"graphfeatures__hops": [1]}, cv=2, error_score="raise")
        search.fit(np.arange(40), y, graph=graph)
        refused = GraphFeatures().set_fit_request(graph=False).set_transform_request(graph=False)
        with pytest.raises(TypeError, match="graph"):
            make_pipeline(refused).fit(np.arange(40), y, graph=graph)
    assert found["test_score"].mean() > 0.7
    assert search.best_score_ > 0.7


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hops": -1}, "GraphFeatures.hops must be an integer >= 0; got -1"),
        ({"hops": 1.5}, "GraphFeatures.hops must be an integer >= 0; got 1.5"),
        ({"n_encodings": 40}, "GraphFeatures.n_encodings must be an integer from 1 to 32; got 40"),
        ({"statistics": ("median",)}, "GraphFeatures.statistics must be one of mean, std, .*; got 'median'"),
        ({"statistics": "mean"}, r"GraphFeatures.statistics must be a list of names; got 'mean'"),
        ({"structure": ("page_rank",)}, "got 'page_rank'. Did you mean 'pagerank'?"),
        ({"encodings": ("walks",)}, "GraphFeatures.encodings must be one of laplacian, walk; got 'walks'"),
        ({"directed": "yes"}, "GraphFeatures.directed must be True, False or \"auto\"; got 'yes'"),
        ({"block_bytes": 0}, "GraphFeatures.block_bytes must be an integer >= 1; got 0"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        GraphFeatures(**settings).fit([0], graph=two_blocks(10)[0])


def test_bad_nodes_and_weights_are_named() -> None:
    graph, _ = two_blocks(10)
    with pytest.raises(GraphError, match="nodes holds node id 10, but the graph has 10 nodes"):
        GraphFeatures().fit([10], graph=graph)
    with pytest.raises(GraphError, match="nodes is a boolean mask"):
        GraphFeatures().fit([0], graph=graph).transform(np.ones(10, bool))
    signed = Graph(-graph.adjacency, graph.features)
    with pytest.raises(GraphError, match=r"adjacency has negative weights \(smallest: -1\), by which GraphF"):
        GraphFeatures().fit([0], graph=signed)


def test_a_graph_without_edges_has_its_own_columns() -> None:
    graph = Graph(sp.csr_array((5, 5)), np.arange(10.0).reshape(5, 2))
    found = GraphFeatures(n_encodings=2).fit_transform(np.arange(5), graph=graph)
    np.testing.assert_array_equal(found[:, :2], graph.features)
    assert np.isnan(found[:, 2:18]).all()
    np.testing.assert_array_equal(found[:, 18:], [[0, 1, 0, 0, 0, 0, 0]] * 5)


def people(n: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": np.where(random.random(n) < 0.2, np.nan, random.normal(40, 10, n)),
            "income": random.lognormal(8, 1, n),
            "city": random.choice(["Oslo", "Rome", "Lima"], n),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 900, n), unit="D"),
            "year": 2024,
        }
    )


def of_people(n: int = 40, seed: int = 0) -> tuple[Graph, pd.DataFrame]:
    table = people(n, seed)
    return Graph(two_blocks(n, seed=seed)[0].adjacency, table), table


def test_a_table_is_described_in_its_own_numbers_with_its_gaps() -> None:
    graph, table = of_people()
    features = GraphFeatures(hops=1, statistics=("mean", "max", "missing"), **BARE)
    found = features.set_output(transform="pandas").fit_transform(np.arange(40), graph=graph)
    own = ["age", "income", "city=Lima", "city=Oslo", "city=Rome", "since", "since_month", "since_weekday"]
    assert found.columns[:8].tolist() == own
    assert [name for name in found if "missing" in name] == ["age_missing_1"]
    np.testing.assert_allclose(found[["age", "income"]], table[["age", "income"]], rtol=1e-6)
    np.testing.assert_array_equal(found["city=Oslo"], table["city"] == "Oslo")
    np.testing.assert_array_equal(found["since"], (table["since"] - pd.Timestamp(0)).dt.days)
    np.testing.assert_array_equal(found["since_month"], table["since"].dt.month - 1)
    A = graph.adjacency.toarray()
    for i in range(40):
        nearby = table[A[i] > 0]
        expected = [nearby["age"].mean(), nearby["income"].mean(), (nearby["city"] == "Rome").mean()]
        around = found.loc[i, ["age_mean_1", "income_mean_1", "city=Rome_mean_1"]].astype(float)
        np.testing.assert_allclose(around, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found.loc[i, "age_max_1"], nearby["age"].max(), rtol=1e-6)
        np.testing.assert_allclose(found.loc[i, "age_missing_1"], nearby["age"].isna().mean(), atol=1e-6)


def test_another_table_is_described_in_the_terms_of_the_fit() -> None:
    features = GraphFeatures(hops=1, **BARE).fit([0], graph=of_people()[0])
    other, table = of_people(30, seed=1)
    table.loc[0, "city"] = "Bern"  # which the fit has not seen
    shuffled = Graph(other.adjacency, table[table.columns[::-1]])
    found = features.set_output(transform="pandas").transform(np.arange(30), graph=shuffled)
    assert found.columns.tolist() == features.get_feature_names_out().tolist()
    np.testing.assert_allclose(found["income"], table["income"], rtol=1e-6)
    np.testing.assert_array_equal(found["city=Oslo"], table["city"] == "Oslo")
    assert found.loc[0, ["city=Lima", "city=Oslo", "city=Rome"]].sum() == 0
    with pytest.raises(GraphError, match="the table has no column 'income'"):
        features.transform([0], graph=Graph(other.adjacency, table.drop(columns="income")))
    matrix = Graph(other.adjacency, np.eye(30))
    with pytest.raises(
        GraphError, match="graph has a matrix of features, but GraphFeatures was fitted to a table"
    ):
        features.transform([0], graph=matrix)
    with pytest.raises(GraphError, match="graph has a table of features, but .* was fitted to a matrix"):
        GraphFeatures(**BARE).fit([0], graph=matrix).transform([0], graph=other)


def test_lightgbm_takes_the_names_of_a_table() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    graph, table = of_people()
    found = GraphFeatures().set_output(transform="pandas").fit_transform(np.arange(40), graph=graph)
    trees = lightgbm.LGBMRegressor(n_estimators=2, min_child_samples=2, verbose=-1).fit(
        found, table["income"]
    )
    assert trees.feature_name_ == found.columns.tolist()


def test_without_features_the_edges_speak() -> None:
    graph = Graph(two_blocks(20)[0].adjacency, None)
    found = GraphFeatures(hops=0, **BARE).set_output(transform="pandas").fit_transform([3, 4], graph=graph)
    assert found.columns.tolist() == list(graph.column_names)
    degrees = np.log1p((graph.adjacency.toarray() > 0).sum(axis=1))
    np.testing.assert_allclose(found.iloc[:, 0], degrees[[3, 4]], rtol=1e-6)
