from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from gbgnn import (
    MLP,
    BoostedTrees,
    FunctionalGradient,
    GBGNNClassifier,
    GBGNNRegressor,
    Graph,
    Linear,
    Neighbourhood,
    Samme,
    load,
)
from gbgnn.errors import AbsentError
from gbgnn.importances import find_spread
from gbgnn.learners.tree_head import AveragedTrees, TreesHead
from gbgnn.propagation import DenseRows, as_rows
from gbgnn.testing import two_blocks

N = 300
RANDOM = np.random.default_rng(0)
AGE = RANDOM.normal(40, 10, N)
CITY = RANDOM.choice(["Oslo", "Rome", "Lima"], N)
TABLE = {
    "shoes": RANDOM.integers(36, 47, N).astype(float),
    "age": np.where(RANDOM.random(N) < 0.1, np.nan, AGE),
    "city": CITY,
    "year": [2024] * N,
}
ENDS = RANDOM.integers(0, N, (2, 900))
ADJACENCY = np.zeros((N, N))
ADJACENCY[ENDS[0], ENDS[1]] = ADJACENCY[ENDS[1], ENDS[0]] = 1
np.fill_diagonal(ADJACENCY, 0)
GRAPH = Graph(ADJACENCY, TABLE)
Y = AGE + 8 * (CITY == "Oslo") + 2 * RANDOM.normal(size=N) > 43
TRAIN, VAL = np.arange(200), np.arange(200, 260)


def fit(graph: Graph = GRAPH, y: Any = Y, **settings: Any) -> Any:
    kind = GBGNNRegressor if np.asarray(y).dtype.kind == "f" else GBGNNClassifier
    model = kind(**{"random_state": 0, "n_rounds": 3} | settings)
    return model.fit(TRAIN, y[TRAIN], graph=graph, validation=(VAL, y[VAL]))


def trees(library: str = "auto", **settings: Any) -> dict[str, Any]:
    """Return the settings of trees on a neighbourhood."""
    return {
        "learner": BoostedTrees(library=library, n_trees=20, columns="all"),
        "neighbourhood": Neighbourhood(hops=1, targets=1, positions=1),
        "aggregation": "identity",
        "rule": FunctionalGradient(target="gradient" if library != "lightgbm" else "loss"),
    } | settings


@pytest.mark.parametrize("library", ["lightgbm", "sklearn", "xgboost"])
def test_columns_that_matter_are_named_and_files_say_the_same(library: str, tmp_path: Path) -> None:
    model = fit(**trees(library))
    assert model.feature_names_in_.tolist() == ["shoes", "age", "city", "year"]
    shares = model.feature_importances_
    assert shares.sum() == pytest.approx(1)
    assert shares[1] > shares[2] > shares[0]
    assert shares[3] == 0
    found = model.column_importances()
    assert next(iter(found)) == "age"
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert sum(found.values()) == pytest.approx(1)
    assert {"share of neighbours with city=Oslo", "labels 1 step away", "position 1"} <= set(found)
    own = {name: value for name, value in found.items() if name.endswith("age") or "age=" in name}
    rest = sum(v for k, v in found.items() if "label" not in k and "position" not in k)
    assert sum(own.values()) / rest == pytest.approx(shares[1])
    model.save(tmp_path / "m.gbgnn")
    loaded = load(tmp_path / "m.gbgnn")
    assert loaded.column_importances() == found
    np.testing.assert_array_equal(loaded.feature_importances_, shares)


def test_averaged_trees_count_by_their_weights() -> None:
    few, many = (
        fit(**trees(learner=BoostedTrees(n_trees=n, patience=None, columns="all")), n_rounds=1)
        for n in (5, 20)
    )
    (first,), (second,) = (model.ensemble_[0].head.members for model in (few, many))
    members = [AveragedTrees(0.25, first.models), AveragedTrees(0.75, second.models)]
    head = TreesHead(members, 2, many.ensemble_[0].head.n_features)
    gains = [model.ensemble_[0].head.importances() for model in (few, many)]
    np.testing.assert_allclose(head.importances(), 0.25 * gains[0] + 0.75 * gains[1])
    assert gains[0].sum() < gains[1].sum()
    restored = TreesHead.from_state(head.state())
    np.testing.assert_array_equal(restored.importances(), head.importances())


def test_rounds_count_by_their_steps() -> None:
    model = fit(**trees(), n_rounds=2, select="last")
    heads = [each.head.importances() for each in model.ensemble_]
    total = sum(eta * values for eta, values in zip(model.etas_, heads, strict=True))
    assert len(heads) == 2
    names = model.column_importances()
    assert sorted(names.values()) == pytest.approx(sorted(total / total.sum()))


