"""Why a model says what it says: of all nodes of a part, and of every listed node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gbgnn.errors import GBGNNError
from gbgnn.explanations import Contributions, ResponseCurves
from gbgnn.graph import Graph
from gbgnn.report.evidence.nodes import Listed
from gbgnn.report.subject import Subject

N_LOOKED_AT = 300
N_EXPLAINED = 50
N_SHOWN = 8
_NUMBERS_AT_ONCE = 4_000_000
_ROUNDING = 1e-6

Pairs = list[tuple[str, float]]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Reasons:
    """What predictions owe to distances, columns and rounds; what is not known is None, with its reason."""

    n_nodes: int = 0
    shares: Mapping[str, float] | None = None
    columns: Mapping[str, float] | None = None
    responses: ResponseCurves | None = None
    why_not: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class NodeReasons:
    """What speaks for the prediction of each listed node of a part.

    ``parts`` are distances or, where these are not known, rounds or members; ``columns`` are known of the
    first nodes only; ``neighbours`` are pairs of an id and what is predicted of it.
    """

    kind: str
    parts: list[Pairs]
    decided_by: list[str] | None
    columns: list[Pairs]
    neighbours: list[list[tuple[str, str]]]


def find_reasons(subject: Subject) -> Reasons:
    """Return what the predictions of the judged nodes, or of some of them, owe to what."""
    part, graph, model = subject.judged or subject.part("train"), subject.graph, subject.model
    if part is None or graph is None:
        return Reasons(why_not={"all": subject.why_no_data or "there is no graph to look at."})
    nodes = part.nodes
    if len(nodes) > N_LOOKED_AT:
        nodes = np.sort(np.random.default_rng(0).choice(nodes, N_LOOKED_AT, replace=False))
    seen, why = part.graph or graph, dict[str, str]()
    shares = _ask(why, "shares", lambda: model.scale_shares(nodes, graph=seen))
    columns = _ask(why, "columns", lambda: model.column_importances(graph=seen))
    curves = _ask(why, "responses", lambda: model.response_curves(graph=seen))
    return Reasons(len(nodes), shares, columns, curves, why)


def explain_nodes(subject: Subject, group: Listed, n_columns: int) -> NodeReasons:
    """Return what speaks for the prediction of every node of a group, columns of the first few."""
    graph = group.graph or subject.graph
    assert graph is not None, "nodes are listed only where there is a graph"
    kind, parts, decided = "", [], list[str]()
    why: dict[str, str] = {}
    for told in _ask(why, "parts", lambda: list(_contributions(subject, group.nodes, graph))) or ():
        has_scales = told.values is not None
        kind = "distances" if has_scales else "rounds"
        values = told.by_scale if has_scales else told.by_round
        names = told.scales if has_scales else told.parts
        parts += [_largest(names or (), row) for row in _for_it(told, values)]
        decided += told.decided_by if has_scales else ()
    columns = _columns(subject, group.nodes[:n_columns], graph) if n_columns else []
    return NodeReasons(
        kind=kind,
        parts=parts or [[] for _ in group.nodes],
        decided_by=decided or None,
        columns=columns + [[] for _ in range(len(group.nodes) - len(columns))],
        neighbours=_neighbours(subject, group, graph),
    )


def _ask(why: dict[str, str], name: str, question: Callable[[], T]) -> T | None:
    """Return the answer; None, with the reason noted, where there is none."""
    try:
        return question()
    except (GBGNNError, AttributeError) as error:
        why[name] = str(error)
        return None


def _contributions(subject: Subject, nodes: NDArray[np.int64], graph: Graph) -> Iterator[Contributions]:
    """Yield contributions of some nodes at a time, so that they fit into memory."""
    model: Any = subject.model
    apart = [own.model for own in model.members] if hasattr(model, "members") else [model]
    n_numbers = max((own.best_round + 3) ** 2 * own.voting.n_outputs for own in apart)
    n_at_once = max(16, _NUMBERS_AT_ONCE // n_numbers)
    for first in range(0, len(nodes), n_at_once):
        yield model.contributions(nodes[first : first + n_at_once], graph=graph)


def _for_it(told: Contributions, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what parts add to the lead of a class over the next, to a number, or to labels in all."""
    if told.is_choice:
        return told.lead(values)
    return np.asarray(values[..., 0] if values.shape[-1] == 1 else np.abs(values).sum(axis=-1))


def _largest(names: Sequence[str], values: NDArray[np.float64]) -> Pairs:
    """Return the parts of the largest size in their own order, the others in one."""
    kept = np.sort(np.argsort(-np.abs(values), kind="stable")[:N_SHOWN])
    least = _ROUNDING * np.abs(values).max(initial=0.0)
    pairs = [(names[i], float(values[i])) for i in kept.tolist() if abs(values[i]) > least]
    rest = float(values.sum() - values[kept].sum())
    return pairs if len(kept) == len(values) else [*pairs, (f"{len(values) - len(kept)} others", rest)]


def _columns(subject: Subject, nodes: NDArray[np.int64], graph: Graph) -> list[Pairs]:
    """Return the columns that speak for each node, where columns have names that tell a person something."""
    if not graph.is_named or not len(nodes):
        return []
    found = _ask({}, "columns", lambda: subject.model.attributions(nodes, graph=graph))
    return [] if found is None else [found.top(i, N_SHOWN) for i in range(len(nodes))]


def _neighbours(subject: Subject, group: Listed, graph: Graph) -> list[list[tuple[str, str]]]:
    """Return the neighbours with the heaviest edges, and what is predicted of each."""
    rows = graph.adjacency[group.nodes]
    heaviest = []
    for i in range(len(group.nodes)):
        own = slice(rows.indptr[i], rows.indptr[i + 1])
        order = np.argsort(-rows.data[own], kind="stable")[:N_SHOWN]
        heaviest.append(rows.indices[own][order])
    wanted = np.unique(np.concatenate([*heaviest, np.empty(0, np.int64)]).astype(np.int64))
    if not len(wanted):
        return [[] for _ in heaviest]
    said = subject.model.predict(wanted, graph=group.graph)
    words = dict(zip(wanted.tolist(), subject.words(said), strict=True))
    return [[(str(graph.node_ids[node]), words[node]) for node in own.tolist()] for own in heaviest]
