from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn.graph import Graph
from gbgnn_lab.baselines import BASELINES
from gbgnn_lab.baselines.data import SparseMatrix, TrainingData
from gbgnn_lab.baselines.residual import ResidualGCN
from gbgnn_lab.baselines.searching import SearchedModel, prepare_columns

SEARCHED = ResidualGCN.searched
MODELS = [entry.model for entry in BASELINES.values() if isinstance(entry.model, SearchedModel)]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_all_have_eight_trials_where_nothing_is_said(model: SearchedModel) -> None:
    assert all(getattr(model, name) is None for name in model.searched)
    assert prod(len(values) for values in model.searched.values()) == 8


@pytest.mark.parametrize("name", ["grand", "grand_plus", "gprgnn"])
@pytest.mark.parametrize("dataset", ["cora", "citeseer", "pubmed"])
def test_published_settings_leave_nothing_open(name: str, dataset: str) -> None:
    model = BASELINES[name].model_for(dataset)
    assert isinstance(model, SearchedModel)
    assert all(getattr(model, setting) is not None for setting in model.searched)


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
