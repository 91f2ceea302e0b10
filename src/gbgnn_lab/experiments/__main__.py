"""``python -m gbgnn_lab.experiments``: for machines that lack the packages of the ``gbgnn`` command.

The options are those of ``gbgnn reproduce``; several values are written at once: ``--dataset cora citeseer``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from gbgnn.cli.screen import show_progress
from gbgnn.errors import GBGNNError
from gbgnn_lab.experiments.options import Options, read_flags
from gbgnn_lab.experiments.suite import EXPERIMENTS, rebuild, reproduce


def main(words: Sequence[str] | None = None) -> int:
    """Run an experiment, and return the exit code."""
    given = vars(_build_parser().parse_args(words))
    name, tables_only = given.pop("experiment"), given.pop("tables_only")
    asked: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in given.items()
    }
    asked["data_options"] = dict(map(_read_pair, asked.get("data_options", ())))
    try:
        options = Options(**asked)
        if tables_only:
            report = rebuild(name, options)
        else:
            with show_progress(n_lines=None) as progress:
                report = reproduce(name, options, progress=progress)
    except GBGNNError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; the same command goes on from there.\n")
        return 130
    sys.stdout.write(report.markdown())
    return 0


def _build_parser() -> argparse.ArgumentParser:
    # What is not given is left out, so that the defaults are those of the options.
    parser = argparse.ArgumentParser(
        prog="python -m gbgnn_lab.experiments", argument_default=argparse.SUPPRESS
    )
    parser.add_argument("experiment", choices=list(EXPERIMENTS))
    for name, flag in read_flags(Options).items():
        known: dict[str, Any] = {"dest": name, "help": flag.help}
        if flag.type is bool:
            known["action"] = "store_true"
        else:
            known |= {"type": flag.type, "metavar": flag.metavar, "nargs": "+" if flag.is_many else None}
        parser.add_argument(*flag.names, **known)
    parser.add_argument("--tables-only", action="store_true", default=False)
    return parser


def _read_pair(pair: str) -> tuple[str, Any]:
    """Return the name and the value of ``NAME=VALUE``; what is no number, true or false is text."""
    name, _, text = pair.partition("=")
    try:
        return name, json.loads(text)
    except ValueError:
        return name, text


if __name__ == "__main__":
    sys.exit(main())
