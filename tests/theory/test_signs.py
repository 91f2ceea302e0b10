from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn.errors import ParameterError
from gbgnn.theory import monte_carlo as module
from gbgnn.theory.monte_carlo import as_matrix, draw_sums


def drawn(n_nodes: int, p: float, group: int = 0, seed: int = 0) -> np.ndarray:
    """Sigma itself, a row per draw."""
    return draw_sums(np.eye(n_nodes), p, seed, group)


@pytest.mark.parametrize("p", [1e-4, 0.01, 0.2, 0.4999, 0.5])
def test_signs_have_their_probabilities_at_every_node(p: float) -> None:
    n_nodes, groups = 40, range(60)
    sigma = np.concatenate([drawn(n_nodes, p, group) for group in groups])
    assert set(np.unique(sigma)) <= {-1.0, 0.0, 1.0}
    for sign, probability in ((1, p), (-1, p), (0, 1 - 2 * p)):
        share = (sigma == sign).mean()
        assert share == pytest.approx(probability, abs=5 * np.sqrt(probability / sigma.size))
    spread = np.sqrt(p * (1 - p) / len(sigma))
    assert abs((sigma == 1).mean(axis=0) - p).max() <= 5 * spread
    assert abs((sigma == -1).mean(axis=0) - p).max() <= 5 * spread


def test_signs_of_different_nodes_and_draws_are_uncorrelated() -> None:
    sigma = np.concatenate([drawn(20, 0.3, group) for group in range(100)])
    moments = sigma.T @ sigma / len(sigma)
    np.testing.assert_allclose(moments, 0.6 * np.eye(20), atol=5 * np.sqrt(0.36 / len(sigma)))
    assert abs((sigma[1:] * sigma[:-1]).mean()) < 5 * 0.6 / np.sqrt(sigma.size)


def test_groups_and_seeds_differ_and_repeat() -> None:
    first = drawn(30, 0.3)
    np.testing.assert_array_equal(drawn(30, 0.3), first)
    assert (drawn(30, 0.3, group=1) != first).any()
    assert (drawn(30, 0.3, seed=1) != first).any()


@pytest.mark.parametrize("p", [0.001, 0.2, 0.5])
def test_signs_do_not_depend_on_the_size_of_a_block(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = drawn(100, p)
    for block in (2**8, 2**13 - 5, 2**17):
        monkeypatch.setattr(module, "_BLOCK", block)
        np.testing.assert_array_equal(drawn(100, p), whole)


@pytest.mark.parametrize("p", [1e-12, 1e-300])
def test_tiny_probabilities_draw_nothing_and_fail_nowhere(p: float) -> None:
    assert not drawn(1000, p).any()


@pytest.mark.parametrize(
    "vectors",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]], dtype=np.int8),
        np.array([[1, 2], [3, 4]], dtype=np.float16),
        np.array([[1, 2], [3, 4]], dtype=np.float32),
        sp.coo_matrix([[1, 2], [3, 4]]),
        sp.csc_array([[1.0, 2], [3, 4]], dtype=np.float32),
        torch.tensor([[1, 2], [3, 4]]),
        torch.tensor([[1.0, 2], [3, 4]], dtype=torch.bfloat16),
        torch.tensor([[1.0, 2], [3, 4]], requires_grad=True),
    ],
    ids=["list", "int8", "half", "single", "coo", "csc", "int64", "bfloat16", "grad"],
)
def test_matrices_of_every_kind_become_the_same(vectors: object) -> None:
    X = as_matrix("test", vectors)
    assert X.dtype in (np.float32, np.float64)
    np.testing.assert_array_equal(X.toarray() if sp.issparse(X) else X, [[1, 2], [3, 4]])
    sums = draw_sums(X, 0.5, 0, 0)
    np.testing.assert_array_equal(sums, drawn(2, 0.5) @ [[1.0, 2], [3, 4]])


@pytest.mark.parametrize(
    ("vectors", "got"),
    [
        (np.ones(3), r"ndarray of float64, shape \(3,\)"),
        (np.ones((3, 0)), r"ndarray of float64, shape \(3, 0\)"),
        ([["a", "b"]], r"list of <U1, shape \(1, 2\)"),
        (np.ones((2, 2), dtype=complex), "ndarray of complex128"),
        (torch.ones(2, 2, dtype=torch.complex64), "Tensor of torch.complex64"),
        (torch.ones(2, 2).to_sparse(), "Tensor of torch.float32"),
        (sp.csr_array((3, 0)), r"csr_array of float64, shape \(3, 0\)"),
    ],
)
def test_what_is_no_real_matrix_is_refused(vectors: object, got: str) -> None:
    with pytest.raises(ParameterError, match=f"test.vectors must be a matrix of real numbers.*got {got}"):
        as_matrix("test", vectors)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_entries_that_are_not_finite_are_refused(bad: float) -> None:
    X = np.array([[1.0, bad], [0.0, 2.0]])
    for vectors in (X, sp.csr_array(X), torch.tensor(X)):
        with pytest.raises(ParameterError, match="test.vectors has NaN or infinite entries"):
            as_matrix("test", vectors)


def test_a_sparse_matrix_may_be_empty() -> None:
    assert not draw_sums(as_matrix("test", sp.csr_array((3, 2))), 0.5, 0, 0).any()
