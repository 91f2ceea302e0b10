"""``gbgnn tune``: search for good settings by validation accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gbgnn.cli import options, screen
from gbgnn.cli.options import option

_SPACE, _SEARCH = "The space: what is searched", "The search"


def tune(
    dataset: options.DatasetOrDigits = None,
    variant: Annotated[
        str | None,
        option(
            "adj, kta, ii, samme_r, or custom (all in --space). Default: adj.", panel=_SPACE, metavar="NAME"
        ),
    ] = None,
    hidden_layers: Annotated[
        int | None, option("Hidden layers of the learner, 0 to 4. Default: 1.", panel=_SPACE)
    ] = None,
    fine_tune: Annotated[
        bool, option("Fine-tune every model, and search how.", "--fine-tune", panel=_SPACE)
    ] = False,
    space: Annotated[
        Path | None, option("TOML file whose table space narrows or widens it.", panel=_SPACE, metavar="FILE")
    ] = None,
    paper_space: Annotated[
        bool, option("Start from the paper's wide ranges.", "--paper-space", panel=_SPACE)
    ] = False,
    trials: Annotated[
        int, option("Finished trials that the study is to have, earlier ones included.", panel=_SEARCH)
    ] = 100,
    timeout: Annotated[
        float | None, option("Begin no trial after so many seconds.", panel=_SEARCH, metavar="SECONDS")
    ] = None,
    population: Annotated[
        int | None, option("Train so many trials at once.", panel=_SEARCH, metavar="N")
    ] = None,
    seeds_per_trial: Annotated[
        int,
        option(
            "Train every trial with so many seeds, in a population, and judge their mean.",
            panel=_SEARCH,
            metavar="N",
        ),
    ] = 1,
    confirm: Annotated[
        int,
        option(
            "Train so many of the best trials again with five other seeds, and take what is best on average.",
            panel=_SEARCH,
            metavar="N",
        ),
    ] = 0,
    seed: Annotated[int, option("Seed of the search and of every model.", panel=_SEARCH)] = 0,
    device: Annotated[str, option("auto, cpu or cuda.", panel=_SEARCH, metavar="NAME")] = "auto",
    storage: Annotated[
        str | None,
        option(
            "Keep trials in a file ending in .log or .journal, or in a database such as sqlite:///s.db, "
            "to go on with them, also by several processes at once.",
            panel=_SEARCH,
            metavar="FILE_OR_URL",
        ),
    ] = None,
    study: Annotated[
        str | None,
        option("Name of the study in it. Default: data, parts and seed.", panel=_SEARCH, metavar="NAME"),
    ] = None,
    data_dir: options.DataDir = None,
    split: options.Split = None,
    split_seed: options.SplitSeed = None,
    normalize: options.Normalize = None,
    data_option: options.DataOption = None,
    out: options.Out = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Search for good settings by validation accuracy, and write the best model to a run folder.

    The search is not given the labels of the test nodes: gbgnn evaluate RUN reads them afterwards. The folder
    is that of gbgnn fit, with the searched space.toml and a line per trial in trials.jsonl.
    """
    from gbgnn.cli.data_source import Source
    from gbgnn.cli.tune_run import build_space, keep, load_hidden, name_study, search, show
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
