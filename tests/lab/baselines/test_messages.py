from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from gbgnn.datasets import Dataset
from gbgnn.errors import MissingDependencyError
from gbgnn.graph import Graph
from gbgnn.problem import LabelledNodes
from gbgnn_lab.baselines import fit_baseline
from gbgnn_lab.baselines.base import Network
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.messages import DGI, GAT, Encoder, MoNet, import_geometric
from gbgnn_lab.baselines.propagating import SGC


@pytest.fixture
def extra() -> None:
    pytest.importorskip("torch_geometric", reason="the layers are its own")


@pytest.mark.parametrize("name", ["gat", "monet", "dgi"])
def test_without_the_extra_one_line_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, small: Dataset, name: str
) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    words = rf'the baseline {name} needs torch_geometric: pip install "gbgnn\[lab\]"'
    with pytest.raises(MissingDependencyError, match=words):
        fit_baseline(name, small, seed=0)


@pytest.mark.usefixtures("extra")
def test_importing_the_extra_warns_of_nothing() -> None:
    code = "from gbgnn_lab.baselines.messages import import_geometric; import_geometric('gat')"
    subprocess.run([sys.executable, "-W", "error::DeprecationWarning", "-c", code], check=True)


@pytest.mark.usefixtures("extra")
def test_attention_equals_the_dense_formula(given: TrainingData) -> None:
    network = Network(GAT(depth=1, output_heads=2), given).eval()
    (layer,) = network.layers
    heads = (given.features @ layer.lin.weight.t()).view(given.graph.n_nodes, 2, 3)
    towards, fro = (heads * layer.att_dst).sum(dim=2), (heads * layer.att_src).sum(dim=2)
    hears = torch.tensor(given.graph.adjacency.toarray(), dtype=torch.bool) | torch.eye(120, dtype=torch.bool)
    expected = torch.zeros(given.graph.n_nodes, 3)
    for head in range(2):
        logits = functional.leaky_relu(towards[:, None, head] + fro[None, :, head], 0.2)
        attention = logits.masked_fill(~hears, -torch.inf).softmax(dim=1)
        expected += attention @ heads[:, head] / 2
    torch.testing.assert_close(network(), expected + layer.bias, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("extra")
def test_attention_layers_have_the_published_shapes(given: TrainingData) -> None:
    first, last = Network(GAT(), given).layers
    assert (first.heads, first.out_channels, first.concat) == (8, 8, True)
    assert (last.heads, last.in_channels, last.out_channels, last.concat) == (1, 64, 3, False)
    assert len(Network(GAT(depth=4), given).layers) == 4
    assert import_geometric("gat").GATConv is type(first)


@pytest.mark.usefixtures("extra")
def test_mixture_network_places_edges_by_the_degrees_of_their_ends(given: TrainingData) -> None:
    network = Network(MoNet(depth=3, coordinates=4, kernels=5), given)
    degrees = torch.tensor(given.graph.adjacency.sum(axis=1), dtype=torch.float32)
    fro, to = given.edges
    torch.testing.assert_close(network.degrees, torch.stack([degrees[fro], degrees[to]], dim=1).rsqrt())
    assert [layer.mu.shape for layer in network.layers] == [(5, 4)] * 3
    assert [place.out_features for place in network.maps] == [4, 4, 4]


pytest.importorskip("torch_geometric", reason="the contrast is its own")


@pytest.mark.parametrize("depth", [1, 2])
def test_exchanged_features_are_those_of_a_graph_with_exchanged_features(small: Dataset, depth: int) -> None:
    given = TrainingData.from_dataset(small)
    encoder = Encoder(DGI(units=6, depth=depth), given)
    order = encoder.corrupt(None)
    assert sorted(order.tolist()) == list(range(120))
    other = replace(small, graph=Graph(small.graph.adjacency, small.graph.features[order.numpy()]))
    twin = Encoder(DGI(units=6, depth=depth), TrainingData.from_dataset(other))
    twin.load_state_dict(encoder.state_dict())
    torch.testing.assert_close(encoder(order), twin(None))


def test_the_representation_does_not_depend_on_labels(
    given: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []

    def remember(self, X, data):  # type: ignore[no-untyped-def]
        seen.append(X)
        return fit_rows(self, X, data)

    fit_rows = SGC.fit_rows
    monkeypatch.setattr(SGC, "fit_rows", remember)
    turned = LabelledNodes(given.train.rows, 2 - given.train.targets, given.train.weights)
    for train in (given.train, turned):
        torch.manual_seed(0)
        DGI(units=6, epochs=10, head_epochs=2).fit(replace(given, train=train))
    assert seen[0].equal(seen[1])
    assert not seen[0].requires_grad


def test_the_encoder_is_taken_at_its_lowest_loss(
    given: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch_geometric.nn import DeepGraphInfomax

    values: list[float] = []
    plain = DeepGraphInfomax.loss

    def loss(self, *parts):  # type: ignore[no-untyped-def]
        result = plain(self, *parts)
        values.append(float(result.detach()))
        return result

    monkeypatch.setattr(DeepGraphInfomax, "loss", loss)
    torch.manual_seed(0)
    DGI(units=6, epochs=500, patience=3, learning_rate=0.5, head_epochs=1).fit(given)
    lowest = values.index(min(values))
    assert len(values) == lowest + 1 + 3 < 500
