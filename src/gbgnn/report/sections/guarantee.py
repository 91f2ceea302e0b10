"""What is guaranteed: of other nodes, and of the training."""

from __future__ import annotations

from gbgnn.errors import AbsentError
from gbgnn.report.content import Section, Table
from gbgnn.report.subject import Subject
from gbgnn.report.words import begin, counted, number, percent
from gbgnn.theory import HoldoutBound
from gbgnn.theory.holdout import percent as round_percent


def describe_guarantee(subject: Subject) -> Section:
    """Return the guarantee for nodes that nobody has labelled, then what rounds promised."""
    paragraphs, tables, missing = [], [], []
    others = subject.others
    if others is None:
        why = subject.why_no_others or "a run without its data says nothing of other nodes."
        missing.append(f"No guarantee for other nodes: {why}")
    else:
        n_wrong, n_held = f"{others.n_wrong:,}", f"{others.n_held_out:,}"
        paragraphs += [others_sentence(others), f"Of the {n_held} nodes held out {n_wrong} are wrong."]
        paragraphs += [begin(f"{note}.") for note in others.notes[1:]]
        tables += _tables(subject, others)
    told = _certificate(subject)
    (paragraphs if told[0] else missing).append(told[1])
    return Section("guarantee", "What is guaranteed", paragraphs, tables=tables, missing=missing)


def others_sentence(others: HoldoutBound) -> str:
    """Return the guarantee with what it assumes, which is never left out."""
    return begin(f"{others.sentence.rstrip('.')} ({'; '.join(others.notes[:1])}).")


def _tables(subject: Subject, others: HoldoutBound) -> list[Table]:
    """Return the same by class that is predicted, and by how sure the model is."""
    heads = ["wrong of those held out", "others", "of others at most wrong"]
    together = f"all with {percent(others.confidence, 0)} confidence together"
    found = []
    if others.per_class:
        rows = [[subject.title(each.label), *_row(each)] for each in others.per_class]
        caption = f"By class that is predicted, {together}"
        found.append(Table(["predicted", *heads], rows, caption, frozenset({1, 2, 3})))
    if others.per_level:
        rows = [[f"at least {percent(each.level, 0)}", *_row(each)] for each in others.per_level]
        caption = f"By how sure the model is, {together}"
        found.append(Table(["how sure", *heads], rows, caption, frozenset({1, 2, 3})))
    return found


def _row(bound: HoldoutBound) -> list[str]:
    at_most = "-" if bound.bound is None else round_percent(bound.bound, up=True)
    return [f"{bound.n_wrong:,} of {bound.n_held_out:,}", f"{bound.n_others:,}", at_most]


def _certificate(subject: Subject) -> tuple[bool, str]:
    """Return whether there is a certificate of the training loss, and what it says or why there is none."""
    try:
        certificate = subject.model.certificate  # type: ignore[attr-defined]
    except AbsentError as error:
        return False, begin(str(error))
    n_met, n_rounds = len(certificate.met), len(certificate.rounds)
    kept = "every promise was kept" if certificate.holds else "a promise was BROKEN"
    return True, (
        f"Of the training loss: {n_met} of {counted(n_rounds, 'round')} met the weak learning condition; "
        "what smoothness of the loss promised of every round was compared with what came, and "
        f"{kept} (Γ is {number(certificate.gamma_total)}). gbgnn certify shows every round."
    )
