"""``gbgnn reproduce``: the paper's experiments, one command each."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gbgnn.cli.command import UsageError
from gbgnn.cli.options import AsJson
from gbgnn_lab.cli.options import read_options, with_options
from gbgnn_lab.experiments.options import RUN, Options

EXAMPLES = (
    ("gbgnn reproduce table1 --quick", "a look at everything, within ten minutes on two cores"),
    ("gbgnn reproduce table1 --device cuda --population 256", "the paper's protocol: 1,000 trials, 10 runs"),
    ("gbgnn reproduce table4 --trials 100 --dataset cora --jobs 2", "all variants and L, fewer trials"),
    ("gbgnn reproduce depth --dataset cora", "accuracy against depth, with its figure"),
    ("gbgnn reproduce table1 --tables-only", "write tables and figures of the records that are there"),
)


@with_options(Options)
def reproduce(
    experiment: Annotated[
        str, typer.Argument(metavar="EXPERIMENT", help="table1, table4, figures, comparison or depth.")
    ],
    tables_only: Annotated[
        bool,
        typer.Option(
            "--tables-only",
            help="Run nothing: write the tables and figures of the records.",
            rich_help_panel=RUN,
        ),
    ] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    **given: Any,
) -> None:
    """Do an experiment of the paper again, and write its tables and figures beside the paper's numbers.

    Every run is recorded in OUT/EXPERIMENT/records.jsonl as it ends, with its settings, seed, versions and
    machine, and tables are made of these records alone. Interrupted, the same command goes on where it was.
    Settings are chosen by validation accuracy; the test labels are read afterwards.
    """
    from gbgnn_lab.cli.progress import show_report, show_runs
    from gbgnn_lab.experiments import suite

    if experiment not in suite.EXPERIMENTS:
        raise UsageError(f"EXPERIMENT must be one of {', '.join(suite.EXPERIMENTS)}; got {experiment!r}.")
    options = read_options(Options, given)
    if tables_only:
        report = suite.rebuild(experiment, options)
    else:
        with show_runs(quiet=quiet) as progress:
            report = suite.reproduce(experiment, options, progress=progress)
    show_report(report, as_json=as_json)
