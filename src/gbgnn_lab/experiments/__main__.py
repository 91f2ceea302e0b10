"""``python -m gbgnn_lab.experiments``: for machines that lack the packages of the ``gbgnn`` command.

The options are those of ``gbgnn reproduce``; lists are written once: ``--dataset cora citeseer``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from gbgnn.errors import GBGNNError
from gbgnn_lab.experiments.experiment import FLAGS, Options
from gbgnn_lab.experiments.suite import EXPERIMENTS, rebuild, reproduce
from gbgnn_lab.experiments.telling import Lines

_LISTS = {"datasets": str, "variants": str, "systems": str, "layers": int, "depths": int}
_NUMBERS = ("runs", "trials", "tune_trials", "finalists", "population", "seeds_per_trial", "confirm", "jobs")


def main(words: Sequence[str] | None = None) -> int:
    """Run an experiment, and return the exit code."""
    given = vars(_parser().parse_args(words))
    name, tables_only = given.pop("experiment"), given.pop("tables_only")
    asked: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    for key in _LISTS:
        asked[key] = tuple(asked.get(key, ()))
    try:
        options = Options(**asked)
        report = rebuild(name, options) if tables_only else reproduce(name, options, watch=Lines())
    except GBGNNError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; the same command goes on from there.\n")
        return 130
    sys.stdout.write(report.page.markdown())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gbgnn_lab.experiments")
    parser.add_argument("experiment", choices=list(EXPERIMENTS))
    for name, flag in FLAGS.items():
        if name in _LISTS:
            parser.add_argument(flag, dest=name, nargs="+", type=_LISTS[name])
        elif name == "quick":
            parser.add_argument(flag, action="store_true")
        else:
            parser.add_argument(flag, dest=name, type=int if name in _NUMBERS else str)
    parser.add_argument("--out")
    parser.add_argument("--data-dir")
    parser.add_argument("--tables-only", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
