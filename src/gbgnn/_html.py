"""Facts about an object as a small table, which a notebook shows for it."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

_CELL = "text-align: left; padding: 0.1em 1em 0.1em 0; vertical-align: top"


def show_facts(title: str, facts: Mapping[str, Any]) -> str:
    """Return a table of facts; any text may stand in them. What is None is left out.

    Examples
    --------
    >>> "&lt;b&gt;" in show_facts("Graph", {"nodes": 3, "called": "<b>", "labels": None})
    True
    """
    rows = "".join(
        f'<tr><th scope="row" style="{_CELL}">{html.escape(name)}</th>'
        f'<td style="{_CELL}">{html.escape(_write(value))}</td></tr>'
        for name, value in facts.items()
        if value is not None
    )
    head = f'<caption style="{_CELL}"><strong>{html.escape(title)}</strong></caption>'
    return f'<table style="margin: 0.5em 0">{head}{rows}</table>'


def list_some(names: list[str], n_most: int = 8) -> str:
    """Return names with commas, of many the first.

    Examples
    --------
    >>> list_some(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - n_most} more" if len(names) > n_most else ""
    return ", ".join(names[:n_most]) + more


def _write(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
