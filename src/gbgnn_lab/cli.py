"""The laboratory's commands, ``reproduce``, ``baseline`` and ``compare``, plugged into ``gbgnn``.

Nothing here may import torch before a command is called, or ``gbgnn --help`` would take seconds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gbgnn.cli import screen
from gbgnn.cli.command import INTERRUPTED, UsageError, key_values, register
from gbgnn_lab.experiments.options import RUN, CompareOptions, Flag, Options, read_flags

if TYPE_CHECKING:
    from gbgnn_lab.experiments.report import Report

KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
T = TypeVar("T")
REPRODUCE_EXAMPLES = (
    ("gbgnn reproduce table1 --quick", "a look at everything, within ten minutes on two cores"),
    ("gbgnn reproduce table1 --device cuda --population 256", "the paper's protocol: 1,000 trials, 10 runs"),
    ("gbgnn reproduce table4 --trials 100 --dataset cora --jobs 2", "all variants and L, fewer trials"),
    ("gbgnn reproduce depth --dataset cora", "accuracy against depth, with its figure"),
    ("gbgnn reproduce table1 --tables-only", "write tables and figures of the records that are there"),
)
BASELINE_EXAMPLES = (
    ("gbgnn baseline --list", "which there are, and their papers"),
    ("gbgnn baseline gcn cora", "ten runs with published settings"),
    ("gbgnn baseline gcnii pubmed --runs 3 --depth 32 --device cuda", "deeper, on a GPU"),
    ("gbgnn baseline gat my_graph/ --set units=16 --json", "a setting of your own, for a program to read"),
)
COMPARE_EXAMPLES = (
    ("gbgnn compare digits", "every system on the embedded digits"),
    ("gbgnn compare my_graph/ --system gbgnn --system gcn --splits 5", "two of them on your own graph"),
    (
        "gbgnn compare cora amazon_computers.npz --jobs 4 --out boards/two",
        "several data sets, four runs at once",
    ),
)


def add_commands(app: typer.Typer) -> None:
    """Register the commands."""
    register(app, with_options(reproduce, Options), examples=REPRODUCE_EXAMPLES)
    register(app, baseline, examples=BASELINE_EXAMPLES)
    register(app, with_options(compare, CompareOptions), examples=COMPARE_EXAMPLES)


def with_options(command: Callable[..., None], kind: type[Any]) -> Callable[..., None]:
    """Return the command with an option for every flag of ``kind``, which reach it as ``**given``."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    parameters = [each.replace(kind=KEYWORD_ONLY) for each in own if each.name != "given"]
    # After the command's own arguments, and before its own options.
    n_arguments = sum(each.default is inspect.Parameter.empty for each in parameters)
    parameters[n_arguments:n_arguments] = [_make_parameter(*each) for each in read_flags(kind).items()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _make_parameter(name: str, flag: Flag) -> inspect.Parameter:
    """Return what typer reads: the type of a field, and how it is asked for."""
    default = None if flag.is_many else flag.default
    known: dict[str, Any] = {"help": flag.help, "show_default": default not in (None, False)}
    known["metavar"] = flag.metavar or {bool: None, int: "N", str: "NAME"}[flag.type]
    kind: Any = list[flag.type] if flag.is_many else flag.type  # type: ignore[name-defined]
    if flag.is_argument:
        given: Any = Annotated[kind, typer.Argument(**known)]
        return inspect.Parameter(name, KEYWORD_ONLY, annotation=given)
    info = typer.Option(*flag.names, rich_help_panel=flag.panel, **known)
    given = Annotated[kind if default is not None else kind | None, info]
    return inspect.Parameter(name, KEYWORD_ONLY, default=default, annotation=given)


def read_options(kind: type[T], given: Mapping[str, Any]) -> T:
    """Return the options of a command as a ``kind``; what was not given has its default."""
    asked = {name: value for name, value in given.items() if value is not None}
    asked["data_options"] = key_values(asked.get("data_options"), "--data-option")
    several = {name: tuple(value) for name, value in asked.items() if isinstance(value, list)}
    return kind(**asked | several)


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
    as_json: bool = False,
    quiet: bool = False,
    **given: Any,
) -> None:
    """Do an experiment of the paper again, and write its tables and figures beside the paper's numbers.

    Every run is recorded in OUT/EXPERIMENT/records.jsonl as it ends, with its settings, seed, versions and
    machine, and tables are made of these records alone. Interrupted, the same command goes on where it was.
    Settings are chosen by validation accuracy; the test labels are read afterwards.
    """
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


