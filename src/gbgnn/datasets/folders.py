"""A folder with tables in it: which files are which."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gbgnn.datasets.columns import CSV_SUFFIXES, PARQUET_SUFFIXES
from gbgnn.datasets.dataset import Dataset
from gbgnn.datasets.graphland import is_graphland, read_graphland
from gbgnn.datasets.tables import read_graph, read_tables
from gbgnn.errors import DataError
from gbgnn.graph import Graph


def read_folder(folder: str | os.PathLike[str], **options: Any) -> Dataset:
    r"""Read a folder with an ``edges`` and a ``nodes`` table, or one laid out as in GraphLand.

    ``options`` go to :func:`read_tables` or :func:`read_graphland`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "edges.csv").write_text("source,target\n1,2\n")
    ...     _ = Path(folder, "nodes.csv").write_text("id,label,x,split\n1,0,0.5,train\n2,1,0.7,test\n")
    ...     read_folder(folder, name="pair")
    Dataset('pair', n_nodes=2, n_edges=1, n_features=1, n_classes=2, train=1, val=0, test=1)
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder.")
    if is_graphland(folder):
        return read_graphland(folder, **options)
    return read_tables(_only(folder, "edges"), _only(folder, "nodes"), **options)


def read_folder_graph(folder: str | os.PathLike[str], **options: Any) -> Graph:
    """Read the graph of a folder with an ``edges`` and a ``nodes`` table, labelled or not."""
    return read_graph(_only(Path(folder), "edges"), _only(Path(folder), "nodes"), **options)


def is_table_folder(folder: Path) -> bool:
    """Whether a folder holds tables that :func:`read_folder` can read."""
    return is_graphland(folder) or is_plain_table_folder(folder)


def is_plain_table_folder(folder: Path) -> bool:
    """Whether a folder holds an ``edges`` and a ``nodes`` table."""
    return bool(_tables(folder, "edges") and _tables(folder, "nodes"))


def _only(folder: Path, stem: str) -> Path:
    found = _tables(folder, stem)
    if len(found) != 1:
        there = " and ".join(path.name for path in found) or "none"
        raise DataError(f"{folder} must hold one {stem} table ({stem}.csv or {stem}.parquet); found {there}.")
    return found[0]


def _tables(folder: Path, stem: str) -> list[Path]:
    candidates = (folder / f"{stem}{suffix}" for suffix in CSV_SUFFIXES + PARQUET_SUFFIXES)
    return [path for path in candidates if path.is_file()]
