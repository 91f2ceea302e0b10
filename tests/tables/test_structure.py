from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from gbgnn.tables import structure
from gbgnn.tables.structure import STRUCTURAL, structural_columns

GRAPHS = {
    "karate": nx.to_scipy_sparse_array(nx.karate_club_graph(), weight="weight", dtype=float),
    "star": nx.to_scipy_sparse_array(nx.star_graph(6), dtype=float),
    "with isolated nodes": sp.csr_array(sp.block_diag([np.ones((3, 3)) - np.eye(3), np.zeros((2, 2))])),
    "directed": sp.csr_array(np.triu(np.ones((4, 4)), 1)),
    "without edges": sp.csr_array((3, 3)),
    "with loops": sp.csr_array(np.ones((3, 3))),
    "with negative weights": sp.csr_array([[0.0, -2.0], [-2.0, 0.0]]),
}


def brute_force(adjacency: Any) -> list[np.ndarray]:
    A = np.abs(adjacency.toarray())
    A = np.maximum(A, A.T)
    np.fill_diagonal(A, 0)
    totals = A.sum(axis=1, keepdims=True)
    P = np.divide(A, totals, out=np.zeros_like(A), where=totals > 0)
    degree = np.log1p((A > 0).sum(axis=1))
    return [degree, P @ degree, *(np.diag(np.linalg.matrix_power(P, k)) for k in (2, 3, 4))]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("block", [3, 4_000_000])
def test_columns_are_those_of_powers_of_p(name: str, block: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(structure, "_BLOCK_WORK", block)
    columns = structural_columns(GRAPHS[name])
    assert tuple(columns) == STRUCTURAL
    for found, expected in zip(columns.values(), brute_force(GRAPHS[name]), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_estimates_of_large_graphs_are_near(monkeypatch: Any) -> None:
    exact = structural_columns(GRAPHS["karate"])
    monkeypatch.setattr(structure, "EXACT_WORK", 0)
    monkeypatch.setattr(structure, "N_PROBES", 4000)
    for name, values in structural_columns(GRAPHS["karate"]).items():
        np.testing.assert_allclose(values, exact[name], atol=0.05, err_msg=name)
