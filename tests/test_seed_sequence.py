from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gbgnn._random import Seeds
from gbgnn._seed_sequence import derive_seeds

WORDS = st.integers(0, 2**32 - 1)


@given(st.lists(WORDS, min_size=1, max_size=5), st.lists(WORDS, min_size=1, max_size=4))
def test_many_seeds_are_those_of_numpy_one_by_one(roots: list[int], path: list[int]) -> None:
    states = [np.random.SeedSequence(root, spawn_key=path).generate_state(1, np.uint64)[0] for root in roots]
    assert derive_seeds(roots, *path) == [int(state) >> 1 for state in states]


def test_the_heads_of_many_models_have_the_seeds_they_have_alone() -> None:
    members = [Seeds(root) for root in (*range(20), 2**32 - 1)]
    for t, attempt in ((1, 0), (7, 0), (7, 3)):
        assert Seeds.heads(members, t, attempt) == [own.head(t, attempt) for own in members]
    larger = [*members, Seeds(2**40 + 3)]
    assert Seeds.heads(larger, 5) == [own.head(5) for own in larger]
