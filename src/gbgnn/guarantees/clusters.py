"""cluster_bound: what is certain where all labels train, by clusters that no label had a say in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

from gbgnn._checks import check_integer, check_number
from gbgnn.errors import ParameterError
from gbgnn.graph import Graph
from gbgnn.labels import as_labels, as_nodes, check_length, check_range
from gbgnn.problem import InputRecipe
from gbgnn.registry import as_part
from gbgnn.theory.holdout import most_errors_at, percent

_OWNER = "cluster_bound"
HOPS, SIZES = (2, 4, 8, 16), (8, 12, 16, 24, 32, 48)
_N_COLUMNS = 32  # principal components that nodes are compared by


@dataclass(frozen=True, eq=False)
class ClusterBound:
    """With some confidence, at most so many other nodes are not of the commonest class of their cluster."""

    n_wrong: int  # of the labelled nodes
    n_labelled: int
    most_wrong: int  # of the other nodes, at most
    n_others: int
    confidence: float
    hops: int  # the clusters are of P^hops X
    n_clusters: int
    n_tried: int  # clusterings, of which this one has the smallest bound
    predictions: NDArray[Any]  # of all nodes: the commonest class among the labelled nodes of the cluster
    notes: tuple[str, ...] = ()

    @property
    def bound(self) -> float:
        """The share of the other nodes that are wrong, at most."""
        return self.most_wrong / self.n_others

    @property
    def is_vacuous(self) -> bool:
        """Whether it says nothing, because all of the others may be wrong."""
        return self.most_wrong == self.n_others

    @property
    def sentence(self) -> str:
        """The statement in plain words."""
        most = percent(self.bound, up=True)
        return (
            f"with {percent(self.confidence)} confidence at most {most} of the other {self.n_others:,} nodes "
            f"are not of the class that is commonest among the labelled nodes of their cluster"
        )

    def bound_of(self, predictions: ArrayLike, nodes: ArrayLike) -> float:
        """Bound the error of other predictions of the nodes without a label, ``nodes``.

        Where they are wrong, they differ from those of the clusters, or these are wrong too; how often they
        differ needs no label.
        """
        rows = as_nodes(nodes)
        check_length(predictions, len(rows), "predictions")
        if len(rows) != self.n_others:
            raise ParameterError(f"nodes must be the {self.n_others:,} others; got {len(rows):,} nodes.")
        differ = float(np.mean(np.asarray(predictions) != self.predictions[rows]))
        return min(1.0, self.bound + differ)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the predictions, JSON-ready."""
        facts = {name: value for name, value in vars(self).items() if name != "predictions"}
        return {"sentence": self.sentence, "bound": self.bound, **facts, "is_vacuous": self.is_vacuous}

    def __str__(self) -> str:
        lines = [
            self.sentence,
            f"  {self.n_wrong:,} of the {self.n_labelled:,} labelled are not "
            f"({percent(self.n_wrong / self.n_labelled)}); {self.n_clusters} clusters after {self.hops} hops",
        ]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def cluster_bound(
    graph: Graph,
    nodes: ArrayLike,
    y: ArrayLike,
    *,
    confidence: float = 0.95,
    n_classes: int | None = None,
    hops: Sequence[int] = HOPS,
    sizes: Sequence[int] = SIZES,
    propagation: Any = "augmented",
    population: ArrayLike | None = None,
    seed: int = 0,
) -> ClusterBound:
    r"""Bound the error of the commonest class of a node's cluster, where every label is used.

    Clusters of the directions of the rows of :math:`P^t X` are made without labels, for some t and numbers of
    clusters. With c clusters and
    K classes there are :math:`K^c` ways to give each cluster a class, all of them known before the M labelled
    nodes are drawn. So the held-out formula holds for all at once when each has :math:`\delta' / (K^c n)` of
    the failure probability, n being the number of clusterings, hence also for the classes that are commonest
    (docs/theory.md, Theorem 7). It is a floor: what can be promised with no label set aside.

    Parameters
    ----------
    graph, nodes, y
        The graph, all labelled nodes, which must be a uniform draw, and their classes.
    confidence
        In (0, 1).
    n_classes
        K, known before the labels are; None takes the classes in ``y``, which is right where none is missing.
    hops, sizes
        The t and the numbers of clusters that are tried.
    propagation
        P.
    population
        Nodes that the labelled ones were drawn from, themselves among them; None takes all.
    seed
        Of the clusters.

    Examples
    --------
    >>> from gbgnn import datasets
    >>> data = datasets.csbm(1000, separation=2.0, seed=0)
    >>> bound = cluster_bound(data.graph, range(500), data.y[:500], sizes=(2, 4))
    >>> bound.n_others, bound.n_tried, bound.is_vacuous
    (500, 8, False)
    """
    check_number(_OWNER, "confidence", confidence, 0, 1, open_low=True, open_high=True)
    for name, numbers in (("hops", hops), ("sizes", sizes)):
        if not len(numbers):
            raise ParameterError(f"{_OWNER}.{name} is empty; give at least one number.")
        for i, number in enumerate(numbers):
            check_integer(_OWNER, f"{name}[{i}]", number, 1 if name == "sizes" else 0)
    rows, labels = as_nodes(nodes), as_labels(y, "y")
    check_range(rows, graph.n_nodes)
    check_length(labels, len(rows), "y")
    classes, codes = np.unique(labels, return_inverse=True)
    check_integer(_OWNER, "n_classes", n_classes, len(classes), optional=True)
    among = np.arange(graph.n_nodes) if population is None else as_nodes(population, "population")
    check_range(among, graph.n_nodes, "population")
    if len(np.setdiff1d(rows, among)) or not len(rows):
        raise ParameterError(
            "population must hold the labelled nodes, at least one: they were drawn from it."
        )
    n_others = len(among) - len(rows)
    if not n_others:
        raise ParameterError("every node is labelled, so there is no error on others to bound.")
    best: ClusterBound | None = None
    n_tried, K = len(hops) * len(sizes), n_classes or len(classes)
    for t, clusters in _clusterings(graph, hops, sizes, propagation, seed):
        n_clusters = int(clusters.max()) + 1
        votes = np.zeros((n_clusters, len(classes)), np.int64)
        np.add.at(votes, (clusters[rows], codes), 1)
        commonest = votes.argmax(axis=1)  # of a cluster without a label, any is as good
        k = int(np.count_nonzero(commonest[clusters[rows]] != codes))
        log_failure = math.log1p(-confidence) - n_clusters * math.log(K) - math.log(n_tried)
        most = most_errors_at(k, len(rows), len(among), log_failure) - k
        if best is None or most < best.most_wrong:
            said = classes[commonest[clusters]]
            counts = (k, len(rows), most, n_others)
            best = ClusterBound(
                *counts, confidence, t, n_clusters, n_tried, said, (_assumption(rows, among),)
            )
    assert best is not None
    return best


def _clusterings(
    graph: Graph, hops: Sequence[int], sizes: Sequence[int], propagation: Any, seed: int
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the number of hops and the cluster of every node."""
    inputs = InputRecipe(as_part("propagation", propagation)).build(graph)
    X, done = inputs.features.dense(), 0
    for t in sorted(set(hops)):
        for _ in range(t - done):
            X = inputs.P(X)
        done, table = t, normalize(X.cpu().numpy().astype(np.float64))
        n_columns = min(_N_COLUMNS, *table.shape)
        table = PCA(n_columns, random_state=seed).fit_transform(table)
        for size in sizes:
            found = KMeans(min(size, len(table)), n_init=3, random_state=seed).fit(table)
            yield t, found.labels_.astype(np.int64)


def _assumption(rows: NDArray[np.int64], among: NDArray[np.int64]) -> str:
    return f"it assumes that the {len(rows):,} labelled nodes are a uniform draw from all {len(among):,}"
