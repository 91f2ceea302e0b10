"""The values in a Planetoid pickle, read without unpickling: numbers, text, lists, tables, arrays, matrices.

Python's own unpickler builds whatever a file asks for, and even NumPy's names alone are enough to make an
array of pointers. Here the file's instructions are looked at one by one and only those are followed that
put plain values together; an array is made of a type in :data:`NUMBERS`, a shape and as many bytes as that
takes. Nothing is allocated that the file has no bytes for.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gbgnn._stored import build_csr
from gbgnn.errors import DataError

NUMBERS = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
"""The types that arrays may have."""

_KNOWN = {
    ("__builtin__", "list"): "list",
    ("builtins", "list"): "list",
    ("collections", "defaultdict"): "defaultdict",
    ("numpy", "dtype"): "dtype",
    ("numpy", "ndarray"): "ndarray",
    ("numpy.core.multiarray", "_reconstruct"): "array",
    ("numpy._core.multiarray", "_reconstruct"): "array",
    ("scipy.sparse.csr", "csr_matrix"): "matrix",
    ("scipy.sparse._csr", "csr_matrix"): "matrix",
}
"""All that the files name, and nothing more; to this reader they are words."""


def read_pickle(path: Path) -> Any:
    """Return the array, CSR array or dictionary in a Planetoid file; a file that asks for more is refused."""
    try:
        value = _Reader(path).read(path.read_bytes())
    except (ValueError, TypeError, LookupError, OverflowError, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not a readable pickle: {error or 'it ends too early'}.") from error
    if isinstance(value, _Array):
        return value.values
    if not isinstance(value, _Matrix):
        return value
    wrong = f"{path} holds a broken sparse matrix"
    try:
        parts = [value.state[name] for name in ("data", "indices", "indptr")]
    except KeyError as error:
        raise DataError(f"{wrong}: {error}.") from error
    if not all(isinstance(part, _Array) and part.values is not None for part in parts):
        raise DataError(f"{wrong}: its parts are no arrays.")
    data, indices, indptr = (part.values for part in parts)
    shape = value.state.get("_shape", value.state.get("shape", ()))
    return build_csr((data, indices, indptr), shape, wrong, full_check=True)


@dataclass(frozen=True)
class _Name:
    """What a file calls by a name."""

    word: str


@dataclass
class _Number:
    """The type of an array's entries, which a file tells in two steps."""

    code: str
    order: str = "|"


@dataclass
class _Array:
    values: np.ndarray[Any, Any] | None = None


@dataclass
class _Matrix:
    state: dict[Any, Any] = field(default_factory=dict)


