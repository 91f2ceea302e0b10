"""The laboratory's commands, plugged into ``gbgnn`` by an entry point."""

from __future__ import annotations

import typer

from gbgnn.cli.command import register


def add_commands(app: typer.Typer) -> None:
    """Register ``reproduce``, ``baseline`` and ``compare``."""
    from gbgnn_lab.cli import baseline, compare, reproduce

    register(app, reproduce.reproduce, examples=reproduce.EXAMPLES)
    register(app, baseline.baseline, examples=baseline.EXAMPLES)
    register(app, compare.compare, examples=compare.EXAMPLES)
