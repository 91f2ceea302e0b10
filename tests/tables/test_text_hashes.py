from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import HashingVectorizer

from gbgnn.tables.text_hashes import hash_text


@given(st.lists(st.text(max_size=20), max_size=8), st.integers(1, 40))
def test_words_are_hashed_once_and_give_what_scikit_learn_makes_of_texts(
    texts: list[str], n_columns: int
) -> None:
    hasher = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4), n_features=n_columns, dtype=np.float32)
    found = hash_text(texts, n_columns)
    assert found.shape == (len(texts) + 1, n_columns)
    assert not found[-1].any()
    if texts:
        np.testing.assert_array_equal(found[:-1], hasher.transform(texts).toarray())
