"""How good predictions are, part by part, with intervals."""

from __future__ import annotations

from gbgnn.report import figures
from gbgnn.report.content import Figure, Section, Table
from gbgnn.report.evidence.quality import CONFIDENCE, NAMES, Quality, measure_parts
from gbgnn.report.subject import Subject
from gbgnn.report.words import begin, number, of_part, percent

_FURTHER = {
    "auc": "AUC",
    "average_precision": "avg. precision",
    "log_loss": "log loss",
    "macro_f1": "macro-F1",
    "ece": "ECE",
    "mae": "MAE",
    "rmse": "RMSE",
}
_HOW = {
    "classes": "Wilson's interval of a share",
    "labels": "from nodes drawn anew with replacement",
    "numbers": "from nodes drawn anew with replacement",
}


def describe_quality(subject: Subject) -> Section:
    """Return the figures of every part, the last part first in words."""
    found = measure_parts(subject)
    title = "How good it is"
    if not found:
        return Section("quality", title, missing=["No labels are at hand to judge the predictions by."])
    name = NAMES[subject.kind]
    paragraphs = [
        f"The intervals hold with {percent(CONFIDENCE, 0)} confidence ({_HOW[subject.kind]}). They say how "
        f"far the choice of these nodes may have moved the {name}, not what another split or another seed "
        "would do; nodes that are linked are no independent draws."
    ]
    if any(each.part == "train" for each in found):
        paragraphs.append("Training nodes were learned by heart, more or less: they promise nothing.")
    return Section("quality", title, paragraphs, [_figure(name, found)], [_table(name, found)])


def headline(subject: Subject, found: Quality) -> str:
    """Return how good predictions of a part are, in a sentence."""
    where = f"{found.n_nodes:,} {of_part(found.part)} nodes"
    if found.value is None:
        return f"How good the predictions of the {where} are cannot be told."
    between = ""
    if found.low is not None and found.high is not None:
        ends = (
            (percent(found.low), percent(found.high))
            if subject.kind == "classes"
            else (number(found.low, ".3f"), number(found.high, ".3f"))
        )
        between = f" (between {ends[0]} and {ends[1]} with {percent(CONFIDENCE, 0)} confidence)"
    if subject.kind == "classes":
        return f"{percent(found.value)} of the {where} are predicted rightly{between}."
    return f"{NAMES[subject.kind]} is {found.value:.3f} on the {where}{between}."


def _table(name: str, found: list[Quality]) -> Table:
    keys = [key for key in _FURTHER if any(each.further.get(key) is not None for each in found)]
    heads = ["nodes", "how many", name, "interval", *(_FURTHER[key] for key in keys)]
    rows = [
        [
            of_part(each.part),
            f"{each.n_nodes:,}",
            number(each.value, ".4f"),
            "-" if each.low is None else f"{number(each.low, '.4f')} to {number(each.high, '.4f')}",
            *(number(each.further.get(key), ".4f") for key in keys),
        ]
        for each in found
    ]
    return Table(
        heads, rows, f"{begin(name)} and more, by part of the split", frozenset(range(1, len(heads)))
    )


def _figure(name: str, found: list[Quality]) -> Figure:
    told = [f"{of_part(each.part)} {number(each.value, '.3f')}" for each in found]
    spec = figures.intervals(
        [of_part(each.part) for each in found],
        [each.value for each in found],
        [each.low for each in found],
        [each.high for each in found],
        x_title=name,
    )
    return Figure(
        f"{begin(name)} with intervals", f"{name} by part of the split: {', '.join(told)}.", spec, None, 220
    )
