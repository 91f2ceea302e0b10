from __future__ import annotations

import json
from pathlib import Path

from gbgnn import datasets


def test_list_names_all(run) -> None:
    text = run("datasets").stdout
    assert all(name in text for name in datasets.names())
    assert "2,708" in text
    assert "to download" in text


def test_list_as_json(run) -> None:
    entries = json.loads(run("datasets", "--json").stdout)["datasets"]
    assert [entry["name"] for entry in entries] == datasets.names()
    available = {entry["name"]: entry["available"] for entry in entries}
    assert available["karate"]
    assert not available["cora"]


def test_info_of_what_is_here(run) -> None:
    facts = json.loads(run("datasets", "info", "karate", "--json").stdout)
    assert (facts["nodes"], facts["edges"], facts["train"], facts["test"]) == (34, 78, 2, 32)
    assert facts["class_names"] == ["Mr. Hi", "Officer"]
    assert facts["looked"] == ["built in: needs no file"]
    text = run("datasets", "info", "karate").stdout
    assert "Zachary" in text
    assert "directed" in text


def test_info_of_what_is_not_here_says_where_it_looked(run) -> None:
    facts = json.loads(run("datasets", "info", "cora", "--data-dir", "nowhere", "--json").stdout)
    assert facts["nodes"] == 2708
    assert not facts["available"]
    assert facts["looked"][0] == "data_dir (nowhere): no such folder"


def test_info_of_own_tables_shows_repairs(run, tables: Path) -> None:
    facts = json.loads(run("datasets", "info", tables, "--json").stdout)
    assert facts["repairs"] == ["dropped 1 self loops", "merged 1 repeated edges"]
    assert "description" not in facts


def test_unknown_names(run) -> None:
    assert "Did you mean 'karate'?" in run("datasets", "info", "karat", code=1).stderr
