from __future__ import annotations

import json
from pathlib import Path

import pytest

import gbgnn
from gbgnn.families import Family
from gbgnn.learners import MLP

from .conftest import Run

SMALL = MLP(units=6, epochs=10)
FAMILIES = (
    Family(name="boosted", variants={f"{t} rounds": {"learner": SMALL, "n_rounds": t} for t in (2, 3)}),
    Family(name="broken", variants={"none": {"learner": MLP(units=-1)}}),
)


@pytest.fixture(autouse=True)
def catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gbgnn.best.FAMILIES", FAMILIES)


def test_fit_shows_and_records_what_was_tried(run: Run) -> None:
    words = ("--preset", "best", "--time-limit", "10m", "--seed", "0", "--out", "r")
    result = run("fit", *run.tiny, *words)
    assert "an average of models of several families" in result.stderr
    assert "boosted (2 rounds): round 2/2" in result.stderr
    assert "failed: MLP.units must be" in result.stdout
    assert "average of" in result.stdout
    metrics = json.loads(Path("r/metrics.json").read_text())
    assert {row["family"] for row in metrics["leaderboard"]} == {"boosted", "broken"}
    assert metrics["models"] == len(gbgnn.load("r/model.gbgnn").members_)
    rows = [json.loads(line) for line in Path("r/history.jsonl").read_text().splitlines()]
    assert {row["name"] for row in rows} == {"boosted"}
    assert run.files == {path.name for path in Path("r").iterdir()}
    assert 'time_limit = "10m"' in Path("r/config.toml").read_text()
    run("fit", "--config", "r/config.toml", "--quiet", "--out", "again")
    one, other = (Path(name, "model.gbgnn").read_bytes() for name in ("r", "again"))
    assert one == other


def test_a_saved_average_predicts_and_shows_itself(run: Run) -> None:
    run("fit", *run.tiny, "--preset", "best", "--seed", "0", "--quiet", "--out", "r")
    lines = run("predict", "r").stdout.splitlines()
    assert lines[0].startswith("node,label,proba_")
    assert len(lines) == 61
    assert "accuracy" in run("evaluate", "r").stdout
    shown = run("inspect", "r").stdout
    assert "average of" in shown
    assert "val accuracy" in shown
    assert "best round" in shown
    told = json.loads(run("inspect", "r", "--json").stdout)
    assert sum(own["weight"] for own in told["members"]) == pytest.approx(1)
    assert "rounds" not in told["members"][0]
    assert told["leaderboard"] == json.loads(Path("r/metrics.json").read_text())["leaderboard"]
    assert "there is no certificate of an average of" in run("certify", "r").stdout


def test_options_that_do_not_go_with_it(run: Run) -> None:
    words = ("fit", *run.tiny, "--preset", "best", "--out", "r")
    assert "begins again" in run(*words, "--checkpoint-every", "2", code=1).stderr
    assert "chooses n_rounds itself" in run(*words, "--rounds", "3", code=1).stderr
    assert "must be a number of seconds" in run(*words, "--time-limit", "soon", code=1).stderr
    told = run("tune", *run.tiny, "--preset", "best", code=2).stderr
    assert "--preset best searches by itself" in told


def test_a_run_that_was_killed_begins_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("fit", *run.tiny, "--preset", "best", "--seed", "0", "--quiet")
    run(*words, "--out", "whole")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("gbgnn.cli.fit._report", fail)
        run(*words, "--out", "r", code=1)
    assert Path("r.partial/model.gbgnn").is_file()
    run("fit", "--resume", "r", "--quiet")
    one, other = (gbgnn.load(f"{name}/model.gbgnn").predict_proba(range(60)) for name in ("r", "whole"))
    assert one.tobytes() == other.tobytes()


def test_numbers_have_a_leaderboard_too(run: Run) -> None:
    nodes = ["id,value,x,split"]
    nodes += [f"{i},{i % 7 + 0.5},{i % 7},{('train', 'val', 'test')[i % 3]}" for i in range(60)]
    Path("nodes.csv").write_text("\n".join(nodes))
    Path("edges.csv").write_text("\n".join(["source,target", *(f"{i},{(i + 7) % 60}" for i in range(60))]))
    data = ("--nodes", "nodes.csv", "--edges", "edges.csv", "--target", "value", "--task", "regression")
    told = run("fit", *data, "--preset", "best", "--out", "r", "--seed", "0").stdout
    assert "val r2" in told
    assert "boosted" in told
