"""``gbgnn convert``: the ways of giving tables, the limit, and what is shown on the way."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from gbgnn import Graph


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A folder with nodes and edges in two Parquet parts each."""
    nodes = {
        "id": [f"p{i}" for i in range(20)],
        "label": np.arange(20) % 2,
        "x": np.arange(20) / 20,
        "split": ["train"] * 10 + ["val"] * 5 + ["test"] * 5,
    }
    edges = {"source": nodes["id"], "target": nodes["id"][1:] + nodes["id"][:1]}
    for kind, columns in (("nodes", nodes), ("edges", edges)):
        (tmp_path / "net" / kind).mkdir(parents=True)
        for part in range(2):
            rows = pa.table(columns).slice(10 * part, 10)
            parquet.write_table(rows, tmp_path / "net" / kind / f"part-{part}.parquet")
        (tmp_path / "net" / kind / "_SUCCESS").write_text("")
    return tmp_path / "net"


def test_a_folder_of_parts_is_converted_fitted_and_predicted(run, net: Path) -> None:
    told = run("convert", net, "g.gbgraph", "--memory-limit", "20GB")
    assert "g: 20 nodes, 20 edges, 1 feature, 2 classes (0, 1)" in told.stdout
    assert "written to g.gbgraph" in told.stdout
    assert "edges 20/20  read" in told.stderr
    assert "rows 40/40  sorted" in told.stderr
    assert Graph.open("g.gbgraph").node_ids[-1] == "p19"
    run("fit", "g.gbgraph", *run.quick, "-q", "--out", "r")
    run("predict", "r", "--out", "p.parquet")
    assert parquet.read_table("p.parquet")["node"].to_pylist() == [f"p{i}" for i in range(20)]
    run("fit", net, *run.quick, "-q", "--out", "s")  # read into memory, it is the same graph
    first, second = (json.loads(Path(out, "metrics.json").read_text())["splits"] for out in "rs")
    assert first == second


def test_tables_may_be_given_one_after_the_other_or_by_options(run, net: Path) -> None:
    given = [
        (net,),
        (net / "edges", net / "nodes"),
        ("--nodes", net / "nodes", "--edges", net / "edges"),
    ]
    for number, words in enumerate(given):
        run("convert", *words, f"{number}.gbgraph", "--name", "net", "--quiet")
    first, *others = ({f.name: f.read_bytes() for f in Path(f"{k}.gbgraph").iterdir()} for k in range(3))
    assert all(other == first for other in others)
    more = ("--edges", net / "edges" / "part-0.parquet")
    facts = json.loads(run("convert", net, "more.gbgraph", *more, "--json").stdout)
    assert facts["repairs"] == ["merged 10 repeated edges"]


@pytest.mark.parametrize(
    "words", [("out.gbgraph",), ("a", "b", "c", "out.gbgraph"), ("a", "out", "--nodes", "n")]
)
def test_other_ways_are_an_error_that_shows_one(run, words) -> None:
    message = run("convert", *words, code=2).stderr
    assert "give a folder with nodes and edges, or an edge table and a node table" in message


def test_a_limit_that_is_no_size_or_too_small(run, net: Path) -> None:
    assert (
        "memory_limit must be a number of bytes, or text such as"
        in run("convert", net, "g.gbgraph", "--memory-limit", "much", code=1).stderr
    )
    message = run("convert", net, "g.gbgraph", "--memory-limit", "1MB", code=1).stderr
    assert "1,000,000 bytes is too little" in message
    assert not Path("g.gbgraph").exists()


def test_an_unknown_id_and_a_column_of_text_are_one_line(run, net: Path) -> None:
    parquet.write_table(pa.table({"source": ["p1"], "target": ["zoe"]}), net / "edges" / "part-9.parquet")
    message = run("convert", net, "g.gbgraph", code=1).stderr
    assert "edges, column 'target': data row 21 names node 'zoe', which is not an id in" in message
    table = parquet.read_table(net / "nodes" / "part-0.parquet")
    for part in range(2):
        parquet.write_table(
            table.append_column("city", pa.array(["Oslo"] * 10)), net / "nodes" / f"part-{part}.parquet"
        )
    message = run("convert", net, "g.gbgraph", code=1).stderr
    assert "column 'city' holds text, and a .gbgraph folder holds numbers" in message
    assert "--drop city" in message
