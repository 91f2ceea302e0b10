"""Run every benchmark that a CPU can run in minutes, one after the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = (
    "accuracy",
    "speed",
    "memory",
    "scale/propagation",
    "complexity",
    "guarantees",
    "finetuning",
    "choose_defaults",
)

for script in SCRIPTS:
    subprocess.run([sys.executable, str(Path(__file__).parent / f"{script}.py")], check=True)
