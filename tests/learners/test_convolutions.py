from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from gbgnn import ConvolutionNetwork, FunctionalGradient, GBGNNClassifier, GBGNNRegressor, Graph, load
from gbgnn.errors import MissingDependencyError, ModelFileError, ParameterError
from gbgnn.learners import GraphNetworkHead
from gbgnn.learners.estimator_bytes import as_tensor
from gbgnn.learners.graph_blocks import Neighbours
from gbgnn.problem import InputRecipe
from gbgnn.propagation import RandomWalk
from gbgnn.testing import check_learner, two_blocks

nn_of_pyg = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")

BOOSTED = {"rule": FunctionalGradient(target="loss", learning_rate=1.0, retries=0), "n_rounds": 1}


def fit(graph: Graph, y: np.ndarray, train: np.ndarray, **network: Any) -> GBGNNClassifier:
    learner = ConvolutionNetwork(**{"epochs": 30, "units": 16, **network})
    return GBGNNClassifier(learner=learner, random_state=0, **BOOSTED).fit(train, y[train], graph=graph)


def weighted() -> tuple[Graph, np.ndarray]:
    """Return a directed graph whose edges have weights."""
    graph, y = two_blocks(60)
    A = graph.adjacency.toarray() * np.random.default_rng(0).random((60, 60))
    return Graph(np.triu(A), np.asarray(graph.features)), y


def test_keeps_the_promises_of_learners() -> None:
    check_learner(ConvolutionNetwork(epochs=5, depth=1, units=4))


@pytest.mark.parametrize(
    ("layer", "options"),
    [
        ("SAGEConv", None),
        ("GCNConv", None),
        ("GATConv", {"heads": 2, "concat": False, "dropout": 0.3}),
        ("GATv2Conv", {"heads": 2, "concat": False}),
        ("TransformerConv", {"heads": 2, "concat": False}),
        ("ChebConv", {"K": 2}),
        ("GraphConv", {"aggr": "max"}),
        ("TAGConv", {}),
    ],
)
def test_layers_learn_save_and_predict_other_graphs(tmp_path, layer: str, options: Any) -> None:
    graph, y = two_blocks(120)
    other, truth = two_blocks(80, seed=0)
    train = np.arange(60)
    before = torch.random.get_rng_state()
    model = fit(graph, y, train, layer=layer, layer_options=options)
    again = fit(graph, y, train, layer=layer, layer_options=options)
    assert torch.equal(torch.random.get_rng_state(), before), "torch's own stream has moved"
    expected = model.predict_proba(np.arange(120))
    np.testing.assert_array_equal(again.predict_proba(np.arange(120)), expected)
    assert model.score(np.arange(60, 120), y[60:]) > 0.8
    model.save(tmp_path / "model.gbgnn")
    loaded = load(tmp_path / "model.gbgnn")
    assert loaded.learner.layer == layer
    np.testing.assert_array_equal(loaded.predict_proba(np.arange(120), graph=graph), expected)
    assert loaded.score(np.arange(80), truth, graph=other) > 0.65
    (staged,) = model.model_.staged_predict_proba(np.arange(120))
    np.testing.assert_array_equal(staged, expected)


def test_a_block_is_the_layer_on_standardised_rows() -> None:
    graph, y = weighted()
    model = fit(graph, y, np.arange(30), layer="GraphConv", depth=1, label_share=0.0)
    head: GraphNetworkHead = model.model_.ensemble[0].head
    inputs = InputRecipe(RandomWalk()).build(graph)
    (block,) = head.blocks
    random = torch.Generator().manual_seed(0)
    H = torch.randn(60, 16, generator=random)
    Z = torch.nn.functional.layer_norm(H, (16,), *block.scale)
    state = block.layer.state_dict()
    A = torch.from_numpy(graph.adjacency.toarray()).float()  # row i holds the edges of node i
    told = A @ Z @ state["lin_rel.weight"].T + state["lin_rel.bias"] + Z @ state["lin_root.weight"].T
    found = block(Neighbours(inputs.P), H, lambda units: units)
    torch.testing.assert_close(found, H + told.relu(), rtol=1e-4, atol=1e-4)


