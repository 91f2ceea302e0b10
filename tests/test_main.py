from __future__ import annotations

import subprocess
import sys

import gbgnn
import gbgnn.__main__ as module
from gbgnn.cli import main


def test_running_the_package_is_running_the_command() -> None:
    assert module.main is main
    done = subprocess.run(
        [sys.executable, "-m", "gbgnn", "--version"], capture_output=True, text=True, check=True
    )
    assert gbgnn.__version__ in done.stdout
