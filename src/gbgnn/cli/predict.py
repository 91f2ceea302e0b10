"""``gbgnn predict``: a label and probabilities for nodes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gbgnn.cli import screen
from gbgnn.cli.options import DataDir, DataOption, Normalize, SavedPath

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EXAMPLES = (
    ("gbgnn predict runs/cora > labels.csv", "all nodes of the graph it was fitted on"),
    ("gbgnn predict runs/cora --nodes 12,40,77", "three of them, by your own ids"),
    ("gbgnn predict runs/cora --dataset newer_graph/ --out labels.parquet", "the nodes of another graph"),
)


def predict(
    saved_path: SavedPath,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset",
            "--graph",
            metavar="NAME_OR_PATH",
            help="Predict the nodes of this graph instead; it needs the same features. "
            "Default: the graph of the fit.",
            rich_help_panel="Data",
        ),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="FILE_OR_IDS",
            help="Which nodes: ids with commas between, or a file with an id per line. Default: all.",
            rich_help_panel="Data",
        ),
    ] = None,
    data_dir: DataDir = None,
    normalize: Normalize = None,
    data_option: DataOption = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write to FILE.csv or FILE.parquet. Default: CSV on stdout."),
    ] = None,
) -> None:
    """Write the predicted label of every node, and the probability of each class.

    Columns are node (your own id), label, and proba_CLASS for each class. A bare model file knows neither
    your ids nor names of classes: it counts nodes from 0.
    """
    from gbgnn.cli.data_source import Source, load_graph, name_class, own_node_ids
    from gbgnn.cli.saved import open_saved
    from gbgnn.cli.tables import Predictions, check_format
    from gbgnn.persistence import load

    if out is not None:
        check_format(out)
    saved = open_saved(saved_path)
    model = load(saved.model_path)
    if dataset is None:
        graph = None
        ids = own_node_ids(saved.config, len(model.model_.score_tensor), data_dir=data_dir)
    else:
        own = Source.from_document(saved.config.get("data", {}), str(saved_path))
        graph = load_graph(
            own.override(dataset=dataset, data_dir=data_dir, normalize=normalize, options=data_option)
        )
        ids = graph.node_ids
    rows = _choose(ids, nodes)
    found = model.model_.predict_all(rows, graph=graph)
    table = Predictions(
        nodes=ids[rows],
        labels=[name_class(label, saved.class_names) for label in found["predict"]],
        proba=found["predict_proba"],
        classes=[name_class(label, saved.class_names) for label in model.classes_],
    )
    if out is None:
        table.write_csv(sys.stdout)
    else:
        table.write(out)
        screen.note(f"{screen.counted(len(rows), 'node')} written to {out}")


def _choose(ids: NDArray[Any], nodes: str | None) -> NDArray[np.int64]:
    """Return the rows of the nodes that were asked for, in that order."""
    import numpy as np

    from gbgnn.errors import GraphError

    if nodes is None:
        return np.arange(len(ids))
    wanted = _read_ids(nodes)
    row_of = {str(name): row for row, name in enumerate(ids.tolist())}
    unknown = [name for name in wanted if name not in row_of]
    if unknown:
        raise GraphError(
            f"--nodes names {len(unknown)} nodes that the graph does not have (first: {unknown[0]!r}; "
            f"its ids look like {ids[0]!s} and {ids[-1]!s})."
        )
    return np.array([row_of[name] for name in wanted], dtype=np.int64)


def _read_ids(nodes: str) -> list[str]:
    # What is too long for the name of a file is a list.
    is_file = len(nodes) < 255 and Path(nodes).is_file()
    words = Path(nodes).read_text(encoding="utf-8").splitlines() if is_file else nodes.split(",")
    return [word.strip() for word in words if word.strip()]
