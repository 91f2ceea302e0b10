"""What was run: the data, the model, how long it took."""

from __future__ import annotations

from typing import Any

from gbgnn.report.content import Section, Table
from gbgnn.report.subject import Subject
from gbgnn.report.words import counted, number, of_part

_TASKS = {"classes": "one class per node", "labels": "any of several labels per node", "numbers": "numbers"}


def describe_run(subject: Subject) -> Section:
    """Return the facts of a run as pairs."""
    facts = [*subject.told, *_facts(subject)]
    table = Table(["what", "value"], [list(pair) for pair in facts], "What was run")
    missing = [f"The data of this run is not at hand: {subject.why_no_data}"] if subject.why_no_data else []
    return Section("run", "What was run", tables=[table], missing=missing)


def _facts(subject: Subject) -> list[tuple[str, str]]:
    model, graph = subject.model, subject.graph
    facts: list[tuple[str, str]] = []
    if graph is not None:
        size = [counted(graph.n_nodes, "node"), counted(graph.n_edges, "edge")]
        size.append(counted(len(graph.column_names), "column"))
        facts.append(("graph", ", ".join(size)))
        facts += [("repaired", repair) for repair in graph.repairs]
    facts.append(("predicts", _predicts(subject)))
    parts = [f"{of_part(part.name)} {len(part.nodes):,}" for part in subject.parts]
    if parts:
        facts.append(("nodes with labels", ", ".join(parts)))
    facts += _model_facts(model)
    facts.append(("seed", str(model.seed)))
    return facts


def _predicts(subject: Subject) -> str:
    kind, names = _TASKS[subject.kind], subject.titles
    if not names:
        return kind
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f"{kind}: {len(names)} ({shown})"


def _model_facts(model: Any) -> list[tuple[str, str]]:
    """Return what training came to."""
    members = getattr(model, "members", None)
    if members is not None:
        names = [f"{own.name} ({own.weight:.0%})" for own in members]
        return [
            ("model", f"average of {counted(len(members), 'model')}: {', '.join(names)}"),
            ("validation", f"{model.metric.name} {number(model.validation_score)}"),
        ]
    facts = model.facts
    parts = [(name, _part(model.settings.get(name))) for name in ("aggregation", "learner", "rule")]
    return [
        ("preset", str(model.settings.get("preset", "default"))),
        *parts,
        *_choices(model),
        ("rounds", f"{facts['rounds']}; round {facts['best_round']} predicts ({facts['stop_message']})"),
        ("loss", type(model.loss).__name__),
        ("judged by", model.metric.name),
    ]


def _part(value: Any) -> str:
    """Return a part with the settings that are not its defaults."""
    return value if isinstance(value, str) else " ".join(str(value).split())


def _choices(model: Any) -> list[tuple[str, str]]:
    """Return which learner validation nodes chose in a round, where there were several."""
    reports = [(row["round"], row.get("learner")) for row in model.history_rows]
    chosen = [(t, report["chosen"]) for t, report in reports if report and report.get("chosen")]
    return [(f"chosen in round {t}", str(each["learner"])) for t, each in chosen]
