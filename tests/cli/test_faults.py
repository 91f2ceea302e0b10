"""A few of the faults of ``make faults``, on real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FAULTS = Path(__file__).parents[2] / "benchmarks" / "faults.py"


@pytest.mark.skipif(sys.platform != "linux", reason="it forks, and mounts a disk of its own")
def test_what_is_broken_ends_in_the_same_file() -> None:
    command = [sys.executable, str(FAULTS), "--n", "6", "--seed", "0", "--dry", "--cases", "gradient"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.endswith("6 faults, 0 failures\n")
    for kind in ("SIGKILL", "SIGTERM", "full disk"):
        assert f"\n| {kind} |" in ended.stdout