def compare(as_json: bool = False, quiet: bool = False, **given: Any) -> None:
    """Run gbgnn and other systems on the same splits, and rank them by test accuracy.

    gbgnn has its defaults, the others their published settings. Every run has a process of its own, for its
    peak memory, and is recorded in OUT/records.jsonl as it ends; interrupted, the same command goes on. A run
    that fails is shown as failed.
    """
    from gbgnn_lab.experiments import leaderboard

    with show_runs(quiet=quiet) as progress:
        report = leaderboard.compare(read_options(CompareOptions, given), progress=progress)
    show_report(report, as_json=as_json)


@contextmanager
def show_runs(*, quiet: bool) -> Iterator[screen.Progress]:
    """Give what shows the progress of runs; after Ctrl-C, say how to go on."""
    try:
        with screen.show_progress(quiet=quiet, n_lines=None) as progress:
            yield progress
    except KeyboardInterrupt:
        screen.note("interrupted; runs that had ended are recorded, and the same command goes on from there.")
        raise typer.Exit(INTERRUPTED) from None


def show_report(report: Report, *, as_json: bool) -> None:
    """Print the tables, the notes, and where they are."""
    if as_json:
        screen.emit_json(
            {
                "title": report.title,
                "folder": str(report.folder),
                "files": [str(path) for path in report.files],
                "failed": report.n_failed,
                "notes": report.notes,
                "data": report.data,
            }
        )
        return
    for table in report.tables:
        screen.out(table.caption)
        cells = [[" ".join(filter(None, (entry.text, entry.mark))) for entry in row] for row in table.rows]
        screen.show_table(table.columns, cells, left=table.columns[: table.n_left])
    for note in report.notes:
        screen.out(note)
    if report.n_failed:
        screen.warn(f"{screen.counted(report.n_failed, 'run')} failed; the same command tries again.")
    if report.missing is not None:
        screen.warn(f"no figures: {report.missing}")
    screen.out(f"written to {report.folder}")


