"""``gbgnn datasets`` and ``gbgnn convert``: what there is to train on, and tables as what loads fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

import gbgnn
from gbgnn.cli import screen
from gbgnn.cli.command import UsageError, as_split
from gbgnn.cli.files import describe, describe_choices
from gbgnn.cli.source import DataOptions, Source
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


def info(data_options: DataOptions, as_json: bool = False) -> None:
    """Show one data set: counts, task, splits, licence, repairs, and where its files were looked for.

    Nothing is downloaded. Tables are read as gbgnn fit would read them.
    """
    name, is_known = data_options.dataset or "", data_options.dataset in gbgnn.datasets.names()
    facts = describe_entry(name, data_options.data_dir) if is_known else {}
    try:
        facts |= describe_dataset(data_options.apply(Source()).load(download=False))
    except DatasetNotFoundError:
        if not is_known:
            raise
    if as_json:
        screen.emit_json(facts)
    else:
        _show(facts)


def convert(
    paths: list[Path],
    nodes: Path | None = None,
    edges: list[Path] | None = None,
    source: str | None = None,
    destination: str | None = None,
    weight: str | None = None,
    directed: bool = False,
    id: str | None = None,
    target: str | None = None,
    features: str | None = None,
    drop: str | None = None,
    task: str | None = None,
    split: str | None = None,
    split_seed: int | None = None,
    normalize: bool = False,
    name: str | None = None,
    memory_limit: str | None = None,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Turn edge tables and a node table into a folder that loads in an instant.

    Says how much there is, which columns were taken for what, and what was mended on the way: repeated edges,
    self loops. Tables in Parquet may be larger than memory: edges and features are never held as a whole, and
    --memory-limit is kept.
    """
    *given_tables, out = paths
    edge_tables, node_table = _find_given(given_tables, nodes, edges or [])
    options = DataOptions(
        nodes=node_table,
        edges=edge_tables,
        source=source,
        destination=destination,
        weight=weight,
        directed=directed,
        id=id,
        target=target,
        features=features,
        drop=drop,
        task=task,
    )
    tables = options.apply(Source())
    given = tables.reader_options() | {"split": as_split(split)}
    if split_seed is not None:
        given["seed"] = split_seed
    given |= {"normalize_features": normalize, "name": name, "memory_limit": memory_limit}
    with screen.show_progress(quiet=quiet or as_json) as progress:
        data = gbgnn.datasets.convert_tables(tables.edges, str(node_table), out, watch=progress, **given)
    facts = describe_dataset(data)
    if as_json:
        screen.emit_json(facts | {"written": str(out)})
        return
    for line in (describe(data), *describe_choices(data)):
        screen.out(line)
    screen.out(f"written to {out}")


def _find_given(tables: list[Path], nodes: Path | None, edges: list[Path]) -> tuple[list[Path], Path]:
    """Return the edge tables and the node table, given as a folder, one after the other, or by options."""
    from gbgnn.datasets.tables import find_tables

    if len(tables) == 1 and nodes is None:
        found_edges, found_nodes = find_tables(tables[0])
        return [found_edges, *edges], found_nodes
    if len(tables) == 2 and nodes is None:
        return [tables[0], *edges], tables[1]
    if not tables and nodes is not None and edges:
        return edges, nodes
    raise UsageError(
        "give a folder with nodes and edges, or an edge table and a node table, or --nodes and --edges; and "
        "then the folder to write: gbgnn convert edges.parquet nodes.parquet graph.gbgraph."
    )


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
        "task": data.task,
        "why": data.task_reason,
        "classes": None if data.is_regression else data.n_classes,
        "class_names": list(data.class_names or ()),
        "directed": graph.is_directed,
        "weighted": graph.is_weighted,
        "isolated": graph.n_isolated,
        "split": data.split_name,
        "own_splits": data.n_splits,
        "inductive": data.is_inductive,
        "train": len(data.train),
        "val": len(data.val),
        "test": len(data.test),
        "source": data.source,
        "licence": data.licence,
        "notes": list(data.notes),
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
