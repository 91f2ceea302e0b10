from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gbgnn.cli.app import app

EDGES = "source,target\nann,bob\nbob,cat\ncat,dan\ndan,ann\nann,ann\nbob,ann\neve,dan\n"
NODES = (
    "id,label,split,x,y\nann,red,train,1,0\nbob,red,val,1,0.2\ncat,blue,train,0,1\n"
    "dan,blue,test,0.1,1\neve,,,0.2,0.9\n"
)


class Run:
    """Calls the command as a process of its own would be called, and checks its exit code."""

    tiny = ("csbm", "--data-option", "n_nodes=60", "--data-option", "per_class=6")
    files = frozenset({"config.toml", "history.jsonl", "metrics.json", "model.gbgnn"})  # of a plain run
    quick = ("--rounds", "4", "--epochs", "30", "--units", "8", "--seed", "0")

    def __call__(self, *words: str | Path, code: int = 0) -> Result:
        result = CliRunner().invoke(app, list(map(str, words)), prog_name="gbgnn")
        told = f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
        assert result.exit_code == code, told
        assert "Traceback" not in told
        return result


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """The command, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("GBGNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GBGNN_DATA", raising=False)
    return Run()


@pytest.fixture
def third_is_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let round 3 predict, whatever validation says."""
    monkeypatch.setattr("gbgnn.boosting.selection.selection_key", lambda row, *_: (-abs(row["round"] - 3),))


@pytest.fixture
def fitted(run: Run) -> Path:
    """A finished run on the karate club."""
    run("fit", "karate", *run.quick, "--quiet", "--out", "club")
    return Path("club")


@pytest.fixture
def tables(run: Run) -> Path:
    """A folder with five people as tables: one without label, a self loop, a repeated edge."""
    folder = Path("people")
    folder.mkdir()
    (folder / "edges.csv").write_text(EDGES)
    (folder / "nodes.csv").write_text(NODES)
    return folder
