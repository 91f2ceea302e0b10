"""The laboratory's commands, ``reproduce``, ``baseline`` and ``compare``, plugged into ``gbgnn``.

Nothing here may import torch before a command is called, or ``gbgnn --help`` would take seconds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gbgnn.cli import screen
from gbgnn.cli.command import HELP, UsageError, key_values, make_option, register
from gbgnn_lab.experiments import options
from gbgnn_lab.experiments.options import CompareOptions, Flag, Options, read_flags

if TYPE_CHECKING:
    from gbgnn_lab.experiments.report import Report

KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
T = TypeVar("T")


def add_commands(app: typer.Typer) -> None:
    """Register the commands, after what their help says."""
    for part, told in options.HELP.items():
        HELP[part] |= told
    for command in (with_options(reproduce, Options), baseline, with_options(compare, CompareOptions)):
        register(app, command)


def with_options(command: Callable[..., None], kind: type[Any]) -> Callable[..., None]:
    """Return the command with an option for every field of ``kind``, which reach it as ``**given``."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    parameters = [each.replace(kind=KEYWORD_ONLY) for each in own if each.name != "given"]
    # After the command's own arguments, and before its own options.
    n_arguments = sum(each.default is inspect.Parameter.empty for each in parameters)
    parameters[n_arguments:n_arguments] = [_make_parameter(kind, *each) for each in read_flags(kind).items()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _make_parameter(kind: type[Any], name: str, flag: Flag) -> inspect.Parameter:
    """Return what typer reads: the type of a field, and how it is asked for."""
    usual = {"flags": flag.names, "metavar": {bool: None, int: "N", str: "NAME"}[flag.type]}
    default = None if flag.is_many else flag.default
    if flag.is_argument:
        usual, default = {}, inspect.Parameter.empty
    values: Any = list[flag.type] if flag.is_many else flag.type  # type: ignore[name-defined]
    info = make_option(usual | HELP["parameters"][kind.verb][name])
    given: Any = Annotated[values if default is not None else values | None, info]
    return inspect.Parameter(name, KEYWORD_ONLY, default=default, annotation=given)


def read_options(kind: type[T], given: Mapping[str, Any]) -> T:
    """Return the options of a command as a ``kind``; what was not given has its default."""
    asked = {name: value for name, value in given.items() if value is not None}
    asked["data_options"] = key_values(asked.get("data_options"), "--data-option")
    several = {name: tuple(value) for name, value in asked.items() if isinstance(value, list)}
    return kind(**asked | several)


def reproduce(
    experiment: str, tables_only: bool = False, as_json: bool = False, quiet: bool = False, **given: Any
) -> None:
    """Do an experiment of the paper again, and write its tables and figures beside the paper's numbers.

    Every run is recorded in OUT/EXPERIMENT/records.jsonl as it ends, with its settings, seed, versions and
    machine, and tables are made of these records alone. Interrupted, the same command goes on where it was.
    Settings are chosen by validation accuracy; the test labels are read afterwards.
    """
    from gbgnn_lab.experiments import suite

    if experiment not in suite.EXPERIMENTS:
        raise UsageError(f"EXPERIMENT must be one of {', '.join(suite.EXPERIMENTS)}; got {experiment!r}.")
    asked = read_options(Options, given)
    if tables_only:
        report = suite.rebuild(experiment, asked)
    else:
        with screen.show_progress(quiet=quiet, n_lines=None) as progress:
            report = suite.reproduce(experiment, asked, progress=progress)
    show_report(report, as_json=as_json)


def compare(as_json: bool = False, quiet: bool = False, **given: Any) -> None:
    """Run gbgnn and other systems on the same splits, and rank them by test accuracy, or R2 of numbers.

    gbgnn has its defaults, the others their published settings; where numbers are to be predicted, systems
    for classes are left out. Every run has a process of its own, for its
    peak memory, and is recorded in OUT/records.jsonl as it ends; interrupted, the same command goes on. A run
    that fails is shown as failed.
    """
    from gbgnn_lab.experiments import leaderboard

    with screen.show_progress(quiet=quiet, n_lines=None) as progress:
        report = leaderboard.compare(read_options(CompareOptions, given), progress=progress)
    show_report(report, as_json=as_json)


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
    name: str | None = None,
    dataset: str = "digits",
    show_list: bool = False,
    runs: int = 10,
    seed: int = 0,
    depth: int | None = None,
    setting: list[str] | None = None,
    device: str = "auto",
    data_dir: Path | None = None,
    split: str | None = None,
    split_seed: int | None = None,
    normalize: bool | None = None,
    data_option: list[str] | None = None,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Train another graph neural network, or boosted trees, on the same data and split as gbgnn.

    Settings are the published ones. Training sees the labels of training and validation nodes only; the
    epoch is chosen by validation. The figures are those of gbgnn fit; where numbers are to be predicted,
    gbgnn baseline --list says which can. Time and memory are those of this process on this machine.
    """
    if show_list:
        _show_baselines(as_json)
        return
    if name is None:
        raise UsageError("name a baseline, or see which there are with gbgnn baseline --list.")
    from gbgnn.boosting.history import peak_memory
    from gbgnn.cli.files import describe
    from gbgnn.cli.source import Source
    from gbgnn.registry import as_device
    from gbgnn_lab.baselines import (
        BASELINES,
        check_predicts_numbers,
        choose_model,
        fit_baseline,
        judge_parts,
    )
    from gbgnn_lab.experiments.measures import MEASURES

    settings = key_values(setting, "--set") | ({} if depth is None else {"depth": depth})
    choose_model(name, dataset, **settings)  # a wrong name should not wait for the data
    data = Source().override(dataset, data_dir, split, split_seed, normalize, data_option).load()
    if data.is_regression:
        check_predicts_numbers(name)
    rows: list[dict[str, Any]] = []
    watched = f"val_{MEASURES[str(data.task)].name}"
    with screen.show_progress(quiet=quiet, n_lines=None) as progress:
        progress.begin("run", runs)
        for number in range(runs):
            result = fit_baseline(name, data, seed=seed + number, device=device, **settings)
            figures = judge_parts(data, result.predictions, result.proba, result.classes)
            known = {"best_epoch": result.best_epoch, "seconds": result.seconds}
            rows.append({"seed": result.seed, **figures, **known})
            progress.update(number + 1, f"val {screen.number(figures.get(watched))}")
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
        **_average(rows, (*figures, "seconds")),
        "peak_memory": peak_memory(used),
        "cited_accuracy": entry.cited.get(data.name) if data.split_name == "public" else None,
        "cited_from": entry.cited_from,
    }
    if as_json:
        screen.emit_json(report)
        return
    screen.out(describe(data))
    _show_baseline(report)


def _average(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> dict[str, dict[str, float | None]]:
    """Return mean and standard deviation of what was measured, over the runs that have it."""
    import numpy as np

    columns = {name: [row[name] for row in rows if row[name] is not None] for name in names}
    return {
        key: {name: float(how(values)) if values else None for name, values in columns.items()}
        for key, how in (("mean", np.mean), ("std", np.std))
    }


def _show_baseline(report: dict[str, Any]) -> None:
    from gbgnn.cli.scores import HEADS

    def spread(key: str, form: str = ".4f") -> str:
        values = [report["mean"][key], *([report["std"][key]] if len(seeds) > 1 else [])]
        return " ± ".join(screen.number(value, form) for value in values if value is not None) or "-"

    seeds = [row["seed"] for row in report["runs"]]
    settings = ", ".join(f"{name} {value}" for name, value in report["settings"].items())
    shown = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    memory = report["peak_memory"]
    told = "" if memory is None else f"; peak memory {memory / 2**20:,.0f} MB"
    screen.out(f"{report['title']} ({report['reference']})")
    screen.out(f"{settings}; {screen.counted(report['n_parameters'], 'parameter')}")
    judged = [key.split("_", 1) for key in report["mean"] if key != "seconds"]
    if judged:
        parts, names = (list(dict.fromkeys(words)) for words in zip(*judged, strict=True))
        cells = [[part, *(spread(f"{part}_{name}") for name in names)] for part in parts]
        columns = ["split", *(HEADS.get(name, name) for name in names)]
        screen.show_table(columns, cells, left=("split",), drop=(HEADS["macro_f1"], HEADS["log_loss"]))
    else:
        screen.out("there are neither validation nor test nodes to judge it by")
    screen.out(
        f"{screen.counted(len(seeds), 'run')} ({shown}), {spread('seconds', '.2f')} seconds a run{told}"
    )
    if report["cited_accuracy"] is not None:
        screen.out(f"cited: {report['cited_accuracy']:.1f} % ({report['cited_from']})")


def _show_baselines(as_json: bool) -> None:
    from gbgnn_lab.baselines import BASELINES

    if as_json:
        told = {"model": "settings", "variants": "settings_by_dataset"}
        entries = [
            {told.get(name, name): value for name, value in asdict(entry).items()}
            | {"predicts_numbers": entry.model.predicts_numbers}
            for entry in BASELINES.values()
        ]
        screen.emit_json({"baselines": entries})
        return
    rows = [
        (
            entry.name,
            "too" if entry.model.predicts_numbers else "-",
            *(entry.description, entry.reference, entry.settings_from),
        )
        for entry in BASELINES.values()
    ]
    columns = ("name", "numbers", "what it does", "reference", "settings from")
    screen.show_table(
        columns, rows, left=columns, prose="reference", drop=("settings from", "reference", "what it does")
    )
