from __future__ import annotations

import datetime as dt
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbgnn.errors import GraphError, ParameterError
from gbgnn.tables.columns import KINDS, Column, make_column
from gbgnn.tables.frames import Coded

NAN = float("nan")


def objects(*values: Any) -> Any:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@pytest.mark.parametrize(
    ("array", "kind", "values"),
    [
        (np.array([1, 2], np.int8), "number", np.array([1, 2], np.float32)),
        (np.array([1, 2**40]), "number", np.array([1, 2.0**40])),
        (np.array([0.5, NAN], np.float32), "number", np.array([0.5, NAN], np.float32)),
        (np.array([0.5, NAN], np.float16), "number", np.array([0.5, NAN], np.float32)),
        (np.array([True, False]), "boolean", np.array([1, 0], np.int8)),
        (np.array(["1970-01-02", "NaT"], "datetime64[D]"), "date", np.array([86400, NAN])),
        (np.array([90, "NaT"], "timedelta64[s]"), "number", np.array([90, NAN])),
        (np.array(["b", "a", ""]), "category", np.array([1, 0, -1], np.int32)),
        (objects(1, None, 2.5), "number", np.array([1, NAN, 2.5])),
        (objects(True, None), "boolean", np.array([1, -1], np.int8)),
        (objects(np.datetime64("1970-01-02"), np.datetime64("NaT")), "date", np.array([86400, NAN])),
        (objects(np.timedelta64(3, "s"), dt.timedelta(seconds=4)), "number", np.array([3.0, 4.0])),
        (objects(dt.date(1970, 1, 2), dt.datetime(1970, 1, 1, 1)), "date", np.array([86400.0, 3600.0])),
        (objects(UUID(int=1), UUID(int=0)), "category", np.array([1, 0], np.int32)),
        (objects("2024-02-29", None), "date", np.array([1709164800, NAN])),
        (objects("2024-02-29 12:00:00", " "), "date", np.array([1709208000, NAN])),
    ],
)
def test_arrays_become_columns_of_their_kind(array: Any, kind: str, values: Any) -> None:
    column = make_column("x", array)
    assert column.kind == kind
    assert column.values.dtype == values.dtype
    np.testing.assert_array_equal(column.values, values)
    np.testing.assert_array_equal(
        column.is_missing, np.isnan(values) if values.dtype.kind == "f" else values < 0
    )


def test_text_with_many_distinct_values_is_text() -> None:
    names = np.array([f"name {i}" for i in range(30)])
    assert make_column("x", names).kind == "text"
    assert make_column("x", names[:20]).kind == "category"  # few enough to have a column each
    assert make_column("x", np.repeat(names, 3)).kind == "category"
    assert make_column("x", names, "category").kind == "category"


def test_text_is_compared_without_the_spaces_around_it() -> None:
    column = make_column("x", objects("a ", "a", " b", "  ", None))
    assert column.categories == ("a", "b")
    assert column.values.tolist() == [0, 0, 1, -1, -1]


def test_equal_labels_of_categories_are_one() -> None:
    column = make_column("x", Coded(np.array([0, 1, 2, 3, -1]), objects(1.0, 1, "a", "")))
    assert column.categories == ("1", "a")
    assert column.values.tolist() == [0, 0, 1, -1, -1]


def test_columns_cannot_be_changed() -> None:
    given = np.array([1.0, 2.0])
    column = make_column("x", given)
    given[:] = 7
    assert column.values.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        column.values[0] = 3


@pytest.mark.parametrize(
    ("array", "kind", "shown"),
    [
        ([3.0, NAN, 1.5], "category", ["3", None, "1.5"]),
        ([3, 1, 3], "category", ["3", "1", "3"]),
        ([True, False], "category", ["True", "False"]),
        (["b", "a"], "text", ["b", "a"]),
    ],
)
def test_a_kind_can_be_asked_for(array: list[Any], kind: str, shown: list[Any]) -> None:
    column = make_column("x", np.array(array), kind)
    assert column.kind == kind
    assert [None if code < 0 else column.categories[code] for code in column.values] == shown


