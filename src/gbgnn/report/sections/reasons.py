"""Why it says so: how much predictions owe to distances along the graph, and to columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gbgnn.explanations import ResponseCurves
from gbgnn.report import figures
from gbgnn.report.content import Figure, Section, Table
from gbgnn.report.evidence.reasons import Reasons, find_reasons
from gbgnn.report.subject import Subject
from gbgnn.report.words import counted, percent

_TITLE = "Why it says so"
_N_COLUMNS, _N_CURVES = 20, 4


def describe_reasons(subject: Subject) -> Section:
    """Return the shares of distances and of columns, and what rounds make of slow and fast patterns."""
    found = find_reasons(subject)
    if "all" in found.why_not:
        return Section("reasons", _TITLE, missing=[f"Not known: {found.why_not['all']}"])
    paragraphs, drawn = [], []
    if found.shares:
        paragraphs.append(_told_of_shares(found))
        drawn.append(_shares(found))
    if found.columns:
        drawn.append(_columns(found))
    if found.responses is not None and np.ptp(found.responses.values, axis=1).any():
        paragraphs.append(
            "A round sees a polynomial in P of the features. It multiplies patterns that change little along "
            "edges (eigenvalues near 1) and patterns that change much (small ones) as the response shows."
        )
        drawn.append(_responses(found.responses))
    return Section("reasons", _TITLE, paragraphs, drawn, missing=_missing(found))


def _told_of_shares(found: Reasons) -> str:
    assert found.shares
    largest = max(found.shares, key=lambda name: found.shares[name])  # type: ignore[index]
    return (
        f"Of all that was added to the scores of {counted(found.n_nodes, 'node')}, the largest part, "
        f"{percent(found.shares[largest], 0)}, came from {largest}. The parts of a node add up to its score."
    )


def _shares(found: Reasons) -> Figure:
    assert found.shares
    names, values = list(found.shares), list(found.shares.values())
    told = [f"{name} {percent(value)}" for name, value in found.shares.items()]
    spec = figures.bars(names, values, x_title="share", percent=True)
    numbers = _table("distance", found.shares)
    return Figure("By distance along the graph", f"Shares: {', '.join(told)}.", spec, numbers, _height(names))


def _columns(found: Reasons) -> Figure:
    assert found.columns
    largest = sorted(found.columns.items(), key=lambda pair: -pair[1])[:_N_COLUMNS]
    names, values = [name for name, _ in largest], [value for _, value in largest]
    told = [f"{name} {percent(value)}" for name, value in largest[:10]]
    spec = figures.bars(names, values, x_title="importance", percent=True, n_most=28)
    title = f"By column, the {len(names)} most important of {len(found.columns):,}"
    numbers = _table("column", found.columns)
    return Figure(title, f"Importance of columns: {', '.join(told)}.", spec, numbers, _height(names))


def _responses(curves: ResponseCurves) -> Figure:
    n = len(curves.rounds)
    shown = sorted({round(i * (n - 1) / max(1, _N_CURVES - 1)) for i in range(_N_CURVES)})
    x = curves.eigenvalues.tolist()
    # Rounds may differ by any factor, which the next layer takes up again: shapes are compared.
    sizes = [max(float(np.abs(curves.values[i]).max()), 1e-300) for i in shown]
    lines = {
        f"round {curves.rounds[i]}": (curves.values[i] / size).tolist()
        for i, size in zip(shown, sizes, strict=True)
    }
    spec = figures.lines(x, lines, x_title="eigenvalue of P", y_title="response, of its largest")
    ends = [f"{name}: {values[0]:.2f} to {values[-1]:.2f}" for name, values in lines.items()]
    told = "Response from the smallest to the largest eigenvalue of P, over its largest size"
    alt = f"{told}: {'; '.join(ends)}."
    return Figure("What rounds make of slow and fast patterns", alt, spec)


def _table(name: str, shares: Mapping[str, float]) -> Table:
    largest = sorted(shares.items(), key=lambda pair: -pair[1])[: 2 * _N_COLUMNS]
    rows = [[key, percent(value)] for key, value in largest]
    return Table([name, "share"], rows, f"By {name}, the largest first", frozenset({1}))


def _missing(found: Reasons) -> list[str]:
    names = {"shares": "By distance", "columns": "By column", "responses": "Responses"}
    return [f"{names[key]}: {why}" for key, why in found.why_not.items()]


def _height(names: list[str]) -> int:
    return 90 + 24 * len(names)
