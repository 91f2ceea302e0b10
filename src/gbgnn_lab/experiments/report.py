"""Reports: tables and notes, written as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gbgnn._files import write_text

_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "±": r"$\pm$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
}


@dataclass(frozen=True)
class Entry:
    """A cell of a table."""

    text: str
    strong: bool = False
    mark: str = ""  # a letter that points to a note

    def markdown(self) -> str:
        """Return it for Markdown."""
        text = self.text.replace("|", "\\|")
        return (f"**{text}**" if self.strong else text) + (f" <sup>{self.mark}</sup>" if self.mark else "")

    def latex(self) -> str:
        """Return it for LaTeX."""
        text = to_latex(self.text)
        return (f"\\textbf{{{text}}}" if self.strong else text) + (f"$^{{{self.mark}}}$" if self.mark else "")


@dataclass(frozen=True)
class Table:
    """Headings and rows of entries; the first columns are text, and go left."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    n_left: int = 1

    def markdown(self) -> str:
        """Return it in Markdown."""
        sides = ["---" if i < self.n_left else "---:" for i in range(len(self.columns))]
        lines = [self.columns, sides, *([entry.markdown() for entry in row] for row in self.rows)]
        return "\n".join(["| " + " | ".join(line) + " |" for line in lines])

    def latex(self) -> str:
        """Return it in LaTeX, for the package booktabs."""
        sides = "l" * self.n_left + "r" * (len(self.columns) - self.n_left)
        rows = [" & ".join(entry.latex() for entry in row) + r" \\" for row in self.rows]
        return "\n".join(
            [
                r"\begin{table}",
                r"  \centering",
                f"  \\caption{{{to_latex(self.caption)}}}",
                f"  \\begin{{tabular}}{{{sides}}}",
                r"    \toprule",
                "    " + " & ".join(map(to_latex, self.columns)) + r" \\",
                r"    \midrule",
                *(f"    {row}" for row in rows),
                r"    \bottomrule",
                r"  \end{tabular}",
                r"\end{table}",
            ]
        )


@dataclass(frozen=True)
class Report:
    """What an experiment has come to.

    Parameters
    ----------
    title
        The heading.
    tables
        The tables, each under its caption when there are several.
    notes
        Sentences below: what was done, by which protocol, on which machine.
    data
        The numbers, a flat dictionary per number or group of numbers, for programs.
    n_failed
        How many runs have failed, and have not been made good since.
    folder, files
        Where it was written, and what, once it is.
    missing
        Why there are no figures, or None.
    """

    title: str
    tables: Sequence[Table]
    notes: Sequence[str] = ()
    data: Sequence[dict[str, Any]] = ()
    n_failed: int = 0
    folder: Path | None = None
    files: tuple[Path, ...] = ()
    missing: str | None = None

    def markdown(self) -> str:
        """Return it in Markdown."""
        parts = [f"# {self.title}"]
        for table in self.tables:
            parts += [table.caption] if len(self.tables) == 1 else [f"## {table.caption}"]
            parts.append(table.markdown())
        return "\n\n".join([*parts, *self.notes]) + "\n"

    def latex(self) -> str:
        """Return it in LaTeX, notes as comments."""
        notes = [f"% {note}" for note in self.notes]
        return "\n".join([f"% {self.title}", *(table.latex() for table in self.tables), *notes]) + "\n"

    def csv(self) -> str:
        """Return the numbers as CSV."""
        names = list(dict.fromkeys(name for row in self.data for name in row))
        out = io.StringIO()
        writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.data)
        return out.getvalue()

    def write(self, folder: Path) -> Report:
        """Write ``table.md``, ``table.tex`` and ``table.csv``; return the report with where they are."""
        texts = {"table.md": self.markdown(), "table.tex": self.latex(), "table.csv": self.csv()}
        for name, text in texts.items():
            write_text(folder / name, text)
        return replace(self, folder=folder, files=tuple(folder / name for name in texts))


def to_latex(text: str) -> str:
    r"""Return text with the signs that LaTeX takes for commands written out."""
    return "".join(_LATEX.get(sign, sign) for sign in text)
