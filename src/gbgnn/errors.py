"""Exceptions and warnings: each names the thing, shows what came, says what would work."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib import import_module
from typing import Any


class GBGNNError(Exception):
    """Root of every exception that gbgnn raises on purpose."""


class ParameterError(GBGNNError, ValueError):
    """A setting, or an argument of a call, has a value that cannot work."""


class AbsentError(ParameterError, AttributeError):
    """Something that models of this kind do not have; an attribute, so that ``hasattr`` says no."""


class GraphError(GBGNNError, ValueError):
    """A graph, its features or its labels do not fit together."""


class DataError(GBGNNError, ValueError):
    """A file or a folder does not hold what a reader expects."""


class DatasetNotFoundError(DataError, FileNotFoundError):
    """A catalogued data set is nowhere to be found; the message says where it was looked for."""


class WeakLearnerError(GBGNNError, RuntimeError):
    """Not even the first round produced a learner that boosting can use."""


class ModelFileError(GBGNNError, ValueError):
    """A model file is damaged, of a newer format, or holds something that cannot be saved."""


class MissingDependencyError(GBGNNError, ImportError):
    """An optional package is needed; the message says how to install it."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f'{what} needs {package}: pip install "gbgnn[{extra}]".')


class GBGNNWarning(UserWarning):
    """Something was repaired or may surprise; the run goes on."""


def import_needed(module: str, what: str, extra: str) -> Any:
    """Return a module of an optional package, or say that ``what`` needs the package."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingDependencyError(what, module.partition(".")[0], extra) from error


def suggest(word: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` when ``word`` looks like a misspelling, else an empty string.

    Examples
    --------
    >>> suggest("adjency", ["adjacency", "kta"])
    " Did you mean 'adjacency'?"
    """
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
