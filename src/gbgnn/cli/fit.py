"""``gbgnn fit``: train a model and write a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gbgnn.cli import screen, toml
from gbgnn.cli.command import UsageError
from gbgnn.cli.model_options import read_given
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
    ("gbgnn fit", "the embedded digits with the library's defaults"),
    (
        "gbgnn fit cora --aggregation kta --kta-degree 2 --rounds 40 --seed 0",
        "a known data set, parts by name",
    ),
    (
        "gbgnn fit my_graph/ --split stratified --config best.toml --units 32",
        "a file of settings, one overridden",
    ),
    (
        "gbgnn fit pubmed --rounds 500 --out runs/deep",
        "a long run that may be killed ...",
    ),
    ("gbgnn fit --resume runs/deep", "... and goes on to the same result"),
)

_RUN = "The run"


def _option(panel: str, help: str, *flags: str, metavar: str | None = None) -> Any:
    return typer.Option(*flags, help=help, metavar=metavar, rich_help_panel=panel, show_default=False)


def fit(
    context: typer.Context,
    dataset: DatasetOrDigits = None,
    data_dir: DataDir = None,
    split: Split = None,
    split_seed: SplitSeed = None,
    normalize: Normalize = None,
    data_option: DataOption = None,
    config: Annotated[
        Path | None,
        _option(
            _RUN, "TOML file of settings, such as a run's config.toml. Options override it.", metavar="FILE"
        ),
    ] = None,
    out: Annotated[
        Path | None, _option(_RUN, "Folder to write. Default: runs/DATASET-TIME.", metavar="RUN")
    ] = None,
    force: Annotated[bool, _option(_RUN, "Replace a run that is there already.", "--force")] = False,
    checkpoint_every: Annotated[
        int | None, _option(_RUN, "Save every so many rounds, for --resume. Default: every few seconds.")
    ] = None,
    resume: Annotated[
        Path | None, _option(_RUN, "Go on with a run that was killed, to the same result.", metavar="RUN")
    ] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Train a model on a graph, and write it with its record to a run folder.

    What you leave out keeps the library's default. The folder holds config.toml (all settings: give it to
    --config to repeat the run), history.jsonl (a line per round), fine_tuning.jsonl (a line per epoch, with
    --fine-tune), metrics.json and model.gbgnn. Until it is whole it is RUN.partial, which --resume goes on
    with.
    """
    from gbgnn.cli.data_source import Source
    from gbgnn.cli.fit_run import new_job, resumed_job, show, train
    from gbgnn.settings import SettingError, flatten_document, override_settings

    flags = {p.name: p.opts[0] for p in context.command.get_params(context)} | {"dataset": "the data set"}
    given = read_given(context)
    if resume is not None:
        _check_only_resume(context, flags)
        job = resumed_job(resume, data_dir=data_dir, checkpoint_every=checkpoint_every)
    else:
        document = {} if config is None else toml.read(config)
        document.pop("run", None)
        source = Source.from_document(document.pop("data", {}), str(config)).override(
            dataset=dataset,
            data_dir=data_dir,
            split=split,
            split_seed=split_seed,
            normalize=normalize,
            options=data_option,
        )
        settings = flatten_document(document, str(config))
        try:
            settings = override_settings(settings, given, flags.__getitem__)
        except SettingError as error:
            raise UsageError(str(error)) from None
        job = new_job(settings, source, out=out, force=force, checkpoint_every=checkpoint_every)
    result = train(job, quiet=quiet)
    if as_json:
        screen.emit_json(result)
    else:
        show(result)


_WITH_RESUME = ("resume", "data_dir", "checkpoint_every", "as_json", "quiet")


def _check_only_resume(context: typer.Context, flags: dict[str, str]) -> None:
    """Raise when something of the run is given that the run already has."""

    def is_extra(name: str) -> bool:
        source = context.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE" and name not in _WITH_RESUME

    extra = [flag for name, flag in flags.items() if is_extra(name)]
    if extra:
        raise UsageError(f"--resume takes all settings from the run; leave out {', '.join(extra)}.")
