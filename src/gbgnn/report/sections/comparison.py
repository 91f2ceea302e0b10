"""Several runs side by side."""

from __future__ import annotations

from collections.abc import Sequence

from gbgnn.report import figures
from gbgnn.report.content import Figure, Section, Table
from gbgnn.report.evidence.quality import NAMES, Quality, measure_parts
from gbgnn.report.evidence.training import follow_training
from gbgnn.report.subject import Subject
from gbgnn.report.words import begin, number, of_part


def compare(subjects: Sequence[Subject]) -> Section:
    """Return the figures of all runs in a table and, where they are of one kind, in a picture."""
    measured = [measure_parts(subject) for subject in subjects]
    kinds = {subject.kind for subject in subjects}
    parts = [part for part in ("test", "val", "train") if any(_find(each, part) for each in measured)]
    paragraphs = [
        "Intervals that overlap widely leave open which run is better; so do other splits and seeds."
    ]
    is_same = _same_nodes(subjects)
    if not is_same:
        paragraphs.append(
            "These runs are judged on different nodes, so their figures cannot be compared strictly."
        )
    drawn = []
    if len(kinds) == 1 and parts:
        drawn.append(_figure(NAMES[kinds.pop()], parts[0], subjects, measured))
    curves = _losses(subjects) if is_same else None
    if curves is not None:
        drawn.append(curves)
    return Section("comparison", "Side by side", paragraphs, drawn, [_table(subjects, measured, parts)])


def _find(found: Sequence[Quality], part: str) -> Quality | None:
    return next((each for each in found if each.part == part and each.value is not None), None)


def _same_nodes(subjects: Sequence[Subject]) -> bool:
    """Return whether all runs are judged on the same nodes of the same graph."""
    seen = set()
    for subject in subjects:
        part, graph = subject.judged, subject.graph
        seen.add(
            None if part is None or graph is None else (graph.checksum, tuple(sorted(part.nodes.tolist())))
        )
    return len(seen) == 1 and None not in seen


def _figure(
    name: str, part: str, subjects: Sequence[Subject], measured: Sequence[Sequence[Quality]]
) -> Figure:
    found = [(subject.name, _find(each, part)) for subject, each in zip(subjects, measured, strict=True)]
    rows = [(own, each) for own, each in found if each is not None]
    names = [own for own, _ in rows]
    spec = figures.intervals(
        names,
        [each.value for _, each in rows],
        [each.low for _, each in rows],
        [each.high for _, each in rows],
        x_title=name,
    )
    told = ", ".join(f"{own} {number(each.value, '.3f')}" for own, each in rows)
    title = f"{begin(name)} on {of_part(part)} nodes"
    return Figure(title, f"{title}: {told}.", spec, None, 120 + 44 * len(rows))


def _losses(subjects: Sequence[Subject]) -> Figure | None:
    """Return the validation loss per round of all runs that have one, in one picture."""
    curves, longest = {}, 0
    for subject in subjects:
        courses = follow_training(subject).courses
        if len(courses) == 1 and courses[0].n_rounds > 1 and courses[0].has("val_loss"):
            curves[subject.name] = courses[0].curves["val_loss"]
            longest = max(longest, courses[0].n_rounds)
    if len(curves) < 2:
        return None
    x = [float(t) for t in range(1, longest + 1)]
    spec = figures.lines(x, curves, x_title="round", y_title="validation loss")
    told = [f"{name} ends at {number(values[-1])}" for name, values in curves.items()]
    return Figure("Validation loss per round", f"Validation loss per round: {', '.join(told)}.", spec)


def _table(subjects: Sequence[Subject], measured: Sequence[Sequence[Quality]], parts: Sequence[str]) -> Table:
    rows = []
    for subject, own in zip(subjects, measured, strict=True):
        cells = []
        for part in parts:
            found = _find(own, part)
            cells += [
                number(found.value if found else None, ".4f"),
                "-"
                if found is None or found.low is None
                else f"{number(found.low, '.4f')} to {number(found.high, '.4f')}",
            ]
        told = dict(subject.told)
        rows.append([subject.name, NAMES[subject.kind], *cells, told.get("seconds", "-")])
    heads = ["run", "judged by"]
    for part in parts:
        heads += [of_part(part), "interval"]
    return Table([*heads, "seconds"], rows, "All runs", frozenset(range(2, 3 + 2 * len(parts))))
