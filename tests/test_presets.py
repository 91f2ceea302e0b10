from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from gbgnn import (
    MLP,
    BestOf,
    BoostedTrees,
    Classification,
    ConsistentNetwork,
    GBGNNClassifier,
    GBGNNRegressor,
    Graph,
    GraphNetwork,
    Regression,
    Stages,
    load,
    presets,
)
from gbgnn.datasets import csbm
from gbgnn.errors import ParameterError
from gbgnn.population import PopulationInputs, train_population
from gbgnn.presets import (
    FEWEST_LABELS,
    FEWEST_PER_SCORE,
    FEWEST_TO_CHOOSE,
    LEAN_FROM,
    LEAST_HOMOPHILY,
    MANY_LABELS,
    MANY_PER_CLASS,
    MOST_COLUMNS,
    MOST_NODES,
    MOST_NODES_OF_NUMBERS,
    MOST_TO_LOOK_AT,
    Facts,
    adapt,
    explain,
)
from gbgnn.propagation import SparseRows
from gbgnn.testing import two_blocks

TABLE = Facts(
    n_nodes=MOST_NODES + 1,
    n_labels=FEWEST_LABELS,
    n_scores=2,
    n_columns=MOST_COLUMNS,
    is_sparse=False,
    has_validation=True,
    has_classes=True,
)
WORDS = Facts(
    n_nodes=2_000,
    n_labels=60,
    n_scores=3,
    n_columns=MOST_COLUMNS + 1,
    is_sparse=True,
    has_validation=True,
    has_classes=True,
)


@pytest.mark.parametrize("kind", [GBGNNClassifier, GBGNNRegressor])
def test_narrow_tables_with_many_labels_get_trees(kind: Any) -> None:
    model = kind(random_state=3, metric="auto", device="cpu")
    found = adapt(model, TABLE)
    assert isinstance(found.learner, BoostedTrees)
    assert (found.random_state, found.validation_fraction) == (3, None)
    assert model.learner == "mlp"  # as it was


@pytest.mark.parametrize(
    ("kind", "most"), [(GBGNNClassifier, MOST_NODES), (GBGNNRegressor, MOST_NODES_OF_NUMBERS)]
)
def test_a_network_follows_where_it_is_not_too_slow(kind: Any, most: int) -> None:
    kinds = []
    for n_nodes in (most, most + 1):
        found = adapt(kind(device="cpu"), Facts(**vars(TABLE) | {"n_nodes": n_nodes}))
        kinds.append((type(found.learner), found.n_rounds, found.select))
    assert kinds == [(Stages, 2, "last"), (BoostedTrees, 1, "auto")]
    chosen = adapt(kind(device="cpu", select="gradient"), Facts(**vars(TABLE) | {"n_nodes": most}))
    assert chosen.select == "gradient"


@pytest.mark.parametrize(
    ("facts", "settings"),
    [
        ({"n_labels": FEWEST_TO_CHOOSE - 1}, {}),
        ({"n_labels": FEWEST_LABELS - 1, "has_validation": False}, {}),
        ({"is_sparse": True}, {"device": "cpu"}),  # more nodes than networks are trained on
        ({"n_columns": MOST_COLUMNS + 1, "has_classes": False}, {}),
        ({"n_columns": MOST_COLUMNS + 1}, {"device": "cpu"}),  # more nodes than networks are trained on
        ({"n_scores": MOST_TO_LOOK_AT // MOST_COLUMNS + 1}, {"device": "cpu"}),
        ({}, {"preset": "fast"}),
        ({}, {"learner": MLP()}),
        ({}, {"learner": "wide"}),
        ({}, {"rule": "samme"}),
        ({}, {"n_rounds": 3}),
        ({}, {"fine_tune": True}),
        ({}, {"warm_start": True}),
        ({}, {"learning_rate": 0.3}),
        ({}, {"propagation": sp.eye_array(4)}),
    ],
)
def test_everything_else_stays_as_it_is(facts: dict[str, Any], settings: dict[str, Any]) -> None:
    model = GBGNNClassifier(**settings)
    assert adapt(model, Facts(**vars(TABLE) | facts)) is model


@pytest.mark.parametrize("kind", [GBGNNClassifier, GBGNNRegressor])
@pytest.mark.parametrize(
    "facts",
    [
        {"n_labels": FEWEST_LABELS - 1},
        {"n_labels": FEWEST_TO_CHOOSE},
        {"n_scores": FEWEST_LABELS // FEWEST_PER_SCORE + 1, "n_columns": 2},
    ],
)
def test_narrow_tables_with_few_labels_get_small_trees_or_a_network(kind: Any, facts: dict[str, Any]) -> None:
    large, small = (Facts(**vars(TABLE) | facts | {"n_nodes": n}) for n in (MOST_NODES + 1, 900))
    model = kind(device="cpu")
    assert isinstance(adapt(model, large).learner, BoostedTrees)
    stages = adapt(model, small).learner
    assert [type(each) for each in stages.first.candidates()] == [BoostedTrees, ConsistentNetwork]
    assert isinstance(stages.then, GraphNetwork)
    assert str(explain(model, large)).endswith("neighbourhood")
    assert str(explain(model, small)).endswith("a network by validation, then a graph network")


@pytest.mark.parametrize("kind", [GBGNNClassifier, GBGNNRegressor])
def test_narrow_tables_with_few_labels_are_learned(kind: Any) -> None:
    graph, y = table()
    y = y if kind is GBGNNClassifier else np.asarray(graph.features)[:, 0] * 1000
    train, val, test = np.arange(0, 60), np.arange(60, 120), np.arange(120, 500)
    model = kind(random_state=0).fit(train, y[train], graph=graph, validation=(val, y[val]))
    assert model.score(test, y[test]) > 0.9
    assert len(model.ensemble_) <= 2


def test_few_numbers_without_validation_nodes_set_some_aside() -> None:
    few = Facts(**vars(TABLE) | {"n_labels": 50, "has_validation": False, "has_classes": False})
    found = adapt(GBGNNRegressor(device="cpu"), few)
    assert isinstance(found.learner, BoostedTrees)
    assert found.validation_fraction == 0.2


def test_wide_features_with_few_labels_get_networks_that_all_nodes_train() -> None:
    found = adapt(GBGNNClassifier(), WORDS)
    assert isinstance(found.learner, BestOf)
    assert isinstance(found.learner.one.one, ConsistentNetwork)
    assert (found.n_rounds, found.class_weight, found.validation_fraction) == (1, "validation", None)
    alone = adapt(GBGNNClassifier(), Facts(**vars(WORDS) | {"has_validation": False}))
    assert (alone.n_rounds, alone.validation_fraction) == (1, None)  # every label counts
    assert "all nodes train" in str(explain(GBGNNClassifier(), WORDS))


def test_wide_features_with_many_labels_get_a_graph_network() -> None:
    many = Facts(**vars(WORDS) | {"n_labels": 3 * MANY_PER_CLASS, "has_validation": False})
    found = adapt(GBGNNClassifier(), many)
    assert [type(each) for each in found.learner.then.candidates()] == [GraphNetwork] * 2
    assert [type(each) for each in found.learner.first.candidates()] == [ConsistentNetwork] * 2
    assert (found.n_rounds, found.validation_fraction) == (2, 0.2)
    assert "small networks, then the better of two graph networks" in str(explain(GBGNNClassifier(), many))
    differ = Facts(**vars(many) | {"homophily": LEAST_HOMOPHILY - 0.01})
    found = adapt(GBGNNClassifier(), differ)
    assert [type(each) for each in found.learner.candidates()] == [GraphNetwork] * 2
    assert (found.n_rounds, found.validation_fraction) == (1, 0.2)
    assert str(explain(GBGNNClassifier(), differ)).endswith("labels, the better of two graph networks")


def test_wide_features_of_many_nodes_get_few_networks_and_few_epochs() -> None:
    model = GBGNNClassifier(device="cpu")
    many = Facts(**vars(WORDS) | {"n_labels": 3 * MANY_PER_CLASS, "n_nodes": LEAN_FROM})
    found = adapt(model, many)
    assert (type(found.learner.first), type(found.learner.then)) == (ConsistentNetwork, GraphNetwork)
    assert (found.learner.first.schedule, found.n_rounds) == ("cosine", 2)
    assert "a small network, then a graph network" in str(explain(model, many))
    differ = Facts(**vars(many) | {"homophily": LEAST_HOMOPHILY - 0.01})
    assert [each.patience for each in adapt(model, differ).learner.candidates()] == [20, 20]


def test_words_of_any_number_of_nodes_get_networks() -> None:
    model, large = GBGNNClassifier(device="cpu"), {"n_nodes": MOST_NODES + 1}
    few = Facts(**vars(WORDS) | large)
    assert isinstance(adapt(model, few).learner, ConsistentNetwork)
    assert "few labels, a small network that all nodes train" in str(explain(model, few))
    many = Facts(**vars(few) | {"n_labels": 3 * MANY_PER_CLASS})
    assert isinstance(adapt(model, many).learner, Stages)
    dense = Facts(**vars(many) | {"is_sparse": False})
    assert adapt(model, dense) is model  # products with P of these are no larger than they are


@pytest.mark.parametrize("per_class", [20, 220])
def test_words_of_many_nodes_are_never_made_dense(monkeypatch: pytest.MonkeyPatch, per_class: int) -> None:
    for name in ("LEAN_FROM", "MOST_NODES"):
        monkeypatch.setattr(presets, name, 100)
    monkeypatch.setattr(presets, "QUICK", clone(presets.QUICK).set_params(epochs=40))
    data, random = csbm(n_nodes=700, n_classes=2, per_class=per_class, n_val=100), np.random.default_rng(0)
    words = sp.random(700, 400, 0.01, random_state=0, format="csr") + sp.csr_array(
        (np.ones(700), (np.arange(700), 200 * data.y + random.integers(100, size=700))), shape=(700, 400)
    )
    graph, other = (Graph(data.graph.adjacency, words) for _ in range(2))

    def refuse(*arguments: Any) -> Any:
        raise AssertionError("all words were made dense")

    monkeypatch.setattr(SparseRows, "dense", refuse)
    model = GBGNNClassifier(device="cpu", random_state=0)
    model.fit(data.train, data.y[data.train], graph=graph, validation=(data.val, data.y[data.val]))
    assert model.score(data.test, data.y[data.test]) > 0.8
    np.testing.assert_array_equal(model.predict(data.test, graph=other), model.predict(data.test))


def test_embeddings_with_too_many_classes_for_trees_get_networks() -> None:
    known = vars(WORDS) | {"n_columns": 128, "n_scores": 40, "is_sparse": False}
    many, few = (Facts(**known | {"n_labels": 40 * n}) for n in (MANY_PER_CLASS, 20))
    assert isinstance(adapt(GBGNNClassifier(), many).learner.then.one, GraphNetwork)
    assert isinstance(adapt(GBGNNClassifier(), few).learner, BestOf)


def test_few_labels_do_not_travel_where_neighbours_differ() -> None:
    model = GBGNNClassifier()
    for homophily, is_kept in ((LEAST_HOMOPHILY - 0.01, True), (LEAST_HOMOPHILY, False), (None, False)):
        assert (adapt(model, Facts(**vars(WORDS) | {"homophily": homophily})) is model) == is_kept


def test_wide_features_are_learned_by_default() -> None:
    data = csbm(n_nodes=400, n_classes=3, n_features=MOST_COLUMNS + 100, per_class=10, separation=3.0)
    y, noise = data.y, np.random.default_rng(0).integers(3, size=400)
    model = GBGNNClassifier(random_state=0)
    model.fit(data.train, y[data.train], graph=data.graph, validation=(data.val, y[data.val]))
    assert model.score(data.test, y[data.test]) > 0.8
    model.fit(data.train, noise[data.train], graph=data.graph, validation=(data.val, noise[data.val]))
    assert model.predict_proba(data.test).shape == (len(data.test), 3)  # of nothing, something is said


def test_choices_are_explained() -> None:
    small = Facts(**vars(TABLE) | {"n_nodes": 900})
    assert str(explain(GBGNNClassifier(device="cpu"), TABLE)).endswith("columns of the neighbourhood")
    assert str(explain(GBGNNClassifier(device="cpu"), small)).endswith("then a graph network")
    assert explain(GBGNNClassifier(preset="fast"), TABLE) is None


def test_many_labels_grow_larger_trees_on_fewer_columns() -> None:
    few, many = (
        adapt(GBGNNRegressor(device="cpu"), Facts(**vars(TABLE) | {"n_labels": n})).learner
        for n in (MANY_LABELS - 1, MANY_LABELS)
    )
    assert few.max_leaves < many.max_leaves
    assert many.column_share < few.column_share == 1


def test_classes_weigh_what_they_do_among_validation_nodes_unless_told() -> None:
    assert adapt(GBGNNClassifier(), TABLE).class_weight == "validation"
    assert adapt(GBGNNClassifier(class_weight="balanced"), TABLE).class_weight == "balanced"
    assert not hasattr(adapt(GBGNNRegressor(), TABLE), "class_weight")


def test_the_only_node_of_a_class_trains() -> None:
    graph, y = table()
    names = np.where(y == 0, "a", "b").astype(object)
    names[8] = "rare"
    train = np.arange(0, 500, 2)
    model = GBGNNClassifier(random_state=0).fit(train, names[train], graph=graph)
    assert model.classes_.tolist() == ["a", "b", "rare"]
    assert 8 in model.train_nodes_
    assert len(model.train_nodes_) == 200


def test_an_unknown_preset_is_named() -> None:
    graph, y = two_blocks(40)
    with pytest.raises(ParameterError, match="GBGNNClassifier.preset must be"):
        GBGNNClassifier(preset="quick").fit(np.arange(10), y[:10], graph=graph)


def table(n: int = 500) -> tuple[Graph, np.ndarray]:
    return two_blocks(n, n_classes=3, n_features=5, seed=2)


def brute_force_homophily(graph: Graph, y: np.ndarray) -> float:
    A = graph.adjacency.toarray() != 0
    edges = [(i, j) for i in range(len(y)) for j in range(len(y)) if A[i, j] and i != j]
    degrees = [sum(y[i] == k for i, _ in edges) / len(edges) for k in np.unique(y)]
    h = sum(y[i] == y[j] for i, j in edges) / len(edges)
    return (h - sum(p**2 for p in degrees)) / (1 - sum(p**2 for p in degrees))


def test_facts_are_those_of_the_graph() -> None:
    graph, y = table()
    nodes = np.arange(500)
    facts = Facts.of(graph, Classification(), nodes[:7], y[:7], has_validation=False)
    assert facts == Facts(500, 7, 3, 5, False, False, True)
    all_labels = Facts.of(graph, Classification(), nodes, y, has_validation=False)
    assert all_labels.homophily == pytest.approx(brute_force_homophily(graph, y))
    targets = np.ones((4, 2)) * np.arange(4)[:, None]
    numbers = Facts.of(graph, Regression(), nodes[:4], targets, has_validation=False)
    assert (numbers.n_labels, numbers.n_scores) == (4, 2)
    sparse = Graph(graph.adjacency, sp.csr_array(graph.features))
    assert Facts.of(sparse, Classification(), nodes, y, has_validation=True).is_sparse
    assert Facts.of(graph, Classification(), [], [], has_validation=True).n_scores == 1  # the fit says more


def test_default_fit_is_saved_with_the_parts_that_it_got(tmp_path) -> None:
    graph, y = table()
    train, test = np.arange(0, 500, 2), np.arange(1, 500, 2)
    model = GBGNNClassifier(random_state=0).fit(train, y[train], graph=graph)
    assert model.score(test, y[test]) > 0.9
    assert len(model.train_nodes_) == 200  # the others say when to stop
    model.save(tmp_path / "model.gbgnn")
    again = load(tmp_path / "model.gbgnn")
    assert isinstance(again.learner, Stages)
    assert isinstance(again.learner.first, BoostedTrees)
    assert again.predict(test).tolist() == model.predict(test).tolist()
    np.testing.assert_array_equal(again.predict_proba(test, graph=graph), model.predict_proba(test))
    *_, last = again.model_.staged_predict_proba(test, graph=graph)
    np.testing.assert_array_equal(last, model.predict_proba(test))


def test_a_population_adapts_like_a_fit() -> None:
    graph, y = table()
    train, val = np.arange(0, 500, 2), np.arange(1, 500, 4)
    models = [GBGNNClassifier(random_state=i) for i in range(2)]
    inputs = PopulationInputs.from_model(
        models[0], train, y[train], graph=graph, validation=(val, y[val]), predict_nodes=np.arange(500)
    )
    for model, result in zip(models, train_population(inputs, models), strict=True):
        alone = model.fit(train, y[train], graph=graph, validation=(val, y[val])).scores_
        np.testing.assert_allclose(result.scores, alone, rtol=1e-5, atol=1e-6)
