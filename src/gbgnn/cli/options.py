"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gbgnn.cli import toml
from gbgnn.cli.command import UsageError

DATA = "Data"

SavedPath = Annotated[
    Path, typer.Argument(metavar="RUN_OR_MODEL", help="A run folder, or a model file.", show_default=False)
]
DatasetOrDigits = Annotated[
    str | None,
    typer.Argument(
        metavar="DATASET_OR_FOLDER",
        help="A known name (see gbgnn datasets), a folder or a file. Default: the embedded digits.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder to look in first for the files of a known data set.", rich_help_panel=DATA),
]
Split = Annotated[
    str | None,
    typer.Option(
        help="public, random, stratified, or the number of a fold. Default: what comes with the data.",
        rich_help_panel=DATA,
    ),
]
SplitSeed = Annotated[int | None, typer.Option(help="Seed of a drawn split.", rich_help_panel=DATA)]
Normalize = Annotated[
    bool | None,
    typer.Option(
        "--normalize/--no-normalize",
        help="Scale every feature row to a sum of one. Default: as is usual for the data set.",
        rich_help_panel=DATA,
    ),
]
DataOption = Annotated[
    list[str] | None,
    typer.Option(
        "--data-option",
        metavar="NAME=VALUE",
        help="Another setting of the data set, such as n_nodes=500 for csbm. May be repeated.",
        rich_help_panel=DATA,
    ),
]


def key_values(pairs: list[str] | None, flag: str) -> dict[str, Any]:
    """Return ``NAME=VALUE`` words as a dictionary, values read as in a TOML file.

    Examples
    --------
    >>> key_values(["max_depth=2", "criterion=gini"], "--estimator-param")
    {'max_depth': 2, 'criterion': 'gini'}
    """
    result = {}
    for pair in pairs or []:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"{flag} must look like NAME=VALUE; got {pair!r}.")
        result[name] = toml.parse_value(text)
    return result


def as_split(text: str | None) -> str | int | None:
    """Return the number of a fold as a number, any other word as it is.

    Examples
    --------
    >>> as_split("2"), as_split("random")
    (2, 'random')
    """
    return int(text) if text is not None and text.isdecimal() else text
