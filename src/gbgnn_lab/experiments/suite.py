"""reproduce(): run an experiment, or what is left of it, and write its tables and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from gbgnn._checks import check_choice
from gbgnn.errors import DataError, MissingDependencyError
from gbgnn.reports import write_figure
from gbgnn_lab.experiments.comparison import COMPARISON
from gbgnn_lab.experiments.curves import FIGURES
from gbgnn_lab.experiments.depth import DEPTH
from gbgnn_lab.experiments.environment import environment
from gbgnn_lab.experiments.experiment import Experiment, Options, Report, Shelf
from gbgnn_lab.experiments.paper_tables import TABLE1, TABLE4
from gbgnn_lab.experiments.running import Watch, run_jobs

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {each.name: each for each in (TABLE1, TABLE4, FIGURES, COMPARISON, DEPTH)}
)
"""Every experiment by its name."""
QUICK = "Quick run: few runs of small searches, which show everything at work; the numbers say little."


def reproduce(name: str, options: Options | None = None, *, watch: Watch | None = None) -> Report:
    """Run an experiment, or what is left of it, and write its tables and figures.

    Every run is recorded as it ends, so that the same call goes on where it was interrupted.

    Parameters
    ----------
    name
        One of :data:`EXPERIMENTS`.
    options
        What is asked for.
    watch
        Told how it goes.
    """
    experiment, chosen = _prepare(name, options)
    data, shelf = chosen.load_data(), Shelf(Path(chosen.out))
    stamp = environment(chosen.device, (options or Options()).command(name))
    for jobs in experiment.stages(data, chosen, shelf):
        run_jobs(
            jobs,
            shelf.file(name),
            n_jobs=chosen.jobs,
            is_alone=experiment.is_alone,
            environment=stamp,
            watch=watch,
        )
    return _write(experiment, shelf, is_quick=chosen.quick)


def rebuild(name: str, options: Options | None = None) -> Report:
    """Write the tables and figures of the records that are there; nothing is run."""
    experiment, chosen = _prepare(name, options)
    shelf = Shelf(Path(chosen.out))
    if not shelf.read(name):
        raise DataError(f"there are no records in {shelf.file(name).path}; run the experiment first.")
    return _write(experiment, shelf, is_quick=chosen.quick)


def _prepare(name: str, options: Options | None) -> tuple[Experiment, Options]:
    check_choice("reproduce", "name", name, EXPERIMENTS)
    experiment = EXPERIMENTS[name]
    return experiment, experiment.options(options or Options())


def _write(experiment: Experiment, shelf: Shelf, *, is_quick: bool) -> Report:
    folder = shelf.out / experiment.name
    page = experiment.page(shelf)
    if is_quick:
        page = replace(page, title=f"{page.title} (quick run)", notes=[QUICK, *page.notes])
    files, missing = page.write(folder), None
    if experiment.figures is not None:
        try:
            for name, figure in experiment.figures(shelf).items():
                write_figure(figure, folder / name)
                files.append(folder / name)
        except MissingDependencyError as error:
            missing = str(error)
    n_failed = sum(record.failure is not None for record in shelf.read(experiment.name))
    return Report(page, folder, tuple(files), n_failed, missing)
