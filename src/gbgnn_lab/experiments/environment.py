"""What a number depends on beside its settings: versions and the machine. No host name is kept."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from gbgnn._devices import as_device
from gbgnn.runs import describe_versions

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "optuna", "torch_geometric")


def describe_environment(device: Any, command: str) -> dict[str, Any]:
    """Return versions, machine, date and command for a record.

    Parameters
    ----------
    device
        Where models are trained; a GPU is named when it is one.
    command
        What repeats the run.

    Examples
    --------
    >>> made = describe_environment("cpu", "gbgnn reproduce table1")
    >>> made["machine"]["gpu"] is None, made["command"]
    (True, 'gbgnn reproduce table1')
    """
    place = as_device(device)
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "cpu": find_cpu_name(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpu": torch.cuda.get_device_name(place) if place.type == "cuda" else None,
        },
        "versions": describe_versions(PACKAGES),
    }


def find_cpu_name(info: Path = Path("/proc/cpuinfo")) -> str:
    """Return what the processor calls itself."""
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
