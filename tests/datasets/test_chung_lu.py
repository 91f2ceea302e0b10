from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.datasets import chung_lu
from gbgnn.datasets.chung_lu import ChungLu
from gbgnn.errors import ParameterError


def adjacency(drawn: ChungLu) -> sp.csr_array:
    blocks = []
    for block in range(drawn.n_blocks):
        ends, columns = drawn.entries(block)
        parts = (np.ones(len(columns)), columns, np.concatenate([[0], ends]))
        blocks.append(sp.csr_array(parts, shape=(len(drawn.rows(block)), drawn.n_nodes)))
    return sp.csr_array(sp.vstack(blocks))


@settings(max_examples=25)
@given(
    n_nodes=st.integers(80, 500),
    n_classes=st.integers(2, 4),
    n_blocks=st.integers(1, 7),
    homophily=st.floats(0, 1),
    seed=st.integers(0, 2**64),
)
def test_blocks_are_a_symmetric_matrix_without_loops_and_repeats(
    n_nodes: int, n_classes: int, n_blocks: int, homophily: float, seed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chung_lu, "_ENTRIES", 4 * n_nodes / n_blocks)
        patch.setattr(chung_lu, "_DRAWS", 37)
        drawn = ChungLu(n_nodes, 2 * n_nodes, n_classes, homophily, 2.5, seed)
        assert drawn.n_blocks == n_blocks
        A = adjacency(drawn)
        y = drawn.classes()
    assert A.shape == (n_nodes, n_nodes)
    assert (A != A.T).nnz == 0
    assert not A.diagonal().any()
    assert A.has_sorted_indices
    assert (A.data == 1).all()
    A.sum_duplicates()
    assert (A.data == 1).all()
    assert np.ptp(np.bincount(y)) <= n_blocks
    if homophily in (0, 1):
        rows, columns = A.nonzero()
        assert ((y[rows] == y[columns]) == homophily).all()


@pytest.mark.parametrize("exponent", [2.2, 2.5, 3.0])
def test_the_tail_of_degrees_has_the_slope_asked_for(exponent: float) -> None:
    drawn = ChungLu(100_000, 400_000, 4, 0.6, exponent, seed=0)
    degrees = np.diff(adjacency(drawn).indptr)
    some = np.geomspace(20, 600, 10)
    share = np.array([(degrees >= each).mean() for each in some])
    slope = np.polyfit(np.log(some), np.log(share), 1)[0]
    assert 1 - slope == pytest.approx(exponent, abs=0.25)
    assert degrees.max() > 50 * degrees.mean()
    assert degrees.sum() == pytest.approx(800_000, rel=0.01)


def test_numbers_of_nodes_say_nothing_of_degrees() -> None:
    degrees = np.diff(adjacency(ChungLu(30_000, 200_000, 5, 0.7, 2.5, seed=0)).indptr)
    parts = [part.mean() for part in np.array_split(degrees, 10)]
    assert np.ptp(parts) < 0.2 * degrees.mean()


def test_more_edges_than_there_is_room_for_are_refused() -> None:
    with pytest.raises(
        ParameterError, match="quarter of a class for neighbours, here 12.5; lower mean_degree"
    ):
        ChungLu(100, 700, 2, 0.5, 2.5, 0)


@pytest.mark.parametrize("exponent", [2.01, 2.5, 10.0])
@pytest.mark.parametrize("homophily", [0.0, 1.0])
def test_enough_edges_come_where_there_is_hardly_room(exponent: float, homophily: float) -> None:
    drawn = ChungLu(2000, 190_000, 2, homophily, exponent, seed=0)
    assert adjacency(drawn).nnz == pytest.approx(380_000, rel=0.02)
