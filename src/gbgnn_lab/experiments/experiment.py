"""Experiment: jobs in stages, and tables and figures that are made of their records alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gbgnn.datasets import Dataset
from gbgnn_lab.experiments.jobs import Job
from gbgnn_lab.experiments.options import Options
from gbgnn_lab.experiments.report import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Experiment:
    """Something of the paper that is done again, or beside it.

    Parameters
    ----------
    name
        What it is called in a command, and its folder.
    stages
        From data and options, ``out`` among them, to lists of jobs. Every list is recorded before the next is
        asked for, so that later jobs may need the records of earlier ones.
    tabulate
        From the folder of all results to tables.
    defaults, quick
        What it does when nothing else is asked for, and what is different in a quick run.
    draw
        From the folder of all results to figures, by the names of their files; needs matplotlib.
    is_alone
        Whether every run needs a process of its own, for its memory to be measured.
    """

    name: str
    stages: Callable[[Mapping[str, Dataset], Options], Iterator[Sequence[Job]]]
    tabulate: Callable[[Path], Report]
    defaults: Options
    quick: Options
    draw: Callable[[Path], Mapping[str, Figure]] | None = None
    is_alone: bool = False

    def choose(self, asked: Options) -> Options:
        """Return what it does when this is asked for; quick results have a folder of their own."""
        if not asked.quick:
            return asked.fill(self.defaults)
        return replace(asked.fill(self.quick).fill(self.defaults), out=Path(asked.out, "quick"))
