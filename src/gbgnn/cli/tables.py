"""Predictions as a table: the user's node ids, labels and a probability per class."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from gbgnn._files import atomic_path
from gbgnn.errors import MissingDependencyError, ParameterError

_CHUNK = 65_536
FORMATS = (".csv", ".parquet")


@dataclass(frozen=True, eq=False)
class Predictions:
    """One row per node.

    Parameters
    ----------
    nodes
        The user's ids.
    labels
        The predicted classes, by name where they have one.
    proba
        Shape (n, K).
    classes
        What the K columns are called.
    """

    nodes: NDArray[Any]
    labels: list[str]
    proba: NDArray[Any]
    classes: list[str]

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return ["node", "label", *(f"proba_{name}" for name in self.classes)]

    def write(self, path: Path) -> None:
        """Write a file whose ending says its form; a reader never sees half of it."""
        check_format(path)
        with atomic_path(path) as part:
            if path.suffix == ".parquet":
                self._write_parquet(part)
            else:
                with part.open("w", newline="", encoding="utf-8") as file:
                    self.write_csv(file)

    def write_csv(self, file: TextIO) -> None:
        """Write CSV, each probability with as many digits as tell it from its neighbours."""
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(self.columns)
        for start in range(0, len(self.nodes), _CHUNK):
            rows = slice(start, start + _CHUNK)
            numbers = self.proba[rows].astype(np.str_).tolist()
            head = zip(self.nodes[rows].tolist(), self.labels[rows], strict=True)
            writer.writerows([node, label, *row] for (node, label), row in zip(head, numbers, strict=True))

    def _write_parquet(self, path: Path) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise MissingDependencyError("writing Parquet", "pyarrow", "io") from error
        arrays = [pa.array(self.nodes), pa.array(self.labels), *map(pa.array, self.proba.T.copy())]
        pq.write_table(pa.table(dict(zip(self.columns, arrays, strict=True))), path)


def check_format(path: Path) -> None:
    """Raise unless the ending is that of a form we write."""
    if path.suffix not in FORMATS:
        raise ParameterError(f"--out must end in {' or '.join(FORMATS)}; got {path}.")
