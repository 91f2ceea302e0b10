from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn import MLP, ConstrainedMLP, GBGNNClassifier, Graph, generalisation_bound, load
from gbgnn.aggregation import Beside, BesideHop
from gbgnn.errors import GraphError, ModelFileError, ParameterError
from gbgnn.problem import InputRecipe
from gbgnn.propagation import AugmentedAdjacency, JoinedRows, SparseRows
from gbgnn.testing import check_aggregation, make_context, make_problem, path4, two_blocks
from gbgnn.theory.rademacher import mlp_complexity

EVERY = ("mean", "max", "sum")


def directed_blocks(n_nodes: int = 30) -> tuple[Graph, np.ndarray]:
    """Return a graph whose edges have a direction and weights, with self loops and a lonely node."""
    graph, y = two_blocks(n_nodes)
    A = np.triu(graph.adjacency.toarray()) * np.linspace(0.5, 2.0, n_nodes)
    A[np.arange(0, n_nodes, 3), np.arange(0, n_nodes, 3)] = 4.0
    A[-1], A[:, -1] = 0.0, 0.0
    return Graph(A, graph.features), y


def representations(graph: Graph, aggregation: Beside, n_rounds: int) -> list[np.ndarray]:
    """Return X^(1), X^(2), ... as boosting would form them."""
    y = np.arange(graph.n_nodes) % 2
    context = make_context(make_problem(graph, y, np.arange(2)))
    found = [context.X.dense().numpy()]
    for _ in range(n_rounds - 1):
        _, X = aggregation.step(context)
        context = replace(context, X=X)
        found.append(X.dense().numpy())
    return found


def brute_force(
    graph: Graph, statistics: tuple[str, ...], directions: int, n_rounds: int, previous: bool
) -> list[np.ndarray]:
    """Return the same, node by node and neighbour by neighbour."""
    X = np.asarray(graph.features, dtype=np.float64)
    A = graph.adjacency.toarray().astype(np.float64)
    np.fill_diagonal(A, 0.0)
    sides = [A, A.T][:directions]
    chains = [{"mean": X, "max": X} for _ in sides]
    found = [X]
    for t in range(2, n_rounds + 1):
        own, now = [], []
        for k, side in enumerate(sides):
            degrees = side.sum(axis=1)
            step = {"mean": np.zeros_like(X), "max": np.zeros_like(X)}
            for i in range(len(X)):
                heard = np.flatnonzero(side[i])
                if len(heard):
                    step["mean"][i] = side[i, heard] @ chains[k]["mean"][heard] / degrees[i]
                    step["max"][i] = chains[k]["max"][heard].max(axis=0)
            logs = np.log1p(degrees)
            step["sum"] = step["mean"] * (logs / logs.mean())[:, None]
            own += [chains[k][name] for name in ("mean", "max") if name in statistics]
            now += [step[name] for name in EVERY if name in statistics]
            chains[k] = step
        found.append(np.hstack([X, *(own if previous and t > 2 else []), *now]))
    return found


@pytest.mark.parametrize("statistics", [("mean",), ("max",), ("max", "mean"), EVERY])
@pytest.mark.parametrize("previous", [True, False])
def test_blocks_are_those_of_brute_force(statistics: tuple[str, ...], previous: bool) -> None:
    graph, _ = directed_blocks()
    for directions, n_directions in (("auto", 2), ("both", 2), ("along", 1)):
        part = Beside(statistics=statistics, previous=previous, directions=directions)
        wanted = brute_force(graph, statistics, n_directions, 4, previous)
        for ours, theirs in zip(representations(graph, part, 4), wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 9), st.integers(0, 2**32 - 1), st.booleans())
