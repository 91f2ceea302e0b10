"""Experiment: jobs in stages, and tables and figures that are made of their records alone."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gbgnn import datasets
from gbgnn._checks import check_choice, check_integer
from gbgnn.datasets import Dataset
from gbgnn.errors import ParameterError
from gbgnn_lab.experiments.judging import check_judgeable
from gbgnn_lab.experiments.pages import Page
from gbgnn_lab.experiments.paper import LAYERS, VARIANTS
from gbgnn_lab.experiments.protocol import SPACES, Protocol
from gbgnn_lab.experiments.records import Record, RecordFile
from gbgnn_lab.experiments.running import Job

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECORDS = "records.jsonl"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What may be asked of an experiment; None, and nothing at all, leave it its own choice.

    Parameters
    ----------
    datasets
        Names or paths of data sets.
    variants, layers
        Of the tables and figures: which variants, and which numbers of hidden layers.
    systems, depths
        Of comparison and depth: which systems, and which depths.
    runs
        Runs of each, seeds 0, 1, and so on.
    trials, tune_trials, finalists, population, seeds_per_trial, confirm, space
        See :class:`~gbgnn_lab.experiments.protocol.Protocol`.
    quick
        Take few and small runs instead, which finish within ten minutes on two cores.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    jobs
        How many runs at once.
    out
        The folder of all results; an experiment has a folder of its own name in it.
    data_dir, data_options
        Where to look for data first, and arguments of a data set, such as the size of a synthetic one.

    Examples
    --------
    >>> Options(datasets=("cora",), trials=200).command("table1")
    'gbgnn reproduce table1 --dataset cora --trials 200'
    """

    datasets: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    layers: tuple[int, ...] = ()
    systems: tuple[str, ...] = ()
    depths: tuple[int, ...] = ()
    runs: int | None = None
    trials: int | None = None
    tune_trials: int | None = None
    finalists: int | None = None
    population: int | None = None
    seeds_per_trial: int | None = None
    confirm: int | None = None
    space: str | None = None
    quick: bool = False
    device: str = "auto"
    jobs: int = 1
    out: str | os.PathLike[str] = "results"
    data_dir: str | None = None
    data_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for variant in self.variants:
            check_choice("Options", "variants", variant, VARIANTS)
        for layers in self.layers:
            check_integer("Options", "layers", layers, LAYERS[0], LAYERS[-1])
        for depth in self.depths:
            check_integer("Options", "depths", depth, 1)
        for name in ("runs", "trials", "tune_trials", "finalists", "population", "seeds_per_trial"):
            check_integer("Options", name, getattr(self, name), 1, optional=True)
        check_integer("Options", "confirm", self.confirm, 0, optional=True)
        if self.space is not None:
            check_choice("Options", "space", self.space, SPACES)
        check_integer("Options", "jobs", self.jobs, 1)

    def filled(self, defaults: Options) -> Options:
        """Return the options with what is left open taken from ``defaults``."""
        is_open = (None, ())
        names = [each.name for each in fields(self)]
        return replace(
            self, **{name: getattr(defaults, name) for name in names if getattr(self, name) in is_open}
        )

    @property
    def protocol(self) -> Protocol:
        """How cells are searched."""
        names = [each.name for each in fields(Protocol)]
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return Protocol(**given)

    def command(self, experiment: str) -> str:
        """Return the command that asks for the same, wherever data and results are."""
        words = ["gbgnn", "reproduce", experiment]
        for name, flag in FLAGS.items():
            value, default = getattr(self, name), getattr(_NO_OPTIONS, name)
            if value == default:
                continue
            for each in value if isinstance(value, tuple) else (value,):
                words += [flag] if each is True else [flag, str(each)]
        for name, value in self.data_options.items():
            words += ["--data-option", f"{name}={value}"]
        return shlex.join(words)

    def load_data(self) -> dict[str, Dataset]:
        """Return the data sets, each by its own name."""
        loaded = [datasets.load(name, data_dir=self.data_dir, **self.data_options) for name in self.datasets]
        for data in loaded:
            check_judgeable(data)
        named = {data.name: data for data in loaded}
        if len(named) < len(loaded):
            raise ParameterError(
                f"two of the data sets have the same name ({', '.join(data.name for data in loaded)}); name "
                "each once."
            )
        return named


FLAGS = {
    "datasets": "--dataset",
    "variants": "--variant",
    "layers": "--layers",
    "systems": "--system",
    "depths": "--depth",
    "runs": "--runs",
    "trials": "--trials",
    "tune_trials": "--tune-trials",
    "finalists": "--finalists",
    "population": "--population",
    "seeds_per_trial": "--seeds-per-trial",
    "confirm": "--confirm",
    "space": "--space",
    "quick": "--quick",
    "device": "--device",
    "jobs": "--jobs",
}
_NO_OPTIONS = Options()


@dataclass(frozen=True)
class Shelf:
    """The results folder: the records of every experiment in it."""

    out: Path

    def file(self, experiment: str) -> RecordFile:
        """Return the file of an experiment's records."""
        return RecordFile(self.out / experiment / RECORDS)

    def read(self, *experiments: str) -> list[Record]:
        """Return the records of some experiments."""
        return [record for name in experiments for record in self.file(name).read()]


Stages = Callable[[Mapping[str, Dataset], Options, Shelf], Iterator[Sequence[Job]]]
Figures = Callable[[Shelf], Mapping[str, "Figure"]]


@dataclass(frozen=True)
class Experiment:
    """Something of the paper that is done again, or beside it.

    Parameters
    ----------
    name
        What it is called in a command, and its folder.
    stages
        From data, options and the results so far to lists of jobs. Every list is recorded before the next is
        asked for, so that later jobs may need the records of earlier ones.
    page
        From the results to tables.
    defaults, quick
        What it does when nothing else is asked for, and what is different in a quick run.
    figures
        From the results to figures, by the names of their files; needs matplotlib.
    is_alone
        Whether every run needs a process of its own, for its memory to be measured.
    """

    name: str
    stages: Stages
    page: Callable[[Shelf], Page]
    defaults: Options
    quick: Options
    figures: Figures | None = None
    is_alone: bool = False

    def options(self, given: Options) -> Options:
        """Return what it does when this is asked for; quick results have a folder of their own."""
        if not given.quick:
            return given.filled(self.defaults)
        return replace(given.filled(self.quick).filled(self.defaults), out=Path(given.out, "quick"))


@dataclass(frozen=True, eq=False)
class Report:
    """What an experiment has come to.

    Parameters
    ----------
    page
        The tables and notes.
    folder
        Where they are.
    files
        What was written.
    n_failed
        How many runs have failed, and have not been made good since.
    missing
        Why there are no figures, or None.
    """

    page: Page
    folder: Path
    files: tuple[Path, ...]
    n_failed: int
    missing: str | None = None


def best_settings(records: Iterable[Record]) -> dict[str, Any] | None:
    """Return the settings of the search with the best validation accuracy, the first among equals."""
    judged = [record for record in records if record.failure is None]
    if not judged:
        return None
    return dict(max(judged, key=lambda record: float(record.results["search_accuracy"])).settings)
