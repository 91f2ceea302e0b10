"""The table of nodes, which the page's script draws, searches and sorts; every node says why."""

from __future__ import annotations

from typing import Any

import numpy as np

from gbgnn.conformal import PredictionSets
from gbgnn.report.content import Section
from gbgnn.report.evidence.nodes import Listed, list_nodes
from gbgnn.report.evidence.reasons import N_EXPLAINED, explain_nodes
from gbgnn.report.evidence.trust import Trust
from gbgnn.report.subject import Subject
from gbgnn.report.words import counted, percent

N_CLASSES_SHOWN = 5
_WHAT = {"distances": "By distance along the graph", "rounds": "By round or member", "": "By round"}
_MEANING = {
    "classes": "Plus speaks for what is predicted, minus for the next class.",
    "labels": "Sizes of what was added to the scores of all labels.",
    "numbers": "Plus makes the number larger, minus smaller; in units of the score.",
}

Row = list[Any]
Block = list[tuple[str, float]]


def describe_nodes(subject: Subject, n_most: int, trust: Trust) -> Section:
    """Return the table, a row per node, with what stands behind every row."""
    found = list_nodes(subject, n_most)
    title = "Node by node"
    if not found.n_listed:
        return Section(
            "nodes", title, missing=["No nodes are listed, because the data of this run is not at hand."]
        )
    drawn = "" if found.n_listed == found.n_nodes else ", drawn at random from every part of the split"
    listed = f"{counted(found.n_listed, 'node')} of {found.n_nodes:,}{drawn}"
    told = f"{listed}. Open a row to see what speaks for it."
    n_left, rows, details = N_EXPLAINED, list[Row](), list[list[Any]]()
    has_decided, kind = False, ""
    for group in found.groups:
        why = explain_nodes(subject, group, n_left)
        n_left -= min(n_left, len(group.nodes))
        kind, has_decided = why.kind, why.decided_by is not None
        decided = why.decided_by or [""] * len(group.nodes)
        promised = _promised(subject, group, trust)
        own = zip(_rows(subject, group), promised, decided, strict=True)
        rows += [[*row, *promise, by] for row, promise, by in own]
        probable = _probable(subject, group)
        details += map(list, zip(probable, why.parts, why.columns, why.neighbours, strict=True))
    columns = [
        *_columns(subject),
        *_promise_columns(trust),
        {"key": "decided", "head": "decided by", "form": "text"},
    ]
    if not has_decided:
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    blocks = [
        {"title": "Most probable", "form": "percent"},
        {"title": _WHAT[kind], "form": "signed", "note": _MEANING[subject.kind]},
        {"title": "By column", "form": "signed", "note": _MEANING[subject.kind]},
        {"title": "Neighbours, and what is predicted of them", "form": "text"},
    ]
    table = {"columns": columns, "blocks": blocks, "rows": rows, "details": details}
    paragraphs = [told]
    if any(detail[2] for detail in details):
        paragraphs.append(f"Columns are looked at for the first {min(N_EXPLAINED, len(rows))} nodes.")
    return Section("nodes", title, paragraphs, nodes=table)


def _columns(subject: Subject) -> list[dict[str, str]]:
    """Return the columns: ``key`` says what the script may filter by, ``form`` how values are written."""
    shared = [
        {"key": "id", "head": "node", "form": "text"},
        {"key": "part", "head": "part", "form": "text"},
    ]
    if subject.kind == "numbers":
        forms = [("truth", "is"), ("predicted", "predicted"), ("error", "error")]
        return [*shared, *({"key": key, "head": head, "form": "number"} for key, head in forms)]
    return [
        *shared,
        {"key": "truth", "head": "is", "form": "text"},
        {"key": "predicted", "head": "predicted", "form": "text"},
        {"key": "sure", "head": "how sure", "form": "percent"},
        {"key": "outcome", "head": "outcome", "form": "text"},
    ]


def _rows(subject: Subject, group: Listed) -> list[Row]:
    ids = [str(each) for each in group.ids.tolist()]
    if subject.kind == "numbers":
        return [[each, group.part, *values] for each, values in zip(ids, _numbers(group), strict=True)]
    truth = [None] * len(ids) if group.truth is None else subject.words(group.truth)
    said = subject.words(group.predicted)
    sure = _sureness(subject, group)
    return [
        [each, group.part, is_, own, p, "unknown" if is_ is None else "right" if is_ == own else "wrong"]
        for each, is_, own, p in zip(ids, truth, said, sure, strict=True)
    ]


def _sureness(subject: Subject, group: Listed) -> list[float | None]:
    """Return the probability of what is predicted; of several labels that of the least certain of them."""
    if group.proba is None:
        return [None] * len(group.nodes)
    proba = np.asarray(group.proba, np.float64)
    sure = proba if subject.kind == "classes" else np.where(group.predicted > 0, proba, 1 - proba)
    return list((sure.max(axis=1) if subject.kind == "classes" else sure.min(axis=1)).tolist())


def _numbers(group: Listed) -> list[Row]:
    predicted = np.asarray(group.predicted, np.float64).reshape(len(group.nodes), -1)[:, 0]
    if group.truth is None:
        return [[None, value, None] for value in predicted.tolist()]
    truth = np.asarray(group.truth, np.float64).reshape(len(group.nodes), -1)[:, 0]
    return [
        list(each)
        for each in zip(truth.tolist(), predicted.tolist(), (predicted - truth).tolist(), strict=True)
    ]


def _probable(subject: Subject, group: Listed) -> list[Block]:
    """Return the most probable classes of every node; nothing of numbers."""
    if group.proba is None:
        return [[] for _ in group.nodes]
    titles = subject.titles
    order = np.argsort(-group.proba, axis=1, kind="stable")[:, :N_CLASSES_SHOWN]
    return [
        [(titles[k], float(row[k])) for k in own.tolist()]
        for row, own in zip(group.proba, order, strict=True)
    ]


def _promise_columns(trust: Trust) -> list[dict[str, str]]:
    if isinstance(trust.maker, PredictionSets):
        level = percent(trust.maker.confidence, 0)
        return [{"key": "set", "head": f"set of {level}", "form": "text"}]
    if trust.maker is None:
        return []
    level = percent(trust.maker.confidence, 0)
    ends = (("low", f"from ({level})"), ("high", f"to ({level})"))
    return [{"key": key, "head": head, "form": "number"} for key, head in ends]


def _promised(subject: Subject, group: Listed, trust: Trust) -> list[Row]:
    """Return the set of classes of every node, in words, or the ends of its interval."""
    if trust.maker is None:
        return [[] for _ in group.nodes]
    if isinstance(trust.maker, PredictionSets):
        titles = np.array(subject.titles, dtype=object)
        sets = trust.maker.predict_set(group.nodes, graph=group.graph)
        return [[", ".join(titles[own]) or "none"] for own in sets]
    ends = trust.maker.predict_interval(group.nodes, graph=group.graph)
    return [[value if np.isfinite(value) else None for value in row] for row in ends.tolist()]
