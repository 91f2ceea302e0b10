"""The paper's comparison of models, every system run by us on the same split and machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from gbgnn.datasets import Dataset
from gbgnn_lab.baselines import BASELINES
from gbgnn_lab.experiments.jobs import Experiment, Job, single_jobs
from gbgnn_lab.experiments.leaderboard import rank_report
from gbgnn_lab.experiments.options import Options
from gbgnn_lab.experiments.paper import ACCURACY, DATASETS, VARIANTS, Cell, cite_accuracy
from gbgnn_lab.experiments.records import Fields, Record, identify_data, read_records
from gbgnn_lab.experiments.report import Report
from gbgnn_lab.experiments.summaries import best_settings, group_records
from gbgnn_lab.experiments.systems import TITLES, BoostedSystem, System, find_systems, measure

_ROWS = tuple(cell for variant in VARIANTS for cell in (Cell(variant), Cell(variant, fine_tune=True)))
"""The paper's rows of GB-GNN."""


def stages(data: Mapping[str, Dataset], options: Options) -> Iterator[Sequence[Job]]:
    """Yield a job for each system and seed: those asked for, and the paper's variants as they were found."""
    searched = read_records(options.out, "table1", "table4")
    jobs = []
    for each in data.values():
        known = identify_data(each)
        # Those of a name always have the same settings; those of a search are another system with each.
        named: list[tuple[System, Fields]] = [(system, {}) for system in find_systems(options.systems)]
        found = [(system, {"settings": dict(system.settings)}) for system in list_searched(searched, known)]
        for system, settings in [*named, *found]:
            identity = {**known, "system": system.name, **settings}
            jobs += single_jobs(identity, options.runs or 0, partial(measure, system, each, options.device))
    yield jobs


def list_searched(records: Sequence[Record], known: Mapping[str, object]) -> list[BoostedSystem]:
    """Return the paper's variants with the settings of their best search on this data, where there is one."""
    here = [record for record in records if all(record[part] == value for part, value in known.items())]
    by_cell = group_records(here, lambda r: Cell(r["variant"], r["hidden_layers"], r["fine_tune"]))
    best = {cell: best_settings(by_cell.get(cell, [])) for cell in _ROWS}
    return [BoostedSystem(cell.title, cell.title, found) for cell, found in best.items() if found is not None]


def cite(system: str, dataset: str) -> float | None:
    """Return the accuracy that the paper prints or cites, else that of the system's own paper."""
    for cell in _ROWS:
        if cell.title == system:
            printed = ACCURACY[cell].get(dataset)
            return None if printed is None else printed.mean
    baseline = BASELINES.get(system)
    return cite_accuracy(system).get(dataset, None if baseline is None else baseline.cited.get(dataset))


def tabulate(out: Path) -> Report:
    """Return the boards, and where the numbers that are cited differ."""
    records = read_records(out, "comparison")
    notes = [
        "Every run is trained on the training nodes of the same split; the epoch or round that predicts is "
        "chosen by validation accuracy. Baselines have their published settings. gbgnn: the library's "
        "defaults, the same for all data sets. GB-GNN: the paper's variants, with the settings of the best "
        "of our searches of that cell (table1, table4), by validation accuracy.",
        "Cited: as Oono and Suzuki print it, else from the system's own paper.",
        *_differences(records),
    ]
    return rank_report("Comparison of models", records, TITLES, notes, cite)


def _differences(records: Sequence[Record]) -> list[str]:
    """Say where the paper cites other numbers than the papers it cites have."""
    said = []
    for system in dict.fromkeys(record["system"] for record in records if record["system"] in BASELINES):
        baseline = BASELINES[system]
        others = [
            f"{baseline.cited[name]:.1f} on {DATASETS[name]} ({value:.1f})"
            for name, value in cite_accuracy(system).items()
            if baseline.cited.get(name, value) != value
        ]
        if others:
            said.append(
                f"{baseline.title}: {baseline.cited_from} has {', '.join(others)}; in brackets what is cited."
            )
    return said


COMPARISON = Experiment(
    "comparison",
    stages,
    tabulate,
    Options(datasets=tuple(DATASETS), runs=10),
    Options(
        datasets=("cora",),
        systems=("gbgnn", "gbgnn-samme_r", "gcn", "sgc", "tagcn", "appnp", "graphsage", "label_propagation"),
        runs=2,
    ),
    is_alone=True,
)
