from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import ArpackNoConvergence

from gbgnn import datasets, smoothing
from gbgnn.errors import GraphError, ParameterError
from gbgnn.graph import Graph
from gbgnn.propagation import (
    AugmentedAdjacency,
    GivenMatrix,
    NormalizedAdjacency,
    NormalizedLaplacian,
    Operator,
    Propagation,
    RandomWalk,
)
from gbgnn.smoothing import SmoothingProfile, effective_rank, smoothing_profile
from gbgnn.testing import path4

SYMMETRIC = [AugmentedAdjacency(), NormalizedAdjacency(), NormalizedLaplacian(), GivenMatrix()]
RECIPES = [*SYMMETRIC, RandomWalk(), RandomWalk(self_loops=True)]
CASES = {"seed": st.integers(0, 10**6), "n_nodes": st.integers(1, 15), "mean_degree": st.floats(0, 3)}


def random_graph(seed: int, n_nodes: int, mean_degree: float, *, directed: bool = False) -> Graph:
    random = np.random.default_rng(seed)
    A = sp.random_array((n_nodes, n_nodes), density=min(1, mean_degree / n_nodes), rng=random, format="csr")
    A = A if directed else A + A.T
    return Graph(A if seed % 2 else A > 0, random.normal(size=(n_nodes, random.integers(1, 5))))


def pair(*, features: object = ((1.0,), (3.0,))) -> Graph:
    return Graph([[0, 1], [1, 0]], features)


@settings(max_examples=100)
@given(**CASES, directed=st.booleans(), recipe=st.sampled_from(RECIPES))
def test_columns_equal_their_definitions(
    seed: int, n_nodes: int, mean_degree: float, directed: bool, recipe: Propagation
) -> None:
    graph = random_graph(seed, n_nodes, mean_degree, directed=directed)
    P, X = recipe.build(graph.adjacency).toarray().astype(float), np.asarray(graph.features)
    profile = smoothing_profile(graph, rounds=5, propagation=recipe)
    for t in range(6):
        scale = np.linalg.norm(X)
        assert profile.norm[t] == pytest.approx(scale, rel=1e-9)
        expected = np.trace(X.T @ (np.eye(n_nodes) - P) @ X)
        assert profile.energy[t] == pytest.approx(expected, rel=1e-9, abs=1e-12 * (1 + scale**2))
        sigma = np.linalg.svd(X, compute_uv=False)
        shares = sigma / (sigma.sum() or 1)
        expected = math.exp(-sum(p * math.log(p) for p in shares if p > 0)) if scale else 0
        assert profile.effective_rank[t] == pytest.approx(expected, abs=1e-3)
        assert 0 <= profile.distance[t] <= 1
        X = P @ X


@settings(max_examples=150)
@given(**CASES, recipe=st.sampled_from(SYMMETRIC))
def test_what_is_outside_decays_at_least_like_powers_of_lambda_2(
    seed: int, n_nodes: int, mean_degree: float, recipe: Propagation
) -> None:
    profile = smoothing_profile(random_graph(seed, n_nodes, mean_degree), rounds=12, propagation=recipe)
    assert profile.is_symmetric
    rate = abs(profile.lambda_2 or 0)
    outside = [d * norm for d, norm in zip(profile.distance, profile.norm, strict=True)]
    for t, value in enumerate(outside):
        rounding = 1e-11 * max(profile.norm[: t + 1])
        assert value <= rate**t * outside[0] * (1 + 1e-9) + rounding
        if profile.predicted is not None and profile.norm[t] > 1e-9:
            assert profile.distance[t] <= profile.predicted[t] + rounding / profile.norm[t] + 1e-9
    bound = profile.hops_bound(0.9)
    if bound is not None and bound <= 12 and profile.norm[bound] > 1e-9:
        assert profile.hops_until(0.9) <= bound
        assert 1 - profile.distance[bound] ** 2 >= 0.9 - 1e-9


@settings(max_examples=100)
@given(**CASES)
def test_energy_is_the_sum_over_edges(seed: int, n_nodes: int, mean_degree: float) -> None:
    graph = random_graph(seed, n_nodes, mean_degree)
    A, X = graph.adjacency.toarray().astype(float), np.asarray(graph.features)
    scaled = X / np.sqrt(A.sum(axis=1) + 1)[:, None]
    total = sum(
        A[i, j] * ((scaled[i] - scaled[j]) ** 2).sum() / 2 for i in range(n_nodes) for j in range(n_nodes)
    )
    assert smoothing_profile(graph, rounds=0).energy[0] == pytest.approx(total, rel=1e-6, abs=1e-9)


