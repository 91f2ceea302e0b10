"""Fails when some file is hardly tested: the threshold in pyproject.toml is one for all files together.

Run after the tests, on what they measured: ``python tests/coverage_floor.py``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from coverage import Coverage

FLOOR = 80
N_SMALL = 5  # statements; of so few, one that needs a process of its own is a large share
NEEDS_GPU = {
    "src/gbgnn/learners/cuda_graphs.py",
    "src/gbgnn/learners/kernels.py",
    "src/gbgnn/propagation/triton_pattern.py",
}


def find_untested(measured: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    """Return a line for each file below the floor."""
    return [
        f"{path}: {found['summary']['percent_covered']:.0f} %"
        for path, found in measured.items()
        if found["summary"]["percent_covered"] < FLOOR
        and found["summary"]["num_statements"] >= N_SMALL
        and path not in NEEDS_GPU
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "coverage.json")
        coverage = Coverage(messages=False)
        coverage.load()
        coverage.json_report(outfile=str(report))
        measured = json.loads(report.read_text())["files"]
    untested = find_untested(measured)
    if untested:
        sys.exit(f"less than {FLOOR} % of these files are tested:\n  " + "\n  ".join(untested))


if __name__ == "__main__":
    main()
