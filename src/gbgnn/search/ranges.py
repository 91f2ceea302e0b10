"""Ranges: the values that a setting may take in a search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from gbgnn._checks import check_integer, check_number
from gbgnn.errors import ParameterError, suggest

_SIMPLE = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Integer:
    """Whole numbers from ``low`` to ``high``, both included.

    Parameters
    ----------
    low, high
        The ends.
    step
        Distance between neighbours; ``high`` must be reached from ``low``.
    log
        Whether a step from 1 to 2 weighs as much as one from 50 to 100; ``low`` is then at least 1 and
        ``step`` is 1.

    Examples
    --------
    >>> print(Integer(10, 100, step=10))
    10 to 100 in steps of 10
    """

    low: int
    high: int
    step: int = 1
    log: bool = False

    def __post_init__(self) -> None:
        check_integer("Integer", "low", self.low, 1 if self.log else -(2**53))
        check_integer("Integer", "high", self.high, self.low)
        check_integer("Integer", "step", self.step, 1, 1 if self.log else None)
        beyond = (self.high - self.low) % self.step
        if beyond:
            raise ParameterError(
                f"from {self.low} in steps of {self.step}, {self.high} is not reached; end at "
                f"{self.high - beyond}, or choose another step."
            )

    def __str__(self) -> str:
        steps = f" in steps of {self.step}" if self.step > 1 else ""
        return f"{self.low} to {self.high}{steps}{', log scale' if self.log else ''}"

    @property
    def extremes(self) -> tuple[int, ...]:
        """The values at which a mistake would show."""
        return self.low, self.high

    def distribution(self) -> BaseDistribution:
        """Return it in Optuna's words."""
        return IntDistribution(self.low, self.high, log=self.log, step=self.step)

    def to_document(self) -> dict[str, Any]:
        """Return it as :func:`as_range` reads it."""
        extra = {"step": self.step} if self.step > 1 else {"log": True} if self.log else {}
        return {"low": self.low, "high": self.high, **extra}


@dataclass(frozen=True)
class Real:
    """Numbers from ``low`` to ``high``, both included.

    Parameters
    ----------
    low, high
        The ends.
    log
        Whether the logarithm is uniform, not the number; ``low`` is then greater than 0.

    Examples
    --------
    >>> print(Real(1e-5, 0.1, log=True))
    1e-05 to 0.1, log scale
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        check_number("Real", "low", self.low, 0 if self.log else -math.inf, open_low=self.log)
        check_number("Real", "high", self.high, self.low)

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}{', log scale' if self.log else ''}"

    @property
    def extremes(self) -> tuple[float, ...]:
        """The values at which a mistake would show."""
        return self.low, self.high

    def distribution(self) -> BaseDistribution:
        """Return it in Optuna's words."""
        return FloatDistribution(self.low, self.high, log=self.log)

    def to_document(self) -> dict[str, Any]:
        """Return it as :func:`as_range` reads it."""
        extra = {"log": True} if self.log else {}
        return {"low": float(self.low), "high": float(self.high), **extra}


@dataclass(frozen=True)
class Choice:
    """One of several values that have no order.

    Parameters
    ----------
    options
        Strings, numbers, booleans or None, each once, at least two.

    Examples
    --------
    >>> print(Choice(["sgd", "adam", "rmsprop"]))
    sgd, adam or rmsprop
    """

    options: Sequence[Any]

    def __post_init__(self) -> None:
        if isinstance(self.options, str) or not isinstance(self.options, Sequence):
            raise ParameterError(f"Choice takes a list of options; got {self.options!r}.")
        object.__setattr__(self, "options", tuple(self.options))
        wrong = [option for option in self.options if not isinstance(option, _SIMPLE)]
        if wrong:
            raise ParameterError(
                f"Choice takes strings, numbers, booleans or None; got {wrong[0]!r} among its options."
            )
        if len(self.options) < 2 or len(set(self.options)) < len(self.options):
            raise ParameterError(f"Choice takes two options or more, each once; got {list(self.options)!r}.")

    def __str__(self) -> str:
        *first, last = map(str, self.options)
        return f"{', '.join(first)} or {last}"

    @property
    def extremes(self) -> tuple[Any, ...]:
        """The values at which a mistake would show."""
        return tuple(self.options)

    def distribution(self) -> BaseDistribution:
        """Return it in Optuna's words."""
        return CategoricalDistribution(self.options)

    def to_document(self) -> list[Any]:
        """Return it as :func:`as_range` reads it."""
        return list(self.options)


Range = Integer | Real | Choice


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
    >>> as_range("units", {"low": 16, "high": 64}, Integer(10, 200))
    Integer(low=16, high=64, step=1, log=False)
    >>> as_range("optimizer", ["adam"])
    'adam'
    """
    try:
        if isinstance(value, Mapping):
            return _from_table(value, current)
        if isinstance(value, (list, tuple)):
            return value[0] if len(value) == 1 else Choice(value)
    except ParameterError as error:
        raise ParameterError(f"{name}: {error}") from error
    return value


def _from_table(table: Mapping[str, Any], current: Any) -> Range:
    known = ("low", "high", "step", "log")
    for key in table:
        if key not in known:
            raise ParameterError(
                f"a range has no {key!r}.{suggest(key, known)} Write {{low = 1, high = 10}}, and step or log "
                "where needed."
            )
    missing = [key for key in ("low", "high") if key not in table]
    if missing:
        raise ParameterError(
            f"a range needs {missing[0]}; got {dict(table)!r}. Write {{low = 1, high = 10}}."
        )
    low, high = table["low"], table["high"]
    wrong = [end for end in (low, high) if isinstance(end, bool) or not isinstance(end, (int, float))]
    if wrong:
        raise ParameterError(
            f"the ends of a range are numbers; got {wrong[0]!r}. Options are a list, such as [1, 2]."
        )
    log = table.get("log", getattr(current, "log", False))
    is_whole = isinstance(low, int) and isinstance(high, int)
    if is_whole and not isinstance(current, Real):
        return Integer(low, high, step=table.get("step", getattr(current, "step", 1)), log=log)
    if isinstance(current, Integer):
        raise ParameterError(f"the ends must be whole numbers, as in {current}; got {low} and {high}.")
    if "step" in table:
        raise ParameterError("step is for whole numbers; leave it out, or list the options.")
    return Real(float(low), float(high), log=log)
