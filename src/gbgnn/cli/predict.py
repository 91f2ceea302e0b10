"""``gbgnn predict``: a label and probabilities for nodes."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from gbgnn._files import atomic_path
from gbgnn.cli import screen
from gbgnn.cli.options import DATA, DataDir, DataOption, Normalize, SavedPath, option
from gbgnn.errors import DataError, GraphError, MissingDependencyError, ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gbgnn.cli.data_source import Saved


_CHUNK = 65_536
_FORMATS = (".csv", ".parquet")


def predict(
    saved_path: SavedPath,
    dataset: Annotated[
        str | None,
        option(
            "Predict the nodes of this graph instead; it needs the same features. "
            "Default: the graph of the fit.",
            *("--dataset", "--graph"),
            panel=DATA,
            metavar="NAME_OR_PATH",
        ),
    ] = None,
    nodes: Annotated[
        str | None,
        option(
            "Which nodes: ids with commas between, or a file with an id per line. Default: all.",
            panel=DATA,
            metavar="FILE_OR_IDS",
        ),
    ] = None,
    data_dir: DataDir = None,
    normalize: Normalize = None,
    data_option: DataOption = None,
    out: Annotated[
        Path | None, option("Write to FILE.csv or FILE.parquet. Default: CSV on stdout.", metavar="FILE")
    ] = None,
) -> None:
    """Write the predicted label of every node, and the probability of each class.

    Columns are node (your own id), label, and proba_CLASS for each class. A bare model file knows neither
    your ids nor names of classes: it counts nodes from 0.
    """
    from gbgnn.cli.data_source import name_class, open_saved
    from gbgnn.persistence import load

    if out is not None:
        _check_ending(out)
    saved = open_saved(saved_path)
    model = load(saved.model_path)
    graph = None
    if dataset is None:
        ids = _own_ids(saved, len(model.model_.score_tensor), data_dir)
    else:
        source = saved.source(dataset=dataset, data_dir=data_dir, normalize=normalize, options=data_option)
        graph = source.load_graph()
        ids = graph.node_ids
    rows = _choose(ids, nodes)
    found = model.model_.predict_all(rows, graph=graph)
    classes = [name_class(label, saved.class_names) for label in model.classes_]
    columns = ["node", "label", *(f"proba_{name}" for name in classes)]
    labels = [name_class(label, saved.class_names) for label in found["predict"]]
    if out is None:
        write_csv(sys.stdout, columns, ids[rows], labels, found["predict_proba"])
    else:
        write_table(out, columns, ids[rows], labels, found["predict_proba"])
        screen.note(f"{screen.counted(len(rows), 'node')} written to {out}")


def write_table(
    path: Path, columns: list[str], nodes: NDArray[Any], labels: list[str], proba: NDArray[Any]
) -> None:
    """Write a file whose ending says its form; a reader never sees half of it."""
    _check_ending(path)
    with atomic_path(path) as part:
        if path.suffix == ".csv":
            with part.open("w", newline="", encoding="utf-8") as file:
                write_csv(file, columns, nodes, labels, proba)
            return
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise MissingDependencyError("writing Parquet", "pyarrow", "io") from error
        arrays = [pa.array(nodes), pa.array(labels), *map(pa.array, proba.T.copy())]
        pq.write_table(pa.table(dict(zip(columns, arrays, strict=True))), part)


def write_csv(
    file: TextIO, columns: list[str], nodes: NDArray[Any], labels: list[str], proba: NDArray[Any]
) -> None:
    """Write CSV, each probability with as many digits as tell it from its neighbours."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    for start in range(0, len(nodes), _CHUNK):
        rows = slice(start, start + _CHUNK)
        numbers = proba[rows].astype(str).tolist()
        head = zip(nodes[rows].tolist(), labels[rows], strict=True)
        writer.writerows([node, label, *row] for (node, label), row in zip(head, numbers, strict=True))


def _check_ending(path: Path) -> None:
    if path.suffix not in _FORMATS:
        raise ParameterError(f"--out must end in {' or '.join(_FORMATS)}; got {path}.")


def _own_ids(saved: Saved, n_nodes: int, data_dir: Path | None) -> NDArray[Any]:
    """Return the user's ids of the nodes a run was fitted on; row numbers for a bare model."""
    import numpy as np

    if "data" not in saved.config:
        return np.arange(n_nodes)
    data = saved.source(data_dir=data_dir).load()
    if data.graph.checksum != saved.graph_checksum:
        raise DataError(
            f"the graph of {data.name} changed since the fit, so the stored predictions are not about it; "
            "predict the graph as it is now with --dataset."
        )
    return data.graph.node_ids


def _choose(ids: NDArray[Any], nodes: str | None) -> NDArray[np.int64]:
    """Return the rows of the nodes that were asked for, in that order."""
    import numpy as np

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