@settings(max_examples=60)
@given(**CASES, directed=st.booleans(), recipe=st.sampled_from(RECIPES))
def test_node_permutation_changes_nothing(
    seed: int, n_nodes: int, mean_degree: float, directed: bool, recipe: Propagation
) -> None:
    graph = random_graph(seed, n_nodes, mean_degree, directed=directed)
    order = np.random.default_rng(seed).permutation(n_nodes)
    permuted = Graph(graph.adjacency[order][:, order], np.asarray(graph.features)[order])
    one, other = (smoothing_profile(g, rounds=4, propagation=recipe) for g in (graph, permuted))
    assert (one.n_components, one.n_isolated) == (other.n_components, other.n_isolated)
    assert one.top_dimension == other.top_dimension
    assert abs(one.lambda_2 or 0) == pytest.approx(abs(other.lambda_2 or 0), abs=1e-6)
    for name in ("norm", "distance", "energy", "effective_rank"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-5, atol=1e-5)


def test_path_by_hand() -> None:
    # Augmented degrees 2, 3, 3, 2: the top direction is their roots over the root of 10.
    top = np.sqrt(np.array([2, 3, 3, 2]) / 10)
    X = np.array([1.0, 2, 4, 8])
    profile = smoothing_profile(path4(), rounds=3)
    residual = X - top * (top @ X)
    assert profile.distance[0] == pytest.approx(np.linalg.norm(residual) / np.linalg.norm(X))
    assert profile.norm[0] == pytest.approx(math.sqrt(85))
    assert (profile.n_components, profile.n_isolated, profile.top_dimension) == (1, 0, 1)
    assert profile.top_eigenvalues == pytest.approx((1, 1))
    # On vectors that change sign with the order of the path, P is [[1/2, 1/sqrt 6], [1/sqrt 6, 0]].
    assert profile.lambda_2 == pytest.approx((1 / 2 + math.sqrt(11 / 12)) / 2)
    assert profile.rounds == 3
    assert not profile.missing


def test_residual_survives_far_below_the_rounding_of_the_norm() -> None:
    # The part outside is halved every time, and would soon vanish in a difference of norms.
    lazy = np.array([[0.75, 0.25], [0.25, 0.75]])
    profile = smoothing_profile(pair(features=[[1.0], [-0.5]]), rounds=40, propagation=lazy)
    ratios = np.array(profile.distance[25:35]) / np.array(profile.distance[24:34])
    np.testing.assert_allclose(ratios, 0.5, rtol=1e-3)
    assert profile.distance[40] < 1e-11


def test_bipartite_graph_does_not_decay() -> None:
    profile = smoothing_profile(path4(), rounds=40, propagation=NormalizedAdjacency())
    assert profile.lambda_2 == pytest.approx(-1)
    assert profile.distance[40] > 0.1
    assert profile.hops_bound(0.99) is None
    assert profile.hops_until(0.99) is None


def test_isolated_nodes_keep_their_features_only_if_they_hear_themselves() -> None:
    graph = Graph(sp.csr_array((3, 3)), np.eye(3))
    kept = smoothing_profile(graph, rounds=2)
    assert kept.norm == pytest.approx([math.sqrt(3)] * 3)
    assert (kept.n_isolated, kept.top_dimension, kept.lambda_2) == (3, 3, None)
    assert kept.distance == (0, 0, 0)
    assert kept.predicted is None
    assert kept.hops_bound(0.99) is None
    assert kept.missing == {"lambda_2": "nothing is outside the top eigenspace"}
    lost = smoothing_profile(graph, rounds=2, propagation=NormalizedAdjacency())
    assert lost.norm == pytest.approx([math.sqrt(3), 0, 0])
    assert lost.distance == (1, 0, 0)
    assert lost.effective_rank == pytest.approx((3, 0, 0))
    assert (lost.top_dimension, lost.top_eigenvalues, lost.lambda_2) == (0, None, 0)
    assert lost.predicted == (1, 0, 0)


def test_single_node_and_zero_features() -> None:
    assert smoothing_profile(Graph([[0]], [[2.0]]), rounds=1).norm == (2, 2)
    zero = smoothing_profile(pair(features=[[0.0], [0.0]]), rounds=1)
    assert zero.norm == zero.distance == zero.energy == zero.effective_rank == (0, 0)
    assert zero.hops_bound(0.99) == 0


def test_complete_graph_is_smooth_after_one_hop() -> None:
    profile = smoothing_profile(pair(), rounds=2)
    assert profile.lambda_2 == pytest.approx(0, abs=1e-12)
    assert profile.hops_until(0.999) == 1
    assert profile.hops_bound(0.999) == 1


def test_features_outside_the_top_eigenspace_get_no_promise() -> None:
    profile = smoothing_profile(pair(features=[[1.0], [-1.0]]), rounds=0, propagation=AugmentedAdjacency())
    assert profile.distance == pytest.approx((1,))
    assert profile.hops_bound(0.5) is None


