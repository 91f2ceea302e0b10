from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbgnn.conformal import conformal_quantile, n_needed
from gbgnn.conformal.quantile import check_confidence
from gbgnn.errors import GBGNNWarning, ParameterError

PER_CENT = st.integers(1, 99)


@given(st.lists(st.integers(0, 8), min_size=2, max_size=30), PER_CENT)
def test_the_one_left_out_is_covered_as_often_as_promised(scores: list[int], per_cent: int) -> None:
    """The theorem, exactly: of exchangeable scores, ties or not, each is the new one as often as another."""
    covered = [
        score <= conformal_quantile(scores[:i] + scores[i + 1 :], per_cent / 100)
        for i, score in enumerate(scores)
    ]
    assert Fraction(sum(covered), len(scores)) >= Fraction(per_cent, 100)


@given(st.sets(st.integers(0, 1000), min_size=2, max_size=30), PER_CENT)
def test_and_not_much_more_often_where_no_two_are_equal(scores: set[int], per_cent: int) -> None:
    known = sorted(scores)
    covered = [
        score <= conformal_quantile(known[:i] + known[i + 1 :], per_cent / 100)
        for i, score in enumerate(known)
    ]
    assert Fraction(sum(covered), len(known)) < Fraction(per_cent, 100) + Fraction(1, len(known))


@given(st.integers(1, 3000), st.integers(1, 999))
def test_the_rank_is_that_of_exact_fractions(n_nodes: int, per_mille: int) -> None:
    wanted = math.ceil((n_nodes + 1) * Fraction(per_mille, 1000))
    found = conformal_quantile(np.arange(1, n_nodes + 1), per_mille / 1000)
    assert found == (wanted if wanted <= n_nodes else math.inf)


@given(st.integers(1, 999))
def test_as_many_nodes_as_are_needed_are_enough_and_one_fewer_is_not(per_mille: int) -> None:
    confidence = per_mille / 1000
    needed = n_needed(confidence)
    assert math.isfinite(conformal_quantile(np.zeros(needed), confidence))
    assert conformal_quantile(np.zeros(needed - 1), confidence) == math.inf


def test_confidences_are_checked() -> None:
    for wrong in (0, 1, -0.1, "much"):
        with pytest.raises(ParameterError, match=r"Some.confidence must be in \(0, 1\)"):
            check_confidence("Some", wrong)  # type: ignore[arg-type]
    with pytest.warns(
        GBGNNWarning, match="18 calibration nodes are too few for a confidence of 0.95.*takes 19"
    ):
        check_confidence("Some", 0.95, 18)
    check_confidence("Some", 0.95, 19)
