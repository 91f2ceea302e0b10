"""Loss and angle against the round, L = 0 to 4: the paper's figure 1, and those of its appendix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gbgnn._files import as_plain
from gbgnn.callbacks import Callback, RoundReport
from gbgnn.datasets import Dataset
from gbgnn.settings import build_model
from gbgnn_lab.experiments.figures import FLOOR, draw_curves
from gbgnn_lab.experiments.jobs import Experiment, Job, Outcome, Tell, single_jobs
from gbgnn_lab.experiments.options import Options
from gbgnn_lab.experiments.paper import DATASETS, LAYERS, VARIANTS, Cell, title_dataset
from gbgnn_lab.experiments.records import Fields, Record, identify_data, read_records
from gbgnn_lab.experiments.report import Entry, Report, Table
from gbgnn_lab.experiments.summaries import (
    best_settings,
    describe_failures,
    describe_origin,
    group_records,
    sort_names,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRADIENT = "gradient"
"""Functional gradient boosting, our default rule, drawn beside the paper's variants."""
N_ROUNDS, QUICK_ROUNDS = 100, 15
TITLES = {**VARIANTS, GRADIENT: "gbgnn's default rule, functional gradient boosting"}
_DIGITS = 6


def trace_rounds(
    data: Dataset, settings: Mapping[str, Any], device: Any, run: int, tell: Tell | None = None
) -> Outcome:
    """Fit a model, and return its losses and angles round by round.

    The test loss is computed after training, of the scores that were kept on the way.
    """
    seen, test = data.without_test_labels(), _KeptScores(data.test)
    model = build_model(settings)
    model.set_params(random_state=run, device=device, callbacks=[test], keep_learners=False)
    model.fit(seen.train, seen.y[seen.train], graph=seen.graph, validation=(seen.val, seen.y[seen.val]))
    history, targets = model.history_, torch.as_tensor(model.task_.encode(data.y[data.test]))
    results = {
        "train_loss": _round_digits(history["train_loss"]),
        "test_loss": _round_digits([float(model.loss_.mean(scores, targets)) for scores in test.kept]),
        "cosine": _round_digits(history["cosine"]),
        "stop": str(model.stop_reason_),
    }
    return Outcome(as_plain(dict(settings)), results)


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
                jobs += single_jobs(
                    identity, options.runs or 0, partial(trace_rounds, each, settings, options.device)
                )
    yield jobs


def find_settings(
    kind: str, layers: int, known: Mapping[str, Any], searched: Sequence[Record]
) -> tuple[Fields, Fields]:
    """Return the settings to draw, and where they are from: the best search of the cell, or the defaults."""
    own: Fields = {"learner": "mlp", "learner__hidden_layers": layers}
    if kind == GRADIENT:
        return own, {"from": "defaults"}
    cell = Cell(kind, layers)
    of_cell = [
        record
        for record in searched
        if Cell(record["variant"], record["hidden_layers"], record["fine_tune"]) == cell
        and all(record[part] == value for part, value in known.items())
    ]
    best = best_settings(of_cell)
    if best is not None:
        return best, {"from": "search"}
    from gbgnn.search import VARIANTS as PARTS  # optuna, which defaults alone do not need

    return {**PARTS[kind], **own}, {"from": "defaults"}


def tabulate(out: Path) -> Report:
    """Return a table of where the curves end."""
    records = read_records(out, "figures")
    names = sort_names((record["dataset"] for record in records), DATASETS)
    by_row = group_records(records, lambda record: (record["kind"], record["hidden_layers"]))
    rows = []
    for kind in sort_names((kind for kind, _ in by_row), TITLES):
        for layers in sorted(layers for other, layers in by_row if other == kind):
            ends = [
                _describe_end([r for r in by_row[kind, layers] if r["dataset"] == name]) for name in names
            ]
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


def draw(out: Path) -> dict[str, Figure]:
    """Return the paper's figure 1, and the grid of all data sets and L, for each rule."""
    records = [record for record in read_records(out, "figures") if record.failure is None]
    drawn = {
        f"curves-{kind}.png": draw_curves(found, TITLES[kind])
        for kind, found in group_records(records, lambda record: str(record["kind"])).items()
    }
    first = [r for r in records if (r["kind"], r["hidden_layers"], r["dataset"]) == ("adj", 1, "citeseer")]
    if first:
        drawn["figure1.png"] = draw_curves(first, f"{VARIANTS['adj']}, L = 1")
    return drawn


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
        curves = {name: record.results.get(name, []) for name in ("train_loss", "test_loss", "cosine")}
        for i, values in enumerate(zip(*curves.values(), strict=True), 1):
            yield {**place, "round": i, **dict(zip(curves, values, strict=True))}


def _round_digits(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values]


FIGURES = Experiment(
    "figures",
    stages,
    tabulate,
    Options(datasets=tuple(DATASETS), variants=("adj",), layers=LAYERS, runs=3),
    Options(runs=1),
    draw,
)
