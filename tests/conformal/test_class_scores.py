from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from gbgnn import Graph, datasets
from gbgnn.conformal import aps_scores, lac_scores
from gbgnn.diffusion import diffuse


def _proba(n: int, k: int, seed: int) -> np.ndarray:
    return softmax(2 * np.random.default_rng(seed).normal(size=(n, k)), axis=1)


@given(st.integers(1, 6), st.integers(2, 6), st.integers(0, 99))
def test_adaptive_scores_add_up_all_that_is_at_least_as_likely(n: int, k: int, seed: int) -> None:
    proba, uniform = _proba(n, k, seed), np.random.default_rng(seed + 1).random(n)
    for i in range(n):
        for c in range(k):
            more = proba[i][proba[i] >= proba[i, c]].sum() - uniform[i] * proba[i, c]
            assert aps_scores(proba, uniform)[i, c] == pytest.approx(more)
    assert (aps_scores(proba, uniform).argmin(axis=1) == proba.argmax(axis=1)).all()


def _torchcp_daps(edges: torch.Tensor, base: torch.Tensor, coefficient: float) -> torch.Tensor:
    """What TorchCP 1.2.1 computes of base scores, by its published formula, with its types and its 1e-10."""
    n_nodes = len(base)
    shape, ones = (n_nodes, n_nodes), torch.ones(edges.shape[1])
    adjacency = torch.sparse_coo_tensor(edges, ones, shape, check_invariants=True)
    degrees = adjacency @ torch.ones(n_nodes)
    mean = (adjacency @ base) / (degrees + 1e-10)[:, None]
    return coefficient * mean + (1 - coefficient) * base


@pytest.mark.parametrize("score", [aps_scores, lac_scores])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
def test_diffused_scores_are_those_of_torchcp(score, share: float) -> None:
    graph = datasets.csbm(n_nodes=200, seed=0).graph
    lonely = graph.adjacency.tolil()
    lonely[7], lonely[:, 7] = 0, 0
    graph = Graph(lonely.tocsr(), graph.features)
    proba = _proba(200, 4, 0)
    base = score(proba, np.zeros(200))
    edges = torch.as_tensor(np.stack(graph.adjacency.nonzero()), dtype=torch.int64)
    theirs = _torchcp_daps(edges, torch.as_tensor(base, dtype=torch.float32), share)
    ours, others = diffuse(graph, base, share), np.arange(200) != 7
    np.testing.assert_allclose(ours[others], theirs[others], rtol=2e-6, atol=1e-6)
    # Of no neighbours the mean is 0 there, so that every class would look usual; ours are its own scores.
    np.testing.assert_allclose(theirs[7], (1 - share) * base[7], rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(ours[7], base[7])
