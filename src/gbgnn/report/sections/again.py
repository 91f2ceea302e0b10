"""How to make the run again."""

from __future__ import annotations

from gbgnn.report.content import Code, Section, Table
from gbgnn.report.subject import Subject


def describe_again(subject: Subject) -> Section:
    """Return the command, the settings and the versions of a run."""
    codes, tables, missing = [], [], []
    if subject.command:
        codes.append(Code("The command", subject.command))
    if subject.config:
        codes.append(
            Code("All settings (save as again.toml, then: gbgnn fit --config again.toml)", subject.config)
        )
    if not codes:
        missing.append(
            "How this model was fitted is not recorded: it was not made by gbgnn fit, or its folder is gone."
        )
    if subject.versions:
        rows = [[name, value] for name, value in subject.versions.items()]
        tables.append(Table(["package", "version"], rows, "Versions"))
    checksum = subject.model.graph_checksum
    if checksum is not None:
        tables.append(Table(["what", "SHA-256"], [["graph", checksum]], "Checksums"))
    return Section("again", "How to make it again", [], tables=tables, codes=codes, missing=missing)
