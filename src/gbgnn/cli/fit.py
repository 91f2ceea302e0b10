"""``gbgnn fit``: train a model and write a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gbgnn.cli import options, screen
from gbgnn.cli.command import UsageError
from gbgnn.cli.model_options import read_given
from gbgnn.cli.options import RUN, option

_WITH_RESUME = ("resume", "data_dir", "checkpoint_every", "as_json", "quiet")


def fit(
    context: typer.Context,
    dataset: options.DatasetOrDigits = None,
    data_dir: options.DataDir = None,
    split: options.Split = None,
    split_seed: options.SplitSeed = None,
    normalize: options.Normalize = None,
    data_option: options.DataOption = None,
    config: Annotated[
        Path | None,
        option(
            "TOML file of settings, such as a run's config.toml. Options override it.",
            panel=RUN,
            metavar="FILE",
        ),
    ] = None,
    out: options.Out = None,
    force: options.Force = False,
    checkpoint_every: Annotated[
        int | None, option("Save every so many rounds, for --resume. Default: every few seconds.", panel=RUN)
    ] = None,
    resume: Annotated[
        Path | None, option("Go on with a run that was killed, to the same result.", panel=RUN, metavar="RUN")
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a model on a graph, and write it with its record to a run folder.

    What you leave out keeps the library's default. The folder holds config.toml (all settings: give it to
    --config to repeat the run), history.jsonl (a line per round), fine_tuning.jsonl (a line per epoch, with
    --fine-tune), metrics.json and model.gbgnn. Until it is whole it is RUN.partial, which --resume goes on
    with.
    """
    from gbgnn.cli.data_source import Source, read_toml
    from gbgnn.cli.fit_run import new_job, resumed_job, show, train
    from gbgnn.settings import SettingError, flatten_document, override_settings

    flags = {p.name: p.opts[0] for p in context.command.get_params(context)} | {"dataset": "the data set"}
    given = read_given(context)
    if resume is not None:
        _check_only_resume(context, flags)
        job = resumed_job(resume, data_dir=data_dir, checkpoint_every=checkpoint_every)
    else:
        document = {} if config is None else read_toml(config)
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


def _check_only_resume(context: typer.Context, flags: dict[str, str]) -> None:
    """Raise when something of the run is given that the run already has."""
    sources = {name: context.get_parameter_source(name) for name in flags if name not in _WITH_RESUME}
    extra = [flags[name] for name, source in sources.items() if source and source.name == "COMMANDLINE"]
    if extra:
        raise UsageError(f"--resume takes all settings from the run; leave out {', '.join(extra)}.")
