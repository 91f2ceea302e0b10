"""``gbgnn reproduce``: the paper's experiments, one command each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gbgnn.cli.command import UsageError
from gbgnn.cli.options import AsJson, DataDir, DataOption, key_values

EXAMPLES = (
    ("gbgnn reproduce table1 --quick", "a look at everything, within ten minutes on two cores"),
    ("gbgnn reproduce table1 --device cuda --population 256", "the paper's protocol: 1,000 trials, 10 runs"),
    ("gbgnn reproduce table4 --trials 100 --dataset cora --jobs 2", "all variants and L, fewer trials"),
    ("gbgnn reproduce depth --dataset cora", "accuracy against depth, with its figure"),
    ("gbgnn reproduce table1 --tables-only", "write tables and figures of the records that are there"),
)

_WHAT = "What is run"
_SEARCH = "The search (table1, table4)"
_RUN = "The run"


def _option(panel: str, help: str, *flags: str, metavar: str | None = None) -> Any:
    return typer.Option(*flags, help=help, metavar=metavar, rich_help_panel=panel, show_default=False)


def reproduce(
    experiment: Annotated[
        str, typer.Argument(metavar="EXPERIMENT", help="table1, table4, figures, comparison or depth.")
    ],
    datasets: Annotated[
        list[str] | None,
        _option(
            _WHAT,
            "A data set; may be repeated. Default: cora, citeseer and pubmed.",
            "--dataset",
            metavar="NAME",
        ),
    ] = None,
    variants: Annotated[
        list[str] | None,
        _option(_WHAT, "table1, table4, figures: adj, kta, ii or samme_r.", "--variant", metavar="NAME"),
    ] = None,
    layers: Annotated[
        list[int] | None,
        _option(_WHAT, "table1, table4, figures: hidden layers, 0 to 4.", "--layers", metavar="L"),
    ] = None,
    systems: Annotated[
        list[str] | None,
        _option(_WHAT, "comparison, depth: gbgnn, gcn, ...; may be repeated.", "--system", metavar="NAME"),
    ] = None,
    depths: Annotated[
        list[int] | None,
        _option(_WHAT, "depth: hops. Default: 1, 2, 4, up to 64.", "--depth", metavar="N"),
    ] = None,
    runs: Annotated[
        int | None,
        _option(_WHAT, "Runs of each, seeds 0, 1, ... Default: 10; figures 3, depth 5.", metavar="N"),
    ] = None,
    quick: Annotated[bool, _option(_WHAT, "Few and small runs, into OUT/quick.", "--quick")] = False,
    trials: Annotated[int | None, _option(_SEARCH, "Trials of a search. Default: 1,000.")] = None,
    space: Annotated[
        str | None, _option(_SEARCH, "What is searched: paper, default or quick.", metavar="NAME")
    ] = None,
    population: Annotated[int | None, _option(_SEARCH, "Train so many trials at once.", metavar="N")] = None,
    seeds_per_trial: Annotated[
        int | None,
        _option(_SEARCH, "Train every trial with so many seeds, in a population. Default: 1.", metavar="N"),
    ] = None,
    confirm: Annotated[
        int | None,
        _option(_SEARCH, "Train so many of the best trials again with other seeds. Default: 0.", metavar="N"),
    ] = None,
    tune_trials: Annotated[int | None, _option(_SEARCH, "Trials of fine-tuning. Default: 100.")] = None,
    finalists: Annotated[
        int | None, _option(_SEARCH, "Fine-tune the models of so many best trials. Default: 3.")
    ] = None,
    device: Annotated[str, _option(_RUN, "auto, cpu or cuda.", metavar="NAME")] = "auto",
    jobs: Annotated[int, _option(_RUN, "Runs at once, each in a process of its own.", "--jobs", "-j")] = 1,
    out: Annotated[Path, _option(_RUN, "Folder of all results. Default: results.", metavar="FOLDER")] = Path(
        "results"
    ),
    data_dir: DataDir = None,
    data_option: DataOption = None,
    tables_only: Annotated[
        bool, _option(_RUN, "Run nothing: write the tables and figures of the records.", "--tables-only")
    ] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Do an experiment of the paper again, and write its tables and figures beside the paper's numbers.

    Every run is recorded in OUT/EXPERIMENT/records.jsonl as it ends, with its settings, seed, versions and
    machine, and tables are made of these records alone. Interrupted, the same command goes on where it was.
    Settings are chosen by validation accuracy; the test labels are read afterwards.
    """
    from gbgnn_lab.cli.progress import show, watching
    from gbgnn_lab.experiments import EXPERIMENTS, Options, rebuild
    from gbgnn_lab.experiments import reproduce as run

    if experiment not in EXPERIMENTS:
        raise UsageError(f"EXPERIMENT must be one of {', '.join(EXPERIMENTS)}; got {experiment!r}.")
    options = Options(
        datasets=tuple(datasets or ()),
        variants=tuple(variants or ()),
        layers=tuple(layers or ()),
        systems=tuple(systems or ()),
        depths=tuple(depths or ()),
        runs=runs,
        trials=trials,
        tune_trials=tune_trials,
        finalists=finalists,
        population=population,
        seeds_per_trial=seeds_per_trial,
        confirm=confirm,
        space=space,
        quick=quick,
        device=device,
        jobs=jobs,
        out=out,
        data_dir=None if data_dir is None else str(data_dir),
        data_options=key_values(data_option, "--data-option"),
    )
    if tables_only:
        report = rebuild(experiment, options)
    else:
        with watching(quiet=quiet) as watch:
            report = run(experiment, options, watch=watch)
    show(report, as_json=as_json)
