"""``gbgnn report``: a page about one run or several."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gbgnn
from gbgnn.cli import screen
from gbgnn.cli.files import Saved, describe, describe_choices, open_saved
from gbgnn.cli.held_out import bound_others
from gbgnn.cli.promises import Promised
from gbgnn.cli.scores import score_splits
from gbgnn.errors import DataError, GBGNNError, import_needed
from gbgnn.runs import CONFIG, REPORT

if TYPE_CHECKING:
    from gbgnn.datasets import Dataset
    from gbgnn.report import Part, Subject


def report(
    runs: list[Path],
    out: Path | None = None,
    open_it: bool = False,
    nodes: int = 1000,
    data_dir: Path | None = None,
    force: bool = False,
) -> None:
    """Write a page about one run or several: how good they are, where they err, why, and how they came.

    The page is one file that needs no network: send it, keep it, open it in any browser. It holds ids and
    labels of the nodes that it lists.
    """
    for package in ("plotly", "jinja2"):
        import_needed(package, "gbgnn report", "report")
    from gbgnn.report import write_report
    from gbgnn.report.page import check_replaceable

    saved = [open_saved(path) for path in runs]
    path = _default_path(runs) if out is None else out
    if not force:
        check_replaceable(path)  # before anything slow
    names = _name_runs(runs)
    subjects = [load_subject(each, name, data_dir) for each, name in zip(saved, names, strict=True)]
    write_report(path, *subjects, n_nodes=nodes, force=force)
    screen.out(f"written to {path} ({path.stat().st_size / 2**20:.1f} MB)")
    if open_it and not webbrowser.open(path.resolve().as_uri()):
        screen.warn("no browser was found; open the file by hand.")


def load_subject(saved: Saved, name: str, data_dir: Path | None = None) -> Subject:
    """Return a run as the subject of a page, with its data where that is at hand and as it was."""
    from gbgnn.report import Subject

    model = Promised.of_file(gbgnn.load(saved.model_path)).model
    facts, metrics = saved.config.get("run", {}), saved.metrics
    config = saved.model_path.parent / CONFIG
    known: dict[str, Any] = {
        "class_names": saved.class_names,
        "command": facts.get("command", ""),
        "config": config.read_text(encoding="utf-8") if saved.config else "",
        "versions": facts.get("versions", {}),
        "recorded": metrics.get("splits", {}),
    }
    told = _told(saved)
    try:
        data = _load_data(saved, data_dir)
    except (GBGNNError, OSError) as error:
        return Subject(name, model.model_, told=told, why_no_data=str(error), **known)
    told = [*_told_of_data(data), *told]
    if not data.is_inductive:
        model.model_ = model.model_.with_graph(data.graph)
    others, reason = bound_others(model, data)
    known |= {"others": others, "why_no_others": reason or ""}
    return Subject(name, model.model_, _parts(model, data), data.graph, told=told, **known)


def _load_data(saved: Saved, data_dir: Path | None) -> Dataset:
    """Return the data of the fit, or say why it cannot be had."""
    if "data" not in saved.config:
        raise DataError("a bare model file does not know its data.")
    data = saved.source.override(data_dir=data_dir).load(download=False)
    if data.graph.checksum != saved.graph_checksum:
        raise DataError(f"the graph of {data.name} changed since the fit.")
    return data


def _parts(model: Any, data: Dataset) -> tuple[Part, ...]:
    """Return the parts of the split that have nodes; of inductive data each with what is there by then."""
    from gbgnn.report import Part

    figures: Mapping[str, Any] = score_splits(model, data)
    parts = []
    for name in figures:
        there = data.snapshot(name)
        nodes = getattr(there, name)
        graph = there.graph if data.is_inductive else None
        parts.append(Part(name, nodes, there.y[nodes], there.graph.node_ids[nodes], graph, figures[name]))
    if len(data.calibration) and not data.is_inductive:  # which trained nothing and chose nothing
        nodes = data.calibration
        parts.insert(-1, Part("calibration", nodes, data.y[nodes], data.graph.node_ids[nodes]))
    return tuple(parts)


def _told(saved: Saved) -> list[tuple[str, str]]:
    """Return when a run was made, and how long it took."""
    facts = saved.config.get("run", {})
    seconds = saved.metrics.get("seconds")
    pairs = [
        ("started", str(facts.get("started", ""))),
        ("seconds", "" if seconds is None else f"{seconds:.1f}"),
        *(("note", str(each)) for each in saved.metrics.get("notes", [])),
    ]
    return [(name, words) for name, words in pairs if words]


def _told_of_data(data: Dataset) -> list[tuple[str, str]]:
    """Return what the data is, as ``gbgnn fit`` says it."""
    pairs = [("data", describe(data))]
    for line in describe_choices(data):
        head, colon, rest = line.partition(": ")
        # What was repaired the page finds on the graph itself.
        if head != "repaired":
            pairs.append((head, rest) if colon and len(head) < 12 else ("note", line))
    return pairs


def _default_path(runs: list[Path]) -> Path:
    """Return a file inside of a single run, in the current folder for several or a bare model."""
    return runs[0] / REPORT if len(runs) == 1 and runs[0].is_dir() else Path(REPORT)


def _name_runs(runs: list[Path]) -> list[str]:
    """Return the last part of every path, or all of it where two are alike."""
    short = [path.resolve().name for path in runs]
    return [str(path) if short.count(name) > 1 else name for path, name in zip(runs, short, strict=True)]
