from __future__ import annotations

import json
from pathlib import Path

import pytest

from gbgnn.cli.inspect import spread


@pytest.fixture
def learned(run) -> Path:
    run("fit", *run.tiny, *run.quick, "-q", "--aggregation", "kta", "--kta-degree", "1", "--out", "r")
    return Path("r")


def test_rounds_settings_and_coefficients(run, learned: Path) -> None:
    text = run("inspect", learned).stdout
    for word in ("4 rounds", "all rounds were trained", "kta degree=1", "gamma_total", "P^2", "alignment"):
        assert word in text
    assert "* the round that predicts" in text


def test_json_holds_everything(run, learned: Path) -> None:
    report = json.loads(run("inspect", learned, "--json").stdout)
    assert len(report["history"]) == len(report["etas"]) == len(report["hops"]) == 4
    assert report["etas"] == [row["eta"] for row in report["history"]]
    assert report["metrics"]["best_round"] == report["best_round"]
    assert report["run"]["command"].startswith("gbgnn")


def test_fewer_rounds_on_demand(run, learned: Path) -> None:
    text = run("inspect", learned / "model.gbgnn", "--rounds", "2").stdout
    assert "rounds not shown (--rounds)" in text
    assert "gamma_total" not in run("inspect", learned, "--rounds", "0").stdout


def test_classes_by_name(run, fitted: Path) -> None:
    text = run("inspect", fitted).stdout
    assert "classes: 0 (Mr. Hi), 1 (Officer)" in text
    assert "val_loss" not in text


def test_spread_has_both_ends() -> None:
    assert spread(3, 5, 1) == [0, 1, 2]
    assert spread(10, 2, 9) == [0, 9]
    assert spread(10, 1, 4) == [0, 4]
