"""Fits over workers that are threads of this process; test_processes.py has those that are not."""

from __future__ import annotations

import pickle

import dask.dataframe as dd
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import gbgnn
from gbgnn import GBGNNClassifier, GBGNNRegressor, Graph
from gbgnn.dask import DaskGBGNNClassifier, DaskGBGNNRegressor, DaskGraph
from gbgnn.errors import AbsentError, GraphError, ParameterError
from gbgnn.testing import two_blocks

SETTINGS = {"n_rounds": 4, "random_state": 0, "device": "cpu"}
LABELLED, HELD = np.arange(0, 60, 3), np.arange(1, 60, 3)


@pytest.fixture
def data(make_graph):
    graph = make_graph(60)
    return graph, (graph.adjacency @ graph.features[:, 0] + graph.features[:, 1] > 0).astype(int)


def bytes_of(model, folder) -> bytes:
    path = folder / "model.gbgnn"
    model.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("aggregation", ["adjacency", "injection", "lazy", "kta", "identity"])
def test_the_model_is_that_of_one_machine_byte_by_byte(client, fit_here, data, tmp_path, aggregation) -> None:
    graph, y = data
    settings = SETTINGS | {"aggregation": aggregation, "learning_rate": 0.5}
    validation = HELD, y[HELD]
    there = DaskGBGNNClassifier(**settings, client=client)
    there.fit(LABELLED, y[LABELLED], graph=graph, validation=validation)
    here = fit_here(GBGNNClassifier(**settings), LABELLED, y[LABELLED], graph, validation=validation)
    assert bytes_of(there, tmp_path) == bytes_of(here, tmp_path)
    every = np.arange(60)
    assert np.allclose(there.predict_proba(every), here.predict_proba(every), atol=1e-6)
    assert there.score(HELD, y[HELD]) == here.score(HELD, y[HELD])
    for mine, theirs in zip(there.staged_predict(HELD), here.staged_predict(HELD), strict=True):
        assert np.array_equal(mine, theirs)


def test_a_fit_that_holds_all_scores_differs_by_rounding(client, data) -> None:
    graph, y = data
    there = DaskGBGNNClassifier(**SETTINGS, client=client).fit(LABELLED, y[LABELLED], graph=graph)
    here = GBGNNClassifier(**SETTINGS, preset="fast").fit(LABELLED, y[LABELLED], graph=graph)
    assert np.allclose(there.predict_proba(HELD), here.predict_proba(HELD), atol=1e-3)


def test_numbers_are_predicted_too(client, fit_here, data, tmp_path) -> None:
    graph, _ = data
    y = np.asarray(graph.adjacency.sum(axis=1)).ravel() * 3.0
    there = DaskGBGNNRegressor(**SETTINGS, loss="huber", client=client)
    there.fit(LABELLED, y[LABELLED], graph=graph)
    here = fit_here(GBGNNRegressor(**SETTINGS, loss="huber"), LABELLED, y[LABELLED], graph)
    assert bytes_of(there, tmp_path) == bytes_of(here, tmp_path)
    assert isinstance(there.to_local(), GBGNNRegressor)
    frame = there.predict_frame().compute()
    assert np.allclose(frame["prediction"], there.predict(np.arange(60)), atol=1e-4)


def test_a_graph_of_tables_that_nobody_holds(client, frames, tmp_path) -> None:
    nodes, edges = frames()
    columns = {"id": "key", "source": "caller", "target": "called", "exclude": ["label"]}
    A = Graph.from_tables(nodes, edges, **columns).adjacency
    here = Graph(A, nodes[["a", "b"]].to_numpy(), feature_names=["a", "b"])
    there = DaskGraph.from_dask(
        dd.from_pandas(nodes, npartitions=3, sort=False),
        dd.from_pandas(edges, npartitions=2),
        client=client,
        **columns,
    )
    known = nodes[::2]
    rows = there.rows_of(known["key"])
    model = DaskGBGNNClassifier(**SETTINGS, client=client).fit(rows, known["label"], graph=there)
    frame = model.predict_frame().compute()
    assert frame["node"].tolist() == nodes["key"].tolist()
    assert np.array_equal(frame["label"], model.predict(np.arange(40)))
    local = model.to_local()
    assert local.graph_ is None
    with pytest.raises(ParameterError, match="pass graph="):
        local.predict([0])
    assert np.allclose(local.predict_proba([0, 7], graph=here), model.predict_proba([0, 7]), atol=1e-6)
    local.save(tmp_path / "m.gbgnn")
    again = gbgnn.load(tmp_path / "m.gbgnn")
    assert type(again) is GBGNNClassifier
    assert np.array_equal(again.predict([0, 7], graph=here), model.predict([0, 7], graph=here))
    with pytest.raises(GraphError, match=r"graph must be a gbgnn.Graph; got DaskGraph"):
        GBGNNClassifier(**SETTINGS).fit(rows, known["label"], graph=there)