def baseline(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="One of gbgnn baseline --list.", show_default=False),
    ] = None,
    dataset: Annotated[
        str,
        typer.Argument(
            metavar="DATASET_OR_FOLDER", help="A known name (see gbgnn datasets), a folder or a file."
        ),
    ] = "digits",
    show_list: Annotated[bool, typer.Option("--list", help="List the baselines.")] = False,
    runs: Annotated[int, typer.Option(min=1, help="How often to train, each time with the next seed.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    depth: Annotated[
        int | None, typer.Option(min=1, help="Hops. Default: as published.", show_default=False)
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Another setting, not as published. May be repeated."
        ),
    ] = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu or cuda.")] = "auto",
    data_dir: Path | None = None,
    split: str | None = None,
    split_seed: int | None = None,
    normalize: bool | None = None,
    data_option: list[str] | None = None,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Train another graph neural network with its published settings, on the same data and split as gbgnn.

    Training sees the labels of training and validation nodes only; the epoch is chosen by validation. Time
    and memory are those of this process on this machine.
    """
    if show_list:
        _show_baselines(as_json)
        return
    if name is None:
        raise UsageError("name a baseline, or see which there are with gbgnn baseline --list.")
    import numpy as np

    from gbgnn.boosting.diagnostics import peak_memory
    from gbgnn.cli.files import Source, describe
    from gbgnn.registry import as_device
    from gbgnn_lab.baselines import BASELINES, choose_model, fit_baseline
    from gbgnn_lab.experiments.records import judge

    settings = key_values(setting, "--set") | ({} if depth is None else {"depth": depth})
    choose_model(name, dataset, **settings)  # a wrong name should not wait for the data
    data = Source().override(dataset, data_dir, split, split_seed, normalize, data_option).load()
    rows: list[dict[str, Any]] = []
    with screen.show_progress(quiet=quiet, n_lines=None) as progress:
        progress.begin("run", runs)
        for number in range(runs):
            result = fit_baseline(name, data, seed=seed + number, device=device, **settings)
            row = {
                "seed": result.seed,
                "test_accuracy": judge(result.predictions, data)["test_accuracy"],
                "val_accuracy": result.val_accuracy,
                "best_epoch": result.best_epoch,
                "seconds": result.seconds,
            }
            rows.append(row)
            progress.update(number + 1, f"val {screen.number(result.val_accuracy)}")
    columns = {
        key: [row[key] for row in rows if row[key] is not None]
        for key in ("test_accuracy", "val_accuracy", "seconds")
    }
    entry, used = BASELINES[name], as_device(device)
    report = {
        "baseline": entry.name,
        "title": entry.title,
        "reference": entry.reference,
        "dataset": data.name,
        "split": data.split_name,
        "device": str(used),
        "settings": result.settings,
        "n_parameters": result.n_parameters,
        "runs": rows,
        "mean": {key: float(np.mean(values)) if values else None for key, values in columns.items()},
        "std": {key: float(np.std(values)) if values else None for key, values in columns.items()},
        "peak_memory": peak_memory(used),
        "cited_accuracy": entry.cited.get(data.name) if data.split_name == "public" else None,
        "cited_from": entry.cited_from,
    }
    if as_json:
        screen.emit_json(report)
        return
    screen.out(describe(data))
    _show_baseline(report)


def _show_baseline(report: dict[str, Any]) -> None:
    def spread(key: str, factor: float, form: str) -> str:
        mean, std = report["mean"][key], report["std"][key]
        return "-" if mean is None else f"{factor * mean:{form}} ± {factor * std:{form}}"

    settings = ", ".join(f"{name} {value}" for name, value in report["settings"].items())
    seeds = [row["seed"] for row in report["runs"]]
    shown = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    memory = report["peak_memory"]
    cells = {
        "model": report["title"],
        shown: screen.counted(len(seeds), "run"),
        "test accuracy %": spread("test_accuracy", 100, ".1f"),
        "val accuracy %": spread("val_accuracy", 100, ".1f"),
        "cited %": screen.number(report["cited_accuracy"], ".1f"),
        "seconds a run": spread("seconds", 1, ".2f"),
        "peak memory": "-" if memory is None else f"{memory / 2**20:,.0f} MB",
    }
    screen.out(f"{report['title']} ({report['reference']})")
    screen.out(f"{settings}; {screen.counted(report['n_parameters'], 'parameter')}")
    screen.show_table(
        list(cells), [list(cells.values())], left=("model",), drop=("cited %", shown, "peak memory")
    )
    if report["cited_accuracy"] is not None:
        screen.out(f"cited: {report['cited_from']}")


def _show_baselines(as_json: bool) -> None:
    from gbgnn_lab.baselines import BASELINES

    if as_json:
        told = {"model": "settings", "variants": "settings_by_dataset"}
        entries = [
            {told.get(name, name): value for name, value in asdict(entry).items()}
            for entry in BASELINES.values()
        ]
        screen.emit_json({"baselines": entries})
        return
    rows = [(e.name, e.description, e.reference, e.settings_from) for e in BASELINES.values()]
    columns = ("name", "what it does", "reference", "settings from")
    screen.show_table(
        columns, rows, left=columns, prose="reference", drop=("settings from", "reference", "what it does")
    )
