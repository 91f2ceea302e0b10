from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow import csv as arrow_csv
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


@pytest.fixture
def people(run: Run) -> tuple[str, ...]:
    """Forty people who call each other, as Parquet tables; options that name them."""
    rng = np.random.default_rng(0)
    rows = [f"p{i},{'yes' if i % 2 else 'no'},{i % 2 + rng.normal():.3f},{1.5 * i + 0.25}" for i in range(40)]
    calls = [f"p{i},p{(i + 2 * k) % 40},{k}.5" for i in range(40) for k in (1, 2)]
    Path("people.csv").write_text("who,churn,calls,income\n" + "\n".join(rows))
    Path("calls.csv").write_text("caller,callee,weight\n" + "\n".join(calls))
    for stem in ("people", "calls"):
        pq.write_table(arrow_csv.read_csv(f"{stem}.csv"), f"{stem}.parquet")
    return ("--nodes", "people.parquet", "--edges", "calls.parquet")


@pytest.fixture
def timed(run: Run) -> Path:
    """A folder in GraphLand's layout whose nodes arrive one after the other."""
    folder, rng = Path("tiny"), np.random.default_rng(0)
    folder.mkdir()
    n = 60
    info = (
        "task: binary_classification\nmetric: AP\ntarget_name: t\nnumerical_features_names: [a, b]\n"
        "fraction_features_names: [b]\ncategorical_features_names: [c]\n"
    )
    a, b = rng.normal(size=n), rng.random(n)
    masks = [f"{i},{i < 30},{30 <= i < 45},{i >= 45}" for i in range(n)]
    texts = {
        "info.yaml": info,
        "features.csv": "\n".join(["id,a,b,c", *(f"{i},{a[i]},{b[i]},{i % 3}" for i in range(n))]),
        "targets.csv": "\n".join(["id,t", *(f"{i},{float(a[i] > 0)}" for i in range(n))]),
        "edgelist.csv": "\n".join(["s,t", *(f"{i},{i // 2}" for i in range(1, n))]),
        "split_masks_TH.csv": "\n".join(["id,train,val,test", *masks]),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder
