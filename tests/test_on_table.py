from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import permutation_importance

from gbgnn import (
    MLP,
    BoostedTrees,
    Calibrated,
    GBGNNClassifier,
    GBGNNRegressor,
    Graph,
    Neighbourhood,
    OnTable,
)
from gbgnn.blend import BlendedModel, BlendMember
from gbgnn.errors import GraphError
from gbgnn.testing import two_blocks

N = 160
BLOCKS, Y = two_blocks(N, n_features=2)
RANDOM = np.random.default_rng(0)
FEATURES = np.hstack([BLOCKS.features, RANDOM.normal(size=(N, 2))])
TABLE = pd.DataFrame(FEATURES, columns=["a", "b", "noise", "more noise"])
TRAIN, VAL, TEST = np.arange(80), np.arange(80, 100), np.arange(100, N)


def fit(graph: Graph, y: Any = Y, **settings: Any) -> Any:
    kind = GBGNNRegressor if np.asarray(y).dtype.kind == "f" else GBGNNClassifier
    known = {"preset": "fast", "n_rounds": 3, "random_state": 0, "learner": MLP(units=8, epochs=30)}
    model = kind(**known | settings)
    return model.fit(TRAIN, y[TRAIN], graph=graph, validation=(VAL, y[VAL]))


@pytest.mark.parametrize("kind", ["frame", "matrix"])
def test_scikit_learn_shuffles_columns_and_finds_those_that_matter(kind: str) -> None:
    X = TABLE if kind == "frame" else FEATURES
    graph = Graph(BLOCKS.adjacency, X)
    model = fit(graph)
    before = model.scores_.copy()
    on_table = OnTable(model, graph, TEST)
    lost = permutation_importance(on_table, X, Y[TEST], n_repeats=5, random_state=0)
    assert lost.importances_mean[:2].max() > 0.05
    assert np.abs(lost.importances_mean[2:]).max() < lost.importances_mean[:2].max() / 2
    by_loss = permutation_importance(
        on_table, X, Y[TEST], scoring="neg_log_loss", n_repeats=3, random_state=0
    )
    assert by_loss.importances_mean[:2].max() > by_loss.importances_mean[2:].max()
    np.testing.assert_array_equal(model.scores_, before)
    assert on_table.score(X, Y[TEST]) == model.score(TEST, Y[TEST])
    np.testing.assert_array_equal(on_table.fit(X).predict(X), model.predict(TEST))
    np.testing.assert_allclose(OnTable(model, graph).predict_proba(X), model.predict_proba(np.arange(N)))


def test_labelled_nodes_and_positions_stay_known() -> None:
    graph = Graph(BLOCKS.adjacency, TABLE)
    learner = BoostedTrees(library="sklearn", n_trees=10, columns="all")
    around = Neighbourhood(hops=1, targets=1, positions=2)
    model = fit(graph, learner=learner, neighbourhood=around, aggregation="identity", n_rounds=1)
    np.testing.assert_array_equal(
        OnTable(model, graph).predict_proba(TABLE), model.predict_proba(np.arange(N))
    )
    shuffled = TABLE.sample(frac=1, random_state=0).reset_index(drop=True)
    there = OnTable(model, graph, TEST).score(shuffled, Y[TEST])
    elsewhere = model.score(TEST, Y[TEST], graph=Graph(BLOCKS.adjacency, shuffled))
    assert there > elsewhere  # labels nearby tell what features do not tell any more


def test_numbers_averages_and_calibrated_models_work_the_same() -> None:
    graph = Graph(BLOCKS.adjacency, TABLE)
    numbers = 3 * FEATURES[:, 0] + Y + RANDOM.normal(size=N)
    regressor = fit(graph, numbers)
    lost = permutation_importance(OnTable(regressor, graph, TEST), TABLE, numbers[TEST], random_state=0)
    assert lost.importances_mean.argmax() == 0
    model = fit(graph)
    average = BlendedModel(
        task=model.task_,
        loss=model.task_.default_loss,
        metric=model.metric_,
        members=tuple(BlendMember(name, model.model_, 0.5) for name in ("one", "other")),
        leaderboard=[],
        seed=0,
        settings={},
        validation_score=0.5,
        validation_loss=1.0,
    )
    calibrated = Calibrated(model).fit(VAL, Y[VAL])
    for each in (average, calibrated):
        found = OnTable(each, graph, TEST)
        np.testing.assert_allclose(found.predict_proba(TABLE), each.predict_proba(TEST), atol=1e-6)
        assert found.classes_.tolist() == [0, 1]


def test_another_number_of_nodes_is_refused() -> None:
    graph = Graph(BLOCKS.adjacency, FEATURES)
    other, _ = two_blocks(40, n_features=4)
    with pytest.raises(GraphError, match="the graph of the fit has 160 nodes; this one has 40"):
        fit(graph).model_.rescore(other)
