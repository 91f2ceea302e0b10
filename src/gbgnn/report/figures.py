"""Numbers as figures: plain dictionaries of plotly's, with colours by the names of the page's style sheet.

Names of classes and columns may be anything. plotly reads some HTML in the text that it is given, so that all
text from outside goes through :func:`plain`.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

Values = Sequence[float | None]
Spec = dict[str, Any]

INK, QUIET, LINE, PAGE = "var(--ink)", "var(--quiet)", "var(--line)", "var(--card)"
COLOURS = tuple(f"var(--series-{k})" for k in range(1, 9))
_DASHES = ("solid", "dash", "dot", "dashdot")  # lines are told apart without their colours, too
_SIGNS = ("circle", "square", "diamond", "triangle-up")
_N_MARKED, _N_LETTERS = 60, 16


def plain(text: Any, n_most: int = 40) -> str:
    """Return text that plotly shows letter by letter, shortened."""
    words = " ".join(str(text).split())
    return html.escape(words if len(words) <= n_most else words[: n_most - 1] + "…")


def lines(
    x: Sequence[float],
    curves: Mapping[str, Values],
    *,
    x_title: str,
    y_title: str,
    mark: tuple[float, str] | None = None,
    log: bool = False,
    y_range: tuple[float, float] | None = None,
) -> Spec:
    """Return curves over a common axis, with a vertical mark such as the best round."""
    data: list[Spec] = []
    for k, (name, values) in enumerate(curves.items()):
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if len(x) <= _N_MARKED else "lines",
                "name": plain(name),
                "x": list(x[: len(values)]),
                "y": list(values),
                "line": {"color": COLOURS[k % 8], "width": 2, "dash": _DASHES[k % 4]},
                "marker": {"color": COLOURS[k % 8], "size": 6, "symbol": _SIGNS[k % 4]},
                "hovertemplate": "%{fullData.name}: %{y:.4g}<extra></extra>",
            }
        )
    layout = _layout(x_title, y_title, legend=len(curves) > 1)
    layout["hovermode"] = "x unified"
    layout["yaxis"] |= ({"type": "log"} if log else {}) | ({"range": list(y_range)} if y_range else {})
    if mark is not None:
        layout["shapes"] = [
            {"type": "line", "x0": mark[0], "x1": mark[0], "yref": "paper", "y0": 0, "y1": 1}
            | {"line": {"color": QUIET, "width": 1, "dash": "dot"}}
        ]
        layout["annotations"] = [
            {"x": mark[0], "yref": "paper", "y": 1, "yanchor": "bottom", "showarrow": False}
            | {"text": plain(mark[1]), "font": {"color": QUIET, "size": 12}}
        ]
    return {"data": data, "layout": layout}


def intervals(names: Sequence[str], values: Values, lows: Values, highs: Values, *, x_title: str) -> Spec:
    """Return values with intervals around them, one below the other."""
    rows = [
        (name, value, value if low is None else low, value if high is None else high)
        for name, value, low, high in zip(names, values, lows, highs, strict=True)
        if value is not None
    ]
    data = {
        "type": "scatter",
        "mode": "markers",
        "x": [value for _, value, _, _ in rows],
        "y": [plain(name) for name, *_ in rows],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [high - value for _, value, _, high in rows],
            "arrayminus": [value - low for _, value, low, _ in rows],
            "color": COLOURS[0],
            "thickness": 2,
            "width": 6,
        },
        "marker": {"color": COLOURS[0], "size": 11},
        "hovertemplate": "%{y}: %{x:.4f}<extra></extra>",
    }
    layout = _layout(x_title, "")
    layout["yaxis"] |= {"autorange": "reversed", "type": "category", "showgrid": False}
    return {"data": [data], "layout": layout}


def bars(
    names: Sequence[str], values: Values, *, x_title: str, percent: bool = False, n_most: int = 40
) -> Spec:
    """Return bars to the right, with the names of what they stand for."""
    form = ".1%" if percent else ".3g"
    data = {
        "type": "bar",
        "orientation": "h",
        "x": list(values),
        "y": list(range(len(names))),
        "marker": {"color": COLOURS[0]},
        "text": [plain(name, 80) for name in names],
        "texttemplate": f"%{{x:{form}}}",
        "textposition": "auto",
        "hovertemplate": f"%{{text}}: %{{x:{form}}}<extra></extra>",
    }
    layout = _layout(x_title, "")
    layout["xaxis"] |= {"nticks": 5, "tickangle": 0} | ({"tickformat": ".2~%"} if percent else {})
    # Two columns may have one name: places are numbers, and names only written beside them.
    layout["yaxis"] |= {"autorange": "reversed", "showgrid": False, "tickvals": list(range(len(names)))}
    layout["yaxis"]["ticktext"] = [plain(name, n_most) for name in names]
    return {"data": [data], "layout": layout}


def heat(names: Sequence[str], counts: Sequence[Sequence[int]], shares: Sequence[Values]) -> Spec:
    """Return a matrix of counts, shaded by the share of their row."""
    n = len(names)
    data = {
        "type": "heatmap",
        "x": list(range(n)),
        "y": list(range(n)),
        "z": [list(row) for row in shares],
        "text": [[f"{value:,}" if value else "" for value in row] for row in counts],
        "texttemplate": "%{text}" if n <= 15 else "",
        "customdata": [[[plain(a, 80), plain(b, 80)] for b in names] for a in names],
        "hovertemplate": "%{customdata[0]} taken for %{customdata[1]}: %{z:.1%}<extra></extra>",
        "colorscale": [[0, PAGE], [1, "var(--heat)"]],
        "zmin": 0,
        "zmax": 1,
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
    }
    layout = _layout("predicted", "is")
    axis = {"tickvals": list(range(n)), "ticktext": [plain(name, _N_LETTERS) for name in names]}
    axis |= {"showgrid": False, "automargin": False}  # which on a phone leaves no room for the matrix itself
    layout["xaxis"] |= axis | {"tickangle": -60}
    layout["yaxis"] |= axis | {"autorange": "reversed"}
    room = _room(names)
    layout["margin"] = {"l": room + 24, "r": 8, "t": 8, "b": room + 32}
    return {"data": [data], "layout": layout}


def heat_height(names: Sequence[str]) -> int:
    """Return how high such a matrix should be drawn."""
    return min(32 * len(names), 600) + _room(names) + 60


def _room(names: Sequence[str]) -> int:
    """Return how much room names need beside a matrix, in pixels."""
    return 20 + 7 * max(min(len(name), _N_LETTERS) for name in names)


def against(truth: Values, predicted: Values, *, x_title: str, y_title: str) -> Spec:
    """Return points of true and predicted numbers beside the line on which they would agree."""
    ends = [value for values in (truth, predicted) for value in values if value is not None]
    span = [min(ends), max(ends)]
    points = {
        "type": "scatter",
        "mode": "markers",
        "x": list(truth),
        "y": list(predicted),
        "marker": {"color": COLOURS[0], "size": 6, "opacity": 0.45},
        "hovertemplate": "true %{x:.4g}, predicted %{y:.4g}<extra></extra>",
    }
    line = {
        "type": "scatter",
        "mode": "lines",
        "x": span,
        "y": span,
        "line": {"color": QUIET, "dash": "dash", "width": 1.5},
        "hoverinfo": "skip",
    }
    return {"data": [points, line], "layout": _layout(x_title, y_title)}


def histogram(values: Values, *, x_title: str, n_bins: int = 40) -> Spec:
    """Return how often values are where."""
    data = {
        "type": "histogram",
        "x": list(values),
        "nbinsx": n_bins,
        "marker": {"color": COLOURS[0]},
        "hovertemplate": "%{x}: %{y} nodes<extra></extra>",
    }
    return {"data": [data], "layout": _layout(x_title, "nodes")}


def reliability(curves: Mapping[str, tuple[Values, Values, Sequence[int]]]) -> Spec:
    """Return how often predictions are right by how sure they are.

    Curves are (confidence, accuracy, counts) of bins.
    """
    data: list[Spec] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [0, 1],
            "y": [0, 1],
            "name": "as sure as right",
            "line": {"color": QUIET, "dash": "dash", "width": 1.5},
            "hoverinfo": "skip",
        }
    ]
    for k, (name, (confidence, accuracy, counts)) in enumerate(curves.items()):
        shown = [i for i, n in enumerate(counts) if n]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": plain(name),
                "x": [confidence[i] for i in shown],
                "y": [accuracy[i] for i in shown],
                "customdata": [counts[i] for i in shown],
                "line": {"color": COLOURS[k % 8], "width": 2, "dash": _DASHES[k % 4]},
                "marker": {"color": COLOURS[k % 8], "size": 8, "symbol": _SIGNS[k % 4]},
                "hovertemplate": "sure %{x:.1%}, right %{y:.1%}, %{customdata} nodes<extra></extra>",
            }
        )
    layout = _layout("how sure", "how often right", legend=True)
    for axis in ("xaxis", "yaxis"):
        layout[axis] |= {"range": [0, 1.02], "tickformat": ".0%"}
    return {"data": data, "layout": layout}


def _layout(x_title: str, y_title: str, *, legend: bool = False) -> Spec:
    """Return what all figures have in common: no paper of their own, no dragging that a thumb could start."""
    axis = {
        "automargin": True,
        "fixedrange": True,
        "gridcolor": LINE,
        "linecolor": LINE,
        "zerolinecolor": LINE,
        "tickfont": {"color": QUIET},
    }
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": INK, "size": 13, "family": "system-ui, sans-serif"},
        "hoverlabel": {"bgcolor": PAGE, "bordercolor": LINE, "font": {"color": INK}},
        "margin": {"l": 8, "r": 12, "t": 28, "b": 8},
        "dragmode": False,
        "showlegend": legend,
        "legend": {"orientation": "h", "y": -0.28, "yanchor": "top", "x": 0},
        "xaxis": axis | {"title": {"text": x_title, "standoff": 8}},
        "yaxis": axis | {"title": {"text": y_title, "standoff": 8}},
    }
