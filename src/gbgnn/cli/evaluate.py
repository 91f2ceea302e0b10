"""``gbgnn evaluate``: how well a model does on labelled nodes."""

from __future__ import annotations

from typing import Annotated

import typer

from gbgnn.cli import screen
from gbgnn.cli.options import (
    AsJson,
    DataDir,
    DataOption,
    Normalize,
    SavedPath,
    Split,
    SplitSeed,
)

EXAMPLES = (
    ("gbgnn evaluate runs/cora", "on the data of the fit"),
    ("gbgnn evaluate runs/cora newer_graph/", "on another graph with the same features and classes"),
    ("gbgnn evaluate model.gbgnn cora --json", "a bare model file, for a program to read"),
)


def evaluate(
    saved_path: SavedPath,
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET_OR_FOLDER",
            help="A known name, a folder or a file. Default: the data of the fit.",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDir = None,
    split: Split = None,
    split_seed: SplitSeed = None,
    normalize: Normalize = None,
    data_option: DataOption = None,
    as_json: AsJson = False,
) -> None:
    """Print accuracy, cross entropy and macro-F1 of the training, validation and test nodes."""
    from gbgnn.cli.data_source import Source
    from gbgnn.cli.saved import open_saved
    from gbgnn.cli.scoring import score_splits, show_scores
    from gbgnn.errors import DataError
    from gbgnn.persistence import load

    saved = open_saved(saved_path)
    if dataset is None and "data" not in saved.config:
        raise DataError(f"{saved_path} is a bare model file, which does not know its data; name a data set.")
    source = Source.from_document(saved.config.get("data", {}), str(saved_path)).override(
        dataset=dataset,
        data_dir=data_dir,
        split=split,
        split_seed=split_seed,
        normalize=normalize,
        options=data_option,
    )
    data = source.load()
    model = load(saved.model_path)
    is_own = saved.graph_checksum == data.graph.checksum
    scores = score_splits(model, data, graph=None if is_own else data.graph)
    if as_json:
        screen.emit_json({"model": str(saved.model_path), "dataset": data.name, "splits": scores})
    else:
        show_scores(scores)
