"""Text as numbers: hashed sequences of characters, each word looked at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import normalize


def hash_text(texts: Sequence[str], n_columns: int) -> NDArray[np.float32]:
    """Return hashed counts of the sequences of two to four characters within words, in rows of length one.

    That is what scikit-learn's ``HashingVectorizer(analyzer="char_wb")`` makes of each text, and a row of
    zeros more. Texts have many words in common, and a word has the same sequences in all of them: each is
    looked at once.

    Examples
    --------
    >>> hash_text(["red lamp", "lamp red"], 4).shape
    (3, 4)
    """
    found = [text.lower().split() for text in texts]
    words = {word: i for i, word in enumerate(dict.fromkeys(chain.from_iterable(found)))}
    ends = np.cumsum([0, *map(len, found), 0])  # the last text has no words
    places = np.fromiter(map(words.__getitem__, chain.from_iterable(found)), np.int64, ends[-1])
    ones = np.ones(len(places), np.float32)
    count = sp.csr_array((ones, places, ends), shape=(len(found) + 1, len(words)))
    vectorizer = HashingVectorizer(
        analyzer="char_wb", ngram_range=(2, 4), n_features=n_columns, norm=None, dtype=np.float32
    )
    hashed = vectorizer.transform(words) if words else np.zeros((0, n_columns), np.float32)
    return np.asarray(normalize(count @ sp.csr_array(hashed), copy=False).toarray(), np.float32)