@pytest.mark.parametrize("recipe", RECIPES, ids=repr)
def test_sparse_features_and_given_features_equal_dense_ones(recipe: Propagation) -> None:
    graph = random_graph(4, 12, 2)
    sparse = Graph(graph.adjacency, sp.csr_array(graph.features))
    bare = Graph(graph.adjacency, np.ones((12, 1)))
    expected = smoothing_profile(graph, rounds=3, propagation=recipe)
    assert smoothing_profile(sparse, rounds=3, propagation=recipe) == expected
    assert smoothing_profile(bare, graph.features, rounds=3, propagation=recipe) == expected
    matrix = Operator.from_matrix(recipe.build(graph.adjacency)).to_scipy()
    assert smoothing_profile(graph, rounds=3, propagation=matrix) == expected
    assert smoothing_profile(graph, rounds=3, propagation=matrix.toarray()).norm == expected.norm


def test_a_few_columns_at_a_time_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph(path4().adjacency, np.random.default_rng(0).normal(size=(4, 7)))
    whole = smoothing_profile(graph, rounds=5)
    monkeypatch.setattr(smoothing, "_BLOCK_ENTRIES", 8)
    parts = smoothing_profile(graph, rounds=5, rank_limit=3)
    for name in ("norm", "distance", "energy"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12)
    assert parts.effective_rank is None
    assert parts.missing["effective_rank"] == "min(N, C) = 4 is above rank_limit = 3"
    monkeypatch.setattr(smoothing, "_RANK_ENTRIES", 27)
    assert "more than 27 entries" in smoothing_profile(graph, rounds=1).missing["effective_rank"]


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        (np.zeros((4, 2)), 0),
        (np.ones((6, 3)), 1),
        (np.eye(7)[:, :4], 4),
        (np.eye(3, 8) * -5, 3),
        (np.diag([3.0, 1.0]), 4 / 3**0.75),
        (np.diag([1.0, 1e-9]), 1),
    ],
)
def test_effective_rank_of_known_matrices(matrix: np.ndarray, expected: float) -> None:
    assert effective_rank(matrix) == pytest.approx(expected, rel=1e-7)


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), shape=st.tuples(st.integers(1, 9), st.integers(1, 9)))
def test_effective_rank_is_that_of_the_transpose_and_at_most_the_rank(
    seed: int, shape: tuple[int, int]
) -> None:
    X = np.random.default_rng(seed).normal(size=shape)
    assert effective_rank(X) == pytest.approx(effective_rank(X.T), rel=1e-9)
    assert 1 - 1e-9 <= effective_rank(X) <= min(shape) + 1e-9


def test_rows_and_facts_are_json_ready() -> None:
    rotation = np.array([[0.5, 0, 0, 0], [0, 0, -0.25, 0], [0, 0.25, 0, 0], [0, 0.1, 0, 0.1]])
    profile = smoothing_profile(path4(), rounds=2, propagation=rotation, rank_limit=0)
    text = json.dumps({**profile.facts(), "rows": profile.rows()}, allow_nan=False)
    facts = json.loads(text)
    assert [row["t"] for row in facts["rows"]] == [0, 1, 2]
    assert {row["effective_rank"] for row in facts["rows"]} == {None}
    assert facts["is_symmetric"] is False
    assert facts["lambda_2"] == pytest.approx(0.1)
    assert facts["lambda_2_imaginary"] == 0
    assert facts["top_eigenvalues"] == pytest.approx([0.25, 0.5])
    assert "rank" not in repr(profile)


def test_repr_is_one_line() -> None:
    words = repr(smoothing_profile(pair(), rounds=1))
    assert words.startswith("SmoothingProfile(rounds=1, n_components=1, lambda_2=")
    assert "distance 0.4472 to" in words
    assert "lambda_2=None" in repr(smoothing_profile(Graph([[0]], [[1.0]])))


def test_what_was_not_found_is_none_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(*_: object) -> None:
        raise ArpackNoConvergence("no convergence", np.empty(0), np.empty(0))

    monkeypatch.setattr(smoothing, "second_eigenvalue", give_up)
    profile = smoothing_profile(path4(), rounds=2)
    assert profile.lambda_2 is profile.predicted is profile.hops_bound(0.9) is None
    assert profile.distance is not None
    assert profile.missing["lambda_2"] == "not found, ARPACK error -1: no convergence"
    monkeypatch.setattr(smoothing, "top_eigenspace", give_up)
    profile = smoothing_profile(path4(), rounds=2)
    assert profile.distance is profile.top_dimension is profile.top_eigenvalues is None
    assert set(profile.missing) == {"distance", "lambda_2"}
    assert profile.hops_until(0.9) is None
    assert (profile.n_components, profile.is_symmetric) == (1, True)
    assert profile.norm[0] == pytest.approx(math.sqrt(85))


