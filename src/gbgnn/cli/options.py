"""Options that several commands share."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from gbgnn.cli.command import UsageError

DATA, RUN = "Data", "The run"


def option(help: str, *flags: str, panel: str | None = None, **more: Any) -> Any:
    """Return an option for a command's signature; its default is shown unless ``show_default`` says no."""
    return typer.Option(*flags, help=help, rich_help_panel=panel, **more)


def argument(help: str, metavar: str | None = None) -> Any:
    """Return an argument for a command's signature."""
    return typer.Argument(metavar=metavar, help=help, show_default=False)


SavedPath = Annotated[Path, argument("A run folder, or a model file.", "RUN_OR_MODEL")]
DatasetOrDigits = Annotated[
    str | None,
    argument(
        "A known name (see gbgnn datasets), a folder or a file. Default: the embedded digits.",
        "DATASET_OR_FOLDER",
    ),
]
AsJson = Annotated[bool, option("Print one JSON object on stdout.", "--json")]
Quiet = Annotated[bool, option("No progress.", "--quiet", "-q")]
Plot = Annotated[Path | None, option("Draw it to FILE.png, FILE.svg or FILE.pdf.", metavar="FILE")]
Out = Annotated[Path | None, option("Folder to write. Default: runs/DATASET-TIME.", panel=RUN, metavar="RUN")]
Force = Annotated[bool, option("Replace a run that is there already.", "--force", panel=RUN)]
Rounds = Annotated[int, option("Show at most so many rounds, evenly spread.", min=0)]
DataDir = Annotated[
    Path | None, option("Folder to look in first for the files of a known data set.", panel=DATA)
]
Split = Annotated[
    str | None,
    option(
        "public, random, stratified, or the number of a fold. Default: what comes with the data.", panel=DATA
    ),
]
SplitSeed = Annotated[int | None, option("Seed of a drawn split.", panel=DATA)]
Normalize = Annotated[
    bool | None,
    option(
        "Scale every feature row to a sum of one. Default: as is usual for the data set.",
        "--normalize/--no-normalize",
        panel=DATA,
    ),
]
DataOption = Annotated[
    list[str] | None,
    option(
        "Another setting of the data set, such as n_nodes=500 for csbm. May be repeated.",
        "--data-option",
        panel=DATA,
        metavar="NAME=VALUE",
    ),
]


def key_values(pairs: list[str] | None, flag: str) -> dict[str, Any]:
    """Return ``NAME=VALUE`` words as a dictionary, values read as in a TOML file; bare words are strings."""
    result = {}
    for pair in pairs or []:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"{flag} must look like NAME=VALUE; got {pair!r}.")
        try:
            result[name] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            result[name] = text
    return result


def as_split(text: str | None) -> str | int | None:
    """Return the number of a fold as a number, any other word as it is."""
    return int(text) if text is not None and text.isdecimal() else text
