"""What ``preset="best"`` tried: what ``gbgnn fit`` and ``inspect`` print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gbgnn.cli import screen

COLUMNS = ("family", "variant", "models", "score", "loss", "seconds", "weight", "status")
_FORMS = {"weight": ".2f", "seconds": ".1f"}


def show_leaderboard(records: Sequence[Mapping[str, Any]]) -> None:
    """Print the candidates as a table, the best first."""
    metric = records[0]["metric"]
    heads = {"score": f"val {metric}", "loss": "val loss"}
    how: dict[str, Any] = {"left": ("family", "variant", "status"), "prose": "variant"}
    screen.show_records(records, COLUMNS, heads=heads, forms=_FORMS, drop=("models", "seconds"), **how)
