from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gbgnn.report import Subject
from gbgnn.report.evidence.nodes import fair_shares, list_nodes


@given(st.lists(st.integers(0, 50), max_size=5), st.integers(0, 120))
def test_shares_are_fair(sizes: list[int], n_most: int) -> None:
    shares = fair_shares(sizes, n_most)
    assert all(0 <= share <= size for share, size in zip(shares, sizes, strict=True))
    assert sum(shares) <= n_most
    cut = [share for share, size in zip(shares, sizes, strict=True) if share < size]
    assert not cut or sum(shares) == n_most
    assert all(share >= other - 1 for share in cut for other in shares)


def test_all_nodes_are_listed_test_nodes_first(classes: Subject) -> None:
    found = list_nodes(classes, 1000)
    assert [(group.part, len(group.nodes)) for group in found.groups] == [
        ("test", 20),
        ("validation", 10),
        ("training", 20),
        ("no part", 10),
    ]
    assert found.n_listed == found.n_nodes == 60
    assert found.groups[-1].truth is None
    nodes = np.concatenate([group.nodes for group in found.groups])
    assert sorted(nodes.tolist()) == list(range(60))
    predicted = np.concatenate([group.predicted for group in found.groups])
    assert (predicted == classes.model.predict(nodes)).all()


def test_of_many_nodes_some_of_every_part_are_listed(classes: Subject) -> None:
    found = list_nodes(classes, 21)
    assert [len(group.nodes) for group in found.groups] == [5, 5, 6, 5]
    assert found.n_nodes == 60
    again = list_nodes(classes, 21)
    assert all((a.nodes == b.nodes).all() for a, b in zip(found.groups, again.groups, strict=True))


def test_a_run_without_data_lists_nothing(bare: Subject) -> None:
    assert list_nodes(bare, 1000).groups == []
