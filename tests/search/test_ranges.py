from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbgnn.errors import ParameterError
from gbgnn.search import Choice, Integer, Real
from gbgnn.search.ranges import as_range

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
options = st.one_of(st.booleans(), st.integers(2, 9), st.text(max_size=4), st.none())
choices = st.lists(options, min_size=2, max_size=5, unique=True).map(Choice)


@given(integers | logs | reals | choices)
def test_a_range_is_read_back_from_its_document(given_range) -> None:
    assert as_range("x", given_range.to_document()) == given_range


@given(integers | logs | reals | choices)
def test_optuna_has_the_same_values(given_range) -> None:
    distribution = given_range.distribution()
    for value in given_range.extremes:
        assert distribution._contains(distribution.to_internal_repr(value))
    if not isinstance(given_range, Choice):
        assert (distribution.low, distribution.high) == given_range.extremes
        assert distribution.log == given_range.log
        assert (distribution.step or 1) == getattr(given_range, "step", 1)


def test_ranges_in_words() -> None:
    words = [str(Integer(1, 9)), str(Integer(1, 9, log=True)), str(Real(0, 0.5)), str(Choice([True, None]))]
    assert words == ["1 to 9", "1 to 9, log scale", "0 to 0.5", "True or None"]


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
        ({"low": 0.1, "high": 0.5, "step": 1}, None, "step is for whole numbers"),
        ({"low": 3, "high": 1}, None, "Integer.high must be an integer >= 3; got 1"),
        ({"low": 0, "high": 5, "log": True}, None, "Integer.low must be an integer >= 1; got 0"),
        ({"low": 1, "high": 9, "log": True, "step": 2}, None, "Integer.step must be an integer from 1 to 1"),
        ({"low": 10, "high": 45, "step": 10}, None, "in steps of 10, 45 is not reached; end at 40"),
        ({"low": 0.0, "high": 0.5, "log": True}, None, r"Real.low must be in \(0, inf\)"),
        ({"low": 0.5, "high": 0.1}, None, r"Real.high must be in \[0.5, inf\)"),
        ([], None, r"Choice takes two options or more, each once; got \[\]"),
        (["a", "a"], None, "each once"),
        (["a", ["b"]], None, r"Choice takes strings, numbers, booleans or None; got \['b'\]"),
    ],
)
def test_what_is_no_range_is_refused_with_a_way_out(value, current, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        as_range("x", value, current)


@pytest.mark.parametrize("value", ["adam", 3])
def test_options_are_a_list(value) -> None:
    with pytest.raises(ParameterError, match="Choice takes a list of options; got"):
        Choice(value)
