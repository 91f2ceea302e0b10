from __future__ import annotations

import numpy as np
import pytest

from gbgnn._checks import as_bytes, as_seconds, check_choice, check_integer, check_number
from gbgnn.errors import ParameterError


@pytest.mark.parametrize("value", [0, 0.5, 1, np.float32(0.25), np.int64(1)])
def test_numbers_in_range_pass(value: object) -> None:
    check_number("Part", "x", value, 0, 1)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), "0.5", None, True])
def test_other_values_are_shown(value: object) -> None:
    with pytest.raises(ParameterError, match=rf"Part.x must be in \[0, 1\]; got {value!r}"):
        check_number("Part", "x", value, 0, 1)


def test_open_ends_are_written_with_round_brackets() -> None:
    with pytest.raises(ParameterError, match=r"must be in \(0, 1\); got 0"):
        check_number("Part", "x", 0, 0, 1, open_low=True, open_high=True)
    with pytest.raises(ParameterError, match=r"must be in \(-inf, 3\]; got 4"):
        check_number("Part", "x", 4, high=3)


def test_integers() -> None:
    check_integer("Part", "n", np.int32(3), 1, 5)
    check_integer("Part", "n", None, 1, optional=True)
    with pytest.raises(ParameterError, match="an integer from 1 to 5; got 6"):
        check_integer("Part", "n", 6, 1, 5)
    with pytest.raises(ParameterError, match="an integer >= 1, or None; got 0"):
        check_integer("Part", "n", 0, 1, optional=True)


def test_choices_get_a_hint() -> None:
    check_choice("Part", "kind", "b", "ab")
    with pytest.raises(ParameterError, match="one of stop, warn; got 'wran'. Did you mean 'warn'"):
        check_choice("Part", "kind", "wran", ["stop", "warn"])
    with pytest.raises(ParameterError, match=r"got 3\.$"):
        check_choice("Part", "kind", 3, ["stop", "warn"])


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (90, 90),
        (0.5, 0.5),
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("1.5H", 5400),
        ("2 m", 120),
    ],
)
def test_durations_are_numbers_or_words(value: object, seconds: float) -> None:
    assert as_seconds("Part", "time_limit", value) == seconds


@pytest.mark.parametrize("value", ["", "ten", "10 minutes", "-5", "0m", 0, -1, True, None, float("inf")])
def test_other_durations_are_shown(value: object) -> None:
    with pytest.raises(ParameterError, match=r"Part.time_limit must be a number of seconds above 0, or text"):
        as_seconds("Part", "time_limit", value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2GB", 2 * 10**9),
        ("2 GiB", 2 * 2**30),
        (" 1.5kb ", 1500),
        ("300 MiB", 300 * 2**20),
        ("7B", 7),
        (9, 9),
    ],
)
def test_bytes_are_read_as_numbers_and_as_text(text: int | str, wanted: int) -> None:
    assert as_bytes("Part", "memory_limit", text) == wanted


@pytest.mark.parametrize("bad", ["two", "2", "2XB", "-1GB", 0, True, 1.5, None, "0GB"])
def test_other_sizes_are_refused(bad: object) -> None:
    with pytest.raises(
        ParameterError, match=r'Part.memory_limit must be a number of bytes, or text such as "50'
    ):
        as_bytes("Part", "memory_limit", bad)
