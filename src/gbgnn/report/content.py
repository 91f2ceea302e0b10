"""What a page is made of: sections with paragraphs, figures and tables, and nothing of HTML or of plotly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Table:
    """Rows of text under heads; ``numeric`` columns stand right, a ``folded`` table is opened first."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str
    numeric: frozenset[int] = frozenset()
    folded: bool = False


@dataclass(frozen=True)
class Figure:
    """A chart, what it shows in words for those who cannot see it, and its numbers as a table."""

    title: str
    alt: str
    spec: Mapping[str, Any]
    numbers: Table | None = None
    height: int = 320


@dataclass(frozen=True)
class Code:
    """Text to be copied."""

    caption: str
    text: str


@dataclass(frozen=True)
class Section:
    """One topic of a run. What a run lacks is said in ``missing``, a sentence each, and not passed over."""

    key: str
    title: str
    paragraphs: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    codes: Sequence[Code] = ()
    missing: Sequence[str] = ()
    nodes: Mapping[str, Any] | None = None  # the table of nodes, which the page's script draws


@dataclass(frozen=True)
class RunPage:
    """All that is said of one run; ``headline`` is what a reader wants to know first."""

    name: str
    headline: Sequence[str]
    sections: Sequence[Section]


@dataclass(frozen=True)
class Page:
    """One or several runs, and how they compare."""

    title: str
    runs: Sequence[RunPage]
    comparison: Section | None = None
    made: str = ""
    notes: Sequence[str] = field(default_factory=tuple)
