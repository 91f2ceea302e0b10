from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import ArpackError

from gbgnn.propagation import (
    AugmentedAdjacency,
    NormalizedAdjacency,
    NormalizedLaplacian,
    Propagation,
    Propagator,
    RandomWalk,
    spectrum,
)
from gbgnn.propagation.spectrum import Interval, spectral_interval, symmetrized
from gbgnn.testing import two_blocks

RECIPES = [
    AugmentedAdjacency(),
    NormalizedAdjacency(),
    NormalizedLaplacian(),
    RandomWalk(),
    RandomWalk(self_loops=True),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("n_nodes", [40, 300])
@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_interval_fits_all_eigenvalues_tightly(recipe: Propagation, n_nodes: int, dtype: torch.dtype) -> None:
    P = recipe.build(two_blocks(n_nodes)[0].adjacency).to_scipy()
    found = spectral_interval(Propagator(P, dtype=dtype))
    values = np.sort(np.linalg.eigvals(P.toarray()).real)
    low, high = found.centre - found.radius, found.centre + found.radius
    assert (low <= values[0] + 1e-9 and values[-1] - 1e-9 <= high) or dtype == torch.float32
    np.testing.assert_allclose([low, high], values[[0, -1]], atol=1e-5)


def test_scaling_is_found_in_every_component_and_undone() -> None:
    random = np.random.default_rng(0)
    block = np.abs(random.normal(size=(5, 5))) + 0.1
    S = np.zeros((11, 11))  # two components and a node by itself
    S[:5, :5], S[5:10, 5:10] = block + block.T, -(block + block.T)
    R = np.exp(random.normal(size=11))
    P = sp.csr_array(S * R[:, None] / R)
    back = symmetrized(P, 1e-12).toarray()
    np.testing.assert_allclose(back, S, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "matrix",
    [
        [[0.0, 1.0], [0.0, 0.0]],  # one way
        [[0.0, 1.0], [-1.0, 0.0]],  # a rotation: imaginary eigenvalues
        [[0.0, 1.0, 2.0], [2.0, 0.0, 1.0], [1.0, 2.0, 0.0]],  # faster round one way than the other
    ],
)
def test_matrix_without_symmetric_relative_has_no_interval(matrix: list[list[float]]) -> None:
    assert spectral_interval(Propagator(sp.csr_array(matrix))) is None


def test_no_edges_and_one_eigenvalue_still_make_an_interval() -> None:
    nothing = spectral_interval(Propagator(sp.csr_array((3, 3))))
    assert nothing == Interval(0.0, 1e-6)
    many = spectral_interval(Propagator(2 * sp.eye_array(400, format="csr")))
    assert many.centre - many.radius <= 2 <= many.centre + many.radius


def test_eigenvalues_that_are_not_found_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: object, **options: object) -> None:
        raise ArpackError(-9)

    monkeypatch.setattr(spectrum, "eigsh", fails)
    P = AugmentedAdjacency().build(two_blocks(300)[0].adjacency).to_scipy()
    found = spectral_interval(Propagator(P, dtype=torch.float64))
    assert found.centre == 0
    assert found.radius == pytest.approx(abs(P).sum(axis=1).max(), rel=1e-5)
