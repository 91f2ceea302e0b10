"""How much predictions owe to each column: what ``gbgnn fit`` and ``inspect`` print, by name."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from gbgnn.cli import screen
from gbgnn.errors import AbsentError

if TYPE_CHECKING:
    import gbgnn

N_SHOWN, N_RECORDED = 6, 50


def record_importances(model: gbgnn.GBGNNClassifier, graph: gbgnn.Graph) -> dict[str, Any] | None:
    """Return shares by the user's columns, and the largest by what learners see; None where nobody knows.

    Nor are there any where columns have no names that would tell a person something.
    """
    if not graph.is_named:
        return None
    try:
        own, seen = model.feature_importances_, model.column_importances()
    except AbsentError:
        return None
    names = model.feature_names_in_.tolist()
    ordered = sorted(zip(names, own.tolist(), strict=True), key=lambda pair: -pair[1])
    return {
        "by_column": dict(ordered[:N_RECORDED]),
        "as_seen": dict(islice(seen.items(), N_RECORDED)),
        "n_seen": len(seen),
    }


def show_importances(record: dict[str, Any] | None) -> None:
    """Print the columns that matter most, as learners see them."""
    if record is None:
        return
    used = [(name, share) for name, share in record["as_seen"].items() if share > 0][:N_SHOWN]
    if used:
        head = f"most important of {screen.counted(record['n_seen'], 'column')} seen"
        rows = [[name, f"{100 * share:.0f} %" if share >= 0.005 else "< 1 %"] for name, share in used]
        screen.show_table([head, "share"], rows, left=[head])
