"""The command ``gbgnn``: every command parses, calls the library and writes its result."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command with the arguments of this process."""
    if any(find_spec(name) is None for name in ("typer", "rich")):
        sys.stderr.write('the gbgnn command needs typer and rich: pip install "gbgnn[cli]"\n')
        sys.exit(1)
    try:
        from gbgnn.cli.app import app

        app(prog_name="gbgnn")
    except KeyboardInterrupt:  # before the command began, or after it ended; it answers for itself
        sys.stderr.write("interrupted.\n")
        sys.exit(130)
