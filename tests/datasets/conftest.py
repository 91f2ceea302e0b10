"""Where the real files are, for the tests that need them; the others never look outside tmp_path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Read before the fixture below hides it.
_GIVEN = os.environ.get("GBGNN_DATA")


@pytest.fixture(autouse=True)
def _no_outside_data(monkeypatch, tmp_path):
    monkeypatch.delenv("GBGNN_DATA", raising=False)
    monkeypatch.setenv("GBGNN_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def graphs_folder() -> Path:
    """The folder `graphs` in or beside the one that GBGNN_DATA names."""
    for folder in [] if _GIVEN is None else [Path(_GIVEN, "graphs"), Path(_GIVEN).parent / "graphs"]:
        if folder.is_dir():
            return folder
    pytest.skip("GBGNN_DATA has no folder graphs in or beside it")


@pytest.fixture
def write(tmp_path):
    """Write a text file under tmp_path and return its path."""

    def _write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return _write
