"""``gbgnn datasets`` and ``gbgnn convert``: what there is to train on, and tables as what loads fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

import gbgnn
from gbgnn.cli import screen
from gbgnn.cli.command import as_split
from gbgnn.cli.files import describe
from gbgnn.errors import DatasetNotFoundError


def list_datasets(context: typer.Context, data_dir: Path | None = None, as_json: bool = False) -> None:
    """List the data sets known by name; any folder of tables can be used too."""
    if context.invoked_subcommand is not None:
        return
    entries = [describe_entry(name, data_dir) for name in gbgnn.datasets.names()]
    if as_json:
        screen.emit_json({"datasets": entries})
        return
    screen.show_records(
        [entry | {"here?": "yes" if entry["available"] else "to download"} for entry in entries],
        ("name", "nodes", "edges", "features", "classes", "here?", "description"),
        heads={"description": "what it is"},
        left=("name", "here?", "what it is"),
        prose="what it is",
        drop=("features", "edges", "classes"),
    )


def info(name: str, data_dir: Path | None = None, as_json: bool = False) -> None:
    """Show one data set: counts, split, licence, repairs, and where its files were looked for.

    Nothing is downloaded.
    """
    is_known = name in gbgnn.datasets.names()
    facts = describe_entry(name, data_dir) if is_known else {}
    try:
        facts |= describe_dataset(gbgnn.datasets.load(name, data_dir=data_dir, download=False))
    except DatasetNotFoundError:
        if not is_known:
            raise
    if as_json:
        screen.emit_json(facts)
    else:
        _show(facts)


def convert(
    edges: Path,
    nodes: Path,
    out: Path,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    directed: bool = False,
    id: str | None = None,
    label: str | None = None,
    features: str | None = None,
    split: str | None = None,
    split_seed: int | None = None,
    normalize: bool = False,
    name: str | None = None,
    as_json: bool = False,
) -> None:
    """Turn an edge table and a node table into a folder that loads in an instant.

    Says how much there is and what was mended on the way: repeated edges, self loops.
    """
    columns = {"source": source, "target": target, "weight": weight, "id": id, "label": label, "split": split}
    given: dict[str, Any] = {k: as_split(v) for k, v in columns.items() if v is not None}
    if features is not None:
        given["features"] = [as_split(word.strip()) for word in features.split(",") if word.strip()]
    if split_seed is not None:
        given["seed"] = split_seed
    given |= {"directed": directed, "normalize_features": normalize, "name": name or out.stem}
    data = gbgnn.datasets.read_tables(edges, nodes, **given)
    gbgnn.datasets.save_dataset(data, out)
    facts = describe_dataset(data)
    if as_json:
        screen.emit_json(facts | {"written": str(out)})
        return
    screen.out(f"{describe(data)}; train {len(data.train):,}, val {len(data.val):,}, test {len(data.test):,}")
    for repair in facts["repairs"]:
        screen.out(f"repaired: {repair}")
    screen.out(f"written to {out}")


def describe_entry(name: str, data_dir: Any) -> dict[str, Any]:
    """Return what the catalogue says of a known name, and where it stands on this machine."""
    entry = gbgnn.datasets.CATALOG[name]
    sightings = gbgnn.datasets.where(name, data_dir)
    return {
        "name": name,
        "description": entry.description,
        **{count: getattr(entry, f"n_{count}") for count in ("nodes", "edges", "features", "classes")},
        "available": entry.is_built_in or any(s.found is not None for s in sightings),
        "source": entry.source,
        "licence": entry.licence,
        "looked": [str(s) for s in sightings],
    }


def describe_dataset(data: gbgnn.datasets.Dataset) -> dict[str, Any]:
    """Return what is true of a loaded data set."""
    graph = data.graph
    return {
        "name": data.name,
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "features": graph.n_features,
        "classes": data.n_classes,
        "class_names": list(data.class_names or ()),
        "directed": graph.is_directed,
        "weighted": graph.is_weighted,
        "isolated": graph.n_isolated,
        "split": data.split_name,
        "train": len(data.train),
        "val": len(data.val),
        "test": len(data.test),
        "source": data.source,
        "licence": data.licence,
        "repairs": list(graph.repairs),
    }


def _show(facts: dict[str, Any]) -> None:
    """Print facts in two columns, a list as a line for each item."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for key, value in facts.items():
        lines = value if isinstance(value, list) else [value]
        text = "\n".join(_words(line) for line in lines if line not in (None, ""))
        if text:
            grid.add_row(key.replace("_", " "), screen.escape(text))
    screen.console().print(grid)


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