def test_rounds_that_vote_count_alike_whatever_the_size_of_their_gains() -> None:
    graph, y = two_blocks(N, n_features=4)
    model = fit(graph, y, learner=DecisionTreeClassifier(max_depth=2), rule=Samme(), select="last")
    estimators = [each.head.estimators[0] for each in model.ensemble_]
    expected = np.average([each.feature_importances_ for each in estimators], axis=0, weights=model.etas_)
    np.testing.assert_allclose(model.feature_importances_, expected)


def test_a_linear_model_owes_to_columns_what_its_weights_times_their_spread_are() -> None:
    graph, y = two_blocks(N, n_features=4)
    model = fit(graph, y * 1.0, learner=MLP(hidden_layers=0, epochs=20), n_rounds=1, select="last")
    weight = model.ensemble_[0].head.layers[0].weight.abs().sum(dim=0).numpy()
    expected = weight * graph.features.std(axis=0) * 1.0
    np.testing.assert_allclose(model.feature_importances_, expected / expected.sum(), rtol=1e-5)


def test_networks_find_the_columns_that_matter_through_hops() -> None:
    graph, y = two_blocks(N, n_features=3)
    noise = RANDOM.normal(size=(N, 3))
    beside = Graph(graph.adjacency, np.hstack([noise, graph.features]))
    model = fit(beside, y, learner=MLP(units=8, epochs=30), aggregation="lazy", n_rounds=4)
    shares = model.feature_importances_
    assert shares.sum() == pytest.approx(1)
    assert shares[3:].sum() > 1.5 * shares[:3].sum()
    scaled = Graph(graph.adjacency, beside.features * [1e3, 1, 1, 1, 1, 1])
    weights = model.column_importances(graph=scaled)  # a column that varies more counts more
    assert next(iter(weights)) == "x0"


def test_a_hidden_unit_that_leads_nowhere_does_not_count() -> None:
    model = fit(learner=MLP(units=4, epochs=3), preset="fast", n_rounds=1)
    head = model.ensemble_[0].head
    before = head.importances()
    with torch.no_grad():
        head.layers[0].weight[0] = 1e6
        head.layers[1].weight[:, 0] = 0
    assert head.importances().max() < 10 * before.max()


def test_a_network_of_a_file_needs_a_graph(tmp_path: Path) -> None:
    model = fit(learner=MLP(units=4, epochs=3))
    model.save(tmp_path / "m.gbgnn")
    loaded = load(tmp_path / "m.gbgnn")
    assert not hasattr(loaded, "feature_importances_")
    with pytest.raises(AbsentError, match=r"ask column_importances\(graph=graph\)"):
        loaded.column_importances()
    assert loaded.column_importances(graph=GRAPH) == pytest.approx(model.column_importances())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"aggregation": Linear(), "learner": MLP(epochs=2)},
            "from round 2 on, MixingHop makes every column",
        ),
        ({"keep_learners": False}, "the fitted learners were not kept"),
    ],
)
def test_why_there_are_none_is_said(settings: dict[str, Any], message: str) -> None:
    model = fit(**settings, select="last")
    with pytest.raises(AbsentError, match=message):
        _ = model.feature_importances_
    assert not hasattr(model, "feature_importances_")


def test_a_learner_without_importances_is_named() -> None:
    model = fit(learner=GaussianNB(), rule=Samme(), n_rounds=1)
    with pytest.raises(AbsentError, match="SklearnHead of round 1 does not know how much it owes to each"):
        model.column_importances()


def test_nothing_is_owed_where_no_tree_has_a_split() -> None:
    model = fit(**trees(learner=BoostedTrees(n_trees=2, min_leaf=500)), n_rounds=1)
    assert model.feature_importances_.tolist() == [0, 0, 0, 0]


def test_scikit_learn_selects_columns_by_them() -> None:
    graph, y = two_blocks(N, n_features=3)
    beside = Graph(graph.adjacency, np.hstack([RANDOM.normal(size=(N, 3)), graph.features]))
    model = fit(beside, y, learner=RandomForestClassifier(n_estimators=20, max_depth=4), rule=Samme())
    table = pd.DataFrame(beside.features, columns=model.feature_names_in_)
    chosen = SelectFromModel(model, prefit=True, threshold="mean").fit(table)
    expected = table.columns[model.feature_importances_ >= 1 / 6].tolist()
    assert chosen.get_feature_names_out().tolist() == expected
    assert 0 < len(expected) < 6


@pytest.mark.parametrize("sparse", [False, True])
def test_spreads_are_numpys(sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.where(RANDOM.random((50, 9)) < 0.1, RANDOM.normal(5, 2, (50, 9)), 0)
    rows = as_rows(sp.csr_array(X)) if sparse else DenseRows(torch.tensor(X))
    blocks = type(rows).blocks
    monkeypatch.setattr(type(rows), "blocks", lambda self: blocks(self, 200))
    np.testing.assert_allclose(find_spread(rows), X.std(axis=0), rtol=1e-6)
