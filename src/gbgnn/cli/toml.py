"""TOML files: read with a clear error, written by hand, because Python reads the format only."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gbgnn.errors import DataError


def read(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a TOML file: {error}.") from error


def parse_value(text: str) -> Any:
    """Return what ``text`` would mean in a TOML file; bare words are strings.

    Examples
    --------
    >>> parse_value("3"), parse_value("0.5"), parse_value("true"), parse_value("gini")
    (3, 0.5, True, 'gini')
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def dumps(document: Mapping[str, Any]) -> str:
    """Return the document as TOML; None, which TOML does not have, is left out.

    Examples
    --------
    >>> print(dumps({"n_rounds": 3, "learner": {"name": "mlp", "units": 8, "patience": None}}), end="")
    n_rounds = 3
    <BLANKLINE>
    [learner]
    name = "mlp"
    units = 8
    """
    return "\n".join(_lines(document, ())).strip("\n") + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    plain = {k: v for k, v in table.items() if v is not None and not isinstance(v, Mapping)}
    nested = {k: v for k, v in table.items() if isinstance(v, Mapping) and v}
    lines = [f"{_key(k)} = {_scalar(v)}" for k, v in plain.items()]
    if path and (lines or not nested):
        lines.insert(0, f"[{'.'.join(map(_key, path))}]")
    for name, inner in nested.items():
        lines += ["", *_lines(inner, (*path, name))]
    return lines


def _key(key: object) -> str:
    name = str(key)
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _scalar(name)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)  # inf and nan are TOML's words too
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_scalar, value))}]"
    # JSON's strings are TOML's, but for one character that JSON leaves alone.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
