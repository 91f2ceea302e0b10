"""The tree of commands. Nothing here may import torch, or ``gbgnn --help`` would take seconds."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated

import typer

from gbgnn._version import __version__
from gbgnn.cli import datasets, explain, export, fit, predict, report, theory, tune
from gbgnn.cli.command import GuardedGroup, epilog, read_help, register, with_help
from gbgnn.cli.model_options import ModelCommand

app = typer.Typer(
    name="gbgnn",
    cls=GuardedGroup,
    rich_markup_mode="rich",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # what still raises is a bug, and its report wants the plain traceback
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gbgnn {__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Gradient boosting for graphs: deep graph neural networks, trained round by round.

    Results go to stdout, messages to stderr. The exit code is 0 when all is well, 1 for an error that the
    message explains, 2 for a wrong option and 130 after Ctrl-C.
    """


app.callback(help=read_help(root), epilog=epilog("gbgnn"))(root)
register(app, fit.fit, cls=ModelCommand)
register(app, tune.tune, cls=ModelCommand)
register(app, predict.predict)
register(app, predict.evaluate)
register(app, predict.inspect)
register(app, report.report)
register(app, explain.explain)
register(app, export.export)
register(app, theory.certify)
register(app, theory.smoothing)
register(app, datasets.convert)

datasets_app = typer.Typer(rich_markup_mode="rich")
shown_first = datasets_app.callback(
    invoke_without_command=True, help=read_help(datasets.list_datasets), epilog=epilog("datasets")
)
shown_first(with_help(datasets.list_datasets))
register(datasets_app, datasets.info)
app.add_typer(datasets_app, name="datasets")

for plugin in sorted(entry_points(group="gbgnn.commands"), key=lambda point: point.name):
    plugin.load()(app)