def test_explicit_zeros_connect_nothing() -> None:
    matrix = sp.csr_array(([1.0, 0.0, 0.0, 1.0], [0, 1, 0, 1], [0, 2, 4]), shape=(2, 2))
    assert smoothing_profile(pair(), rounds=0, propagation=matrix).n_components == 2
    assert matrix.nnz == 4


def test_errors_say_what_would_work() -> None:
    with pytest.raises(ParameterError, match="unknown propagation 'augmentd'. Did you mean 'augmented'"):
        smoothing_profile(path4(), propagation="augmentd")
    with pytest.raises(ParameterError, match="propagation must be a name .* an object of Propagation; got 3"):
        smoothing_profile(path4(), propagation=3)
    with pytest.raises(ParameterError, match="smoothing_profile.rounds must be an integer >= 0; got -1"):
        smoothing_profile(path4(), rounds=-1)
    with pytest.raises(ParameterError, match="smoothing_profile.rank_limit must be an integer >= 0; got 0.5"):
        smoothing_profile(path4(), rank_limit=0.5)
    with pytest.raises(ParameterError, match=r"\|X_\d+\| is too large for double precision.*fewer than 60"):
        smoothing_profile(path4(), rounds=60, propagation=np.eye(4) * 1e6)
    with pytest.raises(GraphError, match="features has 3 rows but adjacency is 4 x 4"):
        smoothing_profile(path4(), np.ones((3, 2)))
    with pytest.raises(ParameterError, match="GivenMatrix.matrix is 3 x 3, but the graph has 4 nodes"):
        smoothing_profile(path4(), propagation=np.eye(3))


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_shares_are_from_zero_to_one(share: float) -> None:
    profile = smoothing_profile(path4(), rounds=1)
    with pytest.raises(ParameterError, match=r"hops_until.share must be in \[0, 1\]"):
        profile.hops_until(share)
    with pytest.raises(ParameterError, match=r"hops_bound.share must be in \(0, 1\)"):
        profile.hops_bound(share)


def test_prediction_survives_powers_beyond_double_precision() -> None:
    growing = np.diag([4.0, 1.0, 3.0])
    growing[0, 2] = growing[2, 0] = 0.5
    graph = Graph(np.zeros((3, 3)), [[0.0], [1.0], [0.0]])
    still = smoothing_profile(graph, rounds=1000, propagation=growing)
    assert set(still.predicted) == {0.0}
    outside = replace(still, distance=(1.0,) * 1001)
    assert set(outside.predicted) == {1.0}


def test_negative_weights_are_allowed_where_the_recipe_allows_them() -> None:
    graph = Graph([[0, -1.0], [-1.0, 0]], [[1.0], [2.0]])
    profile = smoothing_profile(graph, rounds=3, propagation=GivenMatrix())
    assert profile.norm == pytest.approx([math.sqrt(5)] * 4)
    assert profile.lambda_2 == pytest.approx(-1)


@pytest.mark.dataset
@pytest.mark.parametrize(
    ("name", "n_components", "n_isolated", "lambda_2"),
    [("cora", 78, 0, 0.996379), ("citeseer", 438, 48, 0.998744), ("pubmed", 1, 0, 0.990520)],
)
def test_planetoid_graphs(
    name: str, n_components: int, n_isolated: int, lambda_2: float, planetoid_folder: Path
) -> None:
    graph = datasets.load(name, data_dir=planetoid_folder).graph
    profile = smoothing_profile(graph, rounds=3, rank_limit=0)
    assert isinstance(profile, SmoothingProfile)
    assert (profile.n_components, profile.n_isolated) == (n_components, n_isolated)
    assert profile.top_dimension == n_components
    assert profile.top_eigenvalues == pytest.approx((1, 1))
    # By a full decomposition for cora and citeseer.
    assert profile.lambda_2 == pytest.approx(lambda_2, abs=1e-6)
    assert list(profile.distance) == sorted(profile.distance, reverse=True)
    walk = smoothing_profile(graph, rounds=0, propagation=RandomWalk(), rank_limit=0)
    assert walk.top_dimension == n_components - n_isolated


def test_a_name_is_its_object_and_the_default_is_the_augmented_adjacency() -> None:
    graph = path4()
    walk = smoothing_profile(graph, rounds=3, propagation=RandomWalk())
    assert smoothing_profile(graph, rounds=3, propagation="random_walk") == walk
    augmented = smoothing_profile(graph, rounds=3, propagation=AugmentedAdjacency())
    assert smoothing_profile(graph, rounds=3) == smoothing_profile(graph, graph.features, 3) == augmented
