from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gbgnn.errors import GraphError, ParameterError
from gbgnn.propagation import (
    AugmentedAdjacency,
    GivenMatrix,
    NormalizedAdjacency,
    NormalizedLaplacian,
    RandomWalk,
)
from gbgnn.testing import check_propagation, path4

PATH = path4().adjacency
R2, R3 = 1 / np.sqrt(2), 1 / np.sqrt(3)


@pytest.mark.parametrize(
    "recipe",
    [AugmentedAdjacency(), NormalizedAdjacency(), RandomWalk(), NormalizedLaplacian(), GivenMatrix()],
    ids=lambda recipe: type(recipe).__name__,
)
def test_recipe_keeps_its_contract(recipe: object) -> None:
    check_propagation(recipe)


# The path 0 - 1 - 2 - 3 by hand: degrees 1, 2, 2, 1.
BY_HAND = {
    "augmented": (
        AugmentedAdjacency(),
        [
            [1 / 2, R2 * R3, 0, 0],
            [R2 * R3, 1 / 3, 1 / 3, 0],
            [0, 1 / 3, 1 / 3, R2 * R3],
            [0, 0, R2 * R3, 1 / 2],
        ],
    ),
    "normalized": (NormalizedAdjacency(), [[0, R2, 0, 0], [R2, 0, 0.5, 0], [0, 0.5, 0, R2], [0, 0, R2, 0]]),
    "random walk": (RandomWalk(), [[0, 1, 0, 0], [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5], [0, 0, 1, 0]]),
    "random walk with loops": (
        RandomWalk(self_loops=True),
        [[0.5, 0.5, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0], [0, 1 / 3, 1 / 3, 1 / 3], [0, 0, 0.5, 0.5]],
    ),
    "laplacian": (
        NormalizedLaplacian(),
        [[1, -R2, 0, 0], [-R2, 1, -0.5, 0], [0, -0.5, 1, -R2], [0, 0, -R2, 1]],
    ),
}


@pytest.mark.parametrize(("recipe", "expected"), BY_HAND.values(), ids=BY_HAND)
def test_p_of_a_path_equals_hand_work(recipe: object, expected: list[list[float]]) -> None:
    np.testing.assert_allclose(recipe.build(PATH).toarray(), expected, atol=1e-7)


def test_directed_weighted_graph_by_hand() -> None:
    # Row sums 5, 0, 1 and column sums 1, 2, 3; node 1 hears nobody.
    A = sp.csr_array([[0, 2.0, 3.0], [0, 0, 0], [1.0, 0, 0]])
    P = NormalizedAdjacency().build(A).toarray()
    expected = [[0, 2 / np.sqrt(5 * 2), 3 / np.sqrt(5 * 3)], [0, 0, 0], [1, 0, 0]]
    np.testing.assert_allclose(P, expected)
    np.testing.assert_allclose(RandomWalk().build(A).toarray(), [[0, 0.4, 0.6], [0, 0, 0], [1, 0, 0]])


def test_isolated_node_keeps_itself_only_under_augmentation() -> None:
    A = sp.csr_array((2, 2), dtype=float)
    np.testing.assert_array_equal(AugmentedAdjacency().build(A).toarray(), np.eye(2))
    np.testing.assert_array_equal(NormalizedAdjacency().build(A).toarray(), np.zeros((2, 2)))
    np.testing.assert_array_equal(NormalizedLaplacian().build(A).toarray(), np.eye(2))


def test_given_matrix_is_taken_as_it_is() -> None:
    matrix = np.array([[0.0, -1.0], [2.0, 0.0]])
    np.testing.assert_array_equal(GivenMatrix(matrix=matrix).build(sp.csr_array((2, 2))).toarray(), matrix)


def test_errors_say_what_would_work() -> None:
    with pytest.raises(GraphError, match=r'negative weights \(smallest: -1\).*propagation="given"'):
        AugmentedAdjacency().build(sp.csr_array([[0.0, -1.0], [-1.0, 0.0]]))
    with pytest.raises(ParameterError, match="GivenMatrix.matrix is 3 x 3, but the graph has 2 nodes"):
        GivenMatrix(matrix=np.eye(3)).build(sp.csr_array((2, 2)))
    with pytest.raises(ParameterError, match="NaN or infinite"):
        GivenMatrix(matrix=[[np.nan]]).build(sp.csr_array((1, 1)))


def test_degrees_of_single_precision_graphs_are_summed_in_double() -> None:
    """2^24 + 1 is the first integer that single precision cannot count to."""
    weights = np.zeros((4, 4), np.float32)
    weights[0, 1:] = 2**24, 1, 1
    P = RandomWalk().build(sp.csr_array(weights))
    assert P[0, 2] == 1 / (2**24 + 2)
