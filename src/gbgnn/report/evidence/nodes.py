"""The nodes that a page lists: which, what they are, what is said of them, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn.graph import Graph
from gbgnn.report.subject import Part, Subject
from gbgnn.report.words import of_part

OTHER = ""
"""The part of nodes that are in none."""


@dataclass(frozen=True, eq=False)
class Listed:
    """Nodes of one part, with the answers of the model; ``truth`` is None where nobody knows."""

    part: str
    nodes: NDArray[np.int64]
    ids: NDArray[Any]
    graph: Graph | None
    truth: NDArray[Any] | None
    predicted: NDArray[Any]
    proba: NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class NodeList:
    """All listed nodes by part, and how many there are in all."""

    groups: list[Listed]
    n_nodes: int

    @property
    def n_listed(self) -> int:
        """How many are listed."""
        return sum(len(group.nodes) for group in self.groups)


def list_nodes(subject: Subject, n_most: int) -> NodeList:
    """Return the nodes of all parts and those of none; of too many, some of every part, drawn at random."""
    parts = _with_others(subject)
    sizes = [len(part.nodes) for part in parts]
    generator = np.random.default_rng(0)
    groups = []
    for part, n in zip(parts, fair_shares(sizes, n_most), strict=True):
        places = np.arange(len(part.nodes))
        if n < len(places):
            places = np.sort(generator.choice(len(places), n, replace=False))
        if n:
            groups.append(_ask(subject, part, places))
    return NodeList(groups, sum(sizes))


def fair_shares(sizes: list[int], n_most: int) -> list[int]:
    """Return how many of each group to take, so that small groups are whole and large ones share the rest.

    Examples
    --------
    >>> fair_shares([10, 500, 900], 210)
    [10, 100, 100]
    """
    shares, left = [0] * len(sizes), n_most
    order = sorted(range(len(sizes)), key=lambda i: sizes[i])
    for done, i in enumerate(order):
        shares[i] = min(sizes[i], left // (len(sizes) - done))
        left -= shares[i]
    return shares


def _with_others(subject: Subject) -> list[Part]:
    """Return the parts, test nodes first, and the nodes that are in none where there is one graph of all."""
    order = {name: i for i, name in enumerate(("test", "val", "train"))}
    parts = sorted(subject.parts, key=lambda part: order.get(part.name, len(order)))
    graph = subject.graph
    graphs = {id(part.graph) for part in parts}
    if graph is None or not parts or len(graphs) > 1:  # inductive data has a graph for every part
        return parts
    is_other = np.ones(graph.n_nodes, bool)
    for part in parts:
        is_other[part.nodes] = False
    rest = np.flatnonzero(is_other)
    if not len(rest):
        return parts
    return [
        *parts,
        replace(parts[0], name=OTHER, nodes=rest, truth=parts[0].truth[:0], ids=graph.node_ids[rest]),
    ]


def _ask(subject: Subject, part: Part, places: NDArray[np.int64]) -> Listed:
    nodes = part.nodes[places]
    if part.name == OTHER:
        found = subject.model.predict_all(nodes, graph=part.graph)
        predicted, proba, truth = found["predict"], found.get("predict_proba"), None
    else:
        answers = subject.answers[part.name]
        predicted, truth = answers.predicted[places], part.truth[places]
        proba = None if answers.proba is None else answers.proba[places]
    return Listed(of_part(part.name), nodes, part.ids[places], part.graph, truth, predicted, proba)
