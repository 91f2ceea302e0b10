from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbgnn.errors import ParameterError
from gbgnn.search import Choice, Integer, Real
from gbgnn.search.ranges import as_range, describe_range, extreme_values, range_document

whole = st.integers(-50, 50)
integers = st.builds(
    lambda low, n, step: Integer(low, low + n * step, step=step),
    whole,
    st.integers(0, 20),
    st.integers(1, 7),
)
logs = st.builds(lambda low, n: Integer(low, low + n, log=True), st.integers(1, 9), st.integers(0, 99))
reals = st.builds(lambda low, d: Real(low, low + d), st.floats(-5, 5), st.floats(0, 9)) | st.builds(
    lambda low, factor: Real(low, low * factor, log=True), st.floats(1e-9, 1), st.floats(1, 1e6)
)
steps = st.builds(lambda low, n: Real(low, low + n * 0.5, step=0.5), whole.map(float), st.integers(1, 9))
options = st.one_of(st.booleans(), st.integers(2, 9), st.text(max_size=4), st.none())
choices = st.lists(options, min_size=2, max_size=5, unique=True).map(Choice)


@given(integers | logs | reals | steps | choices)
def test_a_range_is_read_back_from_its_document(given_range) -> None:
    document = json.loads(json.dumps(range_document(given_range)))
    assert as_range("x", document) == given_range


@given(integers | logs | reals | steps | choices)
def test_the_extremes_are_in_the_range(given_range) -> None:
    for value in extreme_values(given_range):
        assert given_range._contains(given_range.to_internal_repr(value))


def test_ranges_in_words() -> None:
    numbers = [Integer(1, 9), Integer(1, 9, log=True), Real(0, 0.5), Real(0, 0.5, step=0.25)]
    words = ["1 to 9", "1 to 9, log scale", "0 to 0.5", "0 to 0.5 in steps of 0.25"]
    assert [describe_range(each) for each in numbers] == words
    assert [describe_range(Choice(each)) for each in ([True, None], ["adam"])] == ["True or None", "adam"]


def test_a_table_keeps_kind_step_and_scale_of_the_range_it_changes() -> None:
    ends = {"low": 20, "high": 40}
    assert as_range("x", ends, Integer(10, 100, step=10)) == Integer(20, 40, step=10)
    assert as_range("x", {**ends, "step": 1}, Integer(10, 100, step=10)) == Integer(20, 40)
    assert as_range("x", ends, Real(1, 100, log=True)) == Real(20.0, 40.0, log=True)
    assert as_range("x", {**ends, "log": False}, Real(1, 100, log=True)) == Real(20.0, 40.0)
    assert as_range("x", ends, Choice([1, 2])) == as_range("x", ends) == Integer(20, 40)
    assert as_range("x", {"low": 0, "high": 0.5}) == Real(0.0, 0.5)


def test_other_values_are_fixed() -> None:
    assert as_range("x", 3, Integer(1, 9)) == 3
    assert as_range("x", ["adam"], Choice(["adam", "sgd"])) == "adam"
    assert as_range("x", [["learners", "etas"]]) == ["learners", "etas"]
    assert as_range("x", Integer(1, 2)) == Integer(1, 2)


@pytest.mark.parametrize(
    ("value", "current", "message"),
    [
        ({"low": 1, "hihg": 2}, None, r"x: a range has no 'hihg'. Did you mean 'high'\? Write {low = 1"),
        ({"low": 1}, None, "x: a range needs high; got {'low': 1}"),
        ({"low": "a", "high": 2}, None, "the ends of a range are numbers; got 'a'. Options are a list"),
        ({"low": True, "high": 2}, None, "the ends of a range are numbers; got True"),
        ({"low": 1, "high": 2.5}, Integer(1, 9), "must be whole numbers, as in 1 to 9; got 1 and 2.5"),
        ({"low": 0.1, "high": 0.5, "step": 1}, None, "in steps of 1, 0.5 is not reached; end at 0.1, or"),
        ({"low": 3, "high": 1}, None, r"x: `low <= high` must hold, but got \(low=3, high=1\)"),
        ({"low": 0, "high": 5, "log": True}, None, "`low >= 1` must hold for `log=True`"),
        ({"low": 1, "high": 9, "log": True, "step": 2}, None, "only accept step is 1 when `log`"),
        ({"low": 1, "high": 9, "step": 0}, None, "`step > 0` must hold"),
        ({"low": 0.0, "high": math.inf}, None, "the ends of a range are numbers; got inf"),
        ({"low": 10, "high": 45, "step": 10}, None, "in steps of 10, 45 is not reached; end at 40"),
        ({"low": 0.0, "high": 0.5, "log": True}, None, "`low > 0` must hold for `log=True`"),
        ({"low": 0.5, "high": 0.1}, None, "`low <= high` must hold"),
        ([], None, r"options are one or more, each once; got \[\]"),
        (["a", "a"], None, "each once"),
        (["a", ["b"]], None, r"options are strings, numbers, booleans or None; got \['b'\]"),
    ],
)
def test_what_is_no_range_is_refused_with_a_way_out(value, current, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        as_range("x", value, current)
