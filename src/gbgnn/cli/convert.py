"""``gbgnn convert``: tables to the form that loads fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gbgnn.cli import screen
from gbgnn.cli.options import AsJson, as_split

EXAMPLES = (
    (
        "gbgnn convert edges.csv nodes.csv friends.gbgraph",
        "columns source, target and id, label, split, features",
    ),
    (
        "gbgnn convert e.parquet n.parquet g.gbgraph --source from --target to --label topic",
        "columns by name",
    ),
    (
        "gbgnn convert edges.csv nodes.csv friends.gbgraph --split stratified --split-seed 1",
        "with a drawn split",
    ),
    ("gbgnn fit friends.gbgraph", "and then"),
)

_EDGES = "Columns of the edge table, by name or number"
_NODES = "Columns of the node table, by name or number"


def _column(panel: str, help: str) -> Any:
    return typer.Option(help=help, metavar="COLUMN", rich_help_panel=panel, show_default=False)


def convert(
    edges: Annotated[Path, typer.Argument(help="CSV or Parquet, an edge per row.", show_default=False)],
    nodes: Annotated[Path, typer.Argument(help="CSV or Parquet, a node per row.", show_default=False)],
    out: Annotated[
        Path, typer.Argument(metavar="OUT.gbgraph", help="The folder to write.", show_default=False)
    ],
    source: Annotated[str | None, _column(_EDGES, "One end. Default: source.")] = None,
    target: Annotated[str | None, _column(_EDGES, "The other end. Default: target.")] = None,
    weight: Annotated[str | None, _column(_EDGES, "Weight. Default: every edge weighs one.")] = None,
    directed: Annotated[
        bool, typer.Option("--directed", help="Edges go one way only.", rich_help_panel=_EDGES)
    ] = False,
    id: Annotated[str | None, _column(_NODES, "Your name of the node. Default: id.")] = None,
    label: Annotated[str | None, _column(_NODES, "Class; empty where unknown. Default: label.")] = None,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Feature columns with commas between. Default: all others.",
            rich_help_panel=_NODES,
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN_OR_WORD",
            help="A column that says train, val or test; or random, stratified, the number of a fold. "
            "Default: the column split.",
            rich_help_panel=_NODES,
        ),
    ] = None,
    split_seed: Annotated[int | None, typer.Option(help="Seed of a drawn split.")] = None,
    normalize: Annotated[
        bool, typer.Option("--normalize", help="Scale feature rows to a sum of one.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="What to call it. Default: as the output.")] = None,
    as_json: AsJson = False,
) -> None:
    """Turn an edge table and a node table into a folder that loads in an instant.

    Says how much there is and what was mended on the way: repeated edges, self loops.
    """
    from gbgnn import datasets
    from gbgnn.cli.data_source import describe
    from gbgnn.cli.datasets import describe_dataset

    columns = {"source": source, "target": target, "weight": weight, "id": id, "label": label}
    given: dict[str, Any] = {k: as_split(v) for k, v in columns.items() if v is not None}
    if features is not None:
        given["features"] = [as_split(word.strip()) for word in features.split(",") if word.strip()]
    if split is not None:
        given["split"] = as_split(split)
    if split_seed is not None:
        given["seed"] = split_seed
    if directed:
        given["directed"] = True
    if normalize:
        given["normalize_features"] = True
    data = datasets.read_tables(edges, nodes, name=name or out.stem, **given)
    datasets.save_dataset(data, out)
    facts = describe_dataset(data)
    if as_json:
        screen.emit_json(facts | {"written": str(out)})
        return
    screen.out(f"{describe(data)}; train {len(data.train):,}, val {len(data.val):,}, test {len(data.test):,}")
    for repair in facts["repairs"]:
        screen.out(f"repaired: {repair}")
    screen.out(f"written to {out}")
