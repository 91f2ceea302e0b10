from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gbgnn

TREES = ("--learner", "trees", "--n-trees", "5", "--rounds", "1", "--neighbourhood", "wide")


@pytest.fixture
def people(run) -> tuple[str, ...]:
    """Tables of people whose age says what they are; options that name them."""
    random = np.random.default_rng(0)
    ages, shoes = random.normal(40, 10, 60), random.integers(36, 47, 60)
    churn = np.where(ages + random.normal(0, 6, 60) > 40, "yes", "no")
    rows = [f"p{i},{churn[i]},{3 * ages[i] + shoes[i]:.2f},{ages[i]:.2f},{shoes[i]}" for i in range(60)]
    Path("people.csv").write_text("who,churn,spend,age,shoes\n" + "\n".join(rows))
    Path("calls.csv").write_text(
        "caller,callee\n" + "\n".join(f"p{i},p{(7 * i + 1) % 60}" for i in range(60))
    )
    return ("--nodes", "people.csv", "--edges", "calls.csv", "--seed", "0", "--quiet")


def test_a_class_is_explained_by_distances_columns_and_neighbours(run, fitted: Path) -> None:
    told = run("explain", fitted, "8", "--top", "3").stdout
    lines = told.splitlines()
    assert lines[0].startswith("node 8: ")
    assert " next " in lines[0]
    assert lines[1].startswith("parts of the lead of ")
    assert "own columns" in told
    assert "* decided it" in told
    assert "others" in told
    assert "8 (itself)" in run("explain", fitted, "8", "--top", "40").stdout
    assert run("explain", fitted, "8", "--top", "3").stdout == told
    found = json.loads(run("explain", fitted, "8", "33", "--json").stdout)
    first, second = found["nodes"]
    assert (first["node"], second["node"]) == ("8", "33")
    for each in (first, second):
        assert sum(each["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        assert each["prediction"] == next(iter(each["probabilities"]))
        total = pytest.approx(each["total"], abs=1e-5)
        assert each["total"] >= 0
        assert sum(each["by_round"].values()) == total
        assert sum(each["by_distance"].values()) == total
        assert sum(each["columns"].values()) + each["base"] == total
        assert sum(each["columns_as_seen"].values()) + each["base"] == total
        assert sum(row["part"] for row in each["neighbours"]) + each["neighbours_base"] == total
        assert each["decided_by"] in each["by_distance"]


def test_numbers_are_explained_in_their_own_unit(run, people: tuple[str, ...]) -> None:
    quick = ("--rounds", "3", "--epochs", "40", "--preset", "fast")
    run("fit", *people, "--target", "spend", "--drop", "churn", *quick, "--out", "r")
    told = run("explain", "r", "p7").stdout
    assert "parts of y beyond " in told
    (found,) = json.loads(run("explain", "r", "p7", "--json").stdout)["nodes"]
    start = float(found["of"].split()[2].rstrip(","))
    assert start + found["total"] == pytest.approx(found["prediction"], rel=1e-4)
    assert set(found["columns"]) == {"age", "shoes"}


def test_trees_are_explained_by_columns_and_say_that_they_know_no_neighbours(
    run, people: tuple[str, ...]
) -> None:
    target = ("--target", "churn", "--drop", "spend")
    run("fit", *people, *target, *TREES, "--aggregation", "identity", "--out", "r")
    told = run("explain", "r", "p7", "p8").stdout
    assert told.count("column as learners see it") == 2
    assert "no neighbours: it is not known what each neighbour added: round 1 uses columns" in told
    (found,) = json.loads(run("explain", "r", "p7", "--json").stdout)["nodes"]
    assert found["neighbours"] is None
    assert "do not say of whom" in found["no_neighbours_because"]
    more = run("explain", "r", "p7", "--node-table", "people.csv", "--edges", "calls.csv")
    assert more.stdout.startswith("node p7: ")


def test_hard_votes_are_shown_by_round_where_several_distances_are_mixed(run) -> None:
    run("fit", "karate", *run.quick, "--rule", "samme", "--aggregation", "lazy", "--quiet", "--out", "r")
    told = run("explain", "r", "8").stdout
    assert "by round, as there are no distances: a round votes for one class" in told
    assert "no columns: a round votes for one class" in told
    (found,) = json.loads(run("explain", "r", "8", "--json").stdout)["nodes"]
    assert found["by_distance"] is None
    assert found["columns"] is None
    assert "votes for one class" in found["no_distances_because"]


def test_rounds_that_know_no_neighbours_are_named(run, people: tuple[str, ...]) -> None:
    target = ("--target", "churn", "--drop", "spend")
    run(
        "fit",
        *people,
        *target,
        "--aggregation",
        "beside",
        "--rounds",
        "2",
        "--epochs",
        "5",
        "--select",
        "last",
        "--out",
        "r",
    )
    assert "without round 2, which does not say of whom" in run("explain", "r", "p7").stdout


def test_an_average_is_explained_as_one_with_its_members(run, monkeypatch: pytest.MonkeyPatch) -> None:
    from gbgnn.blend import BlendedModel, BlendMember

    run("fit", "karate", *run.quick, "--quiet", "--out", "r")
    fitted = gbgnn.load("r/model.gbgnn").model_
    model = BlendedModel(
        task=fitted.task,
        loss=fitted.loss,
        metric=fitted.metric,
        members=(BlendMember("one", fitted, 0.75), BlendMember("other", fitted, 0.25)),
        leaderboard=[],
        seed=0,
        settings={},
        validation_score=0.5,
        validation_loss=1.0,
    )
    monkeypatch.setattr("gbgnn.load", lambda path: type("Loaded", (), {"model_": model})())
    told = run("explain", "r", "8")
    assert "an average of 2 models, each taken apart" in told.stderr
    for words in ("member 1: one", "of the probability of", ", in probability: +"):
        assert words in told.stdout
    (found,) = json.loads(run("explain", "r", "8", "--json").stdout)["nodes"]
    first, second = list(found["probabilities"].values())[:2]
    lead = pytest.approx(first - second, abs=1e-6)
    assert found["total"] == sum(found["by_distance"].values()) == lead
    assert found["base"] + sum(found["columns"].values()) == lead
    assert found["neighbours_base"] + sum(each["part"] for each in found["neighbours"]) == lead
    assert set(found["by_distance"]) >= {"own columns", "1 hop", "before any round"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("r", "8", "99"),
            "explain names 1 node that the graph does not have (first: '99'; its ids look like",
        ),
        (("r/model.gbgnn", "8"), "is a bare model file; name its graph with --dataset."),
    ],
)
def test_what_cannot_be_explained_is_said(run, words: tuple[str, ...], message: str) -> None:
    run("fit", "karate", *run.quick, "--quiet", "--out", "r")
    assert message in " ".join(run("explain", *words, code=1).stderr.split())