def test_learns_numbers_and_hears_no_own_label() -> None:
    graph, y = two_blocks(100)
    model = GBGNNRegressor(
        learner=ConvolutionNetwork(layer="GCNConv", epochs=60, units=16), random_state=0, **BOOSTED
    )
    train = np.arange(50)
    assert model.fit(train, 3.0 * y[train], graph=graph).score(np.arange(50, 100), 3.0 * y[50:]) > 0.6
    head, inputs = model.model_.ensemble[0].head, model.model_.build_inputs()
    known = inputs.known
    codes = known.codes.clone()
    codes[7] += 10.0
    first, second = (
        head.evaluate(inputs.features, replace(inputs, known=replace(known, codes=each)))
        for each in (known.codes, codes)
    )
    assert torch.equal(first[7], second[7])
    assert not torch.equal(first, second)


def test_networks_that_grow_have_as_many_layers_as_rounds() -> None:
    graph, y = two_blocks(60)
    learner = ConvolutionNetwork(grow=True, depth=2, epochs=3, units=4)
    model = GBGNNClassifier(learner=learner, n_rounds=3, random_state=0).fit(
        np.arange(30), y[:30], graph=graph
    )
    assert [len(each.head.blocks) for each in model.model_.ensemble] == [1, 2, 2]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"layer": "GATConvv"}, "Did you mean 'GATConv'"),
        ({"layer": "Linear"}, "must be the name of a message passing layer"),
        ({"layer": "os.system"}, "must be the name of a message passing layer"),
        ({"layer": None}, "must be the name of a message passing layer"),
        ({"layer": "MessagePassing"}, "must be the name of a message passing layer"),
        ({"layer_options": [1]}, "must be a dictionary of words and numbers"),
        ({"layer_options": {"act": print}}, "must be a dictionary of words and numbers"),
        ({"layer_options": {"cached": True}}, "take every graph for that of the fit"),
        ({"depth": 0}, "ConvolutionNetwork.depth"),
    ],
)
def test_settings_out_of_range_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        ConvolutionNetwork(**settings).check()


@pytest.mark.parametrize(
    ("layer", "options", "words"),
    [
        ("GATConv", {"heads": 3}, r"shape \(60, 48\) of \(60, 16\); a block must keep the width"),
        ("GATConv", {"haeds": 3}, "GATConv cannot be built for 16 columns with the options {'haeds': 3}"),
        ("RGCNConv", {"num_relations": 2}, "RGCNConv does not work with nodes and edges alone"),
    ],
)
def test_layers_that_do_not_fit_say_so(layer: str, options: Any, words: str) -> None:
    graph, y = weighted()
    with pytest.raises(ParameterError, match=words):
        fit(graph, y, np.arange(30), layer=layer, layer_options=options)


def test_a_forged_file_builds_nothing() -> None:
    graph, y = weighted()
    state = fit(graph, y, np.arange(30), layer="GATConv", depth=1).model_.ensemble[0].head.state()
    assert GraphNetworkHead.from_state(state).state().keys() == state.keys()

    def forge(name: Any, options: Any) -> dict[str, torch.Tensor]:
        return state | {"layer": as_tensor(json.dumps({"name": name, "options": options}).encode())}

    weight = "blocks.0.layer.att_src"
    for forged in (
        forge("Sequential", {}),
        forge("GATConv", {"heads": 10**9}),
        forge("GATConv", {"heads": [1]}),
        forge("GCNConv", {}),
        state | {"layer": as_tensor(b"{")},
        state | {weight: state[weight][..., :-1]},
        {name: value for name, value in state.items() if name != weight},
    ):
        with pytest.raises(ModelFileError, match="cannot be read"):
            GraphNetworkHead.from_state(forged)


def test_without_pyg_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch_geometric.nn", None)
    with pytest.raises(MissingDependencyError, match=r"ConvolutionNetwork needs torch_geometric"):
        ConvolutionNetwork().check()
