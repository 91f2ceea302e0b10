"""Ids of nodes and tables of edges as a matrix: ids of any kind, with errors that show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gbgnn.errors import GraphError
from gbgnn.tables.columns import is_missing, make_column
from gbgnn.tables.frames import Coded, Given, find_names, list_names, n_rows, read_frame
from gbgnn.tables.table import NodeTable

_IDS = "ids are whole numbers, text or other names"

_SPARSEST = 10
"""Whole numbers among which at least one in so many is an id are looked up by their place."""

NODES, EDGES = "the table of nodes", "the table of edges"

ENDS = (("source", "target"), ("src", "dst"), ("from", "to"))
"""What the columns of edges are called where nobody says; else they are the first two."""


@dataclass(frozen=True, eq=False)
class Ids:
    """A column of ids, none of them missing: whole numbers, or text and other objects as they are.

    ``distinct`` are the ids, and ``places`` where each row's is among them; None where it is that of the row.
    """

    distinct: NDArray[Any]
    column: str
    places: NDArray[Any] | None = None

    @classmethod
    def read(cls, given: Given, column: str) -> Ids:
        """Return the ids of a column, or say what is wrong with them."""
        places = None
        if isinstance(given, Coded):
            used, places = np.unique(given.codes, return_inverse=True)  # not all labels need be there
            given = given._replace(codes=used).decode()
        values = given
        _check_present(values, places, column)
        kind = values.dtype.kind
        if kind == "M":
            values = np.datetime_as_string(values.astype("datetime64[us]"))
        elif kind == "f":
            values = _as_whole(values, column)
        elif kind == "O" or values.dtype == np.uint64:  # what fits no 64 bits with a sign stays Python's own
            values = _as_plain_ids(values.astype(object), column)
        elif kind not in "iuUT":
            raise GraphError(f"{column} holds dtype {values.dtype}; {_IDS}.")
        return cls(values, column, places)

    @cached_property
    def values(self) -> NDArray[Any]:
        """The id of each row."""
        return self.distinct if self.places is None else self.distinct[self.places]

    @property
    def are_whole(self) -> bool:
        """Whether the ids are whole numbers."""
        kind = self.distinct.dtype.kind
        return kind in "iu" or (kind == "O" and len(self.distinct) > 0 and isinstance(self.distinct[0], int))

    @cached_property
    def index(self) -> dict[Any, int]:
        """The row of each id."""
        return {value: i for i, value in enumerate(self.values.tolist())}

    def find_repeated(self) -> tuple[Any, int, int] | None:
        """Return the first id that is there again, with both rows; None where all differ."""
        if self._are_distinct():
            return None
        seen: dict[Any, int] = {}
        values = enumerate(self.values.tolist())
        return next((value, seen[value], i) for i, value in values if seen.setdefault(value, i) != i)

    def _are_distinct(self) -> bool:
        if self.values.dtype.kind in "iu":
            ordered = np.sort(self.values)
            return not bool((ordered[1:] == ordered[:-1]).any())
        return len(self.index) == len(self.values)

    def check_distinct(self) -> None:
        """Raise when an id is there twice."""
        repeated = self.find_repeated()
        if repeated is not None:
            value, first, again = repeated
            n = len(self.values) - len(set(self.values.tolist()))
            raise GraphError(
                f"{self.column} holds {n} repeated ids (first: {value!r} in rows {first} and {again}); "
                "each node needs an id of its own."
            )

    def rows(self, others: Ids) -> NDArray[np.int64]:
        """Return the rows of the nodes that other ids name, or show those that name none."""
        if not len(others.distinct):
            return np.empty(0, np.int64)
        if self.are_whole != others.are_whole:
            asked, known = (each.values[:1].tolist()[0] for each in (others, self))
            raise GraphError(
                f"{others.column} holds ids such as {asked!r}, but those of the nodes ({self.column}) are "
                f"such as {known!r}; make them one kind."
            )
        rows = self.look_up(others.distinct)
        rows = rows if others.places is None else rows[others.places]
        is_unknown = rows < 0
        if is_unknown.any():
            unknown = others.values[is_unknown]
            shown = list_names(dict.fromkeys(map(repr, unknown[:1000].tolist())), 3)
            raise GraphError(
                f"{others.column} names nodes that {self.column} does not have, in {len(unknown)} rows: "
                f"{shown}; add them to the nodes, or leave these edges out."
            )
        return rows

    def look_up(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Return the row of each value, -1 where there is none."""
        if self.values.dtype.kind in "iu" and values.dtype.kind in "iu":
            return _find_whole(self.values.astype(np.int64), values.astype(np.int64))
        find = self.index.get
        return np.fromiter((find(value, -1) for value in values.tolist()), np.int64, len(values))


class Links(NamedTuple):
    """What two tables say of a graph: its edges, the columns and ids of its nodes, and what to say of it."""

    adjacency: sp.csr_array
    table: NodeTable | None
    ids: NDArray[Any]
    notes: tuple[str, ...]


