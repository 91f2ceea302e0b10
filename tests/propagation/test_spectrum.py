from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import torch
from hypothesis import assume, example, given, reject, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence

from gbgnn.propagation import (
    AugmentedAdjacency,
    NormalizedAdjacency,
    NormalizedLaplacian,
    Propagation,
    Propagator,
    RandomWalk,
    spectrum,
)
from gbgnn.propagation.spectrum import (
    Interval,
    TopEigenspace,
    is_symmetric,
    operator_norm,
    second_eigenvalue,
    spectral_interval,
    symmetrized,
    top_eigenspace,
)
from gbgnn.testing import two_blocks

SYMMETRIC = [AugmentedAdjacency(), NormalizedAdjacency(), NormalizedLaplacian()]
RECIPES = [*SYMMETRIC, RandomWalk(), RandomWalk(self_loops=True)]
SEEDS = st.integers(0, 10**6)


def random_adjacency(seed: int, n_nodes: int, mean_degree: float, *, directed: bool) -> sp.csr_array:
    """Several components and isolated nodes if the degree is low; every other one weighted."""
    random = np.random.default_rng(seed)
    A = sp.random_array((n_nodes, n_nodes), density=min(1, mean_degree / n_nodes), rng=random, format="csr")
    A = A if directed else A + A.T
    return sp.csr_array(A if seed % 2 else (A > 0).astype(float))


def build(recipe: Propagation, adjacency: sp.csr_array) -> sp.csr_array:
    P = recipe.build(adjacency).to_scipy()
    P.data[abs(P.data) < 1e-15] = 0  # the Laplacian of a node that hears itself only, 1 - 1
    P.eliminate_zeros()
    return P


def guesses_of(A: sp.csr_array) -> list[np.ndarray]:
    return [np.sqrt(np.asarray(A.sum(axis=1)).ravel() + loops) for loops in (0, 1)]


def components_of(P: np.ndarray) -> list[np.ndarray]:
    """Which nodes reach which, by squaring until nothing changes."""
    reach = (np.eye(len(P)) + abs(P) + abs(P.T)) > 0
    for _ in range(len(P).bit_length()):
        reach = (reach.astype(float) @ reach) > 0
    return [np.flatnonzero(row) for row in np.unique(reach, axis=0)]


def dense_oracle(P: np.ndarray) -> tuple[np.ndarray, list[complex]]:
    """The projector on the top eigenspace by null spaces, and the eigenvalues left over."""
    projector, rest = np.zeros_like(P), []
    symmetric = np.allclose(P, P.T)
    for nodes in components_of(P):
        block = P[np.ix_(nodes, nodes)]
        values = np.linalg.eigvalsh(block) if symmetric else np.linalg.eigvals(block)
        size = abs(values).max()
        if size < 1e-9:  # no edges, no cycle, or rounding in place of zero
            rest += values.tolist()
            continue
        near = values[abs(values) > size * (1 - 1e-3)]
        top = near[np.argmax(near.real)]
        chosen = np.minimum(abs(values - top), abs(values - np.conj(top))) < 1e-9 * size
        apart = np.minimum(abs(near - top), abs(near - np.conj(top))) > 1e-9 * size
        if np.any(apart & (abs(abs(near) - abs(top)) > 1e-9 * size)):
            reject()  # a near tie
        space = scipy.linalg.null_space(block - top * np.eye(len(block)), rcond=1e-9)
        basis = scipy.linalg.orth(np.hstack([space.real, space.imag]), rcond=1e-9)
        if basis.shape[1] != chosen.sum():
            reject()  # a Jordan block
        projector[np.ix_(nodes, nodes)] = basis @ basis.T
        rest += values[~chosen].tolist()
    return projector, rest


def dense_projector(space: TopEigenspace) -> np.ndarray:
    V = space.basis.toarray()
    np.testing.assert_allclose(V.T @ V, np.eye(space.dimension), atol=1e-10)
    return V @ V.T


