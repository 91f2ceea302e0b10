from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from gbgnn import datasets
from gbgnn_lab.baselines.gats import GATS, fit_gats

DATA = datasets.csbm(n_nodes=120, n_classes=3, per_class=8, seed=0)


@pytest.fixture
def scores() -> torch.Tensor:
    return torch.randn(120, 3, generator=torch.Generator().manual_seed(0))


def _moved(seed: int = 0) -> GATS:
    torch.manual_seed(seed)
    model = GATS(DATA.graph, DATA.train, 3, heads=2)
    with torch.no_grad():
        for each in (model.of_confidence, model.of_train, model.of_neighbours, model.bias):
            each.add_(torch.randn(()) / 3)
    return model


def test_temperatures_are_those_of_the_formula_node_by_node(scores: torch.Tensor) -> None:
    model, z = _moved(), scores.double().numpy()
    found = model(scores).detach().numpy()
    A = DATA.graph.adjacency.toarray() > 0
    train = set(DATA.train.tolist())
    W, omega, bias = (
        each.detach().double().numpy()
        for each in (model.to_temperature.weight, model.of_confidence, model.bias)
    )
    gamma = np.ones(120)
    for i in range(120):
        if i in train:
            gamma[i] = model.of_train.item()
        elif any(A[i, j] for j in train):
            gamma[i] = model.of_neighbours.item()
    confidence = softmax(z, axis=1).max(axis=1)
    for i in range(0, 120, 7):
        around = [*np.flatnonzero(A[i]), i]
        alike = np.array([(z[i] / gamma[i]) @ (z[j] / gamma[j]) for j in around])
        alpha = softmax(np.where(alike > 0, alike, 0.2 * alike))
        total = np.zeros(2)
        for a, j in zip(alpha, around, strict=True):
            ordered = np.sort((z[j] - z[j].min()) / np.ptp(z[j]))
            total += a * gamma[j] * (W @ ordered)
        total += omega * np.mean([confidence[i] - confidence[j] for j in around])
        assert found[i] == pytest.approx(np.log1p(np.exp(total)).mean() + bias, rel=1e-4)


def test_fitting_lowers_the_log_loss_and_keeps_the_best_epoch(scores: torch.Tensor) -> None:
    y, nodes = DATA.y, np.setdiff1d(np.arange(120), DATA.train)
    sharp = 5 * scores

    def loss(temperatures: np.ndarray) -> float:
        logs = log_softmax(sharp.double().numpy() / temperatures[:, None], axis=1)
        return -logs[nodes, y[nodes]].mean()

    torch.manual_seed(0)
    model = GATS(DATA.graph, DATA.train, 3)
    before = loss(model(sharp).detach().double().numpy())
    pairs = (nodes, y[nodes]), (DATA.train, y[DATA.train])
    found = fit_gats(model, sharp, *pairs, epochs=150, weight_decay=0.0)
    assert loss(found) < before - 0.3
    assert (found > 0).all()
    stopped = fit_gats(GATS(DATA.graph, DATA.train, 3), sharp, *pairs, epochs=50, patience=1)
    assert stopped.shape == (120,)
