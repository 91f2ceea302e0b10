"""Ranges: the values that a setting may take, Optuna's distributions under short names, and as text."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from gbgnn.errors import ParameterError, suggest

Integer, Real, Choice = IntDistribution, FloatDistribution, CategoricalDistribution
Range = IntDistribution | FloatDistribution | CategoricalDistribution

_SIMPLE = (bool, int, float, str, type(None))


def as_range(name: str, value: Any, current: Any = None) -> Any:
    """Return what a change of a setting means: a range, or the one value that is left.

    Parameters
    ----------
    name
        What to call the setting in an error.
    value
        A range; a table such as ``{"low": 16, "high": 64}``, to which ``step`` and ``log`` may be added; a
        list of options, of which a single one is a fixed value; anything else is a fixed value.
    current
        The range so far: its kind, step and scale are kept where the table does not speak of them.

    Examples
    --------
    >>> as_range("units", {"low": 16, "high": 64}, Integer(10, 200, log=True))
    IntDistribution(high=64, log=True, low=16, step=1)
    >>> as_range("optimizer", ["adam"])
    'adam'
    """
    try:
        if isinstance(value, Mapping):
            return _parse_table(value, current)
        if isinstance(value, (list, tuple)):
            return value[0] if len(value) == 1 else _parse_options(value)
    except ValueError as error:  # ours, and Optuna's of ends that are no range
        raise ParameterError(f"{name}: {error}") from error
    return value


def describe_range(given: Range) -> str:
    """Return a range in words.

    Examples
    --------
    >>> describe_range(Integer(10, 100, step=10)), describe_range(Choice(["sgd", "adam", "rmsprop"]))
    ('10 to 100 in steps of 10', 'sgd, adam or rmsprop')
    """
    if isinstance(given, Choice):
        *first, last = map(str, given.choices)
        return f"{', '.join(first)} or {last}" if first else last
    ends = f"{given.low:g} to {given.high:g}" if isinstance(given, Real) else f"{given.low} to {given.high}"
    steps = f" in steps of {given.step:g}" if _has_steps(given) else ""
    return f"{ends}{steps}{', log scale' if given.log else ''}"


def range_document(given: Range) -> dict[str, Any] | list[Any]:
    """Return a range in plain values, as :func:`as_range` reads it.

    Examples
    --------
    >>> range_document(Real(1e-5, 0.1, log=True))
    {'low': 1e-05, 'high': 0.1, 'log': True}
    """
    if isinstance(given, Choice):
        return list(given.choices)
    extra = {"step": given.step} if _has_steps(given) else {"log": True} if given.log else {}
    return {"low": given.low, "high": given.high, **extra}


def extreme_values(given: Range) -> tuple[Any, ...]:
    """Return the values at which a mistake would show: the ends, or every option."""
    return given.choices if isinstance(given, Choice) else (given.low, given.high)


def _has_steps(given: IntDistribution | FloatDistribution) -> bool:
    return given.step is not None and (isinstance(given, Real) or given.step > 1)


def _parse_options(options: list[Any] | tuple[Any, ...]) -> CategoricalDistribution:
    wrong = [option for option in options if not isinstance(option, _SIMPLE)]
    if wrong:
        raise ParameterError(f"options are strings, numbers, booleans or None; got {wrong[0]!r} among them.")
    if not options or len(set(options)) < len(options):
        raise ParameterError(f"options are one or more, each once; got {list(options)!r}.")
    return Choice(options)


def _parse_table(table: Mapping[str, Any], current: Any) -> IntDistribution | FloatDistribution:
    known = ("low", "high", "step", "log")
    for key in table:
        if key not in known:
            raise ParameterError(
                f"a range has no {key!r}.{suggest(key, known)} Write {{low = 1, high = 10}}, with step = 2 "
                "or log = true."
            )
    missing = [key for key in ("low", "high") if key not in table]
    if missing:
        raise ParameterError(
            f"a range needs {missing[0]}; got {dict(table)!r}. Write {{low = 1, high = 10}}."
        )
    low, high = table["low"], table["high"]
    for end in (low, high):
        if isinstance(end, bool) or not isinstance(end, (int, float)) or not math.isfinite(end):
            raise ParameterError(
                f"the ends of a range are numbers; got {end!r}. Options are a list, such as [1, 2]."
            )
    is_whole = isinstance(low, int) and isinstance(high, int)
    if isinstance(current, Integer) and not is_whole:
        raise ParameterError(
            f"the ends must be whole numbers, as in {describe_range(current)}; got {low} and {high}."
        )
    extra = {key: table.get(key, getattr(current, key, None)) for key in ("step", "log")}
    kind = Integer if is_whole and not isinstance(current, Real) else Real
    with warnings.catch_warnings():  # of an end that no step leads to, which is an error here
        warnings.simplefilter("ignore")
        found = kind(low, high, **{key: value for key, value in extra.items() if value is not None})
    if found.high != high:
        raise ParameterError(
            f"from {low} in steps of {found.step:g}, {high} is not reached; end at {found.high:g}, or choose "
            "another step."
        )
    return found
