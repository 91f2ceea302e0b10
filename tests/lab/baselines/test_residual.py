from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given as given_values
from hypothesis import settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from gbgnn.datasets import Dataset
from gbgnn.errors import ParameterError
from gbgnn.graph import Graph
from gbgnn.labels import NodeSplit
from gbgnn.tasks import Classification, Regression
from gbgnn_lab.baselines import choose_model
from gbgnn_lab.baselines.base import Network
from gbgnn_lab.baselines.data import SparseMatrix, TrainingData
from gbgnn_lab.baselines.residual import (
    SEARCHED,
    ResidualGAT,
    ResidualGCN,
    ResidualModel,
    ResidualSAGE,
    prepare_columns,
    rank_auc,
)

MODELS: list[ResidualModel] = [ResidualGCN(), ResidualSAGE(), ResidualGAT()]


@pytest.fixture(params=MODELS, ids=lambda model: type(model).__name__)
def model(request: pytest.FixtureRequest) -> ResidualModel:
    """Each network, nothing left to search."""
    return replace(request.param, depth=2, dropout=0.0, learning_rate=0.01, epochs=30)


def test_columns_are_normal_whatever_their_unit(given: TrainingData) -> None:
    X = given.graph.features.copy()
    X[:, 0], X[:, 1] = np.exp(5 * X[:, 0]), 7.0
    prepared = prepare_columns(replace(given, graph=Graph(given.graph.adjacency, X)))
    torch.testing.assert_close(prepared[:, 0].mean(), torch.tensor(0.0), atol=1e-5, rtol=0)
    torch.testing.assert_close(prepared[:, 0].std(correction=0), torch.tensor(1.0), atol=1e-5, rtol=0)
    assert not prepared[:, 1].any()
    original = prepare_columns(given)
    torch.testing.assert_close(prepared[:, 0], original[:, 0], atol=1e-3, rtol=0)


def test_sparse_columns_stay_as_they_are(given: TrainingData) -> None:
    sparse = replace(given, graph=Graph(given.graph.adjacency, sp.csr_array(given.graph.features)))
    prepared = prepare_columns(sparse)
    assert isinstance(prepared, SparseMatrix)
    torch.testing.assert_close(prepared.tensor.to_dense().numpy(), given.graph.features.astype(np.float32))


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


def test_settings_left_open_are_chosen_by_validation(
    given: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []
    build = ResidualGCN.build

    def watch(self: ResidualGCN, data: TrainingData) -> object:
        tried.append({name: getattr(self, name) for name in SEARCHED})
        return build(self, data)

    monkeypatch.setattr(ResidualGCN, "build", watch)
    model = ResidualGCN(epochs=5, units=8)
    torch.manual_seed(0)
    best = model.fit(given)
    grid = [dict(zip(SEARCHED, values, strict=True)) for values in product(*SEARCHED.values())]
    assert tried == grid
    assert len(grid) == 8
    assert given.validation is not None
    ranks = []
    torch.manual_seed(0)
    for trial in grid:
        fitted = replace(model, **trial).fit(given)
        assert fitted.chosen == {}
        hits, loss = given.judge(fitted.scores[given.validation.rows], given.validation)
        ranks.append((hits, -loss, fitted.scores, trial))
    *_, scores, trial = max(ranks, key=lambda each: each[:2])
    assert torch.equal(scores, best.scores)
    assert best.chosen == trial
    tried.clear()
    replace(model, depth=3).fit(replace(given, validation=None))
    assert tried == [grid[0] | {"depth": 3}]


@settings(deadline=None)
@given_values(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 1)), min_size=2).filter(
        lambda pairs: len({target for _, target in pairs}) == 2
    )
)
def test_auc_is_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    scores, targets = np.array(pairs).T
    found = rank_auc(torch.tensor(scores, dtype=torch.float32), torch.tensor(targets))
    assert found == pytest.approx(roc_auc_score(targets, scores))


def test_two_classes_are_ranked_by_auc_and_more_by_hits(given: TrainingData, model: ResidualModel) -> None:
    assert given.validation is not None
    scores = torch.randn(len(given.validation.rows), 3)
    assert model.judge(scores, given.validation, given) == given.judge(scores, given.validation)
    labels = np.arange(120) % 2
    two = TrainingData.build(given.graph, labels, NodeSplit(range(60), range(60, 90)), Classification())
    assert two.validation is not None
    scores = torch.randn(30, 2)
    first, loss = model.judge(scores, two.validation, two)
    assert first == pytest.approx(roc_auc_score(labels[60:90], scores.softmax(dim=1)[:, 1]))
    assert loss == two.judge(scores, two.validation)[1]
    assert rank_auc(scores[:, 0], torch.ones(30)) == 0.0  # one class says nothing


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
