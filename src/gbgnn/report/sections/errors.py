"""Where predictions err."""

from __future__ import annotations

import numpy as np

from gbgnn.report import figures
from gbgnn.report.content import Figure, Section, Table
from gbgnn.report.evidence.errors import Confusion, Residuals, compare_numbers, confuse, judge_labels
from gbgnn.report.subject import Part, Subject
from gbgnn.report.words import counted, number, of_part, percent

_N_POINTS, _N_LABELS, _N_NUMBERS = 2000, 100, 5
_TITLES = {
    "classes": "Which class is taken for which",
    "labels": "Label by label",
    "numbers": "How far numbers are off",
}


def describe_errors(subject: Subject) -> Section:
    """Return the confusion matrix of classes, the residuals of numbers, or the figures of every label."""
    part, title = subject.judged, _TITLES[subject.kind]
    if part is None:
        why = "neither test nor validation nodes with labels are at hand."
        return Section("errors", title, missing=[f"Nothing to show: {why}"])
    told = {"classes": _of_classes, "labels": _of_labels, "numbers": _of_numbers}[subject.kind]
    return told(subject, part, title)


def _of_classes(subject: Subject, part: Part, title: str) -> Section:
    found = confuse(subject, part)
    worst = found.worst()
    where = f"the {counted(len(part.nodes), of_part(part.name) + ' node')}"
    told = f"Of {where}, none is wrong."
    if worst is not None:
        told = (
            f"Of {where}, the commonest mistake takes {worst[0]} for {worst[1]}: {counted(worst[2], 'node')}."
        )
    shares = np.nan_to_num(found.counts / np.maximum(found.counts.sum(axis=1, keepdims=True), 1)).tolist()
    spec = figures.heat(found.names, found.counts.tolist(), shares)
    n = len(found.names)
    alt = f"Confusion matrix of {n} classes. {told} The numbers are in the table below."
    drawn = Figure(
        "Rows are what nodes are, columns what is predicted",
        alt,
        spec,
        _counts(found),
        figures.heat_height(found.names),
    )
    return Section("errors", title, [told], [drawn], [_recalls(found)])


def _counts(found: Confusion) -> Table:
    rows = [
        [name, *(f"{n:,}" for n in row)] for name, row in zip(found.names, found.counts.tolist(), strict=True)
    ]
    return Table(["is", *found.names], rows, "Counts of nodes", frozenset(range(1, len(found.names) + 1)))


def _recalls(found: Confusion) -> Table:
    said = found.counts.sum(axis=0)
    right = np.diag(found.counts)
    rows = [
        [
            name,
            f"{found.counts[i].sum():,}",
            percent(found.recall[i]),
            percent(right[i] / said[i] if said[i] else None),
        ]
        for i, name in enumerate(found.names)
    ]
    heads = ["class", "nodes", "found (recall)", "right where predicted (precision)"]
    return Table(heads, rows, "Class by class", frozenset({1, 2, 3}))


def _of_labels(subject: Subject, part: Part, title: str) -> Section:
    found = judge_labels(subject, part)
    rows = [
        [each.name, f"{each.n_nodes:,}", f"{each.n_said:,}", percent(each.precision), percent(each.recall)]
        for each in found[:_N_LABELS]
    ]
    heads = ["label", "nodes that have it", "predicted", "precision", "recall"]
    caption = f"Of the {counted(len(part.nodes), of_part(part.name) + ' node')}"
    caption += f"; the first {_N_LABELS} of {len(found)} labels" if len(found) > _N_LABELS else ""
    paragraphs = ["There is no confusion matrix, as a node may have any of the labels."]
    names, shown = [each.name for each in found[:_N_LABELS]], [each.recall for each in found[:_N_LABELS]]
    told = [f"{name} {percent(value, 0)}" for name, value in zip(names, shown, strict=True)]
    spec = figures.bars(
        names, shown, x_title="share of the nodes with a label of which that is said", percent=True
    )
    drawn = Figure(
        "Recall of every label", f"Recall: {', '.join(told[:12])}.", spec, None, 120 + 26 * len(names)
    )
    return Section(
        "errors", title, paragraphs, [drawn], [Table(heads, rows, caption, frozenset({1, 2, 3, 4}))]
    )


def _of_numbers(subject: Subject, part: Part, title: str) -> Section:
    found = compare_numbers(part, subject.answers[part.name])
    heads = ["number", "mean absolute error", "mean error (bias)", "90 % of the errors are within"]
    rows = [
        [
            each.name,
            number(each.mean_absolute),
            number(each.bias),
            f"±{number(float(np.quantile(np.abs(each.errors), 0.9)))}",
        ]
        for each in found
    ]
    where = of_part(part.name)
    drawn = [figure for each in found[:_N_NUMBERS] for figure in _residual_figures(each, where)]
    table = Table(heads, rows, f"Errors on the {len(part.nodes):,} {where} nodes", frozenset({1, 2, 3}))
    return Section("errors", title, [], drawn, [table])


def _residual_figures(found: Residuals, where: str) -> list[Figure]:
    n = len(found.truth)
    shown = (
        np.arange(n)
        if n <= _N_POINTS
        else np.sort(np.random.default_rng(0).choice(n, _N_POINTS, replace=False))
    )
    sample = "" if len(shown) == n else f" ({_N_POINTS:,} of {n:,} nodes, drawn at random)"
    truth, predicted = found.truth[shown].tolist(), found.predicted[shown].tolist()
    spec = figures.against(truth, predicted, x_title=f"true {found.name}", y_title=f"predicted {found.name}")
    correlation = _correlation(found)
    told = (
        f"the correlation is {number(correlation, '.3f')}"
        if correlation is not None
        else "one of them is constant"
    )
    alt = f"Predicted against true {found.name} of {where} nodes{sample}; {told}."
    errors = histogram_alt(found, where)
    return [
        Figure(f"Predicted against true {found.name}{sample}", alt, spec, None, 380),
        Figure(
            f"Errors of {found.name}",
            errors,
            figures.histogram(found.errors[shown].tolist(), x_title="error"),
        ),
    ]


def _correlation(found: Residuals) -> float | None:
    if np.ptp(found.truth) == 0 or np.ptp(found.predicted) == 0:
        return None
    return float(np.corrcoef(found.truth, found.predicted)[0, 1])


def histogram_alt(found: Residuals, where: str) -> str:
    """Return what a histogram of errors shows, in words."""
    low, middle, high = np.quantile(found.errors, [0.05, 0.5, 0.95]).tolist()
    return (
        f"Histogram of predicted less true {found.name} of {where} nodes: half are below {number(middle)}, "
        f"nine tenths between {number(low)} and {number(high)}."
    )
