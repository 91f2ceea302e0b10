"""What the columns of tables are for: told by the user, or found by their names; for all who read tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from gbgnn.datasets.columns import as_label_cells
from gbgnn.datasets.frames import number_columns
from gbgnn.datasets.splits import SplitChoice, choose_split, find_seen, named_split
from gbgnn.datasets.targets import Target, as_target
from gbgnn.errors import DataError
from gbgnn.labels import NodeSplit

Column = str | int
AUTO = "auto"


class Columned(Protocol):
    """A table with columns, whether it has been read or not."""

    @property
    def path(self) -> Path:
        """Where it is."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """Its columns, by name."""

    def find_column(self, key: Column, role: str) -> str:
        """Return the name of the column with this name or position."""


class Decided(NamedTuple):
    """What is to be predicted, which nodes train, validate and test, and how that was found."""

    target: Target
    split: NodeSplit
    split_name: str


def find_label(table: Columned, label: Column) -> str:
    """Return the name of the column to be predicted."""
    if label == "label" and label not in table.columns:
        raise DataError(
            f"{table.path} has no column 'label'; name the one to be predicted with label= (--target). "
            f"Columns: {', '.join(table.columns)}."
        )
    return table.find_column(label, "labels")


def find_split_column(table: Columned, split: SplitChoice) -> str | None:
    """Return the column that says which nodes train, validate and test, if any does."""
    column = "split" if split in (None, "auto", "public") and "split" in table.columns else split
    return column if isinstance(column, str) and column in table.columns else None


def decide(
    path: Path,
    label: str,
    cells: NDArray[Any],
    column: str | None,
    words: NDArray[Any] | None,
    *,
    split: SplitChoice,
    task: str | None,
    seed: int,
) -> Decided:
    """Return the target and the split of nodes, by their labels and the words of a column ``split``."""
    where = f"{path}, column {label!r}"
    if not len(cells):
        raise DataError(f"{path} has a header but no rows.")
    own = [] if words is None else [named_split(words, f"{path}, column {column!r}")]
    seen = find_seen("public" if own else split, own, len(cells))
    known = as_target(as_label_cells(cells, where, seen), where, task, f"column {label!r}", seen)
    return Decided(known, *choose_split("public" if own else split, known.values, own, str(path), seed=seed))


def find_edge_columns(
    table: Columned, source: Column | None, target: Column | None, weight: Column | None, notes: list[str]
) -> tuple[tuple[str, str], str | None]:
    """Return the columns of an edge table with the ends and, if any, the weight; note what was chosen."""
    first, second = find_ends(list(table.columns), source, target)
    pair = (table.find_column(first, "sources"), table.find_column(second, "targets"))
    if source is None and target is None and pair != ("source", "target"):
        notes.append(f"edges lead from column {pair[0]!r} to column {pair[1]!r} of {table.path.name}")
    own = _find_weight(table, weight, notes)
    extra = [name for name in table.columns if name not in (*pair, own)]
    if extra:
        notes.append(f"passed over {_listed(extra)} of {table.path.name}")
    return pair, own


def choose_features(
    table: Columned,
    id: str,
    *,
    label: Column,
    features: Sequence[Column] | None,
    drop: Sequence[Column],
    split: Any,
) -> list[str]:
    """Return the columns that are features: those that were named, or all without another role."""
    dropped = {table.find_column(column, "columns to drop") for column in drop}
    if features is None:
        roles = (id, number_columns(table.columns).get(label, label), split, "split")
        features = [column for column in table.columns if column not in roles]
    chosen = [name for column in features if (name := table.find_column(column, "features")) not in dropped]
    if not chosen:
        raise DataError(f"{table.path} has no feature column; give each node at least one.")
    return chosen


def find_ends(names: list[str], source: Column | None, target: Column | None) -> tuple[Column, Column]:
    """Return the columns of an edge table that hold the ends, among all its names."""
    if source is None and target is None and not {"source", "target"} <= set(names) and len(names) > 1:
        return names[0], names[1]
    return "source" if source is None else source, "target" if target is None else target


def _find_weight(table: Columned, weight: Column | None, notes: list[str]) -> str | None:
    if weight is None:
        return None
    if weight != AUTO or AUTO in table.columns:
        return table.find_column(weight, "weights")
    if "weight" not in table.columns:
        return None
    notes.append(f"edges weigh as in column 'weight' of {table.path.name}")
    return "weight"


def no_ids(table: Columned) -> DataError:
    """Return what to say of a node table without ids that edges refer to."""
    return DataError(
        f"{table.path} has no column 'id', and none whose values are unique and that the edges refer to; "
        f"name the one with the ids by id= (--id). Columns: {', '.join(table.columns)}."
    )


def _listed(names: Iterable[str]) -> str:
    words = [repr(name) for name in names]
    return f"column{'s' if len(words) > 1 else ''} {', '.join(words)}"
