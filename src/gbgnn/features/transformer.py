"""GraphFeatures: a scikit-learn transformer from node ids to columns made of the graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gbgnn._checks import check_choice, check_integer
from gbgnn.errors import GraphError, ParameterError
from gbgnn.features.encodings import MOST_ENCODINGS, laplacian_eigenvectors, return_probabilities
from gbgnn.features.layout import ENCODINGS, STRUCTURE, Layout
from gbgnn.features.neighbours import STATISTICS, Neighbours
from gbgnn.features.structure import clustering, count_neighbours, page_rank
from gbgnn.graph import Graph
from gbgnn.labels import as_nodes, check_range
from gbgnn.tables import TableEncoder

_COLUMN_BYTES = 160  # of a column of a node, with all that is made on the way to its statistics


@dataclass(kw_only=True, eq=False, repr=False)
class GraphFeatures(TransformerMixin, BaseEstimator):
    """Columns of a node and of its neighbourhood, to put before any estimator.

    Rows are *node ids*: ``fit(nodes, graph=graph)`` remembers the graph, ``transform(nodes)`` returns a row
    per node: its own columns, statistics of its neighbours' columns, its place in the graph. No label is
    looked at. Metadata routing hands ``graph`` on without being asked to.

    Names say what a column is: ``income`` is the node's own, ``income_mean_1`` the mean over its neighbours,
    ``income_max_2`` the largest two steps away. Where edges have a direction there are two of each,
    ``in_income_mean_1`` over the nodes with an edge to this one and ``out_income_mean_1`` over those it has
    an edge to.

    Of a table, numbers are as they are, gaps are NaN, and dates are days since 1970, their month and their
    weekday. A category is a column of 0 and 1 for each value, ``city=Oslo``, so that ``city=Oslo_mean_1`` is
    the share of neighbours in Oslo; of many values a few share a column, see :class:`~gbgnn.TableEncoder`. Of
    another graph's table the columns may come in any order.

    Parameters
    ----------
    hops
        How many hops of neighbours are looked at. What a node hears of hop k are the ends of walks of k
        steps, each weighted by how likely a random walk gets there; a walk may come back. 0 looks at none.
    statistics
        Which statistics of the neighbours' columns: any of ``"mean"``, ``"std"``, ``"min"``, ``"max"``, all
        over the neighbours that have a value, and ``"missing"``, the share that have none, for columns with
        gaps. A node without neighbours has NaN. Edge weights count in all but the smallest and the largest.
    structure
        Which numbers about the place of a node: ``"degree"``, the number of neighbours; ``"pagerank"``, times
        the number of nodes, so that the mean is one; ``"clustering"``, the share of pairs of neighbours that
        are neighbours, of edges without direction or weight.
    encodings
        Which positional encodings: ``"laplacian"``, the smoothest eigenvectors of the random walk Laplacian,
        which mean something else on every graph; ``"walk"``, the chance that a random walk is back after 2,
        3, ... steps, estimated where an exact answer would take long. Edges have no direction here.
    n_encodings
        Columns of each encoding, from 1 to 32.
    directed
        Whether edges have a direction; ``"auto"`` looks whether some edge lacks its reverse. ``False``
        joins two nodes by the larger of their two weights.
    block_bytes
        About how much memory the work may take beside graph and result: columns are treated in blocks.

    Attributes
    ----------
    graph_
        The graph of the fit.
    directed_
        Whether its edges have a direction.
    encoder_
        What is known of a table's columns: their categories; None where features are a matrix.
    layout_
        Which columns there are. The nodes' own are called as in the graph, or x0, x1, ...
    structure_
        The columns of ``structure`` and ``encodings``, of all nodes.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from gbgnn import GraphFeatures, datasets
    >>> data = datasets.load("karate")
    >>> features = GraphFeatures(hops=1, statistics=("mean",), encodings=("laplacian",), n_encodings=2)
    >>> model = make_pipeline(features.set_output(transform="pandas"), HistGradientBoostingClassifier())
    >>> model = model.fit(data.train, data.y[data.train], graphfeatures__graph=data.graph)
    >>> model.predict(data.test).shape
    (32,)
    >>> features.get_feature_names_out()[-5:].tolist()
    ['degree', 'pagerank', 'clustering', 'laplacian_1', 'laplacian_2']
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"graph": True}
    __metadata_request__transform: ClassVar[dict[str, bool]] = {"graph": True}

    hops: int = 2
    statistics: Sequence[str] = STATISTICS
    structure: Sequence[str] = STRUCTURE
    encodings: Sequence[str] = ENCODINGS
    n_encodings: int = 8
    directed: bool | str = "auto"
    block_bytes: int = 256 * 2**20

    def fit(self, nodes: ArrayLike, y: Any = None, *, graph: Graph) -> Self:
        """Remember the graph, and compute the place of its nodes; ``nodes`` are checked, y is not used."""
        self._check()
        check_range(as_nodes(nodes, unique=False), graph.n_nodes)
        self.directed_ = bool(graph.is_directed if self.directed == "auto" else self.directed)
        self.encoder_ = graph.encoder
        own = _own_columns(graph, self.encoder_)
        self.layout_ = Layout(
            own=own.names,
            has_gaps=_find_gaps(own.matrix),
            directions=("in_", "out_") if self.directed_ else ("",),
            hops=self.hops,
            statistics=tuple(self.statistics),
            structure=(*self.structure, *self.encodings),
            n_encodings=self.n_encodings,
        )
        self.graph_, self.structure_ = graph, self._locate(graph).astype(own.matrix.dtype)
        return self

    def transform(self, nodes: ArrayLike, *, graph: Graph | None = None) -> NDArray[np.floating[Any]]:
        """Return a row for each node, in the precision of the graph's own columns.

        Parameters
        ----------
        nodes
            Ids (row numbers) of nodes, which may repeat.
        graph
            Another graph with the same columns; None is that of the fit.
        """
        check_is_fitted(self, "graph_")
        return self._rows(nodes, self.graph_ if graph is None else graph)

    def fit_transform(self, nodes: ArrayLike, y: Any = None, *, graph: Graph) -> NDArray[np.floating[Any]]:
        """Fit, and return the rows of ``nodes``."""
        # Not by transform, whose result set_output has turned into a frame already.
        return self.fit(nodes, y, graph=graph)._rows(nodes, graph)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns; ``input_features``, the name of the ids, is not used."""
        check_is_fitted(self, "graph_")
        return np.array(self.layout_.names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        """Say that rows are ids."""
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, False
        return tags

    def _check(self) -> None:
        owner = type(self).__name__
        check_integer(owner, "hops", self.hops, 0)
        check_integer(owner, "n_encodings", self.n_encodings, 1, MOST_ENCODINGS)
        check_integer(owner, "block_bytes", self.block_bytes, 1)
        known = {"statistics": STATISTICS, "structure": STRUCTURE, "encodings": ENCODINGS}
        for name, choices in known.items():
            given = getattr(self, name)
            if isinstance(given, str):
                raise ParameterError(f"{owner}.{name} must be a list of names; got {given!r}: ({given!r},)?")
            for each in given:
                check_choice(owner, name, each, choices)
        if self.directed not in (True, False, "auto"):
            raise ParameterError(f'{owner}.directed must be True, False or "auto"; got {self.directed!r}.')

    def _find_columns(self, graph: Graph) -> NamedColumns:
        """Return a graph's own columns, or raise unless they are those of the fit."""
        if (graph.table is None) != (self.encoder_ is None):
            kinds = ("a matrix", "a table")
            now, then = kinds[graph.table is not None], kinds[self.encoder_ is not None]
            raise GraphError(f"graph has {now} of features, but GraphFeatures was fitted to {then}.")
        own, known = _own_columns(graph, self.encoder_), self.layout_.own
        if own.names != known:
            raise GraphError(
                f"graph has {len(own.names)} columns ({_shorten(own.names)}), but GraphFeatures was fitted "
                f"to {len(known)} ({_shorten(known)}); they must be the same."
            )
        return own

    def _adjacency(self, graph: Graph) -> sp.csr_array:
        """Return who hears whom, symmetric where edges have no direction."""
        A = graph.adjacency
        if A.nnz and A.data.min() < 0:
            raise GraphError(
                f"adjacency has negative weights (smallest: {A.data.min():g}), by which GraphFeatures cannot "
                "weigh neighbours; drop these edges, or give the graph without weights."
            )
        return A if self.directed_ or not graph.is_directed else sp.csr_array(A.maximum(A.T))

    def _rows(self, nodes: ArrayLike, graph: Graph) -> NDArray[np.floating[Any]]:
        own, rows = self._find_columns(graph).matrix, as_nodes(nodes, unique=False)
        check_range(rows, graph.n_nodes)
        structure = self.structure_ if graph is self.graph_ else self._locate(graph)
        result = np.empty((len(rows), len(self.layout_.names)), own.dtype)
        result[:, : own.shape[1]] = _as_dense(own[rows])
        if self.layout_.slots:
            self._describe(graph, own, rows, result)
        result[:, result.shape[1] - structure.shape[1] :] = structure[rows]
        return result

    def _describe(self, graph: Graph, own: Any, rows: NDArray[np.int64], result: NDArray[Any]) -> None:
        """Write the statistics of the neighbours of ``rows``, block by block of the nodes' own columns."""
        A, layout = self._adjacency(graph), self.layout_
        for direction in layout.directions:
            neighbours = Neighbours(_turn(A, direction))
            for first, X in self._column_blocks(own):
                found = neighbours.statistics(X, layout.hops, layout.statistics)
                for hop, statistics in enumerate(found, start=1):
                    for slot in layout.slots:
                        if (slot.direction, slot.hop) == (direction, hop):
                            columns, places = slot.places(first, X.shape[1])
                            result[:, places] = statistics[slot.statistic][rows[:, None], columns]

    def _column_blocks(self, own: Any) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the nodes' own columns, dense and some at a time, with the number of the first."""
        X = own.tocsc() if sp.issparse(own) else own
        width = max(1, self.block_bytes // (_COLUMN_BYTES * X.shape[0]))
        for first in range(0, X.shape[1], width):
            yield first, _as_dense(X[:, first : first + width])

    def _locate(self, graph: Graph) -> NDArray[np.floating[Any]]:
        """Return the columns of structure and encodings, of all nodes."""
        A, layout = self._adjacency(graph), self.layout_
        both = sp.csr_array(A.maximum(A.T)) if self.directed_ else A
        make = {
            "degree": lambda: [count_neighbours(_turn(A, direction)) for direction in layout.directions],
            "pagerank": lambda: [page_rank(A)],
            "clustering": lambda: [clustering(both, self.block_bytes)],
            "laplacian": lambda: [laplacian_eigenvectors(both, layout.n_encodings)],
            "walk": lambda: [return_probabilities(both, layout.n_encodings, self.block_bytes)],
        }
        columns = [column for part in make if part in layout.structure for column in make[part]()]
        return np.column_stack([np.empty((graph.n_nodes, 0)), *columns])


def _turn(A: sp.csr_array, direction: str) -> sp.csr_array:
    """Return by whom a node is heard where that is the direction, else whom it hears."""
    return A.T.tocsr() if direction == "out_" else A


class NamedColumns(NamedTuple):
    """The nodes' own columns: a matrix, dense or sparse, and their names."""

    matrix: Any
    names: list[str]


def _own_columns(graph: Graph, encoder: TableEncoder | None) -> NamedColumns:
    """Return a matrix as it is; of a table numbers and dates with their gaps, categories as 0 and 1."""
    if encoder is None or graph.table is None:
        return NamedColumns(graph.features, list(graph.feature_names))
    raw, blocks, names, start = encoder.raw(graph.table).matrix, [], [], 0
    for each in encoder.encoders_:
        end = start + len(each.raw_names())
        if each.is_categorical:
            blocks.append(each.encode(each.align(graph.table[each.name])))
        else:
            blocks.append(raw[:, start:end])
        start = end
        made = each.names() if each.is_categorical else each.raw_names()
        names += [_without_colon(name, each.name) for name in made]
    return NamedColumns(np.hstack(blocks), names)


def _without_colon(name: str, column: str) -> str:
    """Return ``since:month`` of column ``since`` as ``since_month``: LightGBM takes no colon in a name."""
    part = name.removeprefix(f"{column}:")
    return name if part == name else f"{column}_{part}"


def _as_dense(X: Any) -> NDArray[Any]:
    return np.asarray(X.toarray() if sp.issparse(X) else X)


def _find_gaps(X: Any) -> NDArray[np.bool_]:
    """Return which columns have a missing value."""
    if sp.issparse(X):
        return np.bincount(X.indices[np.isnan(X.data)], minlength=X.shape[1]) > 0
    # A sum with NaN is NaN, and takes no memory of the size of X.
    return np.asarray(np.isnan(X.sum(axis=0, dtype=np.float64)))


def _shorten(names: Sequence[str]) -> str:
    return ", ".join([*names[:4], *(["..."] if len(names) > 4 else [])])