def test_another_graph_is_predicted_on_the_workers(client, data, make_graph) -> None:
    graph, y = data
    model = DaskGBGNNClassifier(**SETTINGS, client=client).fit(LABELLED, y[LABELLED], graph=graph)
    other = make_graph(35, seed=3)
    expected = model.to_local().predict_proba(np.arange(35), graph=other)
    assert np.allclose(model.predict_proba(np.arange(35), graph=other), expected, atol=1e-6)
    assert len(model.predict_frame(other)) == 35


def test_columns_of_a_table_are_encoded_as_in_the_fit(client, data) -> None:
    graph, y = data
    people = {"age": graph.features[:, 0], "city": np.array(["Oslo", "Rome"])[y]}
    table, other = Graph(graph.adjacency, people), Graph(graph.adjacency, people | {"city": ["Rome"] * 60})
    model = DaskGBGNNClassifier(**SETTINGS, client=client).fit(LABELLED, y[LABELLED], graph=table)
    expected = model.to_local().predict_proba(HELD, graph=other)
    assert np.allclose(model.predict_proba(HELD, graph=other), expected, atol=1e-6)


def test_rounds_go_on_after_a_warm_start(client, data, tmp_path) -> None:
    graph, y = data
    model = DaskGBGNNClassifier(**SETTINGS | {"n_rounds": 2}, warm_start=True, client=client)
    model.fit(LABELLED, y[LABELLED], graph=graph).set_params(n_rounds=4)
    model.fit(LABELLED, y[LABELLED], graph=graph)
    whole = DaskGBGNNClassifier(**SETTINGS, client=client).fit(LABELLED, y[LABELLED], graph=graph)
    assert np.array_equal(model.predict_proba(HELD), whole.predict_proba(HELD))


def test_manners_of_scikit_learn(client, data) -> None:
    graph, y = data
    model = DaskGBGNNClassifier(**SETTINGS, client=client)
    assert "client" not in model.get_params()
    assert set(model.get_params()) == set(GBGNNClassifier().get_params())
    assert clone(model).client is client
    assert clone(model).get_params() == model.get_params()
    assert repr(model) == "DaskGBGNNClassifier(device='cpu', n_rounds=4, random_state=0)"
    search = GridSearchCV(model, {"n_rounds": [1, 2]}, cv=2).fit(LABELLED, y[LABELLED], graph=graph)
    assert search.best_estimator_.client is client


def test_a_pickle_is_for_one_machine(client, data) -> None:
    graph, y = data
    model = DaskGBGNNClassifier(**SETTINGS, client=client)
    assert pickle.loads(pickle.dumps(model)).client is None
    model.fit(LABELLED, y[LABELLED], graph=graph)
    again = pickle.loads(pickle.dumps(model))
    assert np.allclose(again.predict_proba(HELD), model.predict_proba(HELD), atol=1e-6)


NOT_HERE = [
    ({"preset": "best"}, 'preset="best" holds all rows .* or GBGNNClassifier'),
    ({"memory_limit": "1GB"}, "memory_limit and work_folder are for one machine"),
    ({"aggregation": "linear"}, "workers keep the rows of the nodes.* but aggregation=Linear"),
    ({"fine_tune": True}, "but fine_tune=True needs more"),
    ({"propagation": np.eye(60)}, "a matrix given as propagation= is not cut into chunks"),
]


@pytest.mark.parametrize(("settings", "message"), NOT_HERE)
def test_what_needs_one_machine_says_so(client, data, settings, message) -> None:
    graph, y = data
    model = DaskGBGNNClassifier(**SETTINGS | settings, client=client)
    with pytest.raises(ParameterError, match=message):
        model.fit(LABELLED, y[LABELLED], graph=graph)


def test_explanations_are_those_of_the_local_model(client) -> None:
    graph, y = two_blocks(40)
    model = DaskGBGNNClassifier(**SETTINGS, client=client).fit(np.arange(20), y[:20], graph=graph)
    with pytest.raises(AbsentError, match=r"ask the model of to_local\(\)"):
        model.neighbour_contributions([0])
    assert len(model.to_local().neighbour_contributions([0])) == 1
