"""``gbgnn baseline``: another graph neural network on the same data and split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gbgnn.cli import screen
from gbgnn.cli.command import (
    AsJson,
    DataDir,
    DataOption,
    Normalize,
    Split,
    SplitSeed,
    UsageError,
    as_split,
    key_values,
)

if TYPE_CHECKING:
    from gbgnn.datasets import Dataset
    from gbgnn_lab.baselines import BaselineResult

EXAMPLES = (
    ("gbgnn baseline --list", "which there are, and their papers"),
    ("gbgnn baseline gcn cora", "ten runs with published settings"),
    ("gbgnn baseline gcnii pubmed --runs 3 --depth 32 --device cuda", "deeper, on a GPU"),
    ("gbgnn baseline gat my_graph/ --set units=16 --json", "a setting of your own, for a program to read"),
)


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
    data_dir: DataDir = None,
    split: Split = None,
    split_seed: SplitSeed = None,
    normalize: Normalize = None,
    data_option: DataOption = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Train another graph neural network with its published settings, on the same data and split as gbgnn.

    Training sees the labels of training and validation nodes only; the epoch is chosen by validation. Time
    and memory are those of this process on this machine.
    """
    if show_list:
        _show_list(as_json)
        return
    if name is None:
        raise UsageError("name a baseline, or see which there are with gbgnn baseline --list.")
    from gbgnn.cli.files import Source, describe
    from gbgnn.cli.screen import show_progress
    from gbgnn_lab.baselines import choose_model, fit_baseline

    settings = key_values(setting, "--set") | ({} if depth is None else {"depth": depth})
    choose_model(name, dataset, **settings)  # a wrong name should not wait for the data
    data = Source(
        dataset=dataset,
        data_dir=None if data_dir is None else str(data_dir),
        split=as_split(split),
        split_seed=split_seed,
        normalize=normalize,
        options=key_values(data_option, "--data-option"),
    ).load()
    rows: list[dict[str, Any]] = []
    with show_progress(quiet=quiet, n_lines=None) as progress:
        progress.begin("run", runs)
        for number in range(runs):
            result = fit_baseline(name, data, seed=seed + number, device=device, **settings)
            rows.append(_make_row(result, data))
            progress.update(number + 1, f"val {screen.number(rows[-1]['val_accuracy'])}")
    report = _make_report(result, rows, data, device)
    if as_json:
        screen.emit_json(report)
        return
    screen.out(describe(data))
    _show(report)


def _make_row(result: BaselineResult, data: Dataset) -> dict[str, Any]:
    hits = result.predictions[data.test] == data.y[data.test]
    return {
        "seed": result.seed,
        "test_accuracy": float(hits.mean()) if len(hits) else None,
        "val_accuracy": result.val_accuracy,
        "best_epoch": result.best_epoch,
        "seconds": result.seconds,
    }


def _make_report(
    result: BaselineResult, rows: list[dict[str, Any]], data: Dataset, device: str
) -> dict[str, Any]:
    import numpy as np

    from gbgnn._devices import as_device
    from gbgnn.boosting.diagnostics import peak_memory
    from gbgnn_lab.baselines import BASELINES

    columns = {
        key: [row[key] for row in rows if row[key] is not None]
        for key in ("test_accuracy", "val_accuracy", "seconds")
    }
    entry, place = BASELINES[result.name], as_device(device)
    return {
        "baseline": entry.name,
        "title": entry.title,
        "reference": entry.reference,
        "dataset": data.name,
        "split": data.split_name,
        "device": str(place),
        "settings": result.settings,
        "n_parameters": result.n_parameters,
        "runs": rows,
        "mean": {key: float(np.mean(values)) if values else None for key, values in columns.items()},
        "std": {key: float(np.std(values)) if values else None for key, values in columns.items()},
        "peak_memory": peak_memory(place),
        "cited_accuracy": entry.cited.get(data.name) if data.split_name == "public" else None,
        "cited_from": entry.cited_from,
    }


def _show(report: dict[str, Any]) -> None:
    settings = ", ".join(f"{name} {value}" for name, value in report["settings"].items())
    seeds = [row["seed"] for row in report["runs"]]
    shown = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    screen.out(f"{report['title']} ({report['reference']})")
    screen.out(f"{settings}; {screen.counted(report['n_parameters'], 'parameter')}")
    memory = report["peak_memory"]
    cells = [
        report["title"],
        screen.counted(len(seeds), "run"),
        _format_spread(report, "test_accuracy", 100, ".1f"),
        _format_spread(report, "val_accuracy", 100, ".1f"),
        screen.number(report["cited_accuracy"], ".1f"),
        _format_spread(report, "seconds", 1, ".2f"),
        "-" if memory is None else f"{memory / 2**20:,.0f} MB",
    ]
    heads = ["model", shown, "test accuracy %", "val accuracy %", "cited %", "seconds a run", "peak memory"]
    screen.show_table(heads, [cells], left=("model",), drop=("cited %", shown, "peak memory"))
    if report["cited_accuracy"] is not None:
        screen.out(f"cited: {report['cited_from']}")


def _format_spread(report: dict[str, Any], key: str, factor: float, form: str) -> str:
    mean, std = report["mean"][key], report["std"][key]
    return "-" if mean is None else f"{factor * mean:{form}} ± {factor * std:{form}}"


def _show_list(as_json: bool) -> None:
    from dataclasses import asdict

    from gbgnn_lab.baselines import BASELINES

    if as_json:
        entries = [
            {
                "name": entry.name,
                "title": entry.title,
                "description": entry.description,
                "reference": entry.reference,
                "settings": asdict(entry.model),
                "settings_by_dataset": {name: asdict(model) for name, model in entry.variants.items()},
                "settings_from": entry.settings_from,
                "cited": dict(entry.cited),
                "cited_from": entry.cited_from,
            }
            for entry in BASELINES.values()
        ]
        screen.emit_json({"baselines": entries})
        return
    rows = [(e.name, e.description, e.reference, e.settings_from) for e in BASELINES.values()]
    columns = ("name", "what it does", "reference", "settings from")
    screen.show_table(
        columns, rows, left=columns, prose="reference", drop=("settings from", "reference", "what it does")
    )