@settings(max_examples=100)
@given(
    seed=SEEDS,
    n_nodes=st.integers(1, 14),
    mean_degree=st.floats(0, 3),
    recipe=st.sampled_from(SYMMETRIC),
    with_guesses=st.booleans(),
)
def test_symmetric_matrices_equal_a_full_decomposition(
    seed: int, n_nodes: int, mean_degree: float, recipe: Propagation, with_guesses: bool
) -> None:
    A = random_adjacency(seed, n_nodes, mean_degree, directed=False)
    P = build(recipe, A)
    space = top_eigenspace(P, guesses_of(A) if with_guesses else [])
    projector, rest = dense_oracle(P.toarray())
    np.testing.assert_allclose(dense_projector(space), projector, atol=1e-9)
    assert space.symmetric
    assert space.n_components == len(components_of(P.toarray()))
    second = second_eigenvalue(P, space)
    if rest:
        assert abs(second) == pytest.approx(max(map(abs, rest)), abs=1e-9)
    else:
        assert second is None


@settings(max_examples=100)
@given(
    seed=SEEDS,
    n_nodes=st.integers(2, 12),
    mean_degree=st.floats(0.5, 4),
    directed=st.booleans(),
    recipe=st.sampled_from(RECIPES),
)
def test_other_matrices_equal_a_full_decomposition(
    seed: int, n_nodes: int, mean_degree: float, directed: bool, recipe: Propagation
) -> None:
    A = random_adjacency(seed, n_nodes, mean_degree, directed=directed)
    P = build(recipe, A)
    assume(np.linalg.cond(np.linalg.eig(P.toarray()).eigenvectors) < 1e6)  # no Jordan block: see below
    projector, rest = dense_oracle(P.toarray())
    space = top_eigenspace(P, guesses_of(A))
    np.testing.assert_allclose(dense_projector(space), projector, atol=1e-6)
    if rest:
        assert abs(second_eigenvalue(P, space)) == pytest.approx(max(map(abs, rest)), abs=1e-6)


@settings(max_examples=100)
@given(seed=SEEDS, n_nodes=st.integers(2, 10), mean_degree=st.floats(0.5, 4))
def test_signed_and_jordan_matrices_have_an_invariant_top_space(
    seed: int, n_nodes: int, mean_degree: float
) -> None:
    A = random_adjacency(seed, n_nodes, mean_degree, directed=True)
    P = A.toarray() * np.random.default_rng(seed).choice([-1, 1], size=A.shape)
    space = top_eigenspace(sp.csr_array(P))
    V, projector = space.basis.toarray(), dense_projector(space)
    np.testing.assert_allclose(P @ V, projector @ P @ V, atol=1e-5 * (1 + abs(P).sum()))
    for nodes in components_of(P):
        largest = abs(np.linalg.eigvals(P[np.ix_(nodes, nodes)])).max()
        own = abs(V[nodes]).sum(axis=0) > 0
        if own.any():
            np.testing.assert_allclose(abs(space.values[own]), largest, rtol=1e-5)
        else:
            assert largest < 1e-6


@settings(max_examples=15)
@given(seed=SEEDS, directed=st.booleans(), recipe=st.sampled_from(RECIPES), with_guesses=st.booleans())
def test_iterations_equal_a_full_decomposition(
    seed: int, directed: bool, recipe: Propagation, with_guesses: bool
) -> None:
    random = np.random.default_rng(seed)
    big = sp.random_array((290, 290), density=3 / 290, rng=random, format="csr")
    ring = sp.csr_array(np.roll(np.eye(290), 1, axis=0))  # so that it is strongly connected
    A = sp.csr_array(sp.block_diag([big + ring, random_adjacency(seed, 20, 2, directed=directed)]))
    A = A if directed else sp.csr_array(A + A.T)
    P = build(recipe, A)
    projector, rest = dense_oracle(P.toarray())
    space = top_eigenspace(P, guesses_of(A) if with_guesses else [])
    np.testing.assert_allclose(dense_projector(space), projector, atol=1e-5)
    assert abs(second_eigenvalue(P, space)) == pytest.approx(max(map(abs, rest)), rel=1e-6)


