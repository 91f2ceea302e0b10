"""``gbgnn tune``: search for good settings by validation accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gbgnn.cli import screen
from gbgnn.cli.options import (
    AsJson,
    DataDir,
    DataOption,
    DatasetOrDigits,
    Normalize,
    Split,
    SplitSeed,
)

EXAMPLES = (
    ("gbgnn tune cora --variant kta --trials 200 --out runs/kta", "search, and keep the best model"),
    ("gbgnn tune cora --storage cora.log --trials 1000", "trials that outlive the process ..."),
    ("optuna-dashboard cora.log", "... to look at, and to go on with by the same command"),
    ("gbgnn tune my_graph/ --space mine.toml", "ranges of your own"),
    (
        "gbgnn tune pubmed --paper-space --fine-tune --population 256",
        "the paper's search, many trials at once",
    ),
)

_SPACE = "The space: what is searched"
_SEARCH = "The search"
_RUN = "The run"


def _option(panel: str, help: str, *flags: str, metavar: str | None = None) -> Any:
    return typer.Option(*flags, help=help, metavar=metavar, rich_help_panel=panel)


def tune(
    dataset: DatasetOrDigits = None,
    variant: Annotated[
        str | None,
        _option(_SPACE, "adj, kta, ii, samme_r, or custom (all in --space). Default: adj.", metavar="NAME"),
    ] = None,
    hidden_layers: Annotated[
        int | None, _option(_SPACE, "Hidden layers of the learner, 0 to 4. Default: 1.")
    ] = None,
    fine_tune: Annotated[
        bool, _option(_SPACE, "Fine-tune every model, and search how.", "--fine-tune")
    ] = False,
    space: Annotated[
        Path | None,
        _option(_SPACE, "TOML file whose table space narrows or widens it.", metavar="FILE"),
    ] = None,
    paper_space: Annotated[
        bool, _option(_SPACE, "Start from the paper's wide ranges.", "--paper-space")
    ] = False,
    trials: Annotated[
        int, _option(_SEARCH, "Finished trials that the study is to have, earlier ones included.")
    ] = 100,
    timeout: Annotated[
        float | None, _option(_SEARCH, "Begin no trial after so many seconds.", metavar="SECONDS")
    ] = None,
    population: Annotated[int | None, _option(_SEARCH, "Train so many trials at once.", metavar="N")] = None,
    seeds_per_trial: Annotated[
        int,
        _option(
            _SEARCH,
            "Train every trial with so many seeds, in a population, and judge their mean.",
            metavar="N",
        ),
    ] = 1,
    confirm: Annotated[
        int,
        _option(
            _SEARCH,
            "Train so many of the best trials again with five other seeds, and take what is best on average.",
            metavar="N",
        ),
    ] = 0,
    seed: Annotated[int, _option(_SEARCH, "Seed of the search and of every model.")] = 0,
    device: Annotated[str, _option(_SEARCH, "auto, cpu or cuda.", metavar="NAME")] = "auto",
    storage: Annotated[
        str | None,
        _option(
            _SEARCH,
            "Keep trials in a file ending in .log or .journal, or in a database such as sqlite:///s.db, "
            "to go on with them, also by several processes at once.",
            metavar="FILE_OR_URL",
        ),
    ] = None,
    study: Annotated[
        str | None,
        _option(_SEARCH, "Name of the study in it. Default: data, parts and seed.", metavar="NAME"),
    ] = None,
    data_dir: DataDir = None,
    split: Split = None,
    split_seed: SplitSeed = None,
    normalize: Normalize = None,
    data_option: DataOption = None,
    out: Annotated[
        Path | None, _option(_RUN, "Folder to write. Default: runs/DATASET-TIME.", metavar="RUN")
    ] = None,
    force: Annotated[bool, _option(_RUN, "Replace a run that is there already.", "--force")] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Search for good settings by validation accuracy, and write the best model to a run folder.

    The search is not given the labels of the test nodes: gbgnn evaluate RUN reads them afterwards. The folder
    is that of gbgnn fit, with the searched space.toml and a line per trial in trials.jsonl.
    """
    from gbgnn.cli.data_source import Source
    from gbgnn.cli.spaces import build_space
    from gbgnn.cli.tune_run import keep, load_hidden, name_study, search, show
    from gbgnn.runs import RunFolder

    if out is not None:
        RunFolder(out, force).check_free()  # before anything slow
    source = Source().override(
        dataset=dataset,
        data_dir=data_dir,
        split=split,
        split_seed=split_seed,
        normalize=normalize,
        options=data_option,
    )
    data = load_hidden(source)
    chosen = build_space(
        space,
        variant=variant,
        is_paper=paper_space,
        hidden_layers=hidden_layers,
        fine_tune=fine_tune,
        n_train=len(data.train),
    )
    found = search(
        data,
        chosen,
        quiet=quiet,
        n_trials=trials,
        seed=seed,
        storage=storage,
        study_name=study or name_study(data, chosen, seed),
        timeout=timeout,
        population=population,
        seeds_per_trial=seeds_per_trial,
        confirm=confirm,
        device=device,
    )
    report = keep(found, chosen, source, data, storage=storage, out=out, force=force)
    if as_json:
        screen.emit_json(report)
    else:
        show(report, chosen)
