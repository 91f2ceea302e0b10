"""The examples run, the README's output is real, and the code in the docs works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
SMALLER = {"plot_million_nodes": "20000"}  # what is given to a script that would take long
# Blocks of a page do not know of each other, but share an interpreter, whose start takes longer than most.
EACH = "import sys\nfor code in sys.argv[1:]:\n    exec(code, {'__name__': '__main__'})"


def run(code: list[str]) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, *code], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_prints(path: Path) -> None:
    assert run([str(path), *filter(None, [SMALLER.get(path.stem)])]).strip()


def test_readme_example_is_the_quickstart_and_its_output_is_real() -> None:
    (code,), (shown,) = blocks("README.md", "python"), blocks("README.md", "text")
    assert code in (ROOT / "examples" / "quickstart.py").read_text()
    # Labels may differ on another machine in the last few nodes, so numbers are compared loosely.
    got = run(["-c", code])
    assert re.sub(r"[\d.]+", "#", got) == re.sub(r"[\d.]+", "#", shown)
    for mine, printed in zip(re.findall(r"0\.\d+", got), re.findall(r"0\.\d+", shown), strict=True):
        assert abs(float(mine) - float(printed)) < 0.03


PAGES = [
    "index",
    "start",
    "data",
    "extending",
    "theory",
    "fine-tuning",
    "tuning",
    "baselines",
    "graph-features",
    "graph-networks",
    "trees",
    "export",
    "targets",
    "tables",
    "importances",
    "explanations",
    "aggregations",
    "presets",
    "few-labels",
    "calibration",
    "prediction-sets",
]


@pytest.mark.parametrize("page", [f"docs/{name}.md" for name in PAGES])
def test_code_of_the_guides_runs(page: str) -> None:
    run(["-c", EACH, *blocks(page, "python")])


@pytest.mark.parametrize(
    "page", ["README.md", *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
)
def test_links_lead_somewhere(page: str) -> None:
    folder = (ROOT / page).parent
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
        assert (folder / target).exists(), f"{page} links to {target}"


def test_a_model_is_served_by_mlflow() -> None:
    pytest.importorskip("mlflow")
    assert "proba_1" in run([str(ROOT / "examples" / "mlflow_pyfunc.py")])
