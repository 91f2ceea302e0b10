"""A task in a process of its own, watched from outside: the most memory it ever held, and what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_FLAG = "--as-child"
_SECONDS = 0.02


def run_child(name: str, /, *, threads: int = 2, **arguments: Any) -> dict[str, Any]:
    """Return what a task of this script returned in a new process, and its ``peak`` resident bytes.

    The peak is the kernel's own (VmHWM), interpreter, libraries and pages of mapped files included.
    """
    command = [sys.executable, sys.argv[0], _FLAG, name, json.dumps(arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        peak = 0
        while child.poll() is None:
            peak = max(peak, _peak_bytes(child.pid))
            time.sleep(_SECONDS)
        assert child.stdout is not None
        told = child.stdout.read()
    if child.returncode:
        raise RuntimeError(f"{name} {arguments} ended with exit code {child.returncode}.")
    return {**json.loads(told.splitlines()[-1]), "peak": peak}


def answer_parent(tasks: Mapping[str, Callable[..., dict[str, Any]]]) -> None:
    """In a child, run the task that was asked for and end; elsewhere do nothing."""
    if _FLAG in sys.argv:
        name, arguments = sys.argv[sys.argv.index(_FLAG) + 1 :]
        print(json.dumps(tasks[name](**json.loads(arguments))))
        sys.exit()


def _peak_bytes(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    lines = (line.split() for line in status.splitlines())
    return next((1024 * int(words[1]) for words in lines if words[:1] == ["VmHWM:"]), 0)
