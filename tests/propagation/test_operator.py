from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.errors import GraphError
from gbgnn.propagation import Csr, Operator, Propagator, operator


def drawn(seed: int, n_nodes: int = 6) -> tuple[Operator, np.ndarray]:
    """An operator, and by its formula the matrix."""
    random = np.random.default_rng(seed)
    A = sp.random_array((n_nodes, n_nodes), density=0.4, rng=random, format="csr")
    A = A if seed % 2 else sp.csr_array((A > 0).astype(float))
    left, right = random.normal(size=(2, n_nodes))
    self_loop, identity = random.choice([0.0, 1.0, -0.3], size=2)
    operator = Operator(Csr.from_matrix(A), torch.tensor(left), torch.tensor(right), self_loop, identity)
    eye = np.eye(n_nodes)
    return operator, identity * eye + left[:, None] * (A.toarray() + self_loop * eye) * right


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_description_stands_for_its_formula(seed: int) -> None:
    operator, expected = drawn(seed)
    P = operator.to_scipy()
    np.testing.assert_allclose(P.toarray(), expected, atol=1e-15)
    assert P.dtype == np.float64
    assert P.has_sorted_indices
    assert P.has_canonical_format
    np.testing.assert_allclose(operator.transpose().toarray(), expected.T, atol=1e-15)
    beside = operator.diagonal_terms()
    A = operator.left.numpy()[:, None] * operator.edges.to_scipy().toarray() * operator.right.numpy()
    beside = np.zeros(6) if beside is None else beside.numpy()
    np.testing.assert_allclose(A + np.diag(beside), expected, atol=1e-15)


def test_forming_the_matrix_leaves_the_description_alone() -> None:
    A = sp.csr_array(np.array([[0.0, 2.0], [3.0, 0.0]]))
    operator = Operator(Csr.from_matrix(A), left=torch.tensor([2.0, 2.0], dtype=torch.float64))
    assert operator.toarray().tolist() == operator.toarray().tolist() == [[0, 4], [6, 0]]
    assert A.data.tolist() == [2, 3]


def test_duplicates_are_summed_and_columns_sorted() -> None:
    A = sp.csr_array((np.array([1.0, 1.0, 1.0]), np.array([1, 0, 1]), np.array([0, 3, 3])), shape=(2, 2))
    P = Operator.from_matrix(A).to_scipy()
    assert P.data.tolist() == [1, 2]
    assert P.indices.tolist() == [0, 1]
    assert A.nnz == 3


def test_door_takes_what_a_recipe_returns() -> None:
    A = sp.csr_array(np.eye(2))
    operator = Operator.from_matrix(A)
    assert Operator.from_matrix(operator) is operator
    assert Operator.from_matrix(Csr.from_matrix(A)).n_nodes == Operator.from_matrix(A).n_nodes == 2
    assert Operator.from_matrix(sp.coo_array(A)).device == torch.device("cpu")
    with pytest.raises(GraphError, match="P must be a square matrix; got 2 x 3"):
        Operator.from_matrix(sp.csr_array((2, 3)))


def test_bytes_count_a_shared_scaling_once() -> None:
    edges = Csr.from_matrix(sp.csr_array(np.eye(3)))
    ones = torch.ones(3, dtype=torch.float64)
    bare, shared, apart = (
        Propagator(Operator(edges, left, right), dtype=torch.float64).nbytes
        for left, right in ((None, None), (ones, ones), (ones, ones.clone()))
    )
    assert (shared - bare, apart - bare) == (24, 48)
    assert Operator(edges, ones).to("cpu").left is ones


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sides", [("left",), ("right",), ("left", "right")], ids=str)
def test_values_are_the_same_for_any_spans_of_rows(weighted: bool, sides: tuple[str, ...]) -> None:
    random = np.random.default_rng(0)
    A = sp.random_array((40, 40), density=0.1, rng=random, format="csr")
    A = A if weighted else sp.csr_array((A > 0).astype(np.float32))
    scalings = {side: torch.from_numpy(random.random(40)) for side in sides}
    P = Operator(Csr.from_scipy(A), **scalings)
    for n_entries in (1, 5, 10**6):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(operator, "_FORMED", n_entries)
            assert (len(P.edges.spans(n_entries)) > 1) == (n_entries < 10**6)
            np.testing.assert_array_equal(P.values(torch.float64), P.to_scipy().data)
