"""Accuracy against depth, 1 to 64 hops: who over-smooths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from gbgnn.datasets import Dataset
from gbgnn.plots import QUIET, blank, style
from gbgnn_lab.experiments.figures import draw_legend
from gbgnn_lab.experiments.jobs import Experiment, Job, single_jobs
from gbgnn_lab.experiments.options import Options
from gbgnn_lab.experiments.paper import DATASETS, title_dataset
from gbgnn_lab.experiments.records import Fields, Record, identify_data
from gbgnn_lab.experiments.report import (
    Entry,
    Report,
    Table,
    describe_failures,
    describe_origin,
    group_by_name,
    group_records,
    summarize,
    tell_numbers,
)
from gbgnn_lab.experiments.systems import SYSTEMS, BaselineSystem, find_systems, measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DEPTHS = (1, 2, 4, 8, 16, 32, 64)
COMPARED = ("gbgnn", "gbgnn-kta", "gbgnn-ii", "gcn", "sgc", "gcnii", "jknet", "adagcn")
QUICK_EPOCHS = 50
LAST = "last_test_accuracy"
TITLE = "Accuracy against depth"
_OURS = ("#1d4ed8", "#0891b2", "#7c3aed", "#0f766e", "#4338ca")
_OTHERS = ("#dc2626", "#d97706", "#6b7280", "#65a30d", "#db2777", "#92400e", "#0d9488", "#9ca3af")
_MARKERS = "sD^vPX*"


def stages(data: Mapping[str, Dataset], options: Options) -> Iterator[Sequence[Job]]:
    """Yield a job for each system, depth, data set and seed, the shallow ones first.

    An average of models of several families has no depth that could be set.
    """
    jobs = []
    systems = [own for own in find_systems(options.systems) if own.settings.get("preset") != "best"]
    for each in data.values():
        known = identify_data(each)
        for depth in options.depths:
            for system in systems:
                if options.quick and isinstance(system, BaselineSystem):
                    system = replace(system, settings={"epochs": QUICK_EPOCHS})
                identity = {**known, "system": system.name, "depth": depth, "quick": options.quick}
                work = partial(measure, system, each, options.device, depth=depth)
                jobs += single_jobs(identity, options.runs or 0, work)
    yield jobs


def tabulate(records: Sequence[Record]) -> Report:
    """Return a table per data set: a row per system, a column per depth."""
    by_name = group_by_name(records, "dataset", DATASETS)
    tables = [_make_table(name, found) for name, found in by_name.items()]
    notes = [
        "Depth is the number of hops: layers of GCN, GCNII and JK-Net, powers of SGC, hops of AdaGCN, and "
        "rounds of gbgnn after the first, which sees the raw features. gbgnn has the library's defaults, "
        "with `n_rounds` set to depth + 1; the round that predicts is chosen by validation, as it is by "
        'default, and in the rows "last round" it is the deepest one. The others have their published '
        "settings, and the epoch that predicts chosen by validation.",
        "Bold: the best depth of a system.",
    ]
    if any(record["quick"] for record in records):
        notes.append(f"Here, networks other than gbgnn's are trained for {QUICK_EPOCHS} epochs.")
    for system, runs in group_records(records, "system").items():
        notes += describe_failures(runs, _find_title(system))
    rows: list[Fields] = []
    by_cell = group_records(records, "dataset", "system", "depth")
    for (dataset, system, depth), runs in by_cell.items():
        last = summarize(runs, LAST)
        place = {"dataset": dataset, "system": system, "depth": depth}
        last_mean = None if last is None else round(last.mean, 3)
        rows.append({**place, **tell_numbers(runs), "last_round_mean": last_mean})
    return Report(TITLE, tables, [*notes, *describe_origin(records)], rows)


def _make_table(name: str, records: Sequence[Record]) -> Table:
    depths = sorted({record["depth"] for record in records})
    rows = []
    for system, found in group_by_name(records, "system", SYSTEMS).items():
        by_depth = group_records(found, "depth")
        rows.append([Entry(_find_title(system)), *_make_entries(depths, by_depth, "test_accuracy")])
        if any(LAST in record.results for record in found):
            rows.append([Entry(f"{_find_title(system)}, last round"), *_make_entries(depths, by_depth, LAST)])
    caption = f"{title_dataset(name)}: test accuracy in percent by depth"
    return Table(caption, ["Model", *map(str, depths)], rows)


def _make_entries(
    depths: Sequence[int], by_depth: Mapping[int, Sequence[Record]], result: str
) -> list[Entry]:
    summaries = {depth: summarize(by_depth.get(depth, ()), result) for depth in depths}
    best = max((each.mean for each in summaries.values() if each is not None), default=None)
    return [
        Entry("failed" if depth in by_depth else "-")
        if each is None
        else Entry(str(each), strong=each.mean == best)
        for depth, each in summaries.items()
    ]


def _find_title(system: str) -> str:
    return {"gbgnn": "gbgnn, Adj"}.get(system, SYSTEMS[system].title)


def draw(records: Sequence[Record]) -> dict[str, Figure]:
    """Draw test accuracy against depth: a panel per data set, a line per system, gbgnn's the thicker ones."""
    found = group_by_name(records, "dataset", DATASETS)
    if not found:
        return {}
    figure = blank(TITLE, width=max(6.0, 3.9 * len(found)), height=4.6)
    from matplotlib.ticker import NullLocator, ScalarFormatter  # it is there: there is a figure

    grid = figure.subplots(1, len(found), squeeze=False)
    styles = _choose_styles(list(group_by_name(records, "system", SYSTEMS)))
    for axes, (dataset, runs) in zip(grid[0], found.items(), strict=True):
        style(axes, title_dataset(dataset))
        by_system = group_records(runs, "system")
        for system, look in styles.items():
            _draw_line(axes, by_system.get(system, []), _find_title(system), look)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted({record["depth"] for record in records}))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("depth (hops)", color=QUIET)
    grid[0, 0].set_ylabel("test accuracy (%)", color=QUIET)
    draw_legend(figure, columns=4)
    return {"depth.png": figure}


def _draw_line(axes: Axes, records: Sequence[Record], label: str, look: Mapping[str, Any]) -> None:
    by_depth = sorted(group_records(records, "depth").items())
    points = [(depth, summary) for depth, found in by_depth if (summary := summarize(found)) is not None]
    if not points:
        return
    depths, means = [depth for depth, _ in points], [summary.mean for _, summary in points]
    spread = [summary.std or 0 for _, summary in points]
    axes.plot(depths, means, label=label, **look)
    low, high = np.subtract(means, spread), np.add(means, spread)
    axes.fill_between(depths, low, high, color=look["color"], alpha=0.12, lw=0)


def _choose_styles(systems: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return color, width and marker of every system."""
    ours = [name for name in systems if name.startswith("gbgnn")]
    others = [name for name in systems if name not in ours]
    looks: dict[str, dict[str, Any]] = {}
    for name, color in zip(ours, cycle(_OURS), strict=False):
        looks[name] = {"color": color, "lw": 2.4, "marker": "o", "ms": 4.5, "zorder": 3}
    for name, color, marker in zip(others, cycle(_OTHERS), cycle(_MARKERS), strict=False):
        looks[name] = {"color": color, "lw": 1.3, "marker": marker, "ms": 4, "ls": (0, (5, 2))}
    return looks


DEPTH = Experiment(
    "depth",
    stages,
    tabulate,
    Options(datasets=tuple(DATASETS), systems=COMPARED, depths=DEPTHS, runs=5),
    Options(datasets=("cora",), depths=(1, 4, 16, 64), runs=1),
    draw,
)
