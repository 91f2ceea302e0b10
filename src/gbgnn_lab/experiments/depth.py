"""Accuracy against depth, 1 to 64 hops: who over-smooths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gbgnn.datasets import Dataset
from gbgnn_lab.experiments.figures import draw_depth
from gbgnn_lab.experiments.jobs import Experiment, Job, single_jobs
from gbgnn_lab.experiments.options import Options
from gbgnn_lab.experiments.paper import DATASETS, title_dataset
from gbgnn_lab.experiments.records import Fields, Record, identify_data, read_records
from gbgnn_lab.experiments.report import Entry, Report, Table
from gbgnn_lab.experiments.summaries import (
    describe_failures,
    describe_origin,
    group_records,
    sort_names,
    summarize,
)
from gbgnn_lab.experiments.systems import SYSTEMS, BaselineSystem, System, find_systems, measure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEPTHS = (1, 2, 4, 8, 16, 32, 64)
COMPARED = ("gbgnn", "gbgnn-kta", "gbgnn-ii", "gcn", "sgc", "gcnii", "jknet", "adagcn")
QUICK_EPOCHS = 50
LAST = "last_test_accuracy"
TITLE = "Accuracy against depth"


def stages(data: Mapping[str, Dataset], options: Options) -> Iterator[Sequence[Job]]:
    """Yield a job for each system, depth, data set and seed, the shallow ones first."""
    jobs = []
    for each in data.values():
        known = identify_data(each)
        for depth in options.depths:
            for system in find_systems(options.systems):
                chosen = _shorten(system) if options.quick else system
                identity = {**known, "system": system.name, "depth": depth, "quick": options.quick}
                work = partial(measure, chosen, each, options.device, depth=depth)
                jobs += single_jobs(identity, options.runs or 0, work)
    yield jobs


def tabulate(out: Path) -> Report:
    """Return a table per data set: a row per system, a column per depth."""
    records = read_records(out, "depth")
    found = group_records(records, lambda record: str(record["dataset"]))
    tables = [_make_table(name, found[name]) for name in sort_names(found, DATASETS)]
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
    for system, runs in group_records(records, lambda record: str(record["system"])).items():
        notes += describe_failures(runs, _find_title(system))
    return Report(TITLE, tables, [*notes, *describe_origin(records)], list(_list_rows(records)))


def draw(out: Path) -> dict[str, Figure]:
    """Return the figure of accuracy against depth, where a run has a result."""
    records = [record for record in read_records(out, "depth") if record.failure is None]
    systems = dict.fromkeys(record["system"] for record in records)
    titles = {name: _find_title(name) for name in SYSTEMS if name in systems}
    return {"depth.png": draw_depth(records, titles, TITLE)} if records else {}


def _shorten(system: System) -> System:
    """Return a baseline that is trained for fewer epochs."""
    if not isinstance(system, BaselineSystem):
        return system
    return replace(system, overrides={"epochs": QUICK_EPOCHS})


def _make_table(name: str, records: Sequence[Record]) -> Table:
    depths = sorted({record["depth"] for record in records})
    rows = []
    by_system = group_records(records, lambda record: str(record["system"]))
    for system in sort_names(by_system, SYSTEMS):
        found = by_system[system]
        by_depth = group_records(found, lambda record: int(record["depth"]))
        rows.append([Entry(_find_title(system)), *_make_entries(depths, by_depth, "test_accuracy")])
        if any(LAST in record.results for record in found):
            rows.append([Entry(f"{_find_title(system)}, last round"), *_make_entries(depths, by_depth, LAST)])
    return Table(
        f"{title_dataset(name)}: test accuracy in percent by depth",
        ["Model", *map(str, depths)],
        rows,
    )


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


def _list_rows(records: Sequence[Record]) -> Iterator[Fields]:
    by_cell = group_records(records, lambda r: (r["dataset"], r["system"], r["depth"]))
    for (dataset, system, depth), found in by_cell.items():
        summary, last = summarize(found), summarize(found, LAST)
        yield {
            "dataset": dataset,
            "system": system,
            "depth": depth,
            "runs": len(found),
            "failed": sum(record.failure is not None for record in found),
            "mean": None if summary is None else round(summary.mean, 3),
            "std": None if summary is None or summary.std is None else round(summary.std, 3),
            "last_round_mean": None if last is None else round(last.mean, 3),
        }


def _find_title(system: str) -> str:
    return {"gbgnn": "gbgnn, Adj"}.get(system, SYSTEMS[system].title)


DEPTH = Experiment(
    "depth",
    stages,
    tabulate,
    Options(datasets=tuple(DATASETS), systems=COMPARED, depths=DEPTHS, runs=5),
    Options(datasets=("cora",), depths=(1, 4, 16, 64), runs=1),
    draw,
)
