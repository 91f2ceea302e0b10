from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gbgnn import MLP, BoostedTrees, ConstrainedMLP, GBGNNClassifier, Graph, load
from gbgnn.aggregation import LearnedHop, LearnedHops
from gbgnn.errors import AbsentError, ModelFileError, ParameterError
from gbgnn.export import export_onnx
from gbgnn.guarantees import generalisation_bound
from gbgnn.population import PopulationInputs, train_population
from gbgnn.testing import check_aggregation, make_context, make_problem, two_blocks


def directed_blocks(n_nodes: int = 40) -> tuple[Graph, np.ndarray]:
    graph, y = two_blocks(n_nodes)
    upper = np.triu(graph.adjacency.toarray())
    return Graph(upper + np.eye(n_nodes), graph.features), y


def fit(graph: Graph | None = None, y: np.ndarray | None = None, **options: Any) -> GBGNNClassifier:
    known, classes = two_blocks(40) if graph is None else (graph, y)
    assert classes is not None
    chosen: dict[str, Any] = {
        "aggregation": LearnedHops(),
        "learner": MLP(units=6, epochs=10),
        "n_rounds": 4,
        "select": "last",
    }
    model = GBGNNClassifier(preset="fast", random_state=0, **chosen | options)
    return model.fit(np.arange(20), classes[:20], graph=known)


@pytest.mark.parametrize("hidden_layers", [1, 2])
@pytest.mark.parametrize("is_directed", [False, True])
def test_representations_are_hidden_units_their_means_and_the_features(
    hidden_layers: int, is_directed: bool
) -> None:
    graph, y = directed_blocks() if is_directed else two_blocks(40)
    learner = MLP(units=6, epochs=5, hidden_layers=hidden_layers)
    model = fit(graph, y, learner=learner, dtype="float64")
    A = graph.adjacency.toarray() * (1 - np.eye(40))
    sides = [A, A.T] if is_directed else [A]
    features = np.asarray(graph.features, dtype=np.float64)
    inputs = model.model_.build_inputs(graph)
    X, rows = features, inputs.features
    for t, trained in enumerate(model.ensemble_):
        rows = trained.hop(rows, inputs)
        if t:
            H = X
            for layer in model.ensemble_[t - 1].head.layers[:-1]:
                H = np.maximum(H @ layer.weight.numpy().T + layer.bias.numpy(), 0)
            means = [side / np.maximum(side.sum(axis=1, keepdims=True), 1) @ H for side in sides]
            X = np.hstack([H, *means, features])
        np.testing.assert_allclose(rows.dense().numpy(), X, rtol=1e-9, atol=1e-9)
    assert X.shape == (40, 6 * (1 + len(sides)) + 5)


@pytest.mark.parametrize("part", [LearnedHops(), LearnedHops(directions="both")])
def test_contract(part: LearnedHops) -> None:
    check_aggregation(part)


def test_a_model_stages_saves_and_predicts_other_graphs(tmp_path: Path) -> None:
    graph, _ = two_blocks(40)
    other, _ = two_blocks(25)
    model, nodes = fit(), np.arange(40)
    for t, staged in enumerate(model.staged_predict_proba(nodes), start=1):
        np.testing.assert_array_equal(staged, fit(n_rounds=t).predict_proba(nodes))
    model.save(tmp_path / "m.gbgnn")
    loaded = load(tmp_path / "m.gbgnn")
    np.testing.assert_array_equal(loaded.predict_proba(nodes, graph=graph), model.predict_proba(nodes))
    found = loaded.predict_proba(np.arange(25), graph=other)
    np.testing.assert_array_equal(found, model.predict_proba(np.arange(25), graph=other))


def test_a_warm_start_goes_on_as_one_long_fit() -> None:
    graph, y = two_blocks(40)
    model = fit(n_rounds=2, warm_start=True)
    model.set_params(n_rounds=4)
    model.fit(np.arange(20), y[:20], graph=graph)
    np.testing.assert_array_equal(model.scores_, fit().scores_)


def test_nodes_may_come_in_any_order() -> None:
    graph, y = two_blocks(40)
    order = np.random.default_rng(1).permutation(40)
    place = np.argsort(order)
    turned = Graph(graph.adjacency[order][:, order], np.asarray(graph.features)[order])
    options: dict[str, Any] = {"aggregation": "learned", "random_state": 0, "dtype": "float64"}
    first, second = (GBGNNClassifier(preset="fast", n_rounds=3, **options) for _ in range(2))
    first.fit(np.arange(20), y[:20], graph=graph)
    second.fit(place[:20], y[:20], graph=turned)
    np.testing.assert_allclose(second.scores_, first.scores_[order], rtol=1e-6, atol=1e-8)