def link_tables(
    nodes: Any,
    edges: Any,
    *,
    id: str | None,
    ends: tuple[str | None, str | None],
    weight: str | None,
    directed: bool,
    **columns: Any,
) -> Links:
    """Return the links of a frame of nodes in one frame of edges or several.

    ``columns`` are those of :func:`choose_columns`; see :meth:`Graph.from_tables <gbgnn.Graph.from_tables>`.
    """
    given = read_frame(nodes, NODES)
    if not n_rows(given):
        raise GraphError(f"{NODES} has no rows, only columns ({list_names(given)}).")
    frames = [read_frame(each, EDGES) for each in _as_frames(edges)]
    sides = [_read_ends(frame, *ends) for frame in frames]
    name, notes = _find_id(given, id, [first for first, _ in sides])
    ids = Ids.read(given[name], f"column {name!r} of the nodes")
    ids.check_distinct()
    sources, targets = (
        np.concatenate([ids.rows(each) for each in side]) for side in zip(*sides, strict=True)
    )
    weights = None
    if weight is not None:
        weights = np.concatenate([_read_weights(frame, weight) for frame in frames])
    joined = (sources, targets)
    adjacency, mended = build_adjacency(joined, len(ids.values), weights=weights, directed=directed)
    return Links(adjacency, choose_columns(given, name, **columns), ids.values.copy(), (*notes, *mended))


def choose_columns(
    given: Mapping[str, Given],
    id: str,
    features: Iterable[str] | None,
    drop: Iterable[str],
    exclude: Iterable[str],
    kinds: Mapping[str, str] | None,
) -> NodeTable | None:
    """Return the columns that describe nodes as a table; None where nothing but the id is left."""
    gone = {id, *find_names(drop, given, NODES), *find_names(exclude, given, NODES)}
    wanted = [name for name in given if name not in gone]
    if features is not None:
        wanted = find_names(features, given, NODES)
        clash = [name for name in wanted if name in gone]
        if clash:
            raise GraphError(
                f"column {clash[0]!r} is among features=, but is the id or left out; choose one."
            )
    known = find_names(kinds or {}, given, NODES)
    chosen = {name: kinds[name] for name in known if kinds and name in wanted}
    return NodeTable({name: given[name] for name in wanted}, kinds=chosen) if wanted else None


def build_adjacency(
    ends: Iterable[NDArray[Any]], n_nodes: int, *, weights: NDArray[Any] | None = None, directed: bool = False
) -> tuple[sp.csr_array, list[str]]:
    """Return the matrix of edges, given as sources and targets, and what was mended on the way.

    ``adjacency[target, source]`` is an edge. Self loops are dropped; edges given more than once become one,
    their weights summed. Undirected lists may name an edge in either direction or both; a list that holds
    *every* edge both ways with equal weights means each pair as one edge.
    """
    index = np.int32 if n_nodes <= np.iinfo(np.int32).max else np.int64
    sources, targets = (side.astype(index, copy=False) for side in ends)
    proper = sources != targets
    n_given = int(np.count_nonzero(proper))
    values = np.ones(n_given, np.float32) if weights is None else weights[proper]
    if values.dtype.kind != "f":
        values = values.astype(np.float32)
    matrix = sp.coo_array((values, (targets[proper], sources[proper])), shape=(n_nodes, n_nodes)).tocsr()
    if weights is None:
        matrix.data[:] = 1
    n_kept = matrix.nnz
    if not directed and (matrix != (mirrored := matrix.T.tocsr())).nnz:
        matrix = join_directions(matrix, mirrored, is_weighted=weights is not None)
        n_kept = matrix.nnz // 2
    n_loops, n_repeated = len(sources) - n_given, n_given - n_kept
    return matrix, describe_mending(n_loops, n_repeated, is_weighted=weights is not None)


def join_directions(matrix: sp.csr_array, mirrored: sp.csr_array, *, is_weighted: bool) -> sp.csr_array:
    """Return rows of edges together with those of their reverses.

    For weights, a line and its reverse are two contributions to one edge.
    """
    return (matrix + mirrored).tocsr() if is_weighted else matrix.maximum(mirrored)


def describe_mending(n_loops: int, n_repeated: int, *, is_weighted: bool) -> list[str]:
    """Return what was mended in a table of edges, as sentences."""
    mended = [f"dropped {n_loops} self loops"] if n_loops else []
    if n_repeated:
        mended.append(f"merged {n_repeated} repeated edges{', weights summed' if is_weighted else ''}")
    return mended


def _as_frames(edges: Any) -> Sequence[Any]:
    frames = edges if isinstance(edges, (list, tuple)) else [edges]
    if not frames:
        raise GraphError("edges is an empty list; give at least one table of edges.")
    return frames


def _read_ends(frame: Mapping[str, Given], source: str | None, target: str | None) -> tuple[Ids, Ids]:
    first, second = (
        Ids.read(frame[name], f"column {name!r} of the edges") for name in _find_ends(frame, source, target)
    )
    return first, second


