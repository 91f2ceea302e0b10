"""``gbgnn compare``: a leaderboard on any data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gbgnn.cli.options import AsJson, DataDir, DataOption, Normalize, key_values

EXAMPLES = (
    ("gbgnn compare digits", "every system on the embedded digits"),
    ("gbgnn compare my_graph/ --system gbgnn --system gcn --splits 5", "two of them on your own graph"),
    (
        "gbgnn compare cora amazon_computers.npz --jobs 4 --out boards/two",
        "several data sets, four runs at once",
    ),
)

_WHAT = "What is compared"
_RUN = "The run"


def _option(panel: str, help: str, *flags: str, metavar: str | None = None) -> Any:
    return typer.Option(*flags, help=help, metavar=metavar, rich_help_panel=panel)


def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="DATASET_OR_FOLDER...",
            help="Known names (see gbgnn datasets), folders or files.",
            show_default=False,
        ),
    ],
    systems: Annotated[
        list[str] | None,
        _option(
            _WHAT,
            "gbgnn, gbgnn-kta, gcn, ...; may be repeated. Default: all.",
            "--system",
            "--model",
            metavar="NAME",
        ),
    ] = None,
    splits: Annotated[
        int, _option(_WHAT, "The most splits: the data's own, or drawn ones where it has none.")
    ] = 10,
    runs: Annotated[
        int | None, _option(_WHAT, "Seeds per split. Default: as many as make ten runs.", metavar="N")
    ] = None,
    split: Annotated[
        str | None,
        _option(_WHAT, "random or stratified draws splits in any case.", "--split", metavar="NAME"),
    ] = None,
    device: Annotated[str, _option(_RUN, "auto, cpu or cuda.", metavar="NAME")] = "auto",
    jobs: Annotated[int, _option(_RUN, "Runs at once; times are best with one.", "--jobs", "-j")] = 1,
    out: Annotated[Path, _option(_RUN, "Folder for records and tables.", metavar="FOLDER")] = Path(
        "results/compare"
    ),
    data_dir: DataDir = None,
    normalize: Normalize = None,
    data_option: DataOption = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Run gbgnn and other systems on the same splits, and rank them by test accuracy.

    gbgnn has its defaults, the others their published settings. Every run has a process of its own, for its
    peak memory, and is recorded in OUT/records.jsonl as it ends; interrupted, the same command goes on. A run
    that fails is shown as failed.
    """
    from gbgnn_lab.cli.progress import show, watching
    from gbgnn_lab.experiments import Contest
    from gbgnn_lab.experiments import compare as run

    contest = Contest(
        names=tuple(names),
        systems=tuple(systems or ()),
        splits=splits,
        runs=runs,
        split=split,
        device=device,
        jobs=jobs,
        data_dir=None if data_dir is None else str(data_dir),
        normalize=normalize,
        data_options=key_values(data_option, "--data-option"),
    )
    with watching(quiet=quiet) as watch:
        report = run(contest, out, watch=watch)
    show(report, as_json=as_json)
