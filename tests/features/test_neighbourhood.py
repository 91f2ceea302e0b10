from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from gbgnn import MLP, BoostedTrees, FunctionalGradient, GBGNNClassifier, GBGNNRegressor, Graph, load
from gbgnn.errors import ParameterError
from gbgnn.features import LabelledRows, Neighbourhood, neighbourhood
from gbgnn.features.encodings import laplacian_eigenvectors
from gbgnn.features.neighbours import Neighbours
from gbgnn.population import PopulationInputs, train_population
from gbgnn.tables import RawColumns

PARTS: dict[str, Any] = {
    "aggregation": "identity",
    "rule": FunctionalGradient(target="loss", learning_rate=1.0),
    "neighbourhood": Neighbourhood(),
    "n_rounds": 1,
    "random_state": 0,
    "device": "cpu",
}


def ring(n: int = 400, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """Neighbours on a ring have nearly the same y, of which their columns tell little."""
    random = np.random.default_rng(seed)
    y = np.sin(np.arange(n) / 9) + 0.1 * random.standard_normal(n)
    X = np.column_stack([0.3 * y + random.standard_normal(n), random.standard_normal(n)]).astype(np.float32)
    ahead = sp.csr_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))
    return Graph(ahead + ahead.T, X), y


def halves(n: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    order = np.random.default_rng(1).permutation(n)
    return order[: n // 2], order[n // 2 : 3 * n // 4], order[3 * n // 4 :]


@pytest.mark.parametrize("directed", [False, True])
def test_groups_are_own_columns_statistics_of_neighbours_and_labels(directed: bool) -> None:
    random = np.random.default_rng(0)
    dense = (random.random((20, 20)) < 0.2).astype(float)
    graph = Graph(dense if directed else dense + dense.T, random.standard_normal((20, 3)))
    own = RawColumns(graph.features, np.array([True, False, False]), ["a", "b", "c"])
    known = LabelledRows(np.arange(5), random.standard_normal((5, 2)))
    part = Neighbourhood(hops=2, statistics=("mean", "max"), targets=2, positions=4)
    wide = part.widen(graph, own, own, 2, known)
    n_directions = 2 if directed else 1
    n_two = 3 + 3 * 2 * 2 * n_directions
    assert wide.ends == (3, n_two, n_two + 2 * 3, n_two + 2 * 3 + 4)
    both = np.maximum(dense, dense.T) if directed else dense + dense.T
    expected = laplacian_eigenvectors(sp.csr_array(both), 4)
    np.testing.assert_allclose(wide.raw.matrix[:, -4:], expected, atol=1e-6)
    assert wide.raw.matrix.shape == (20, wide.ends[-1]) == (20, len(wide.raw.names))
    assert wide.raw.categorical.tolist() == [True] + [False] * (wide.ends[-1] - 1)
    first = next(iter(Neighbours(graph.adjacency).statistics(graph.features, 1, ("max",))))
    prefix = "in_" if directed else ""
    np.testing.assert_allclose(
        wide.raw.matrix[:, wide.raw.names.index(f"{prefix}b_max_1")], first["max"][:, 1]
    )
    elsewhere = part.widen(graph, own, own, 2, None)
    assert np.isnan(elsewhere.raw.matrix[:, wide.ends[1] :]).all()
    assert elsewhere.raw.names == wide.raw.names


@pytest.mark.parametrize("directed", [False, True])
def test_columns_are_the_same_a_few_at_a_time(monkeypatch, directed: bool) -> None:
    random = np.random.default_rng(0)
    dense = (random.random((40, 40)) < 0.1).astype(float)
    X = random.standard_normal((40, 7)).astype(np.float32)
    graph = Graph(dense if directed else dense + dense.T, X)
    own = RawColumns(X, np.zeros(7, bool), [f"x{i}" for i in range(7)])
    part = Neighbourhood(statistics=("mean", "std", "max"), targets=0, positions=0)
    whole = part.widen(graph, own, own, 1, None).raw
    monkeypatch.setattr(neighbourhood, "_BLOCK_BYTES", 3 * 40 * neighbourhood._COLUMN_BYTES)
    some = part.widen(graph, own, own, 1, None).raw
    np.testing.assert_allclose(some.matrix, whole.matrix, rtol=1e-6)
    assert some.names == whole.names


def test_positions_that_are_left_out_are_no_group(monkeypatch) -> None:
    graph, _ = ring(30)
    own = RawColumns(graph.features, np.zeros(2, bool), ["a", "b"])
    known = LabelledRows(np.arange(3), np.ones((3, 1)))
    assert Neighbourhood().widen(graph, own, own, 1, known).ends == (2, 6, 12, 20)
    monkeypatch.setattr(neighbourhood, "_MOST_NODES", 29)
    assert Neighbourhood().widen(graph, own, own, 1, known).ends == (2, 6, 20)


def test_positions_of_huge_graphs_are_left_out(monkeypatch) -> None:
    graph, _ = ring(30)
    own = RawColumns(graph.features, np.zeros(2, bool), ["a", "b"])
    monkeypatch.setattr(neighbourhood, "_MOST_NODES", 29)
    known = LabelledRows(np.arange(3), np.ones((3, 1)))
    wide = Neighbourhood(hops=0, targets=0).widen(graph, own, own, 1, known)
    assert wide.ends == (2, 10)
    assert not wide.raw.matrix[:, 2:].any()


@pytest.mark.parametrize("learner", [BoostedTrees(n_trees=200), MLP(epochs=100)])
def test_labels_nearby_tell_what_columns_do_not(learner: Any) -> None:
    graph, y = ring()
    train, val, test = halves()
    scores = {}
    for targets in (0, 3):
        parts = PARTS | {"neighbourhood": Neighbourhood(targets=targets, positions=0)}
        model = GBGNNRegressor(learner=learner, **parts)
        model.fit(train, y[train], graph=graph, validation=(val, y[val]))
        scores[targets] = model.score(test, y[test])
    assert scores[3] > max(0.8, scores[0] + 0.1)


def test_labels_of_other_nodes_reach_nothing() -> None:
    graph, y = ring()
    train, val, test = halves()
    found = []
    for other in (y, np.where(np.isin(np.arange(len(y)), test), 99.0, y)):
        model = GBGNNRegressor(learner=BoostedTrees(), **PARTS)
        model.fit(train, other[train], graph=graph, validation=(val, other[val]))
        found.append(model.scores_.tobytes())
    assert found[0] == found[1]


def test_groups_that_do_not_help_are_left_out() -> None:
    graph, _ = ring()
    y = graph.features[:, 1] > 0  # of which neighbours know nothing
    train, val, test = halves()
    model = GBGNNClassifier(learner=BoostedTrees(), **PARTS)
    model.fit(train, y[train], graph=graph, validation=(val, y[val]))
    head = model.model_.ensemble[0].head
    assert head.models[0].n_features == 2 < head.n_features
    assert model.history_["learner"] == [{"columns": {"2": 1.0}}]
    whole = GBGNNClassifier(learner=BoostedTrees(columns="all"), **PARTS)
    whole.fit(train, y[train], graph=graph, validation=(val, y[val]))
    assert whole.model_.ensemble[0].head.models[0].n_features == head.n_features
    assert model.score(test, y[test]) > 0.9


@pytest.mark.parametrize("learner", [BoostedTrees(n_trees=30), MLP(epochs=20)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_file_predicts_other_graphs_where_no_labels_are_known(tmp_path, learner, n_classes: int) -> None:
    (graph, y), (other, _) = ring(), ring(300, seed=5)
    classes = np.digitize(y, np.linspace(-0.5, 0.5, n_classes - 1))
    train, val, _ = halves()
    model = GBGNNClassifier(learner=learner, **PARTS)
    model.fit(train, classes[train], graph=graph, validation=(val, classes[val]))
    model.save(tmp_path / "model.gbgnn")
    again = load(tmp_path / "model.gbgnn")
    nodes = np.arange(300)
    proba = model.predict_proba(nodes, graph=other)
    assert np.isfinite(proba).all()
    assert again.predict_proba(nodes, graph=other).tobytes() == proba.tobytes()
    assert again.predict(train).tolist() == model.predict(train).tolist()


def test_tables_show_gaps_and_categories_to_trees() -> None:
    pandas = pytest.importorskip("pandas")
    graph, y = ring()
    color = np.where(y > 0, "red", "blue").astype(object)
    color[::7], color[3::40] = None, "red"
    age = graph.features[:, 1].astype(float)
    age[::5] = np.nan
    frame = pandas.DataFrame({"color": pandas.Categorical(color), "age": age})
    table = Graph(graph.adjacency, frame)
    train, val, test = halves()
    for learner in (BoostedTrees(n_trees=50), MLP(epochs=30)):
        model = GBGNNClassifier(learner=learner, **PARTS)
        model.fit(train, (y > 0)[train], graph=table, validation=(val, (y > 0)[val]))
        assert model.score(test, (y > 0)[test]) > 0.9
    shuffled = Graph(graph.adjacency, frame[["age", "color"]])
    np.testing.assert_array_equal(
        model.predict(np.arange(400), graph=shuffled), model.predict(np.arange(400), graph=table)
    )


def test_a_population_equals_its_members() -> None:
    graph, y = ring()
    train, val, _ = halves()
    models = [
        GBGNNRegressor(learner=MLP(epochs=20, units=8), **PARTS | {"random_state": i}) for i in range(2)
    ]
    inputs = PopulationInputs.from_model(
        models[0], train, y[train], graph=graph, validation=(val, y[val]), predict_nodes=np.arange(400)
    )
    for model, result in zip(models, train_population(inputs, models), strict=True):
        alone = model.fit(train, y[train], graph=graph, validation=(val, y[val])).scores_
        np.testing.assert_allclose(result.scores, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"neighbourhood": "hops"}, "unknown neighbourhood 'hops'"),
        ({"neighbourhood": Neighbourhood(hops=-1)}, "Neighbourhood.hops"),
        ({"neighbourhood": Neighbourhood(targets=9)}, "Neighbourhood.targets"),
        ({"neighbourhood": Neighbourhood(positions=99)}, "Neighbourhood.positions"),
        ({"neighbourhood": Neighbourhood(statistics=("median",))}, "Neighbourhood.statistics may have"),
        ({"aggregation": "adjacency"}, "bring a node its own label back"),
        ({"feature_norm": "l1"}, "would scale what labels are as well"),
    ],
)
def test_settings_that_do_not_go_together_are_named(changes: dict[str, Any], message: str) -> None:
    graph, y = ring()
    with pytest.raises(ParameterError, match=message):
        GBGNNRegressor(**PARTS | changes).fit(np.arange(50), y[:50], graph=graph)
