from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbgnn.errors import ParameterError
from gbgnn.finetuning.network import MemoryPlan, plan_memory

NEEDS = {"fixed": 50, "column": 10, "n_columns": 5, "terms": 100, "work": 20, "copy": 0, "n_rows": 8}
SIZES = st.integers(1, 10**6)


@given(SIZES, SIZES, SIZES, SIZES, SIZES, SIZES, st.integers(1, 500), st.booleans(), st.integers(1, 10**9))
def test_plan_keeps_the_limit_and_fails_only_below_the_least_that_would_do(
    fixed: int,
    column: int,
    n_columns: int,
    terms: int,
    work: int,
    copy: int,
    n_rows: int,
    is_divisible: bool,
    limit: int,
) -> None:
    needs = {"fixed": fixed, "column": column, "n_columns": n_columns, "terms": terms, "work": work}
    needs |= {"copy": copy, "n_rows": n_rows, "is_divisible": is_divisible}
    try:
        plan = plan_memory(limit, **needs)
    except ParameterError as error:
        least = int(str(error).split("at least ")[1].split(" bytes")[0].replace(",", ""))
        assert limit < least
        plan, limit = plan_memory(least, **needs), least
    assert 1 <= plan.n_rows <= n_rows
    assert 1 <= plan.n_columns <= n_columns
    assert is_divisible or plan.n_columns == n_columns
    if plan.is_held:
        beside = max(plan.n_columns * column, plan.n_rows * (work + copy))
        assert fixed + n_rows * terms + beside <= limit
    else:
        assert fixed + plan.n_columns * column + plan.n_rows * (terms + work) <= limit


def test_terms_are_held_where_they_fit() -> None:
    assert plan_memory(50 + 800 + 20, **NEEDS) == MemoryPlan(True, 2, 1)
    assert not plan_memory(50 + 800 + 19, **NEEDS).is_held
    assert not plan_memory(50 + 800 + 20, **NEEDS | {"copy": 1}).is_held


def test_too_small_a_limit_names_the_least() -> None:
    with pytest.raises(ParameterError, match=r"at least 180 bytes for this graph and model; got 179\."):
        plan_memory(179, **NEEDS)
