"""Figures of recorded runs: curves against the round, and accuracy against depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gbgnn.reports import INK, QUIET, blank, choose_scale, style
from gbgnn_lab.experiments.paper import DATASETS, title_dataset
from gbgnn_lab.experiments.records import Record
from gbgnn_lab.experiments.summaries import group_records, sort_names, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FLOOR = 1e-6
"""Losses below are drawn here; those that round to zero would take up the whole of a logarithmic axis."""
CURVES = {
    "train_loss": "training loss",
    "test_loss": "test loss",
    "cosine": "cosine",
}
# From light to dark with L, so that the order can be read off the picture.
_LAYERS = ("#93c5fd", "#3b82f6", "#1e40af", "#a21caf", "#ea580c")
_OURS = ("#1d4ed8", "#0891b2", "#7c3aed", "#0f766e", "#4338ca")
_OTHERS = ("#dc2626", "#d97706", "#6b7280", "#65a30d", "#db2777", "#92400e", "#0d9488", "#9ca3af")
_MARKERS = "osD^vPX*"


def draw_curves(records: Sequence[Record], title: str) -> Figure:
    """Draw training loss, test loss and cosine against the round: a row per data set, a line per L.

    A line is the mean of the runs, the band around it their range.
    """
    found = group_records(records, lambda record: str(record["dataset"]))
    figure = blank(title, width=11, height=0.9 + 2.5 * len(found))
    grid = figure.subplots(len(found), len(CURVES), squeeze=False, sharex=True)
    for row, dataset in zip(grid, sort_names(found, DATASETS), strict=True):
        for axes, (column, words) in zip(row, CURVES.items(), strict=True):
            style(axes, f"{title_dataset(dataset)}: {words}")
            drawn = _draw_layers(axes, found[dataset], column)
            if column == "cosine":
                axes.axhline(0, color=QUIET, lw=0.9)
            elif drawn and min(drawn) > FLOOR:
                choose_scale(axes, drawn)
            elif drawn:
                axes.set_yscale("log")
                axes.set_ylim(FLOOR / 2, max(1.0, 2 * max(drawn)))
    for axes in grid[-1]:
        axes.set_xlabel("round", color=QUIET)
        axes.xaxis.get_major_locator().set_params(integer=True)
    _legend(figure)
    return figure


def draw_depth(records: Sequence[Record], titles: Mapping[str, str], title: str) -> Figure:
    """Draw test accuracy against depth: a panel per data set, a line per system, gbgnn's the thicker ones."""
    found = group_records(records, lambda record: str(record["dataset"]))
    figure = blank(title, width=max(6.0, 3.9 * len(found)), height=4.6)
    from matplotlib.ticker import NullLocator, ScalarFormatter  # it is there: there is a figure

    grid = figure.subplots(1, len(found), squeeze=False)
    depths = sorted({record["depth"] for record in records})
    for axes, dataset in zip(grid[0], sort_names(found, DATASETS), strict=True):
        style(axes, title_dataset(dataset))
        for system, look in _choose_styles(titles).items():
            _draw_depths(
                axes,
                [record for record in found[dataset] if record["system"] == system],
                titles[system],
                look,
            )
        axes.set_xscale("log", base=2)
        axes.set_xticks(depths)
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("depth (hops)", color=QUIET)
    grid[0, 0].set_ylabel("test accuracy (%)", color=QUIET)
    _legend(figure, columns=4)
    return figure


def _draw_layers(axes: Axes, records: Sequence[Record], column: str) -> list[float]:
    drawn: list[float] = []
    layers = sorted(group_records(records, lambda record: int(record["hidden_layers"])).items())
    for n_layers, found in layers:
        curves = [np.asarray(record.results[column]) for record in found if column in record.results]
        if not curves:
            continue
        length = min(map(len, curves))  # a run may have stopped early
        stacked = np.stack([curve[:length] for curve in curves])
        rounds, color = np.arange(1, length + 1), _LAYERS[n_layers % len(_LAYERS)]
        stacked = stacked if column == "cosine" else stacked.clip(min=FLOOR)
        axes.plot(rounds, stacked.mean(axis=0), color=color, lw=1.6, label=f"L = {n_layers}")
        if len(curves) > 1:
            axes.fill_between(rounds, stacked.min(axis=0), stacked.max(axis=0), color=color, alpha=0.15, lw=0)
        drawn += stacked.mean(axis=0).tolist()
    return drawn


def _draw_depths(axes: Axes, records: Sequence[Record], label: str, look: Mapping[str, Any]) -> None:
    by_depth = sorted(group_records(records, lambda record: int(record["depth"])).items())
    points = [(depth, summary) for depth, found in by_depth if (summary := summarize(found)) is not None]
    if not points:
        return
    depths, means = [depth for depth, _ in points], [summary.mean for _, summary in points]
    spread = [summary.std or 0 for _, summary in points]
    axes.plot(depths, means, label=label, **look)
    low, high = np.subtract(means, spread), np.add(means, spread)
    axes.fill_between(depths, low, high, color=look["color"], alpha=0.12, lw=0)


def _choose_styles(titles: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return color, width and marker of every system."""
    looks: dict[str, dict[str, Any]] = {}
    ours = [name for name in titles if name.startswith("gbgnn")]
    for i, name in enumerate(ours):
        looks[name] = {"color": _OURS[i % len(_OURS)], "lw": 2.4, "marker": "o", "ms": 4.5, "zorder": 3}
    for i, name in enumerate(name for name in titles if name not in ours):
        color, marker = _OTHERS[i % len(_OTHERS)], _MARKERS[1 + i % (len(_MARKERS) - 1)]
        looks[name] = {"color": color, "lw": 1.3, "marker": marker, "ms": 4, "ls": (0, (5, 2))}
    return looks


def _legend(figure: Figure, columns: int = 5) -> None:
    """Say below what the lines are, each once, whichever axes have them."""
    lines = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if lines:
        labels = sorted(lines) if all(label.startswith("L = ") for label in lines) else list(lines)
        handles = [lines[label] for label in labels]
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            labelcolor=INK,
            fontsize=9,
        )
