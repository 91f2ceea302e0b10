"""reproduce(): run an experiment, or what is left of it, and write its tables and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from gbgnn import datasets
from gbgnn._checks import check_choice
from gbgnn.cli.screen import Progress
from gbgnn.datasets import Dataset
from gbgnn.errors import DataError, MissingDependencyError, ParameterError
from gbgnn.plots import write_figure
from gbgnn_lab.experiments.depth import DEPTH
from gbgnn_lab.experiments.figures import FIGURES
from gbgnn_lab.experiments.jobs import Experiment, run_jobs
from gbgnn_lab.experiments.leaderboard import COMPARISON
from gbgnn_lab.experiments.options import Options, write_command
from gbgnn_lab.experiments.paper_tables import TABLE1, TABLE4
from gbgnn_lab.experiments.records import check_splits, describe_environment, open_records, read_records
from gbgnn_lab.experiments.report import Report, count_failed

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {each.name: each for each in (TABLE1, TABLE4, FIGURES, COMPARISON, DEPTH)}
)
"""Every experiment by its name."""
QUICK = "Quick run: few runs of small searches, which show everything at work; the numbers say little."


def reproduce(name: str, options: Options | None = None, *, progress: Progress | None = None) -> Report:
    """Run an experiment, or what is left of it, and write its tables and figures.

    Every run is recorded as it ends, so that the same call goes on where it was interrupted.

    Parameters
    ----------
    name
        One of :data:`EXPERIMENTS`.
    options
        What is asked for.
    progress
        Receives how many runs are done, and what came of each.
    """
    check_choice("reproduce", "name", name, EXPERIMENTS)
    experiment, asked = EXPERIMENTS[name], options or Options()
    chosen = experiment.choose(asked)
    environment = describe_environment(chosen.device, write_command(asked, name))
    for jobs in experiment.stages(load_data(chosen), chosen):
        run_jobs(
            jobs,
            open_records(chosen.out, name),
            n_jobs=chosen.jobs,
            is_alone=experiment.is_alone,
            environment=environment,
            progress=progress,
        )
    return _write(experiment, chosen)


def rebuild(name: str, options: Options | None = None) -> Report:
    """Write the tables and figures of the records that are there; nothing is run."""
    check_choice("rebuild", "name", name, EXPERIMENTS)
    chosen = EXPERIMENTS[name].choose(options or Options())
    file = open_records(chosen.out, name)
    if not file.read():
        raise DataError(f"there are no records in {file.path}; run the experiment first.")
    return _write(EXPERIMENTS[name], chosen)


def load_data(options: Options) -> dict[str, Dataset]:
    """Return the data sets, each by its own name."""
    loaded = [
        datasets.load(name, data_dir=options.data_dir, **options.data_options) for name in options.datasets
    ]
    for data in loaded:
        check_splits(data)
        if data.is_regression:
            raise DataError(
                f"{data.name} has numbers to predict, and the paper's experiments are about classes; "
                "gbgnn compare takes both."
            )
    named = {data.name: data for data in loaded}
    if len(named) < len(loaded):
        names = ", ".join(data.name for data in loaded)
        raise ParameterError(f"two of the data sets have the same name ({names}); name each once.")
    return named


def _write(experiment: Experiment, options: Options) -> Report:
    folder, own = Path(options.out, experiment.name), read_records(options.out, experiment.name)
    records = [*read_records(options.out, *experiment.borrows), *own]
    report = replace(experiment.tabulate(records), n_failed=count_failed(own))
    if options.quick:
        report = replace(report, title=f"{report.title} (quick run)", notes=[QUICK, *report.notes])
    report = report.write(folder)
    try:
        figures = experiment.draw([record for record in records if record.failure is None])
        for name, figure in figures.items():
            write_figure(figure, folder / name)
    except MissingDependencyError as error:
        return replace(report, missing=str(error))
    return replace(report, files=(*report.files, *(folder / name for name in figures)))