@pytest.mark.parametrize(
    ("array", "kind", "values"),
    [
        (["3.5", "", "-1"], "number", [3.5, NAN, -1]),
        (np.array(["2024-02-29", "NaT"], "datetime64[D]"), "number", [1709164800, NAN]),
        ([True, False], "number", [1, 0]),
        ([0.0, 1.0, NAN], "boolean", [0, 1, -1]),
        ([60.0, NAN], "date", [60, NAN]),
        (["20240229", "20230101"], "number", [20240229, 20230101]),
    ],
)
def test_a_kind_of_numbers_can_be_asked_for(array: Any, kind: str, values: list[float]) -> None:
    column = make_column("x", np.array(array), kind)
    assert column.kind == kind
    np.testing.assert_array_equal(column.values, values)


def test_what_looks_like_dates_is_text_where_the_user_says_so_or_a_day_is_none() -> None:
    days = np.array(["2024-02-28", "2024-02-29"])
    assert make_column("x", days).kind == "date"
    assert make_column("x", days, "category").categories == ("2024-02-28", "2024-02-29")
    assert make_column("x", np.array(["2024-02-28", "2024-02-31"])).kind == "category"


def test_dates_in_other_letters_can_be_asked_for() -> None:
    text = Column("x", "text", np.array([0, -1], np.int32), ("2024-02",))
    np.testing.assert_array_equal(text.as_kind("date").values, [1706745600, NAN])
    with pytest.raises(GraphError, match="column 'x' holds no dates as 2024-05-31"):
        Column("x", "text", np.array([0], np.int32), ("29.2.2024",)).as_kind("date")


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_without_values_is_of_any_kind(kind: str) -> None:
    column = make_column("x", objects(None, None)).as_kind(kind)
    assert column.kind == kind
    assert column.is_missing.all()


def test_kinds_that_cannot_be() -> None:
    with pytest.raises(
        GraphError, match="column 'x' holds dates such as 1970-01-02.*cannot be read as booleans"
    ):
        make_column("x", np.array(["1970-01-02"], "datetime64[D]")).as_kind("boolean")
    with pytest.raises(GraphError, match="column 'x' holds 'a', which is no number"):
        make_column("x", np.array(["a"])).as_kind("number")
    with pytest.raises(GraphError, match="column 'x' holds 2; booleans are 0 and 1"):
        make_column("x", np.array([2.0])).as_kind("boolean")
    with pytest.raises(ParameterError, match=r"kind must be one of .*; got 'numbr'. Did you mean 'number'?"):
        make_column("x", np.array([2.0])).as_kind("numbr")


def test_an_example_is_shown_as_its_user_knows_it() -> None:
    assert make_column("x", np.array([NAN, 2.5])).example() == "2.5"
    assert make_column("x", np.array(["b"])).example() == "'b'"
    assert make_column("x", np.array(["2024-02-29"])).example() == "2024-02-29T00:00:00"


@given(st.lists(st.one_of(st.none(), st.text(max_size=4)), min_size=1, max_size=40))
def test_every_text_is_found_again_by_its_code(values: list[str | None]) -> None:
    column = make_column("x", objects(*values))
    for value, code in zip(values, column.values, strict=True):
        if value is None or not value.strip():
            assert column.kind == "number" or code < 0
        elif column.kind != "date":
            assert column.categories[code] == value.strip()


@given(st.lists(st.one_of(st.none(), st.floats(allow_infinity=False)), min_size=1, max_size=40))
def test_every_number_is_kept(values: list[float | None]) -> None:
    column = make_column("x", objects(*values))
    np.testing.assert_array_equal(column.values, [NAN if value is None else value for value in values])
    assert column.kind == "number"
