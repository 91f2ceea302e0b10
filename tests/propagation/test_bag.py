from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn.propagation import AugmentedAdjacency, Propagator, propagator
from gbgnn.propagation.propagator import Bag


def adjacency(n_nodes: int, n_entries: int, seed: int = 0) -> sp.csr_array:
    random = np.random.default_rng(seed)
    rows, columns = random.integers(0, n_nodes, size=(2, n_entries))
    A = sp.csr_array((np.ones(n_entries, np.float32), (rows, columns)), shape=(n_nodes, n_nodes))
    A.sum_duplicates()
    A.data[:] = 1
    return A


def test_nothing_of_the_size_of_the_edges_is_held_for_an_unweighted_graph() -> None:
    operator = AugmentedAdjacency().build(adjacency(50, 1000))
    assert operator.edges.values is None
    held = Bag(operator, torch.float32).tensors()
    assert all(part.numel() <= 51 for part in held)
    weighted = AugmentedAdjacency().build(2 * adjacency(50, 1000))
    assert any(part.numel() == weighted.edges.n_entries for part in Bag(weighted, torch.float32).tensors())


@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_of_rows_and_columns_change_nothing(monkeypatch: pytest.MonkeyPatch, weighted: bool) -> None:
    A = adjacency(100, 700) * (0.5 if weighted else 1)
    operator = AugmentedAdjacency().build(A)
    X = torch.randn(100, 37, generator=torch.Generator().manual_seed(0))
    expected = Propagator(operator)(X)
    for rows, columns in ((7, 128), (16_384, 5), (33, 36), (1, 1)):
        monkeypatch.setattr(propagator, "_ROWS", rows)
        monkeypatch.setattr(propagator, "_COLUMNS", columns)
        torch.testing.assert_close(Propagator(operator)(X), expected)


def test_starts_are_widened_with_the_columns_of_a_block_of_very_many_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator = AugmentedAdjacency().build(adjacency(20, 60))
    X = torch.randn(20, 3)
    expected = Propagator(operator)(X)
    monkeypatch.setattr(propagator, "_INT32", 10)
    assert torch.equal(Propagator(operator)(X), expected)


def test_threads_may_share_one() -> None:
    P = Propagator(AugmentedAdjacency().build(adjacency(300, 3000)))
    inputs = [torch.randn(300, 150, generator=torch.Generator().manual_seed(seed)) for seed in range(8)]
    alone = [P(X) for X in inputs]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(P, inputs))
    assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))


def test_output_of_another_shape_is_resized_as_torch_does() -> None:
    P = Propagator(AugmentedAdjacency().build(adjacency(5, 9)))
    out = torch.empty(0)
    assert P(torch.ones(5, 2), out=out) is out
    assert out.shape == (5, 2)
