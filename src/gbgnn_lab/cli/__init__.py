"""The laboratory's commands, plugged into ``gbgnn`` by an entry point."""

from __future__ import annotations

import typer

from gbgnn.cli.command import register


def add_commands(app: typer.Typer) -> None:
    """Register ``reproduce``, ``baseline`` and ``compare``."""
    from gbgnn_lab.cli import baseline, experiments

    register(app, experiments.reproduce, examples=experiments.REPRODUCE_EXAMPLES)
    register(app, baseline.baseline, examples=baseline.EXAMPLES)
    register(app, experiments.compare, examples=experiments.COMPARE_EXAMPLES)
