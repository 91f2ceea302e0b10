from __future__ import annotations

import json
from pathlib import Path

from gbgnn import datasets


def test_counts_and_repairs_are_told(run, tables: Path) -> None:
    text = run("convert", tables / "edges.csv", tables / "nodes.csv", "people.gbgraph").stdout
    assert "people: 5 nodes, 5 edges, 2 features, 2 classes (blue, red); train 2, val 1, test 1" in text
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
        *("convert", "e.csv", "n.csv", "g.gbgraph", "--source", "from", "--target", "1", "--weight", "w"),
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
