"""Every backend computes the product that the description stands for."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.propagation import (
    AugmentedAdjacency,
    Csr,
    GivenMatrix,
    NormalizedAdjacency,
    NormalizedLaplacian,
    Operator,
    Propagation,
    Propagator,
    RandomWalk,
)
from gbgnn.propagation.propagator import cast

RECIPES = [
    AugmentedAdjacency(),
    NormalizedAdjacency(),
    RandomWalk(),
    RandomWalk(self_loops=True),
    NormalizedLaplacian(),
    GivenMatrix(),
]
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.03, torch.float16: 0.004}
KERNELS = [
    ("cpu", "bag", torch.float32),
    ("cpu", "bag", torch.bfloat16),
    ("cpu", "bag", torch.float16),
    ("cpu", "torch", torch.float32),
    ("cpu", "torch", torch.float64),
    *(
        pytest.param(("cuda", backend, dtype), marks=pytest.mark.gpu)
        for backend, dtypes in (("triton", list(TOLERANCE)), ("torch", [torch.float32, torch.float64]))
        for dtype in dtypes
    ),
]


@pytest.fixture(params=KERNELS, ids=str, scope="module")
def kernel(request: pytest.FixtureRequest) -> tuple[str, str, torch.dtype]:
    device, backend, _ = request.param
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device")
    if backend == "triton" and find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    return request.param


def random_adjacency(
    seed: int, n_nodes: int, density: float, *, directed: bool, weighted: bool
) -> sp.csr_array:
    """Self loops, empty rows and isolated nodes come by themselves."""
    random = np.random.default_rng(seed)
    A = sp.random_array((n_nodes, n_nodes), density=density, rng=random, format="csr")
    A = A if directed else A + A.T
    return sp.csr_array(A if weighted else (A > 0).astype(np.float32))


def check_product(
    operator: Operator, kernel: tuple[str, str, torch.dtype], n_columns: int, seed: int = 0
) -> None:
    device, backend, dtype = kernel
    P = Propagator(operator, device, dtype, backend)
    X = torch.randn((P.n_nodes, n_columns), generator=torch.Generator().manual_seed(seed)).to(dtype)
    before, X = X.clone(), X.to(device)
    expected = operator.toarray() @ before.double().numpy()
    size = 1 + abs(operator.toarray()).sum(axis=1, keepdims=True) * abs(before.double().numpy()).max()
    out = torch.full_like(X, float("nan"))
    for result in (P(X), P(X, out=out)):
        assert result.dtype == dtype
        assert (abs(result.double().cpu().numpy() - expected) <= TOLERANCE[dtype] * size).all()
    assert P(X, out=out) is out
    if (device, backend) != ("cuda", "torch"):  # cuSPARSE does not promise it
        assert torch.equal(P(X), out), "other bits the second time"
    assert torch.equal(X.cpu(), before)
    assert P.backend == backend


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n_nodes=st.integers(1, 12),
    density=st.floats(0, 1),
    directed=st.booleans(),
    weighted=st.booleans(),
    recipe=st.sampled_from(RECIPES),
    n_columns=st.integers(1, 9),
)
def test_product_equals_the_dense_one(
    kernel: tuple[str, str, torch.dtype],
    seed: int,
    n_nodes: int,
    density: float,
    directed: bool,
    weighted: bool,
    recipe: Propagation,
    n_columns: int,
) -> None:
    A = random_adjacency(seed, n_nodes, density, directed=directed, weighted=weighted)
    check_product(recipe.build(A), kernel, n_columns, seed)


@pytest.mark.parametrize("n_columns", [1, 127, 128, 129, 300])
@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_any_width_and_rows_of_many_entries(
    kernel: tuple[str, str, torch.dtype], recipe: Propagation, n_columns: int
) -> None:
    A = random_adjacency(0, 60, 0.1, directed=True, weighted=False).tolil()
    A[5] = 1
    A[:, 7] = 1
    A[3] = 0
    check_product(recipe.build(sp.csr_array(A)), kernel, n_columns)


def test_all_terms_at_once(kernel: tuple[str, str, torch.dtype]) -> None:
    A = Csr.from_matrix(random_adjacency(1, 30, 0.2, directed=True, weighted=True))
    left, right = torch.rand(2, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for options in (
        {"left": left, "right": right, "self_loop": 0.1, "identity": -0.7},
        {"left": left, "self_loop": 0.3},
        {"right": right, "self_loop": 2.0},
        {"self_loop": 0.1, "identity": 0.1},
    ):
        check_product(Operator(A, **options), kernel, 17)


def test_strided_input_and_output(kernel: tuple[str, str, torch.dtype]) -> None:
    device, backend, dtype = kernel
    A = random_adjacency(2, 25, 0.2, directed=True, weighted=False)
    for recipe in (AugmentedAdjacency(), RandomWalk()):
        P = Propagator(recipe.build(A), device, dtype, backend)
        wide = torch.randn(25, 40).to(device, dtype)
        for X in (wide[:, 3:20], wide[:, ::2], wide[:, :25].T):
            expected = P(X.contiguous())
            torch.testing.assert_close(P(X), expected)
            out = torch.empty(len(X), 50, dtype=dtype, device=device)[:, 4 : 4 + X.shape[1]]
            if backend != "torch":  # torch's own product may refuse it
                torch.testing.assert_close(P(X, out=out), expected)
                torch.testing.assert_close(out, expected)


def test_no_columns_give_none(kernel: tuple[str, str, torch.dtype]) -> None:
    device, backend, dtype = kernel
    P = Propagator(AugmentedAdjacency().build(sp.csr_array((3, 3))), device, dtype, backend)
    assert P(torch.empty((3, 0), device=device, dtype=dtype)).shape == (3, 0)


def test_scalings_become_columns() -> None:
    assert cast(None, torch.float32) is None
    assert cast(torch.ones(3, dtype=torch.float64), torch.float32).shape == (3, 1)
