"""The sections of a page, in order: each makes of a subject what is said of one topic."""

from __future__ import annotations

from collections.abc import Sequence

from gbgnn.report.content import Page, RunPage, Section
from gbgnn.report.evidence.quality import measure_parts
from gbgnn.report.evidence.trust import measure_trust
from gbgnn.report.sections.again import describe_again
from gbgnn.report.sections.comparison import compare
from gbgnn.report.sections.errors import describe_errors
from gbgnn.report.sections.guarantee import describe_guarantee, others_sentence
from gbgnn.report.sections.nodes import describe_nodes
from gbgnn.report.sections.quality import describe_quality, headline
from gbgnn.report.sections.reasons import describe_reasons
from gbgnn.report.sections.run import describe_run
from gbgnn.report.sections.smoothing import describe_smoothing
from gbgnn.report.sections.training import describe_training
from gbgnn.report.sections.trust import describe_trust
from gbgnn.report.subject import Subject

N_NODES = 1000
"""How many nodes are listed unless told otherwise."""


def describe(subject: Subject, n_nodes: int = N_NODES) -> RunPage:
    """Return all that a page says of one run."""
    found = measure_parts(subject)
    first = [headline(subject, found[-1])] if found else []
    if subject.others is not None:
        first.append(others_sentence(subject.others))
    trust = measure_trust(subject)
    sections: list[Section] = [
        describe_quality(subject),
        describe_guarantee(subject),
        describe_errors(subject),
        describe_trust(trust),
        describe_reasons(subject),
        describe_training(subject),
        describe_smoothing(subject),
        describe_nodes(subject, n_nodes, trust),
        describe_run(subject),
        describe_again(subject),
    ]
    return RunPage(subject.name, first, sections)


def describe_all(subjects: Sequence[Subject], title: str, n_nodes: int, made: str) -> Page:
    """Return the page of one run or several."""
    comparison = compare(subjects) if len(subjects) > 1 else None
    return Page(title, [describe(subject, n_nodes) for subject in subjects], comparison, made)