def test_augmented_adjacency_has_roots_of_degrees() -> None:
    A = random_adjacency(3, 30, 1.5, directed=False)
    space = top_eigenspace(build(AugmentedAdjacency(), A), guesses_of(A))
    roots = np.sqrt(np.asarray(A.sum(axis=1)).ravel() + 1)
    for nodes in components_of(A.toarray()):
        expected = roots[nodes] / np.linalg.norm(roots[nodes])
        columns = np.flatnonzero(abs(space.basis.toarray()[nodes]).sum(axis=0))
        assert len(columns) == 1
        np.testing.assert_allclose(abs(space.basis.toarray()[nodes, columns[0]]), expected, atol=1e-12)
    np.testing.assert_allclose(space.values, 1, atol=1e-12)


def test_isolated_nodes_are_outside_unless_they_hear_themselves() -> None:
    A = sp.csr_array((5, 5))
    assert top_eigenspace(build(NormalizedAdjacency(), A)).dimension == 0
    assert second_eigenvalue(A, top_eigenspace(A)) == 0
    own = top_eigenspace(build(AugmentedAdjacency(), A))
    assert own.dimension == own.n_components == 5
    assert second_eigenvalue(build(AugmentedAdjacency(), A), own) is None


@pytest.mark.parametrize("n_nodes", [6, 300])
def test_bipartite_component_has_one_on_top_and_minus_one_next(n_nodes: int) -> None:
    side = np.arange(n_nodes) % 3 == 0
    A = sp.csr_array((side[:, None] != side) * 1.0)
    P = build(NormalizedAdjacency(), A)
    space = top_eigenspace(P, guesses_of(A))
    np.testing.assert_allclose(space.values, [1])
    assert second_eigenvalue(P, space) == pytest.approx(-1)


def test_every_component_keeps_its_own_top_eigenvalue() -> None:
    pair = sp.csr_array([[0.0, 1.0], [1.0, 0.0]])
    P = sp.csr_array(sp.block_diag([3 * pair, 0.5 * pair]))
    space = top_eigenspace(P)
    np.testing.assert_allclose(sorted(space.values.real), [0.5, 3])
    assert second_eigenvalue(P, space) == pytest.approx(-3)


def test_rotation_has_a_plane_and_its_complex_pair() -> None:
    P = sp.csr_array([[0, -2.0, 0.5, 0], [2, 0, 0, 0], [0, 0, 0, -1], [0, 0, 1, 0]])
    space = top_eigenspace(P)
    assert space.dimension == 2
    np.testing.assert_allclose(sorted(space.values.imag), [-2, 2])
    assert second_eigenvalue(P, space) == pytest.approx(1j)


@pytest.mark.parametrize("n_nodes", [40, 300])
def test_edges_without_a_cycle_have_no_top_direction(n_nodes: int) -> None:
    A = sp.csr_array(sp.triu(random_adjacency(0, n_nodes, 6, directed=True), 1))
    P = build(NormalizedAdjacency(), A)
    space = top_eigenspace(P)
    assert space.dimension == 0
    assert second_eigenvalue(P, space) == 0


def test_complete_graph_leaves_nothing_outside() -> None:
    P = sp.csr_array(np.full((300, 300), 1 / 300))
    space = top_eigenspace(P)
    assert space.dimension == 1
    assert second_eigenvalue(P, space) == pytest.approx(0, abs=1e-12)


def test_large_components_with_several_top_directions_are_refused() -> None:
    ring = sp.csr_array(np.roll(np.eye(301), 1, axis=0))
    with pytest.raises(np.linalg.LinAlgError, match="component of 301 nodes has several eigenvectors"):
        top_eigenspace(build(NormalizedLaplacian(), sp.csr_array(ring + ring.T)))
    # Many nodes hear nobody but themselves, and each is a direction that stays.
    A = random_adjacency(0, 500, 4, directed=True)
    with pytest.raises(np.linalg.LinAlgError, match="has several eigenvectors"):
        top_eigenspace(build(RandomWalk(self_loops=True), A))


def test_eigenvalues_that_rounding_invents_are_refused() -> None:
    # All eigenvalues of I minus a nilpotent matrix are one; iterations see larger ones.
    A = sp.csr_array(sp.triu(random_adjacency(0, 600, 12, directed=True), 1))
    with pytest.raises(
        np.linalg.LinAlgError, match="rounding hides the eigenvectors of its largest eigenvalue, 1"
    ):
        top_eigenspace(build(NormalizedLaplacian(), A))