def test_members_of_a_population_have_hops_of_their_own() -> None:
    graph, y = two_blocks(40)
    models = [
        GBGNNClassifier(preset="fast", aggregation="learned", learner=MLP(units=4, epochs=3), n_rounds=n,
                        random_state=seed, dtype="float64")
        for seed, n in ((0, 4), (1, 2), (2, 4))
    ]  # fmt: skip
    nodes = np.arange(20)
    inputs = PopulationInputs.from_model(models[0], nodes, y[:20], graph=graph, predict_nodes=np.arange(40))
    for model, member in zip(models, train_population(inputs, models), strict=True):
        alone = model.fit(nodes, y[:20], graph=graph)
        np.testing.assert_allclose(member.scores, alone.scores_, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    "learner", [MLP(hidden_layers=0), ConstrainedMLP(), BoostedTrees(library="sklearn"), "graph_network"]
)
def test_a_learner_without_a_hidden_layer_is_refused_before_any_work(learner: Any) -> None:
    with pytest.raises(ParameterError, match="LearnedHops hands on the hidden layer of a round's network"):
        fit(learner=learner)


def test_constrained_networks_have_a_hidden_layer_too() -> None:
    model = fit(learner=ConstrainedMLP(hidden_layers=1, units=5, epochs=5))
    assert model.ensemble_[3].hop.record()["units"] == 5


def test_a_head_that_tells_of_no_hidden_layer_is_named() -> None:
    graph, y = two_blocks(20)
    context = replace(make_context(make_problem(graph, y, np.arange(8))), previous=None)
    with pytest.raises(ParameterError, match="NoneType tells of none"):
        LearnedHops().fit(context)


def test_a_bad_direction_is_named() -> None:
    with pytest.raises(ParameterError, match=r"LearnedHops.directions must be one of"):
        LearnedHops(directions="down").check()


def test_the_certificate_holds_and_says_what_no_bound_covers() -> None:
    model = fit(learner=ConstrainedMLP(hidden_layers=1, units=5, epochs=5), rule="gradient")
    certificate = model.certificate_
    assert any("no bound covers learned hops" in note for note in certificate.notes)
    kept = [row["decrease"] >= row["guaranteed_decrease"] - row["rounding"] for row in model.history_.rows]
    assert all(kept)
    with pytest.raises(ParameterError, match="no bound covers LearnedHops: it chooses weights by the labels"):
        generalisation_bound(model)


def test_columns_have_no_names() -> None:
    with pytest.raises(AbsentError, match="from round 2 on, LearnedHop makes every column of several others"):
        fit().column_importances()


def test_a_hop_shares_memory_with_its_network_but_not_in_files() -> None:
    model = fit()
    hop, head = model.ensemble_[1].hop, model.ensemble_[0].head
    assert isinstance(hop, LearnedHop)
    assert hop.layers[0][0].data_ptr() == head.layers[0].weight.data_ptr()
    assert hop.state()["weight.0"].data_ptr() != head.layers[0].weight.data_ptr()
    torch.testing.assert_close(hop.state()["weight.0"], head.layers[0].weight.detach())


def test_an_export_says_that_there_is_no_form_for_it(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="the hop of round 2, a LearnedHop, has no form"):
        export_onnx(fit(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "directions"),
    [
        ({"weight.0": torch.ones(3)}, ["along"]),
        ({"bias.0": torch.ones(2)}, ["along"]),
        ({"weight.1": torch.ones(3, 7)}, ["along"]),
        ({}, ["sideways"]),
    ],
)
def test_forged_layers_are_a_clear_error(changes: dict[str, torch.Tensor], directions: list[str]) -> None:
    layers = ((torch.ones(4, 5), torch.ones(4)), (torch.ones(3, 4), torch.ones(3)))
    hop = LearnedHop(layers, ("along",))
    again = LearnedHop.from_record(hop.record(), hop.state())
    assert [each.shape for each in again.layers[1]] == [(3, 4), (3,)]
    with pytest.raises(ModelFileError, match="its learned hop cannot be read"):
        LearnedHop.from_record(hop.record() | {"directions": directions}, hop.state() | changes)