_MARK = object()
_SINGLE = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_PLAIN = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
}
_KEPT = {"PUT", "BINPUT", "LONG_BINPUT"}
_FETCHED = {"GET", "BINGET", "LONG_BINGET"}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Reader:
    """Follows the instructions of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.steps: dict[str, Callable[[], None]] = {
            "MARK": lambda: self.stack.append(_MARK),
            "EMPTY_LIST": lambda: self.stack.append([]),
            "EMPTY_DICT": lambda: self.stack.append({}),
            "LIST": lambda: self.stack.append(self._since_mark()),
            "TUPLE": lambda: self.stack.append(tuple(self._since_mark())),
            "DICT": lambda: self._new_table(self._since_mark()),
            "APPEND": lambda: self._extend([self.stack.pop()]),
            "APPENDS": lambda: self._extend(self._since_mark()),
            "SETITEM": lambda: self._set(self._pop(2)),
            "SETITEMS": lambda: self._set(self._since_mark()),
            "STACK_GLOBAL": lambda: self.stack.append(self._find(*self._pop(2))),
            "MEMOIZE": lambda: self._keep(len(self.memo)),
            "REDUCE": lambda: self.stack.append(self._make(*self._pop(2))),
            "NEWOBJ": lambda: self.stack.append(self._make(*self._pop(2))),
            "BUILD": lambda: self._fill(self.stack.pop()),
        }

    def read(self, data: bytes) -> Any:
        """Return what the file holds."""
        argument: Any
        for step, argument, _ in pickletools.genops(data):
            name = step.name
            if name in _PLAIN:
                self.stack.append(argument)
            elif name in _KEPT:
                self._keep(argument)
            elif name in _FETCHED:
                self.stack.append(self.memo[argument])
            elif name in _SINGLE:
                self.stack.append(_SINGLE[name])
            elif name in _TUPLES:
                self.stack.append(tuple(self._pop(_TUPLES[name])))
            elif name == "GLOBAL":
                self.stack.append(self._find(*argument.split(" ", 1)))
            elif name == "STOP":
                (value,) = self.stack
                return value
            elif name not in ("PROTO", "FRAME"):
                if name not in self.steps:
                    raise ValueError(f"it asks for {name}, which no Planetoid file needs")
                self.steps[name]()
        raise ValueError("it ends too early")

    def _pop(self, n: int) -> list[Any]:
        if n > len(self.stack):
            raise ValueError("something is missing")
        taken = self.stack[len(self.stack) - n :]
        del self.stack[len(self.stack) - n :]
        return taken

    def _since_mark(self) -> list[Any]:
        taken = []
        while (value := self.stack.pop()) is not _MARK:
            taken.append(value)
        return taken[::-1]

    def _keep(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def _extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise TypeError("something is appended to what is no list")
        self.stack[-1].extend(items)

    def _new_table(self, items: list[Any]) -> None:
        self.stack.append({})
        self._set(items)

    def _set(self, items: list[Any]) -> None:
        table = self.stack[-1]
        keys = items[::2]
        if not isinstance(table, dict) or not all(type(key) in (int, str) for key in keys):
            raise TypeError("a table needs numbers or text for its keys")
        table.update(zip(keys, items[1::2], strict=True))

    def _find(self, module: str, name: str) -> _Name:
        word = _KNOWN.get((module, name))
        if word is None:
            raise DataError(
                f"{self.path} asks for {module}.{name}, which no Planetoid file needs; refused, "
                "because loading it could run code. Get the file from a source you trust."
            )
        return _Name(word)

    def _make(self, name: Any, arguments: Any) -> Any:
        word = name.word if isinstance(name, _Name) else None
        if word == "defaultdict" and arguments == (_Name("list"),):
            return {}
        if word == "array" and arguments[0] == _Name("ndarray"):
            return _Array()
        if word == "dtype" and arguments[0] in NUMBERS:
            return _Number(arguments[0])
        if word == "dtype":
            what = arguments[0][:20] if isinstance(arguments[0], str) else "another type"
            raise DataError(f"{self.path} holds an array of {what!r}; those of Planetoid hold numbers.")
        if word == "matrix" and arguments == ():
            return _Matrix()
        raise TypeError(f"nothing is made of {word or 'what is no name'} like this")

    def _fill(self, state: Any) -> None:
        made = self.stack[-1]
        if isinstance(made, _Matrix) and isinstance(state, dict):
            made.state.update(state)
        elif isinstance(made, _Number):
            _, made.order, *rest = state
            if made.order not in ("<", ">", "|", "=") or any(part is not None for part in rest[:3]):
                raise TypeError("an array holds other things than numbers")
        elif isinstance(made, _Array):
            made.values = _as_array(*state)
        else:
            raise TypeError("something is filled in where nothing can be")


def _as_array(version: Any, shape: Any, kind: Any, by_columns: Any, content: Any) -> np.ndarray[Any, Any]:
    """Return an array of a copy of its bytes, of which there must be as many as it takes."""
    if not isinstance(kind, _Number) or not isinstance(content, (bytes, str)):
        raise TypeError("an array has no type, or no bytes")
    raw = content if isinstance(content, bytes) else content.encode("latin1")
    dtype = np.dtype(f"{'=' if kind.order == '|' else kind.order}{kind.code}")
    sizes = shape if isinstance(shape, tuple) else (shape,)
    if len(sizes) > 2 or not all(type(size) is int and size >= 0 for size in sizes):
        raise TypeError("the shape of an array is one whole number, or two")
    if math.prod(sizes) * dtype.itemsize != len(raw):
        raise ValueError(f"an array of shape {sizes} and type {kind.code} does not take {len(raw)} bytes")
    values = np.frombuffer(raw, dtype).astype(dtype.newbyteorder("="))
    return values.reshape(sizes, order="F" if by_columns else "C")
