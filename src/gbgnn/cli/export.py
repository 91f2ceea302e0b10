"""``gbgnn export``: a model in the format of others."""

from __future__ import annotations

from pathlib import Path

import gbgnn
from gbgnn.cli import screen
from gbgnn.cli.command import UsageError
from gbgnn.cli.files import open_saved

FORMATS = ("onnx",)


def export(saved_path: Path, out: Path, format: str = "onnx") -> None:
    """Write the learners of a model as ONNX files, and what happens between them as a document.

    round_01.onnx and so on take rows of nodes that the graph has mixed; propagation.json says how it mixes
    them, and how outputs become scores. See docs/export.md for a few lines of NumPy that do it.
    """
    if format not in FORMATS:
        raise UsageError(f"--format must be {' or '.join(FORMATS)}; got {format!r}.")
    from gbgnn.export import export_onnx

    paths = export_onnx(gbgnn.load(open_saved(saved_path).model_path), out)
    screen.note(f"{screen.counted(len(paths), 'file')} written to {out}")
