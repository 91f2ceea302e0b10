from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gbgnn.cli.importances import N_SHOWN


@pytest.fixture
def people(run) -> tuple[str, ...]:
    """Tables of people whose age says what they are; options that name them."""
    random = np.random.default_rng(0)
    ages, shoes = random.normal(40, 10, 60), random.integers(36, 47, 60)
    churn = np.where(ages + random.normal(0, 6, 60) > 40, "yes", "no")
    rows = [f"p{i},{churn[i]},{ages[i]:.2f},{shoes[i]}" for i in range(60)]
    Path("people.csv").write_text("who,churn,age,shoes\n" + "\n".join(rows))
    Path("calls.csv").write_text(
        "caller,callee\n" + "\n".join(f"p{i},p{(7 * i + 1) % 60}" for i in range(60))
    )
    return ("--nodes", "people.csv", "--edges", "calls.csv", "--target", "churn", "--seed", "0")


TREES = ("--learner", "trees", "--n-trees", "5", "--rounds", "1", "--neighbourhood", "wide")


def test_a_fit_and_its_record_name_the_columns_that_matter(run, people: tuple[str, ...]) -> None:
    told = run("fit", *people, *TREES, "--aggregation", "identity", "--out", "r").stdout
    assert "columns seen" in told
    lines = told.splitlines()
    start = next(i for i, line in enumerate(lines) if "most important of" in line)
    assert lines[start + 2].split()[0] == "age"
    assert lines[start + 2].split()[-1] == "%"
    found = json.loads(Path("r/metrics.json").read_text())["column_importances"]
    assert list(found["by_column"]) == ["age", "shoes"]
    assert sum(found["by_column"].values()) == pytest.approx(1)
    assert next(iter(found["as_seen"])) == "age"
    assert found["n_seen"] == len(found["as_seen"]) > N_SHOWN
    assert "most important of" in run("inspect", "r").stdout
    shown = json.loads(run("inspect", "r", "--json").stdout)
    assert shown["metrics"]["column_importances"] == found
    assert "most important" not in run("inspect", "r/model.gbgnn").stdout


def test_columns_without_names_are_not_listed(run) -> None:
    told = run("fit", *run.tiny, *run.quick, "--out", "r").stdout
    assert "most important" not in told
    assert json.loads(Path("r/metrics.json").read_text())["column_importances"] is None


def test_what_nobody_knows_is_not_listed(run, people: tuple[str, ...]) -> None:
    told = run("fit", *people, *run.quick, "--aggregation", "linear", "--select", "last", "--out", "r")
    assert "most important" not in told.stdout
    assert json.loads(Path("r/metrics.json").read_text())["column_importances"] is None


def test_trees_without_a_split_have_nothing_to_list(run, people: tuple[str, ...]) -> None:
    told = run("fit", *people, *TREES, "--min-leaf", "50", "--aggregation", "identity", "--out", "r").stdout
    assert "most important" not in told
    assert set(
        json.loads(Path("r/metrics.json").read_text())["column_importances"]["by_column"].values()
    ) == {0}


def test_a_search_records_them_beside_the_importances_of_settings(run, people: tuple[str, ...]) -> None:
    run("tune", *people, "--trials", "1", "--rounds", "2", "--epochs", "3", "--out", "t")
    metrics = json.loads(Path("t/metrics.json").read_text())
    assert isinstance(metrics["importances"], dict)
    assert set(metrics["column_importances"]["by_column"]) == {"age", "shoes"}
    assert "most important of 2 columns seen" in run("inspect", "t").stdout
