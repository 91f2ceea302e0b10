"""Loss and angle against the round, L = 0 to 4: the paper's figure 1, and those of its appendix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gbgnn.callbacks import Callback, RoundReport
from gbgnn.datasets import Dataset
from gbgnn.plots import INK, QUIET, blank, choose_scale, style
from gbgnn_lab.experiments.jobs import Experiment, Job, Outcome, Tell, single_jobs
from gbgnn_lab.experiments.options import Options
from gbgnn_lab.experiments.paper import DATASETS, LAYERS, VARIANTS, Cell, title_dataset
from gbgnn_lab.experiments.records import Fields, Record, identify_data, read_records
from gbgnn_lab.experiments.report import (
    Entry,
    Report,
    Table,
    best_settings,
    describe_failures,
    describe_origin,
    group_by_name,
    group_records,
)
from gbgnn_lab.experiments.systems import fit_model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GRADIENT = "gradient"
"""Functional gradient boosting, our default rule, drawn beside the paper's variants."""
N_ROUNDS, QUICK_ROUNDS = 100, 15
TITLES = {**VARIANTS, GRADIENT: "gbgnn's default rule, functional gradient boosting"}
FLOOR = 1e-6
"""Losses below are drawn here; those that round to zero would take up the whole of a logarithmic axis."""
CURVES = {"train_loss": "training loss", "test_loss": "test loss", "cosine": "cosine"}
# From light to dark with L, so that the order can be read off the picture.
_COLORS = ("#93c5fd", "#3b82f6", "#1e40af", "#a21caf", "#ea580c")


def trace_rounds(
    data: Dataset, settings: Mapping[str, Any], device: Any, run: int, tell: Tell | None = None
) -> Outcome:
    """Fit a model, and return its losses and angles round by round.

    The test loss is computed after training, of the scores that were kept on the way.
    """
    seen, test = data.without_test_labels(), _KeptScores(data.test)
    how = {"random_state": run, "device": device, "callbacks": [test], "keep_learners": False}
    model = fit_model(settings, seen, **how)
    history, targets = model.history_, torch.as_tensor(model.task_.encode(data.y[data.test]))
    curves = {
        "train_loss": history["train_loss"],
        "test_loss": [float(model.loss_.mean(scores, targets)) for scores in test.kept],
        "cosine": history["cosine"],
    }
    results = {name: [float(f"{value:.6g}") for value in values] for name, values in curves.items()}
    return Outcome(dict(settings), {**results, "stop": str(model.stop_reason_)})


class _KeptScores(Callback):
    """Keeps the scores of some nodes after every round, off the device."""

    def __init__(self, nodes: Any) -> None:
        self.nodes = nodes
        self.kept: list[torch.Tensor] = []

    def on_round(self, report: RoundReport) -> None:
        rows = torch.as_tensor(self.nodes, device=report.scores.device)
        self.kept.append(report.scores[rows].cpu())


def stages(data: Mapping[str, Dataset], options: Options) -> Iterator[Sequence[Job]]:
    """Yield a job for each variant and our default rule, L, data set and run."""
    n_rounds = QUICK_ROUNDS if options.quick else N_ROUNDS
    searched = read_records(options.out, "table1", "table4")
    jobs = []
    for each in data.values():
        known = identify_data(each)
        for kind in (*options.variants, GRADIENT):
            for layers in options.layers:
                settings, how = find_settings(kind, layers, known, searched)
                settings["n_rounds"] = n_rounds
                identity = {**known, "kind": kind, "hidden_layers": layers, "settings": how | settings}
                work = partial(trace_rounds, each, settings, options.device)
                jobs += single_jobs(identity, options.runs or 0, work)
    yield jobs


def find_settings(
    kind: str, layers: int, known: Mapping[str, Any], searched: Sequence[Record]
) -> tuple[Fields, Fields]:
    """Return the settings to draw, and where they are from: the best search of the cell, or the defaults."""
    own: Fields = {"learner": "mlp", "learner__hidden_layers": layers}
    if kind == GRADIENT:
        return own, {"from": "defaults"}
    best = best_settings(searched, {**known, **asdict(Cell(kind, layers))})
    if best is not None:
        return best, {"from": "search"}
    from gbgnn.search import VARIANTS as PARTS  # optuna, which defaults alone do not need

    return {**PARTS[kind], **own}, {"from": "defaults"}


