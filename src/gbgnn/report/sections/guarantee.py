"""What is guaranteed: of other nodes, and of the training."""

from __future__ import annotations

from typing import Any

from gbgnn.errors import AbsentError
from gbgnn.report.content import Section, Table
from gbgnn.report.sections.words import counted, number, percent
from gbgnn.report.subject import Subject


def describe_guarantee(subject: Subject) -> Section:
    """Return the guarantee for nodes that nobody has labelled, then what rounds promised."""
    paragraphs, tables, missing = [], [], []
    others = subject.others
    if others is None:
        why = subject.why_no_others or "a run without its data says nothing of other nodes."
        missing.append(f"No guarantee for other nodes: {why}")
    else:
        paragraphs += [others.sentence, *others.notes]
        tables += _tables(subject, others)
    told = _certificate(subject)
    (paragraphs if told[0] else missing).append(told[1])
    return Section("guarantee", "What is guaranteed", paragraphs, tables=tables, missing=missing)


def _tables(subject: Subject, others: Any) -> list[Table]:
    """Return the same by class that is predicted, and by how sure the model is."""
    heads = ["held out", "wrong", "of others at most wrong"]
    found = []
    if others.per_class:
        rows = [[subject.title(each.label), *_row(each)] for each in others.per_class]
        found.append(Table(["predicted", *heads], rows, "By class that is predicted", frozenset({1, 2, 3})))
    if others.per_level:
        rows = [[f"at least {percent(each.level, 0)}", *_row(each)] for each in others.per_level]
        caption = "By how sure the model is"
        found.append(Table(["how sure", *heads], rows, caption, frozenset({1, 2, 3})))
    return found


def _row(bound: Any) -> list[str]:
    return [f"{bound.n_held_out:,}", f"{bound.n_wrong:,}", percent(bound.bound)]


def _certificate(subject: Subject) -> tuple[bool, str]:
    """Return whether there is a certificate of the training loss, and what it says or why there is none."""
    try:
        certificate = subject.model.certificate  # type: ignore[attr-defined]
    except AbsentError as error:
        return False, f"No certificate of the training: {error}"
    n_met, n_rounds = len(certificate.met), len(certificate.rounds)
    kept = "every promise was kept" if certificate.holds else "a promise was BROKEN"
    return True, (
        f"Of the training loss: {n_met} of {counted(n_rounds, 'round')} met the weak learning condition; "
        "what smoothness of the loss promised of every round was compared with what came, and "
        f"{kept} (Γ is {number(certificate.gamma_total)}). gbgnn certify shows every round."
    )
