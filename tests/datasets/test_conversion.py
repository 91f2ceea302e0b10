"""Tables converted on disk are, byte for byte, what is saved of tables read in memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from gbgnn.datasets import conversion, convert_tables, load, read_tables, save_dataset
from gbgnn.datasets.scratch import Scratch
from gbgnn.errors import DataError, GraphError, ParameterError

MIXED = {0: "ann", 1: "bob", 2: "7", 3: "007", 4: "ät", 5: "x y", 6: "-3", 7: "p-0000001"}


@pytest.fixture(scope="module", autouse=True)
def _little_memory():
    """Rows come three at a time, and hardly anything fits into memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conversion, "_rows_at_once", lambda *_: 3)
        patch.setattr(Scratch, "room", lambda _: 500)
        yield


def write_parts(folder: Path, columns: dict, n_parts: int) -> Path:
    """Write columns as some Parquet files, of which some may be empty."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = pa.table(columns)
    cuts = np.linspace(0, len(whole), n_parts + 1).astype(int)
    for part, (start, stop) in enumerate(pairwise(cuts)):
        parquet.write_table(whole.slice(start, stop - start), folder / f"part-{part:05d}.parquet")
    (folder / "_SUCCESS").write_text("")
    (folder / ".part-0.crc").write_text("")
    return folder


def outcome(work, folder: Path) -> dict[str, bytes] | str:
    """Return the files that are written, or the message of the error."""
    try:
        work()
    except (DataError, GraphError) as error:
        return str(error)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def both(edges, nodes, place: Path, **options) -> tuple[dict[str, bytes] | str, dict[str, bytes] | str]:
    streamed, known = place / "streamed.gbgraph", place / "known.gbgraph"
    options |= {"name": "toy"}
    return (
        outcome(lambda: convert_tables(edges, nodes, streamed, **options), streamed),
        outcome(lambda: save_dataset(read_tables(edges, nodes, **options), known), known),
    )


@st.composite
def tables(draw):
    n = draw(st.integers(1, 8))
    as_text = draw(st.booleans())
    rows = draw(st.permutations(range(n)))
    numbers = draw(st.lists(st.integers(-(2**40), 2**40), min_size=n, max_size=n, unique=True))
    names = [MIXED[row] if as_text else (numbers[row] if draw(st.booleans()) else row + 100) for row in rows]
    if draw(st.booleans()):
        names = [MIXED[row] if as_text else row - 2 for row in rows]
    if draw(st.integers(0, 9)) == 0:
        names[0] = names[-1]
    if draw(st.integers(0, 19)) == 0:
        names[0] = "" if as_text else None
    known = [name for name in names if name not in ("", None)] or ["zoe" if as_text else 10**6]
    strange = ["zoe", "", None] if as_text else [10**6, None]
    end = st.sampled_from(known)
    if draw(st.integers(0, 3)) == 0:
        end = st.one_of(end, st.sampled_from(strange))
    nodes = {
        "id": pa.array(names, pa.string() if as_text else pa.int64()),
        "label": draw(st.lists(st.sampled_from(["a", "b"]), min_size=n, max_size=n)),
        "split": [
            "train",
            *draw(st.lists(st.sampled_from(["val", "test", "train"]), min_size=n - 1, max_size=n - 1)),
        ],
        "x": np.arange(n),
        "y": np.linspace(0, 1, n).astype(draw(st.sampled_from([np.float32, np.float64]))),
    }
    edges = []
    for _ in range(draw(st.integers(1, 2))):
        m = draw(st.integers(0, 14))
        ends = draw(st.lists(st.tuples(end, end), min_size=m, max_size=m))
        if draw(st.booleans()):
            ends += [pair[::-1] for pair in ends]
        kind = pa.string() if as_text else draw(st.sampled_from([pa.int64(), pa.string()]))
        cells = [
            [None if each is None else str(each) if kind == pa.string() else each for each in pair]
            for pair in ends
        ]
        columns = {
            side: pa.array([pair[k] for pair in cells], kind) for k, side in enumerate(("source", "target"))
        }
        weight = draw(st.sampled_from([None, pa.int64(), pa.float32(), pa.float64()]))
        if weight is not None:
            values = draw(
                st.lists(st.sampled_from([0, 1, 2, 3, 0.25]), min_size=len(ends), max_size=len(ends))
            )
            columns["weight"] = pa.array([int(v) if weight == pa.int64() else v for v in values], weight)
        edges.append(columns)
    return nodes, edges, draw(st.integers(1, 3)), draw(st.booleans()), draw(st.booleans())


@settings(max_examples=150, deadline=None)
@given(tables())
def test_the_same_files_or_the_same_error(made) -> None:
    nodes, edges, n_parts, directed, normalize = made
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        node_table = write_parts(place / "nodes", nodes, n_parts)
        edge_tables = [write_parts(place / f"edges-{k}", each, n_parts) for k, each in enumerate(edges)]
        streamed, known = both(
            edge_tables, node_table, place, directed=directed, normalize_features=normalize
        )
        assert streamed == known
        assert not list(place.glob(".*"))


NODES = {
    "id": ["ann", "bob", "cat", "dan"],
    "label": ["x", "y", None, "x"],
    "age": [30, 40, 50, 60],
    "split": ["train", "train", None, "test"],
}
EDGES = {"source": ["ann", "bob", "bob"], "target": ["bob", "cat", "bob"]}


@pytest.mark.parametrize(
    ("options", "of_nodes", "of_edges"),
    [
        ({"id": "who", "label": "kind"}, {"id": "who", "label": "kind"}, {}),
        ({}, {"id": "who"}, {"source": "from", "target": "to"}),
        ({"source": 1, "target": 0, "directed": True}, {}, {}),
        ({"split": "stratified", "seed": 3}, {}, {}),
        ({"split": "part"}, {"split": "part"}, {}),
        ({"task": "regression", "label": "age", "features": ["id"]}, {}, {}),
        ({"label": "age", "features": ["age"], "task": "regression"}, {}, {}),
    ],
)
def test_columns_are_found_as_in_memory(options, of_nodes, of_edges, tmp_path) -> None:
    nodes = {of_nodes.get(name, name): values for name, values in NODES.items()}
    edges = {of_edges.get(name, name): values for name, values in EDGES.items()}
    paths = write_parts(tmp_path / "edges", edges, 2), write_parts(tmp_path / "nodes", nodes, 3)
    streamed, known = both(*paths, tmp_path, **options)
    if options.get("features") == ["id"]:
        assert "column 'id' holds text" in streamed
    else:
        assert isinstance(streamed, dict)
        assert streamed == known


@pytest.mark.parametrize("suffix", ["csv", "feather"])
def test_other_tables_are_converted_as_they_are_read(suffix, tmp_path, write) -> None:
    if suffix == "csv":
        nodes = write("nodes.csv", "id,label,x,split\n007,1,0.5,train\n8,0,2,test\n9,,1e3,\n")
        edges = write("edges.csv", "source,target\n007,8\n8,9\n9,007\n")
    else:
        from pyarrow import feather

        nodes, edges = tmp_path / "nodes.feather", tmp_path / "edges.feather"
        feather.write_feather(pa.table(NODES), nodes)
        feather.write_feather(pa.table(EDGES), edges)
    streamed, known = both(edges, nodes, tmp_path)
    assert isinstance(streamed, dict)
    assert streamed == known


@pytest.mark.parametrize(
    ("nodes", "edges", "options", "message"),
    [
        (
            {"city": ["Oslo"] * 4},
            {},
            {},
            r"nodes: column 'city' holds text, and .* Leave them out with .*--drop city\)",
        ),
        (
            {"city": ["Oslo"] * 4, "day": ["mon"] * 4},
            {},
            {},
            r"columns 'city', 'day' hold text, .*--drop city,day\)",
        ),
        ({"age": [1, None, 3, 4]}, {}, {}, r"column 'age' holds missing or infinite values"),
        ({"age": [1, 2, 3, np.inf]}, {}, {}, r"column 'age' holds missing or infinite values"),
        (
            {},
            {"weight": [1.0, None, 2.0]},
            {},
            r"column 'weight' has 1 missing or infinite values \(first: data row 2",
        ),
        ({}, {"weight": ["a", "b", "c"]}, {}, r"column 'weight' is not numeric \(data row 1: 'a'\)"),
        ({"age": [[1]] * 4}, {}, {}, r"nodes: column 'age' holds list<.*>; columns must hold single values"),
        ({}, {}, {"label": "lable"}, r"no column 'lable' for the labels. Did you mean 'label'\?"),
        ({"id": [1.5, 2, 3, 4]}, {}, {}, r"nodes: data row 1 has id 1\.5; ids are whole numbers or text"),
        ({"id": ["p", "q", "r", "s"]}, {}, {"id": None}, "column 'source': data row 1 names node 'ann'"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(nodes, edges, options, message, tmp_path) -> None:
    paths = (
        write_parts(tmp_path / "edges", EDGES | edges, 2),
        write_parts(tmp_path / "nodes", NODES | nodes, 2),
    )
    with pytest.raises(DataError, match=message):
        convert_tables(*paths, tmp_path / "g.gbgraph", **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges", "nodes"]


def test_no_id_column_at_all_is_an_error(tmp_path) -> None:
    nodes = {"town": ["a", "a", "b", "b"], "label": ["x", "y", "x", "y"], "age": [1, 2, 3, 4]}
    paths = write_parts(tmp_path / "edges", EDGES, 1), write_parts(tmp_path / "nodes", nodes, 1)
    with pytest.raises(DataError, match="has no column 'id', and none whose values are unique"):
        convert_tables(*paths, tmp_path / "g.gbgraph")


def test_tables_without_rows(tmp_path) -> None:
    nodes = {name: pa.array([], pa.string() if name != "age" else pa.int64()) for name in NODES}
    paths = write_parts(tmp_path / "edges", EDGES, 1), write_parts(tmp_path / "nodes", nodes, 1)
    with pytest.raises(DataError, match="has a header but no rows"):
        convert_tables(*paths, tmp_path / "g.gbgraph")
    with pytest.raises(DataError, match="there is no edge table"):
        convert_tables([], paths[1], tmp_path / "g.gbgraph")


def test_ids_that_do_not_fit_on_the_disk_are_not_written(tmp_path, monkeypatch) -> None:
    paths = write_parts(tmp_path / "edges", EDGES, 1), write_parts(tmp_path / "nodes", NODES, 1)
    monkeypatch.setattr(conversion.shutil, "disk_usage", lambda _: SimpleNamespace(free=40))
    with pytest.raises(
        DataError, match=r"column 'id' takes 48 bytes as an array, .* but 40 are free on the disk"
    ):
        convert_tables(*paths, tmp_path / "g.gbgraph")


def test_progress_is_told(tmp_path) -> None:
    told = []

    class Told:
        def begin(self, noun, total):
            told.append((noun, total))

        def update(self, done, words=""):
            assert 0 < done <= told[-1][1]

    paths = write_parts(tmp_path / "edges", EDGES, 1), write_parts(tmp_path / "nodes", NODES, 1)
    convert_tables(*paths, tmp_path / "g.gbgraph", watch=Told())
    assert told == [("nodes", 4), ("edges", 3), ("rows", 8)]


def test_a_limit_that_is_taken_already_is_an_error_that_says_what_would_do(tmp_path, monkeypatch) -> None:
    monkeypatch.undo()
    paths = write_parts(tmp_path / "edges", EDGES, 1), write_parts(tmp_path / "nodes", NODES, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scratch, "room", ROOM)
        with pytest.raises(
            ParameterError, match=r"memory_limit=1,000,000 bytes is too little: .* Give at least"
        ):
            convert_tables(*paths, tmp_path / "g.gbgraph", memory_limit="1MB")


ROOM = Scratch.room
SLOW = """
import sys, time
from gbgnn.datasets import convert_tables
class Slow:
    def begin(self, noun, total): ...
    def update(self, done, words=""):
        if words == "sorted":
            print("sorting", flush=True)
            time.sleep(60)
convert_tables(sys.argv[1], sys.argv[2], sys.argv[3], watch=Slow())
"""


def test_a_killed_conversion_leaves_nothing_that_looks_whole(tmp_path) -> None:
    paths = write_parts(tmp_path / "edges", EDGES, 1), write_parts(tmp_path / "nodes", NODES, 1)
    out = tmp_path / "g.gbgraph"
    command = [sys.executable, "-c", SLOW, *map(str, paths), str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "sorting\n"
        os.kill(child.pid, signal.SIGKILL)
    assert not out.exists()
    (left,) = tmp_path.glob(".g.gbgraph.*/new")
    with pytest.raises(DataError, match=r"it has no meta\.json"):
        load(left.rename(tmp_path / "left.gbgraph"))
    convert_tables(*paths, out)
    assert load(out).graph.n_nodes == 4
