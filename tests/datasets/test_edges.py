from __future__ import annotations

import numpy as np

from gbgnn.datasets.arrays import build_adjacency


def _build(pairs, weights=None, n_nodes=3, **options):
    ends = np.array(pairs).reshape(-1, 2)
    given = None if weights is None else np.array(weights)
    matrix, mended = build_adjacency(ends[:, 0], ends[:, 1], n_nodes, weights=given, **options)
    return matrix.toarray().tolist(), mended


def test_a_directed_edge_lets_the_target_hear_the_source():
    matrix, mended = _build([(0, 1)], directed=True, n_nodes=2)
    assert matrix == [[0, 0], [1, 0]]
    assert mended == []


def test_an_undirected_edge_goes_both_ways():
    assert _build([(0, 1)], n_nodes=2) == ([[0, 1], [1, 0]], [])


def test_listing_every_edge_both_ways_is_not_a_repair():
    both = [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert _build(both) == _build([(0, 1), (1, 2)])
    assert _build(both, [2.0, 2.0, 3.0, 3.0])[0] == [[0, 2, 0], [2, 0, 3], [0, 3, 0]]


def test_repeats_are_merged_and_counted():
    assert _build([(0, 1), (1, 0), (0, 1), (1, 2)])[1] == ["merged 2 repeated edges"]
    assert _build([(0, 1), (1, 0), (0, 1)], directed=True)[1] == ["merged 1 repeated edges"]


def test_weights_of_repeats_are_summed():
    matrix, mended = _build([(0, 1), (0, 1), (1, 0), (1, 2)], [1, 2, 4, 5])
    assert matrix == [[0, 7, 0], [7, 0, 5], [0, 5, 0]]
    assert mended == ["merged 2 repeated edges, weights summed"]


def test_self_loops_are_dropped_and_counted():
    matrix, mended = _build([(0, 0), (0, 1), (2, 2)])
    assert matrix == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert mended == ["dropped 2 self loops"]


def test_no_edges_at_all_is_a_graph():
    matrix, mended = _build(np.empty((0, 2), dtype=np.int64))
    assert not np.any(matrix)
    assert mended == []
