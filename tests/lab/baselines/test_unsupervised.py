from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gbgnn.datasets import Dataset
from gbgnn.graph import Graph
from gbgnn.problem import LabelledNodes
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.unsupervised import DGI, Encoder

pytest.importorskip("torch_geometric", reason="the contrast is its own")


@pytest.mark.parametrize("depth", [1, 2])
def test_exchanged_features_are_those_of_a_graph_with_exchanged_features(small: Dataset, depth: int) -> None:
    given = TrainingData.from_dataset(small)[0]
    encoder = Encoder(DGI(units=6, depth=depth), given)
    order = encoder.corrupt(None)
    assert sorted(order.tolist()) == list(range(120))
    other = replace(small, graph=Graph(small.graph.adjacency, small.graph.features[order.numpy()]))
    twin = Encoder(DGI(units=6, depth=depth), TrainingData.from_dataset(other)[0])
    twin.load_state_dict(encoder.state_dict())
    torch.testing.assert_close(encoder(order), twin(None))


def test_the_representation_does_not_depend_on_labels(
    given: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []

    def remember(network, X, *rest, **how):  # type: ignore[no-untyped-def]
        seen.append(X)
        return fit_rows(network, X, *rest, **how)

    from gbgnn_lab.baselines import unsupervised

    fit_rows = unsupervised.fit_rows
    monkeypatch.setattr(unsupervised, "fit_rows", remember)
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
