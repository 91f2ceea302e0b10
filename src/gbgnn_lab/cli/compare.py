"""``gbgnn compare``: a leaderboard on any data."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gbgnn.cli.options import AsJson
from gbgnn_lab.cli.options import read_options, with_options
from gbgnn_lab.experiments.options import CompareOptions

EXAMPLES = (
    ("gbgnn compare digits", "every system on the embedded digits"),
    ("gbgnn compare my_graph/ --system gbgnn --system gcn --splits 5", "two of them on your own graph"),
    (
        "gbgnn compare cora amazon_computers.npz --jobs 4 --out boards/two",
        "several data sets, four runs at once",
    ),
)


@with_options(CompareOptions)
def compare(
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    **given: Any,
) -> None:
    """Run gbgnn and other systems on the same splits, and rank them by test accuracy.

    gbgnn has its defaults, the others their published settings. Every run has a process of its own, for its
    peak memory, and is recorded in OUT/records.jsonl as it ends; interrupted, the same command goes on. A run
    that fails is shown as failed.
    """
    from gbgnn_lab.cli.progress import show_report, show_runs
    from gbgnn_lab.experiments import leaderboard

    with show_runs(quiet=quiet) as progress:
        report = leaderboard.compare(read_options(CompareOptions, given), progress=progress)
    show_report(report, as_json=as_json)
