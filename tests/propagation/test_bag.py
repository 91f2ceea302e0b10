from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn.propagation import AugmentedAdjacency, Operator, Propagation, Propagator, RandomWalk, propagator
from gbgnn.propagation.propagator import Bag


def adjacency(n_nodes: int, n_entries: int, seed: int = 0) -> sp.csr_array:
    random = np.random.default_rng(seed)
    rows, columns = random.integers(0, n_nodes, size=(2, n_entries))
    A = sp.csr_array((np.ones(n_entries, np.float32), (rows, columns)), shape=(n_nodes, n_nodes))
    A.sum_duplicates()
    A.data[:] = 1
    return A


@pytest.mark.parametrize("recipe", [AugmentedAdjacency(), RandomWalk()], ids=str)
def test_one_number_is_held_for_every_edge_and_node(recipe: Propagation) -> None:
    operator = recipe.build(adjacency(50, 1000))
    assert operator.edges.values is None
    kernel = Bag(operator, torch.float32)
    kernel.multiply(torch.ones(50, 3), None)
    expected = {operator.edges.n_entries, 51} | ({50} if operator.self_loop else set())
    assert {part.numel() for part in kernel.tensors()} == expected


def test_no_number_is_held_for_the_edges_of_a_plain_sum() -> None:
    A = adjacency(20, 60)
    kernel = Bag(Operator.from_matrix(A), torch.float32)
    assert kernel.tensors() == []
    X = torch.randn(20, 4)
    torch.testing.assert_close(kernel.multiply(X, None), torch.from_numpy(A @ X.numpy()))


@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch, weighted: bool) -> None:
    A = adjacency(100, 700) * (0.5 if weighted else 1)
    operator = AugmentedAdjacency().build(A)
    X = torch.randn(100, 37, generator=torch.Generator().manual_seed(0))
    expected = Propagator(operator)(X)
    monkeypatch.setattr(propagator, "_FEWEST_ROWS", 1)
    for n_sums in (1, 37 * 8, 37 * 64, 37 * 1000):
        monkeypatch.setattr(propagator, "_SUMS", n_sums)
        assert torch.equal(Propagator(operator)(X), expected)
        assert torch.equal(Propagator(operator)(X.T.contiguous().T), expected)


def test_starts_are_widened_with_the_columns_of_a_block_of_very_many_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator = AugmentedAdjacency().build(adjacency(20, 60))
    X = torch.randn(20, 3)
    expected = Propagator(operator)(X)
    monkeypatch.setattr(propagator, "_INT32", 10)
    assert torch.equal(Propagator(operator)(X), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_any_number_of_threads_gives_the_same_bytes(dtype: torch.dtype) -> None:
    A = adjacency(20_000, 60_000).tolil()
    A[7] = 1  # a hub
    P = Propagator(AugmentedAdjacency().build(sp.csr_array(A)), dtype=dtype)
    X = torch.randn((20_000, 128), generator=torch.Generator().manual_seed(0)).to(dtype)
    before, found = torch.get_num_threads(), []
    try:
        for n_threads in (1, 2, 5):
            torch.set_num_threads(n_threads)
            found.append(P(X))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(found[0], other) for other in found[1:])


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
