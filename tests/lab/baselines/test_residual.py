from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gbgnn.datasets import Dataset
from gbgnn.errors import ParameterError
from gbgnn.graph import Graph
from gbgnn.labels import NodeSplit
from gbgnn.tasks import Classification, Regression
from gbgnn_lab.baselines import choose_model
from gbgnn_lab.baselines.base import Network
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.residual import ResidualGAT, ResidualGCN, ResidualModel, ResidualSAGE

MODELS: list[ResidualModel] = [ResidualGCN(), ResidualSAGE(), ResidualGAT()]


@pytest.fixture(params=MODELS, ids=lambda model: type(model).__name__)
def model(request: pytest.FixtureRequest) -> ResidualModel:
    """Each network, nothing left to search."""
    return replace(request.param, depth=2, dropout=0.0, learning_rate=0.01, epochs=30)


def test_a_block_adds_to_what_goes_in(given: TrainingData, model: ResidualModel) -> None:
    network = Network(model, given).eval()
    block, H = network.blocks[0], torch.randn(120, 64)
    told = block.convolution(network.mixing, torch.nn.functional.layer_norm(H, (64,))).relu()
    torch.testing.assert_close(block(network.mixing, H, 0.0), H + told)


@pytest.mark.parametrize("depth", [1, 3])
def test_a_block_is_a_hop(model: ResidualModel, depth: int) -> None:
    steps = np.diag(np.ones(13), 1)
    X = np.random.default_rng(0).normal(size=(14, 5))
    data = TrainingData.build(Graph(steps + steps.T, X), np.arange(14.0), NodeSplit([0, 1]), Regression())
    network = Network(replace(model, depth=depth), data).eval()
    before = network()
    network.X = network.X.clone()
    network.X[13] += 3
    is_same = (network() - before).abs().amax(dim=1) < 1e-6
    assert is_same[: 13 - depth].all()
    assert not is_same[13 - depth :].any()


def test_two_classes_are_ranked_by_auc(given: TrainingData, model: ResidualModel) -> None:
    labels = np.arange(120) % 2
    two = TrainingData.build(given.graph, labels, NodeSplit(range(60), range(60, 90)), Classification())
    assert two.validation is not None
    scores = torch.randn(30, 2)
    assert model.judge(scores, two.validation, two) == two.judge_ranking(scores, two.validation)


def test_numbers_are_learned_in_their_own_unit(model: ResidualModel, small: Dataset) -> None:
    y = 1000 + 50 * small.graph.features[:, 0]
    split = NodeSplit(range(60), range(60, 90), range(90, 120))
    data = TrainingData.build(small.graph, y, split, Regression())
    torch.manual_seed(0)
    scores = replace(model, epochs=100).fit(data).scores
    predicted = data.task.decode(scores.numpy())
    assert np.corrcoef(predicted[90:], y[90:])[0, 1] > 0.7
    assert abs(predicted.mean() - 1000) < 50


def test_heads_share_the_units() -> None:
    with pytest.raises(
        ParameterError, match="ResidualGAT.units must be a multiple of heads; got 10 units, 4 h"
    ):
        choose_model("residual_gat", "", units=10)
    with pytest.raises(ParameterError, match="ResidualGCN.learning_rate must be in"):
        choose_model("residual_gcn", "", learning_rate=0.0)
