"""``gbgnn convert``: tables to the form that loads fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from gbgnn.cli import screen
from gbgnn.cli.options import AsJson, argument, as_split, option

_EDGES = "Columns of the edge table, by name or number"
_NODES = "Columns of the node table, by name or number"


def convert(
    edges: Annotated[Path, argument("CSV or Parquet, an edge per row.")],
    nodes: Annotated[Path, argument("CSV or Parquet, a node per row.")],
    out: Annotated[Path, argument("The folder to write.", "OUT.gbgraph")],
    source: Annotated[str | None, option("One end. Default: source.", panel=_EDGES, metavar="COLUMN")] = None,
    target: Annotated[
        str | None, option("The other end. Default: target.", panel=_EDGES, metavar="COLUMN")
    ] = None,
    weight: Annotated[
        str | None, option("Weight. Default: every edge weighs one.", panel=_EDGES, metavar="COLUMN")
    ] = None,
    directed: Annotated[bool, option("Edges go one way only.", "--directed", panel=_EDGES)] = False,
    id: Annotated[
        str | None, option("Your name of the node. Default: id.", panel=_NODES, metavar="COLUMN")
    ] = None,
    label: Annotated[
        str | None, option("Class; empty where unknown. Default: label.", panel=_NODES, metavar="COLUMN")
    ] = None,
    features: Annotated[
        str | None,
        option("Feature columns with commas between. Default: all others.", panel=_NODES, metavar="COLUMNS"),
    ] = None,
    split: Annotated[
        str | None,
        option(
            "A column that says train, val or test; or random, stratified, the number of a fold. "
            "Default: the column split.",
            panel=_NODES,
            metavar="COLUMN_OR_WORD",
        ),
    ] = None,
    split_seed: Annotated[int | None, option("Seed of a drawn split.")] = None,
    normalize: Annotated[bool, option("Scale feature rows to a sum of one.", "--normalize")] = False,
    name: Annotated[str | None, option("What to call it. Default: as the output.")] = None,
    as_json: AsJson = False,
) -> None:
    """Turn an edge table and a node table into a folder that loads in an instant.

    Says how much there is and what was mended on the way: repeated edges, self loops.
    """
    from gbgnn import datasets
    from gbgnn.cli.data_source import describe
    from gbgnn.cli.datasets import describe_dataset

    columns = {"source": source, "target": target, "weight": weight, "id": id, "label": label, "split": split}
    given: dict[str, Any] = {k: as_split(v) for k, v in columns.items() if v is not None}
    if features is not None:
        given["features"] = [as_split(word.strip()) for word in features.split(",") if word.strip()]
    flags = {"seed": split_seed, "directed": directed or None, "normalize_features": normalize or None}
    given |= {k: v for k, v in flags.items() if v is not None}
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