def test_any_small_graph(n_nodes: int, seed: int, is_directed: bool) -> None:
    random = np.random.default_rng(seed)
    A = random.random((n_nodes, n_nodes)) * (random.random((n_nodes, n_nodes)) < 0.4)
    A = A if is_directed else A + A.T
    graph = Graph(A, random.normal(size=(n_nodes, 2)))
    part = Beside(statistics=EVERY, directions="both")
    if A.sum() == A.trace():  # degrees are all zero, and nothing is divided by their mean
        assert np.isfinite(representations(graph, part, 3)[-1]).all()
        return
    wanted = brute_force(graph, EVERY, 2, 3, True)
    for ours, theirs in zip(representations(graph, part, 3), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


def test_width_is_bounded_in_depth_and_raw_features_are_not_copied() -> None:
    graph, _ = two_blocks(20)
    widths = [X.shape[1] for X in representations(graph, Beside(statistics=EVERY), 6)]
    assert widths == [5, 20, 30, 30, 30, 30]
    context = make_context(make_problem(graph, np.arange(20) % 2, np.arange(4)))
    _, X = Beside().step(context)
    assert isinstance(X, JoinedRows)
    assert X.parts[0] is context.X


def test_an_undirected_graph_has_one_direction_and_a_directed_one_two() -> None:
    assert _hop(two_blocks(20)[0]).directions == ("along",)
    assert _hop(directed_blocks()[0]).directions == ("along", "against")
    assert _hop(two_blocks(20)[0], directions="both").directions == ("along", "against")


def _hop(graph: Graph, **options: Any) -> BesideHop:
    context = make_context(make_problem(graph, np.arange(graph.n_nodes) % 2, np.arange(4)))
    hop = Beside(**options).fit(context)
    assert isinstance(hop, BesideHop)
    return hop


@pytest.mark.parametrize(
    "part",
    [Beside(), Beside(statistics=EVERY, directions="both"), Beside(previous=False, statistics=["max"])],
)
def test_contract(part: Beside) -> None:
    check_aggregation(part)


def test_sparse_features_stay_sparse_and_give_the_same() -> None:
    random = np.random.default_rng(0)
    features = sp.random_array((40, 30), density=0.05, random_state=random, format="csr")
    graph, y = two_blocks(40)
    sparse, dense = (Graph(graph.adjacency, each) for each in (features, features.toarray()))
    found = []
    for each in (sparse, dense):
        inputs = InputRecipe(AugmentedAdjacency(), dtype=torch.float64).build(each)
        X = inputs.features
        for _ in range(3):
            X = Beside(statistics=EVERY).hop()(X, inputs)
        found.append(X)
    assert isinstance(found[0], JoinedRows)
    assert isinstance(found[0].parts[0], SparseRows)
    torch.testing.assert_close(found[0].dense(), found[1].dense())
    model = fit(graph=sparse, y=y)
    np.testing.assert_allclose(model.scores_, fit(graph=dense, y=y).scores_, rtol=1e-3, atol=1e-4)


def fit(graph: Graph | None = None, y: np.ndarray | None = None, **options: Any) -> GBGNNClassifier:
    known, classes = directed_blocks() if graph is None else (graph, y)
    assert classes is not None
    chosen = {"aggregation": Beside(statistics=EVERY), "learner": MLP(units=8, epochs=10)} | options
    model = GBGNNClassifier(preset="fast", n_rounds=chosen.pop("n_rounds", 4), random_state=0, **chosen)
    return model.fit(np.arange(16), classes[:16], graph=known)


def test_a_model_stages_saves_and_predicts_other_graphs(tmp_path: Path) -> None:
    graph, _ = directed_blocks()
    other, _ = directed_blocks(25)
    model, nodes = fit(select="last"), np.arange(30)
    for t, staged in enumerate(model.staged_predict_proba(nodes), start=1):
        np.testing.assert_array_equal(staged, fit(select="last", n_rounds=t).predict_proba(nodes))
    model.save(tmp_path / "m.gbgnn")
    loaded = load(tmp_path / "m.gbgnn")
    np.testing.assert_array_equal(loaded.predict_proba(nodes, graph=graph), model.predict_proba(nodes))
    found = loaded.predict_proba(np.arange(25), graph=other)
    np.testing.assert_array_equal(found, model.predict_proba(np.arange(25), graph=other))
    assert loaded.aggregation.get_params() == model.aggregation.get_params() | {"statistics": [*EVERY]}


def test_another_graph_is_heard_and_scaled_as_that_of_the_fit() -> None:
    model, (undirected, _) = fit(select="last"), two_blocks(20)
    hop = model.ensemble_[1].hop
    inputs = model.model_.build_inputs(undirected)
    X = hop(inputs.features, inputs)
    assert X.shape == (20, 5 * 7)  # in both directions
    mean, scaled = (X.parts[i].dense().numpy() for i in (1, 3))
    logs = np.log1p(np.asarray(undirected.adjacency.sum(axis=1)))
    np.testing.assert_allclose(scaled, mean * (logs / hop.log_degrees[0])[:, None], rtol=1e-5)


def test_nodes_may_come_in_any_order() -> None:
    graph, y = directed_blocks()
    order = np.random.default_rng(1).permutation(30)
    place = np.argsort(order)
    turned = Graph(graph.adjacency[order][:, order], np.asarray(graph.features)[order])
    options: dict[str, Any] = {"preset": "fast", "n_rounds": 3, "random_state": 0, "dtype": "float64"}
    first, second = (GBGNNClassifier(aggregation=Beside(statistics=EVERY), **options) for _ in range(2))
    first.fit(np.arange(16), y[:16], graph=graph)
    second.fit(place[:16], y[:16], graph=turned)
    np.testing.assert_allclose(second.scores_, first.scores_[order], rtol=1e-6, atol=1e-8)


def test_columns_are_named() -> None:
    graph, y = two_blocks(30, n_features=2)
    named = Graph(graph.adjacency, graph.features, feature_names=["age", "size"])
    model = fit(named, y, aggregation=Beside(statistics=("mean", "max")), select="last")
    found = model.column_importances()
    assert set(found) == {
        f"{what} of {where}"
        for what in ("mean", "maximum")
        for name in ("age", "size")
        for where in (f"neighbours' {name}", f"{name} 2 steps away", f"{name} 3 steps away")
    } | {"age", "size"}
    assert sum(found.values()) == pytest.approx(1)
    assert model.feature_importances_.sum() == pytest.approx(1)
    own = sum(value for name, value in found.items() if "age" in name)
    assert model.feature_importances_[0] == pytest.approx(own)


def test_columns_of_both_directions_are_named() -> None:
    model = fit(aggregation=Beside(), select="last", n_rounds=3)
    assert {"x0", "mean of in-neighbours' x0", "mean of x0 2 out-steps away"} <= set(
        model.column_importances()
    )


def test_bounds_cover_it_as_given_features() -> None:
    graph, y = two_blocks(40)
    learner = ConstrainedMLP(max_norm=2.0, epochs=5)
    model = fit(
        graph, y, aggregation=Beside(statistics=EVERY), learner=learner, select="last", dtype="float64"
    )
    bound = generalisation_bound(model, complexity="closed")
    norms = [np.linalg.norm(X) for X in brute_force(graph, EVERY, 1, 4, True)]
    sizes: dict[str, Any] = {"n_layers": 1, "max_norm": 2.0, "bias": learner.bias}
    wanted = [mlp_complexity(norm, 16, 24, **sizes) for norm in norms]
    ratios = np.asarray(bound.complexities) / (model.etas_ * wanted)
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-9)
    assert all("learned hops" not in note for note in model.certificate_.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"statistics": ()}, r"Beside.statistics must be one or more of mean, max, sum"),
        ({"statistics": "mean"}, r"got 'mean'"),
        ({"statistics": ("mean", "mean")}, r"each once"),
        ({"statistics": ("sum",)}, r'"sum" only beside "mean"; got \(\'sum\',\)'),
        ({"statistics": ("median",)}, r"got \('median',\)"),
        ({"directions": "up"}, r"Beside.directions must be one of"),
    ],
)
def test_bad_settings_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Beside(**options).check()


def test_negative_weights_have_no_mean() -> None:
    graph = Graph(-path4().adjacency.toarray(), path4().features)
    with pytest.raises(GraphError, match="negative weights"):
        GBGNNClassifier(preset="fast", aggregation="beside", propagation="given", n_rounds=2).fit(
            [0, 1], [0, 1], graph=graph
        )


@pytest.mark.parametrize("change", [{"statistics": ["mode"]}, {"directions": ["up"]}])
def test_forged_hops_are_a_clear_error(change: dict[str, Any]) -> None:
    hop = _hop(two_blocks(20)[0])
    assert BesideHop.from_record(hop.record(), {}) == hop
    with pytest.raises(ModelFileError, match="of neighbours"):
        BesideHop.from_record(hop.record() | change, {})
