"""The laboratory stands beside the library: what each may import, and what is missed when it is not there."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gbgnn
import gbgnn_lab

LIBRARY = Path(gbgnn.__file__).parent
HEAVY = ("torch", "numpy", "sklearn", "optuna", "torch_geometric", "matplotlib")


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "path", sorted(LIBRARY.rglob("*.py")), ids=lambda path: str(path.relative_to(LIBRARY))
)
def test_the_library_never_imports_the_laboratory(path: Path) -> None:
    assert not [name for name in imported(path) if name.split(".")[0] == "gbgnn_lab"]


@pytest.mark.parametrize("words", ["", "reproduce", "compare", "baseline"])
def test_help_imports_nothing_heavy_and_misses_nothing(words: str) -> None:
    blocked = f"import sys; sys.modules.update(dict.fromkeys({HEAVY!r}))"
    told = run_python(f"{blocked}; from gbgnn.cli.app import app; app({[*words.split(), '--help']!r})")
    assert told.returncode == 0, told.stderr
    assert "Usage" in told.stdout


def test_the_laboratory_itself_is_free_of_torch_until_it_is_used() -> None:
    code = "import sys, gbgnn_lab.experiments, gbgnn_lab.experiments.options; print('torch' in sys.modules)"
    assert run_python(code).stdout == "False\n"


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("optuna", ["reproduce", "table1", "--quick", "--dataset", "csbm"]),
        ("torch_geometric", ["baseline", "gat", "csbm", "--runs", "1"]),
    ],
)
def test_what_is_not_installed_is_said_in_one_line(package: str, words: list[str], tmp_path: Path) -> None:
    out = ["--out", str(tmp_path)] if words[0] == "reproduce" else []
    told = run_python(
        f"import sys; sys.modules[{package!r}] = None\nfrom gbgnn.cli.app import app; app({[*words, *out]!r})"
    )
    assert told.returncode == 1
    assert f'needs {package}: pip install "gbgnn[' in told.stderr
    assert "Traceback" not in told.stderr


def test_every_public_name_of_the_experiments_is_there() -> None:
    from gbgnn_lab import experiments

    assert all(getattr(experiments, name) is not None for name in experiments.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Wach'"):
        experiments.Wach  # noqa: B018
    assert gbgnn_lab.__doc__
