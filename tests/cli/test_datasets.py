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


def test_counts_and_repairs_are_told(run, tables: Path) -> None:
    text = run("convert", tables / "edges.csv", tables / "nodes.csv", "people.gbgraph").stdout
    assert "people: 5 nodes, 5 edges, 2 features, 2 classes (blue, red)\n" in text
    assert "task: column 'label' has 2 different labels: classification" in text
    assert "split: the one that comes with the data: train 2, val 1, test 1" in text
    assert "repaired: dropped 1 self loops" in text
    assert "written to people.gbgraph" in text
    data = datasets.load("people.gbgraph")
    assert data.graph.node_ids.tolist() == ["ann", "bob", "cat", "dan", "eve"]
    run("fit", "people.gbgraph", *run.quick, "-q", "--out", "r")
    assert run("predict", "r", "--nodes", "eve").stdout.splitlines()[1].startswith("eve,")


def test_columns_by_name_or_number(run) -> None:
    Path("e.csv").write_text("from,to,w\n1,2,0.5\n2,3,2\n")
    Path("n.csv").write_text("key,kind,a,b,c\n1,x,0,1,5\n2,y,1,0,5\n3,x,0,1,5\n")
    result = run(
        *(
            "convert",
            "e.csv",
            "n.csv",
            "g.gbgraph",
            "--source",
            "from",
            "--destination",
            "1",
            "--weight",
            "w",
        ),
        *("--directed", "--id", "key", "--label", "kind", "--features", "a,3", "--split", "stratified"),
        *("--split-seed", "1", "--normalize", "--name", "net", "--json"),
    )
    facts = json.loads(result.stdout)
    assert facts["written"] == "g.gbgraph"
    assert (facts["name"], facts["features"], facts["directed"], facts["weighted"]) == ("net", 2, True, True)
    assert facts["split"] == "stratified, seed 1"


def test_mistakes_are_one_line(run, tables: Path) -> None:
    edges, nodes = tables / "edges.csv", tables / "nodes.csv"
    message = run("convert", edges, nodes, "g.gbgraph", "--label", "lable", code=1).stderr
    assert "no column 'lable' for the labels. Did you mean 'label'?" in message
    Path("mine").mkdir()
    Path("mine/thesis.tex").write_text("")
    assert "is not a gbgnn data set" in run("convert", edges, nodes, "mine", code=1).stderr
    assert not Path("g.gbgraph").exists()
