"""TOML files: read with a clear error, written without None, which TOML does not have."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gbgnn.errors import DataError


def read(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
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
    """Return the document as TOML; what is None or an empty table is left out.

    Examples
    --------
    >>> print(dumps({"n_rounds": 3, "learner": {"name": "mlp", "units": 8, "patience": None}}), end="")
    n_rounds = 3
    <BLANKLINE>
    [learner]
    name = "mlp"
    units = 8
    """
    import tomli_w

    return tomli_w.dumps(_drop_none(document))


def _drop_none(table: Mapping[str, Any]) -> dict[str, Any]:
    kept = {str(k): _drop_none(v) if isinstance(v, Mapping) else v for k, v in table.items()}
    return {k: v for k, v in kept.items() if v is not None and v != {}}