def _find_ends(frame: Mapping[str, Given], source: str | None, target: str | None) -> tuple[str, str]:
    if (source is None) != (target is None):
        raise GraphError("give both source= and target=, the columns of both ends of an edge, or neither.")
    if source is not None and target is not None:
        find_names([source, target], frame, EDGES)
        if source == target:
            raise GraphError(f"source and target are both column {source!r}; an edge has two ends.")
        return source, target
    if len(frame) < 2:
        raise GraphError(f"{EDGES} has one column, {list_names(frame)}; it needs a source and a target.")
    known = (pair for pair in ENDS if set(pair) <= set(frame))
    first, second, *_ = next(known, tuple(frame))
    return first, second


def _find_id(nodes: Mapping[str, Given], id: str | None, ends: list[Ids]) -> tuple[str, list[str]]:
    """Return the column of the ids: the one that was named, ``id``, or the first that can be it."""
    if id is not None:
        return find_names([id], nodes, NODES)[0], []
    if "id" in nodes:
        return "id", []
    wanted = next((each.distinct[:1] for each in ends if len(each.distinct)), None)
    for name, given in nodes.items():
        try:
            ids = Ids.read(given, f"column {name!r}")
            is_known = wanted is None or ids.look_up(wanted)[0] >= 0
            if is_known and ids.find_repeated() is None:
                return name, [f"took column {name!r} for the ids of nodes"]
        except GraphError:  # gaps, fractions: this is none
            continue
    raise GraphError(
        f"no column of the nodes ({list_names(nodes)}) holds the ids that the edges name; "
        "say which one does with id=."
    )


def _read_weights(frame: Mapping[str, Given], weight: str) -> NDArray[Any]:
    find_names([weight], frame, EDGES)
    column = make_column(weight, frame[weight])
    if column.kind not in ("number", "boolean"):
        raise GraphError(f"column {weight!r} of the edges holds a {column.kind}; weights are numbers.")
    weights = column.as_kind("number").values
    for is_wrong, word in ((np.isnan(weights), "missing"), (weights < 0, "negative")):
        if is_wrong.any():
            n, row = int(is_wrong.sum()), int(np.argmax(is_wrong))
            raise GraphError(
                f"column {weight!r} of the edges has {n} {word} weights (first: row {row}); every weight "
                "must be zero or more."
            )
    return weights


def _check_present(values: NDArray[Any], places: NDArray[Any] | None, column: str) -> None:
    """Raise where an id is missing; ``places`` are those of the rows among the values, if not their own."""
    if values.dtype.kind in "fM":
        gaps = np.isnat(values) if values.dtype.kind == "M" else np.isnan(values)
    elif values.dtype.kind in "OUT":
        gaps = np.array([_is_empty(value) for value in values.tolist()], bool)
    else:
        return
    if gaps.any():
        gaps = gaps if places is None else gaps[places]
        raise GraphError(
            f"{column} has {int(gaps.sum())} missing ids (first: row {int(np.argmax(gaps))}); fill them in, "
            "or leave these rows out."
        )


def _is_empty(value: Any) -> bool:
    return is_missing(value) or (isinstance(value, str) and not value.strip())


def _find_whole(known: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each value is among known ones, -1 where it is not."""
    lowest, highest = int(known.min()), int(known.max())
    n_places = highest - lowest + 1
    if n_places <= _SPARSEST * len(known):  # a place for each number there could be: no need to search
        rows = np.full(n_places + 1, -1)  # the last is for those that are not among them
        rows[known - lowest] = np.arange(len(known))
        is_inside = (values >= lowest) & (values <= highest)
        return rows[np.where(is_inside, values - lowest, n_places)]
    order = np.argsort(known, kind="stable")
    ordered = known[order]
    places = np.minimum(np.searchsorted(ordered, values), len(order) - 1)
    return np.where(ordered[places] == values, order[places], -1)


def _as_whole(values: NDArray[Any], column: str) -> NDArray[np.int64]:
    with np.errstate(invalid="ignore"):
        whole = values.astype(np.int64)
    odd = values[whole != values]
    if len(odd):
        raise GraphError(f"{column} holds {odd[0]:g}; {_IDS}.")
    return whole


def _as_plain_ids(values: NDArray[Any], column: str) -> NDArray[Any]:
    """Return objects as whole numbers or text where they are that, or say that they are mixed."""
    kinds: dict[type, Any] = {}
    for value in values.tolist():
        kinds.setdefault(type(value), value)
    if len(kinds) > 1:
        one, other = list(kinds.values())[:2]
        raise GraphError(f"{column} mixes ids such as {one!r} and {other!r}; make them one kind.")
    (kind,) = kinds or [str]
    if issubclass(kind, bool) or not getattr(kind, "__hash__", None):
        raise GraphError(f"{column} holds a {kind.__name__} per row; {_IDS}.")
    if issubclass(kind, float):
        return _as_whole(values.astype(np.float64), column)
    try:
        return values.astype(np.int64) if issubclass(kind, int) else values
    except OverflowError:
        return values
