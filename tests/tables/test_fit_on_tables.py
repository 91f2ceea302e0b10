"""A table and its links from frame to prediction, and through a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import gbgnn
from gbgnn import MLP, GBGNNClassifier, Graph
from gbgnn.errors import GBGNNWarning, GraphError
from gbgnn.persistence import read_header

N = 120
RANDOM = np.random.default_rng(0)
Y = np.where(RANDOM.random(N) < 0.5, "stays", "leaves")
IS_LEAVING = Y == "leaves"
PEOPLE = pd.DataFrame(
    {
        "person": [f"p{i:03}" for i in range(N)],
        "age": np.where(RANDOM.random(N) < 0.2, np.nan, RANDOM.normal(40, 10, N) + 8 * IS_LEAVING),
        "plan": np.where(RANDOM.random(N) < 0.3, "basic", np.where(IS_LEAVING, "free", "gold")),
        "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(RANDOM.integers(0, 900, N), unit="D"),
    }
)
CALLS = pd.DataFrame(
    {"source": RANDOM.choice(PEOPLE["person"], 300), "target": RANDOM.choice(PEOPLE["person"], 300)}
)
GRAPH = Graph.from_tables(PEOPLE, CALLS)
TRAIN, TEST = np.arange(80), np.arange(80, N)


def fit(graph: Graph = GRAPH, **settings: Any) -> GBGNNClassifier:
    defaults: dict[str, Any] = {"learner": MLP(epochs=20, units=16), "n_rounds": 3, "random_state": 0}
    return GBGNNClassifier(**(defaults | settings)).fit(TRAIN, Y[TRAIN], graph=graph)


@pytest.fixture(scope="module")
def model() -> GBGNNClassifier:
    return fit()


def test_a_table_is_learned_from(model: GBGNNClassifier) -> None:
    assert model.score(TEST, Y[TEST]) > 0.75
    assert model.feature_names_in_.tolist() == ["age", "plan", "since"]
    assert model.n_features_in_ == 3


def test_another_graph_has_its_columns_in_any_order(model: GBGNNClassifier) -> None:
    shuffled = pl.from_pandas(PEOPLE[["since", "plan", "person", "age"]])
    other = Graph.from_tables(shuffled, CALLS, id="person")
    np.testing.assert_allclose(model.predict_proba(TEST, graph=other), model.predict_proba(TEST), atol=1e-5)


def test_other_nodes_are_encoded_as_those_of_the_fit(model: GBGNNClassifier) -> None:
    few = PEOPLE.iloc[TEST].assign(plan="platinum")  # nobody had it
    known = few["person"]
    inside = CALLS[CALLS["source"].isin(known) & CALLS["target"].isin(known)]
    proba = model.predict_proba(np.arange(len(few)), graph=Graph.from_tables(few, inside, id="person"))
    assert proba.shape == (len(few), 2)
    assert np.isfinite(proba).all()


def test_columns_that_are_not_there_or_new_are_named(model: GBGNNClassifier) -> None:
    with pytest.raises(GraphError, match="the table has no column 'plan', which the encoder was fitted with"):
        model.predict(TEST, graph=Graph.from_tables(PEOPLE.drop(columns="plan"), CALLS))
    with pytest.warns(GBGNNWarning, match="are ignored: hat"):
        model.predict(TEST, graph=Graph.from_tables(PEOPLE.assign(hat=1), CALLS))
    with pytest.raises(GraphError, match="fitted on a table with columns age, plan, since"):
        model.predict(TEST, graph=Graph(GRAPH.adjacency, GRAPH.features))
    with pytest.raises(GraphError, match="fitted on a matrix of .* features; this graph has a table"):
        fit(Graph(GRAPH.adjacency, GRAPH.features)).predict(TEST, graph=GRAPH)


def test_a_model_file_holds_the_encoder(model: GBGNNClassifier, tmp_path: Path) -> None:
    path = tmp_path / "people.gbgnn"
    model.save(path)
    again = gbgnn.load(path)
    assert again.feature_names_in_.tolist() == ["age", "plan", "since"]
    other = Graph.from_tables(PEOPLE.sample(frac=1, random_state=0), CALLS)
    nodes = np.arange(N)
    np.testing.assert_array_equal(
        again.predict_proba(nodes, graph=other), model.predict_proba(nodes, graph=other)
    )
    inputs = read_header(path)["inputs"]
    assert inputs["column_names"] == ["age", "plan", "since"]
    assert [row["encoder"] for row in inputs["encoder"]["encoders"]] == ["number", "category", "date"]


def test_names_of_a_matrix_are_kept_in_a_file(tmp_path: Path) -> None:
    X = np.asarray(GRAPH.features)
    model = fit(Graph(GRAPH.adjacency, X, feature_names=GRAPH.feature_names))
    model.save(tmp_path / "m.gbgnn")
    assert gbgnn.load(tmp_path / "m.gbgnn").feature_names_in_.tolist() == list(GRAPH.feature_names)
    unnamed = fit(Graph(GRAPH.adjacency, X))
    assert unnamed.feature_names_in_.tolist()[:2] == ["x0", "x1"]


def test_a_table_trains_as_the_matrix_that_it_is_encoded_to(model: GBGNNClassifier) -> None:
    same = fit(Graph(GRAPH.adjacency, GRAPH.features))
    assert torch.equal(same.score_tensor_, model.score_tensor_)


def test_a_warm_start_knows_the_table() -> None:
    model = fit(warm_start=True)
    longer = model.set_params(n_rounds=5).fit(TRAIN, Y[TRAIN], graph=Graph.from_tables(PEOPLE, CALLS))
    np.testing.assert_array_equal(longer.scores_, fit(n_rounds=5).scores_)
    with pytest.raises(ValueError, match="depend on the graph, and that has changed"):
        model.fit(TRAIN, Y[TRAIN], graph=Graph.from_tables(PEOPLE.assign(age=PEOPLE["age"] + 1), CALLS))


def test_a_graph_without_features_can_be_fitted_and_saved(tmp_path: Path) -> None:
    model = fit(Graph(GRAPH.adjacency, None))
    model.save(tmp_path / "m.gbgnn")
    half = Graph(GRAPH.adjacency[:60, :60], None)
    again = gbgnn.load(tmp_path / "m.gbgnn")
    np.testing.assert_array_equal(again.predict(range(60), graph=half), model.predict(range(60), graph=half))
    assert model.feature_names_in_[0] == "log_degree"


def test_a_table_without_links_gets_its_neighbours() -> None:
    graph = Graph.from_neighbors(PEOPLE.drop(columns="person"), k=5)
    assert fit(graph).score(TEST, Y[TEST]) > 0.75
