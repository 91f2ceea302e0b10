from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

from gbgnn.errors import GraphError, ParameterError
from gbgnn.propagation import (
    AugmentedAdjacency,
    Csr,
    GivenMatrix,
    NormalizedAdjacency,
    NormalizedLaplacian,
    Operator,
    Propagation,
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


OLD_FORMULA = {
    "augmented": (AugmentedAdjacency(), 1, -0.5, -0.5, 0),
    "normalized": (NormalizedAdjacency(), 0, -0.5, -0.5, 0),
    "random walk": (RandomWalk(), 0, -1, 0, 0),
    "random walk with loops": (RandomWalk(self_loops=True), 1, -1, 0, 0),
    "laplacian": (NormalizedLaplacian(), 0, -0.5, -0.5, 1),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", OLD_FORMULA.values(), ids=OLD_FORMULA)
def test_description_equals_scaling_the_entries(case: tuple[object, ...], weighted: bool) -> None:
    recipe, loops, left, right, identity = case
    random = np.random.default_rng(0)
    A = (random.random((20, 20)) < 0.15) * (random.random((20, 20)) if weighted else 1.0)
    B = A + loops * np.eye(20)
    row, column = B.sum(axis=1), B.sum(axis=0)
    L = np.power(row, left, out=np.zeros(20), where=row > 0)
    R = np.power(column, right, out=np.zeros(20), where=column > 0) if right else np.ones(20)
    expected = L[:, None] * B * R
    operator = recipe.build(sp.csr_array(A))
    expected = np.eye(20) - expected if identity else expected
    np.testing.assert_allclose(operator.to_scipy().toarray(), expected, atol=1e-14)
    assert (operator.edges.values is None) == (not weighted)
    np.testing.assert_array_equal(
        recipe.build(Csr.from_matrix(sp.csr_array(A))).toarray(), operator.toarray()
    )


def test_recipe_of_ones_own_may_return_a_scipy_matrix() -> None:
    @dataclass(kw_only=True, eq=False, repr=False)
    class Squared(Propagation):
        def build(self, adjacency: object) -> sp.csr_array:
            P = AugmentedAdjacency().build(adjacency).to_scipy()
            return P @ P

    once = AugmentedAdjacency().build(PATH).toarray()
    np.testing.assert_allclose(Operator.from_matrix(Squared().build(PATH)).toarray(), once @ once)


def test_symmetric_graphs_share_one_scaling() -> None:
    operator = AugmentedAdjacency().build(PATH)
    assert operator.left is operator.right
    assert operator.self_loop == 1


def broken(**parts: list[int]) -> sp.csr_array:
    matrix = sp.csr_array(np.eye(3))
    for name, values in parts.items():
        setattr(matrix, name, np.array(values, np.int32))
    return matrix


@pytest.mark.parametrize("format", ["csr", "csc"])
@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"indices": [0, 1, 3]}, r"holds (column|row) 3, but it has 3"),
        ({"indices": [0, -1, 2]}, r"holds (column|row) -1, but it has 3"),
        ({"indptr": [0, 2, 1, 3]}, "indptr falls from 2 to 1"),
    ],
)
def test_indices_of_a_given_matrix_are_checked(parts: dict[str, list[int]], words: str, format: str) -> None:
    matrix = broken(**parts)
    matrix = matrix if format == "csr" else matrix.T  # shares the arrays
    with pytest.raises(ParameterError, match=f"GivenMatrix.matrix.*{words}"):
        GivenMatrix(matrix=matrix).build(sp.csr_array((3, 3)))


@pytest.mark.parametrize("place", [3, -1])
def test_places_of_a_given_coordinate_matrix_are_checked(place: int) -> None:
    matrix = sp.coo_array(np.eye(3))
    matrix.col[0] = place
    with pytest.raises(ParameterError, match=f"GivenMatrix.matrix holds column {place}, but it has 3"):
        GivenMatrix(matrix=matrix).build(sp.csr_array((3, 3)))


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([["a", "b"], ["c", "d"]], "GivenMatrix.matrix must be numbers; got list of dtype <U1"),
        (np.eye(2) * 1j, "GivenMatrix.matrix must be real; got complex"),
        (sp.csr_array(np.eye(2) * 1j), "GivenMatrix.matrix must be real; got complex"),
        (np.ones(2), r"GivenMatrix.matrix must be a square matrix; got shape \(2,\)"),
        ([[1, 2], [3]], "GivenMatrix.matrix is not a matrix"),
    ],
    ids=["words", "complex", "complex sparse", "vector", "ragged"],
)
def test_given_matrix_must_be_real_numbers(matrix: object, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        GivenMatrix(matrix=matrix).build(sp.csr_array((2, 2)))


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
    P = RandomWalk().build(sp.csr_array(weights)).to_scipy()
    assert P[0, 2] == 1 / (2**24 + 2)