@settings(max_examples=5)
@given(seed=SEEDS, kind=st.sampled_from(["symmetric", "directed", "one way"]))
@example(seed=28, kind="directed")  # the two largest pairs are all but of the same size
def test_large_signed_components_equal_a_full_decomposition(seed: int, kind: str) -> None:
    random = np.random.default_rng(seed)
    P = random.normal(size=(300, 300)) * (random.random((300, 300)) < 0.05)
    if kind == "symmetric":
        P = P + P.T
    elif kind == "one way":
        P[100:, :100] = 0  # the first 100 nodes hear the others, who do not hear them
    projector, rest = dense_oracle(P)
    space = top_eigenspace(sp.csr_array(P))
    np.testing.assert_allclose(dense_projector(space), projector, atol=1e-5)
    assert abs(second_eigenvalue(sp.csr_array(P), space)) == pytest.approx(max(map(abs, rest)), rel=1e-5)


def test_thousands_of_components_of_any_kind() -> None:
    triangle = np.ones((3, 3)) - np.eye(3)
    P = build(NormalizedLaplacian(), sp.csr_array(sp.block_diag([triangle] * 500 + [[[0]]] * 2000)))
    space = top_eigenspace(P)
    assert (space.n_components, space.dimension) == (2500, 3000)  # 3/2 twice per triangle, 1 per lone node
    assert second_eigenvalue(P, space) == pytest.approx(0, abs=1e-9)


def test_crowded_eigenvalues_are_given_up() -> None:
    ring = sp.csr_array(np.roll(np.eye(300), 1, axis=0))  # every eigenvalue has the absolute value 1
    with pytest.raises(ArpackNoConvergence):
        second_eigenvalue(ring, top_eigenspace(ring))


def test_iterations_give_the_same_bits_each_time() -> None:
    A = random_adjacency(1, 400, 5, directed=True)
    P = build(AugmentedAdjacency(), A)
    spaces = [top_eigenspace(P) for _ in range(2)]
    assert spaces[0].basis.data.tobytes() == spaces[1].basis.data.tobytes()
    for one, other in pairwise([second_eigenvalue(P, space) for space in spaces]):
        assert one == other
    assert operator_norm(P) == operator_norm(P)


@settings(max_examples=30)
@given(seed=SEEDS, n_nodes=st.sampled_from([1, 2, 9, 30, 280]), recipe=st.sampled_from(RECIPES))
def test_operator_norm_equals_the_largest_singular_value(
    seed: int, n_nodes: int, recipe: Propagation
) -> None:
    P = build(recipe, random_adjacency(seed, n_nodes, 3, directed=True))
    expected = np.linalg.svd(P.toarray(), compute_uv=False)[0]
    assert operator_norm(P) == pytest.approx(expected, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("n_nodes", [50, 500])
def test_operator_norm_of_undirected_normalised_adjacency_is_one(n_nodes: int) -> None:
    A = random_adjacency(0, n_nodes, 3, directed=False)
    assert operator_norm(build(NormalizedAdjacency(), A)) == pytest.approx(1, abs=1e-9)
    assert operator_norm(build(AugmentedAdjacency(), A)) == pytest.approx(1, abs=1e-9)
    assert operator_norm(sp.csr_array((n_nodes, n_nodes))) == 0


def test_symmetry_is_up_to_rounding() -> None:
    assert is_symmetric(sp.csr_array((3, 3)))
    assert is_symmetric(sp.csr_array([[0, 1.0], [1 + 1e-15, 0]]))
    assert not is_symmetric(sp.csr_array([[0, 1.0], [1 + 1e-9, 0]]))


def test_projection_of_vectors_and_matrices() -> None:
    space = top_eigenspace(sp.csr_array(np.ones((3, 3))))
    np.testing.assert_allclose(space.project(np.array([3.0, 0, 0])), [1, 1, 1])
    np.testing.assert_allclose(space.project(np.eye(3)), np.full((3, 3), 1 / 3))


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
