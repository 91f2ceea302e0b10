"""``gbgnn reproduce`` and ``gbgnn compare``, whose options are made of the fields of a dataclass."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any, TypeVar

import typer

from gbgnn.cli.command import AsJson, UsageError, key_values
from gbgnn_lab.experiments.options import RUN, CompareOptions, Flag, Options, read_flags

KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
T = TypeVar("T")
REPRODUCE_EXAMPLES = (
    ("gbgnn reproduce table1 --quick", "a look at everything, within ten minutes on two cores"),
    ("gbgnn reproduce table1 --device cuda --population 256", "the paper's protocol: 1,000 trials, 10 runs"),
    ("gbgnn reproduce table4 --trials 100 --dataset cora --jobs 2", "all variants and L, fewer trials"),
    ("gbgnn reproduce depth --dataset cora", "accuracy against depth, with its figure"),
    ("gbgnn reproduce table1 --tables-only", "write tables and figures of the records that are there"),
)
COMPARE_EXAMPLES = (
    ("gbgnn compare digits", "every system on the embedded digits"),
    ("gbgnn compare my_graph/ --system gbgnn --system gcn --splits 5", "two of them on your own graph"),
    (
        "gbgnn compare cora amazon_computers.npz --jobs 4 --out boards/two",
        "several data sets, four runs at once",
    ),
)


def with_options(kind: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command an option for every flag of ``kind``.

    The command itself takes them as ``**given``, for :func:`read_options`.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = [each.replace(kind=KEYWORD_ONLY) for each in own if each.name != "given"]
        flags = read_flags(kind)
        made = [_make_parameter(each, flags[each.name]) for each in fields(kind) if each.name in flags]
        # After the command's own arguments, and before its own options.
        n_arguments = sum(each.default is inspect.Parameter.empty for each in parameters)
        parameters[n_arguments:n_arguments] = made
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate


def read_options(kind: type[T], given: Mapping[str, Any]) -> T:
    """Return the options of a command as a ``kind``; what was not given has its default."""
    asked = {name: value for name, value in given.items() if value is not None}
    asked["data_options"] = key_values(asked.get("data_options"), "--data-option")
    several = {name: tuple(value) for name, value in asked.items() if isinstance(value, list)}
    return kind(**asked | several)


def _make_parameter(field: Field[Any], flag: Flag) -> inspect.Parameter:
    """Return what typer reads: the type of a field, and how it is asked for."""
    default = None if flag.is_many or field.default is MISSING else field.default
    known: dict[str, Any] = {"help": flag.help, "show_default": default not in (None, False)}
    known["metavar"] = flag.metavar or {bool: None, int: "N", str: "NAME"}[flag.type]
    kind: Any = list[flag.type] if flag.is_many else flag.type  # type: ignore[name-defined]
    if flag.is_argument:
        given: Any = Annotated[kind, typer.Argument(**known)]
        return inspect.Parameter(field.name, KEYWORD_ONLY, annotation=given)
    info = typer.Option(*flag.names, rich_help_panel=flag.panel, **known)
    given = Annotated[kind if default is not None else kind | None, info]
    return inspect.Parameter(field.name, KEYWORD_ONLY, default=default, annotation=given)


@with_options(Options)
def reproduce(
    experiment: Annotated[
        str, typer.Argument(metavar="EXPERIMENT", help="table1, table4, figures, comparison or depth.")
    ],
    tables_only: Annotated[
        bool,
        typer.Option(
            "--tables-only",
            help="Run nothing: write the tables and figures of the records.",
            rich_help_panel=RUN,
        ),
    ] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    **given: Any,
) -> None:
    """Do an experiment of the paper again, and write its tables and figures beside the paper's numbers.

    Every run is recorded in OUT/EXPERIMENT/records.jsonl as it ends, with its settings, seed, versions and
    machine, and tables are made of these records alone. Interrupted, the same command goes on where it was.
    Settings are chosen by validation accuracy; the test labels are read afterwards.
    """
    from gbgnn_lab.cli.progress import show_report, show_runs
    from gbgnn_lab.experiments import suite

    if experiment not in suite.EXPERIMENTS:
        raise UsageError(f"EXPERIMENT must be one of {', '.join(suite.EXPERIMENTS)}; got {experiment!r}.")
    options = read_options(Options, given)
    if tables_only:
        report = suite.rebuild(experiment, options)
    else:
        with show_runs(quiet=quiet) as progress:
            report = suite.reproduce(experiment, options, progress=progress)
    show_report(report, as_json=as_json)


@with_options(CompareOptions)
def compare(
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    **given: Any,
) -> None:
    """Run gbgnn and other systems on the same splits, and rank them by test accuracy.

    gbgnn has its defaults, the others their published settings. Every run has a process of its own, for its
    peak memory, and is recorded in OUT/records.jsonl as it ends; interrupted, the same command goes on. A run
    that fails is shown as failed.
    """
    from gbgnn_lab.cli.progress import show_report, show_runs
    from gbgnn_lab.experiments import leaderboard

    with show_runs(quiet=quiet) as progress:
        report = leaderboard.compare(read_options(CompareOptions, given), progress=progress)
    show_report(report, as_json=as_json)