def tabulate(records: Sequence[Record]) -> Report:
    """Return a table of where the curves end."""
    names = list(group_by_name(records, "dataset", DATASETS))
    rows = []
    for kind, found in group_by_name(records, "kind", TITLES).items():
        for layers, runs in sorted(group_records(found, "hidden_layers").items()):
            by_name = group_records(runs, "dataset")
            ends = [_describe_end(by_name.get(name, [])) for name in names]
            rows.append([Entry(TITLES[kind]), Entry(str(layers)), *map(Entry, ends)])
    table = Table(
        "Training loss / test loss after the last round, and in how many rounds the cosine is positive; "
        "means over runs.",
        ["Rule", "L", *(title_dataset(name) for name in names)],
        rows,
        n_left=2,
    )
    origins = {record["settings"]["from"] for record in records if record["kind"] != GRADIENT}
    words = {"search": "the best search in table1 or table4", "defaults": "the library's defaults"}
    notes = [
        f"Settings of the paper's variants: {' or '.join(words[each] for each in sorted(origins))}; of our "
        "rule: the defaults. All rounds are drawn, also those after the one that validation would choose.",
        f"Losses below {FLOOR:g} are drawn there.",
        *describe_failures(records),
        *describe_origin(records),
    ]
    return Report("Loss and angle against the round", [table], notes, list(_list_points(records)))


def draw(records: Sequence[Record]) -> dict[str, Figure]:
    """Return the paper's figure 1, and the grid of all data sets and L, for each rule."""
    drawn = {
        f"curves-{kind}.png": draw_curves(found, TITLES[kind])
        for kind, found in group_records(records, "kind").items()
    }
    first = [r for r in records if (r["kind"], r["hidden_layers"], r["dataset"]) == ("adj", 1, "citeseer")]
    if first:
        drawn["figure1.png"] = draw_curves(first, f"{VARIANTS['adj']}, L = 1")
    return drawn


def draw_curves(records: Sequence[Record], title: str) -> Figure:
    """Draw training loss, test loss and cosine against the round: a row per data set, a line per L.

    A line is the mean of the runs, the band around it their range.
    """
    found = group_by_name(records, "dataset", DATASETS)
    figure = blank(title, width=11, height=0.9 + 2.5 * len(found))
    grid = figure.subplots(len(found), len(CURVES), squeeze=False, sharex=True)
    for row, (dataset, runs) in zip(grid, found.items(), strict=True):
        for axes, (column, words) in zip(row, CURVES.items(), strict=True):
            style(axes, f"{title_dataset(dataset)}: {words}")
            drawn = _draw_layers(axes, runs, column)
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
    draw_legend(figure)
    return figure


def _draw_layers(axes: Axes, records: Sequence[Record], column: str) -> list[float]:
    drawn: list[float] = []
    for n_layers, found in sorted(group_records(records, "hidden_layers").items()):
        curves = [np.asarray(record.results[column]) for record in found if column in record.results]
        if not curves:
            continue
        length = min(map(len, curves))  # a run may have stopped early
        stacked = np.stack([curve[:length] for curve in curves])
        rounds, color = np.arange(1, length + 1), _COLORS[n_layers % len(_COLORS)]
        stacked = stacked if column == "cosine" else stacked.clip(min=FLOOR)
        axes.plot(rounds, stacked.mean(axis=0), color=color, lw=1.6, label=f"L = {n_layers}")
        if len(curves) > 1:
            axes.fill_between(rounds, stacked.min(axis=0), stacked.max(axis=0), color=color, alpha=0.15, lw=0)
        drawn += stacked.mean(axis=0).tolist()
    return drawn


def draw_legend(figure: Figure, columns: int = 5) -> None:
    """Say below what the lines are, each once, whichever axes have them."""
    lines = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if lines:
        labels = sorted(lines) if all(label.startswith("L = ") for label in lines) else list(lines)
        handles = [lines[label] for label in labels]
        look = {"ncols": columns, "frameon": False, "labelcolor": INK, "fontsize": 9}
        figure.legend(handles, labels, loc="outside lower center", **look)


def _describe_end(records: Sequence[Record]) -> str:
    curves = [record.results for record in records if record.failure is None]
    if not curves:
        return "failed" if records else "-"
    train, test = (np.mean([curve[name][-1] for curve in curves]) for name in ("train_loss", "test_loss"))
    met = np.mean([sum(cosine > 0 for cosine in curve["cosine"]) for curve in curves])
    rounds = np.mean([len(curve["cosine"]) for curve in curves])
    return f"{train:.3g} / {test:.3g}, {met:.0f} of {rounds:.0f}"


def _list_points(records: Sequence[Record]) -> Iterator[Fields]:
    for record in records:
        place = {name: record[name] for name in ("kind", "dataset", "hidden_layers", "run")}
        curves = {name: record.results.get(name, []) for name in CURVES}
        for i, values in enumerate(zip(*curves.values(), strict=True), 1):
            yield {**place, "round": i, **dict(zip(curves, values, strict=True))}


FIGURES = Experiment(
    "figures",
    stages,
    tabulate,
    Options(datasets=tuple(DATASETS), variants=("adj",), layers=LAYERS, runs=3),
    Options(runs=1),
    draw,
)
