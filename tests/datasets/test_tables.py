from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gbgnn import datasets
from gbgnn.datasets import read_folder, read_tables
from gbgnn.datasets.tables import is_plain_table_folder
from gbgnn.errors import DataError, GraphError, ParameterError
from gbgnn.labels import NodeSplit

NODES = "id,label,age,height,split\nann,x,30,1.7,train\nbob,y,40,1.8,train\ncat,,50,1.6,\ndan,x,60,1.9,test\n"
EDGES = "source,target,weight\nann,bob,2\nbob,ann,3\nbob,cat,1\ndan,dan,9\n"


@pytest.fixture
def tables(write):
    def _tables(edges=EDGES, nodes=NODES, **options):
        return read_tables(write("toy/edges.csv", edges), write("toy/nodes.csv", nodes), **options)

    return _tables


def test_ids_features_labels_and_split_are_read(tables):
    data = tables()
    assert data.name == "toy"
    assert data.graph.node_ids.tolist() == ["ann", "bob", "cat", "dan"]
    assert data.graph.features[0].tolist() == pytest.approx([30, 1.7])
    assert data.y.tolist() == ["x", "y", "", "x"]
    assert (data.train.tolist(), data.val.tolist(), data.test.tolist()) == ([0, 1], [], [3])
    assert data.graph.repairs == ("dropped 1 self loops", "merged 1 repeated edges, weights summed")
    assert data.notes == ("edges weigh as in column 'weight' of edges.csv",)
    assert (data.graph.n_edges, data.graph.adjacency[0, 1]) == (2, 5)


def test_the_result_is_the_same_without_pyarrow(tables, monkeypatch):
    first = tables(weight="weight")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    second = tables(weight="weight")
    assert np.array_equal(first.graph.adjacency.toarray(), second.graph.adjacency.toarray())
    assert np.array_equal(first.graph.features, second.graph.features)
    assert first.y.tolist() == second.y.tolist()


def test_weights_are_summed_over_repeats(tables):
    data = tables(weight="weight")
    assert data.graph.adjacency[0, 1] == 5
    assert data.graph.repairs[1] == "merged 1 repeated edges, weights summed"


def test_directed_edges_let_the_target_hear_the_source(tables):
    graph = tables(directed=True).graph
    assert graph.adjacency[2, 1] == 1
    assert graph.adjacency[1, 2] == 0


def test_columns_can_be_chosen_by_name_and_position(tables):
    nodes = NODES.replace("id,label,age", "name,kind,age")
    edges = EDGES.replace("source,target", "from,to")
    data = tables(edges, nodes, source=0, target=1, id="name", label="kind", features=["height"])
    assert data.graph.n_features == 1


def test_integer_ids_and_labels_stay_integers(tables):
    data = tables("source,target\n7,3\n", "id,label,f\n7,1,0.1\n3,0,0.2\n", split=NodeSplit([0, 1]))
    assert data.graph.node_ids.tolist() == [7, 3]
    assert data.y.tolist() == [1, 0]


def test_labels_written_as_floats_with_gaps_are_classes(tables):
    nodes = "id,label,f\n1,1.0,0.1\n2,,0.2\n3,0.0,0.3\n"
    assert tables("source,target\n1,2\n", nodes, split=NodeSplit([0])).y.tolist() == [1, -1, 0]


def test_labels_that_only_look_like_numbers_stay_text(tables):
    nodes = "id,label,f\n1,01,0.1\n2,NA,0.2\n3,1e0,0.3\n"
    assert tables("source,target\n1,2\n", nodes, split=NodeSplit([0])).y.tolist() == ["01", "", "1e0"]


def test_numbers_with_exponents_are_numbers_where_there_are_fractions(tables):
    nodes = "id,label,f\n1,0.5,0.1\n2,1e-05,0.2\n3,.25,0.3\n"
    data = tables("source,target\n1,2\n", nodes, split=NodeSplit([0, 1, 2]))
    assert data.y.tolist() == [0.5, 1e-05, 0.25]


def test_spaces_around_labels_make_no_class_of_their_own(tables):
    nodes = "id,label,f\n1, 1,0.1\n2,1 ,0.2\n3,0,0.3\n"
    assert tables("source,target\n1,2\n", nodes, split=NodeSplit([0])).y.tolist() == [1, 1, 0]


def _labels(last, n=12):
    rows = [f"{i},{9 + i % 3},{i},train" for i in range(n)]
    return "\n".join(["id,label,x,split", *rows, f"{n},{last},5,test", f"{n + 1},11,5,test"]) + "\n"


@pytest.mark.parametrize("last", ["9", "12", "1e1", "7.0", " 9"])
def test_no_test_label_changes_what_labels_are(tables, last):
    usual, data = (tables("source,target\n0,1\n", _labels(cell)) for cell in ("11", last))
    assert (data.task, data.task_reason, data.y.dtype) == (usual.task, usual.task_reason, usual.y.dtype)
    assert data.y[:12].tolist() == usual.y[:12].tolist()


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ("01", "data row 13 says '01'"),
        ("eleven", r"column 'label': the labels that train are numbers, but data row 13 says 'eleven'"),
        ("0.5", r"holds 0\.5 at node 12; classes must be whole .*--task regression"),
    ],
)
def test_a_test_label_of_another_kind_is_an_error(tables, last, message):
    with pytest.raises(DataError, match=message):
        tables("source,target\n0,1\n", _labels(last))


def test_a_number_among_the_test_labels_stays_text_where_text_trains(tables):
    nodes = NODES.replace("dan,x", "dan,7")
    assert tables(nodes=nodes).y.tolist() == ["x", "y", "", "7"]


def test_parquet_tables_give_the_same_graph(tables, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    nodes = {"id": ["ann", "bob", "cat", "dan"], "label": ["x", "y", None, "x"], "age": [30, 40, 50, 60]}
    nodes |= {"height": [1.7, 1.8, 1.6, 1.9], "split": ["train", "train", None, "test"]}
    parquet.write_table(pa.table(nodes), tmp_path / "nodes.parquet")
    edges = {"source": ["ann", "bob", "bob", "dan"], "target": ["bob", "ann", "cat", "dan"]}
    parquet.write_table(pa.table(edges), tmp_path / "edges.parquet")
    data, known = read_tables(tmp_path / "edges.parquet", tmp_path / "nodes.parquet"), tables(weight=None)
    assert np.array_equal(data.graph.features, known.graph.features)
    assert (data.graph.adjacency != known.graph.adjacency).nnz == 0
    assert data.y.tolist() == known.y.tolist()
    assert data.train.tolist() == known.train.tolist()


def test_features_can_be_normalized(tables):
    rows = tables(normalize_features=True).graph.features.sum(axis=1)
    assert rows == pytest.approx(np.ones(4))


def test_an_edge_table_without_rows_is_a_graph_without_edges(tables):
    assert tables("source,target\n").graph.n_edges == 0


def test_a_split_can_be_drawn_or_stand_in_any_column(tables):
    bare = NODES.replace("split", "part")
    assert tables(nodes=bare, split="part", features=["age"]).test.tolist() == [3]
    drawn = tables(nodes=bare, split="stratified", seed=3, features=["age"])
    assert drawn.split_name == "stratified, seed 3"
    assert tables(nodes=bare, split="auto", features=["age"]).split_name == "stratified, seed 0"
    with pytest.raises(DataError, match=r"nodes\.csv comes without a split"):
        tables(nodes=bare, features=["age"])
    with pytest.raises(ParameterError, match=r"split must be .* got 'prt'"):
        tables(nodes=bare, split="prt", features=["age"])


def test_columns_with_gaps_or_text_make_a_table(tables) -> None:
    plain = tables().graph
    assert plain.table is None
    assert plain.feature_names == ("age", "height")
    gaps = tables(nodes=NODES.replace("30", "")).graph
    assert np.isnan(gaps.table["age"].values[0])
    assert gaps.column_names == ("age", "height")
    words = tables(nodes=NODES.replace("40", "old")).graph
    assert words.table["age"].kind in ("category", "text")
    assert np.isfinite(words.features).all()


@pytest.mark.parametrize(
    ("edges", "nodes", "options", "message"),
    [
        ("source,target\nann,zoe\n", NODES, {}, r"edges\.csv, column 'target': data row 1 names node 'zoe'"),
        (EDGES, NODES + "ann,x,1,1,\n", {}, r"nodes\.csv: id 'ann' stands in data rows 1 and 5"),
        (EDGES, NODES, {"label": "lable"}, r"no column 'lable' for the labels. Did you mean 'label'\?"),
        (EDGES, NODES, {"features": ["agee"]}, r"no column 'agee' for the features. Did you mean 'age'\?"),
        (EDGES, NODES, {"weight": "w"}, r"edges\.csv has no column 'w' for the weights"),
        (EDGES.replace("3", "?"), NODES, {"weight": "weight"}, "column 'weight' is not numeric"),
        ("", NODES, {}, r"edges\.csv is empty"),
        (EDGES, "id,label,age,split\n", {}, r"nodes\.csv has a header but no rows"),
        (EDGES + "ann\n", NODES, {}, r"edges\.csv, line 6: 1 cells, but the header names 3"),
        (EDGES, NODES.replace("test", "dev"), {}, r"column 'split': data row 4 says 'dev'"),
        (EDGES, NODES, {"features": []}, "no feature column"),
        (EDGES, NODES.replace("dan,x", "dan,"), {}, r"test holds 1 nodes without a label \(first: node 3\)"),
        (EDGES, NODES, {"task": "regression"}, r"column 'label' holds text \('x', \.\.\.\)"),
        (EDGES, NODES, {"drop": ["agee"]}, r"no column 'agee' for the columns to drop. Did you mean 'age'\?"),
        (EDGES, NODES.replace("label", "kind"), {}, r"has no column 'label'; name the one to be predicted"),
        (
            EDGES,
            NODES.replace("id,", "town,").replace("bob,y", "ann,y"),
            {},
            r"no column 'id', and none whose",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(edges, nodes, options, message, tables):
    with pytest.raises(DataError, match=message):
        tables(edges, nodes, **options)


def test_a_given_split_must_fit_the_graph(tables):
    with pytest.raises(GraphError, match="train holds node id 8"):
        tables(split=NodeSplit([8]), features=["age"])


def test_graph_without_labels_can_be_read_for_prediction(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    (tmp_path / "nodes.csv").write_text("id,x,y\na,1,2\nb,3,4\nc,5,6\n")
    graph = datasets.read_folder_graph(tmp_path)
    assert graph.node_ids.tolist() == ["a", "b", "c"]
    assert graph.features.tolist() == [[1, 2], [3, 4], [5, 6]]


def test_label_and_split_columns_are_no_features_of_the_graph(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    (tmp_path / "nodes.csv").write_text("id,label,split,x\na,,train,1\nb,,test,3\n")
    assert datasets.read_folder_graph(tmp_path).features.tolist() == [[1], [3]]
    (tmp_path / "nodes.csv").write_text("id,kind,x\na,5,1\nb,6,3\n")
    assert datasets.read_folder_graph(tmp_path, label=1).features.tolist() == [[1], [3]]


def test_a_column_called_split_is_a_feature_only_by_name(tables, tmp_path: Path) -> None:
    nodes = "id,label,x,split,part\n1,0,5,0.5,train\n2,1,6,1.5,test\n"
    data = tables("source,target\n1,2\n", nodes, split="part")
    assert data.graph.features.tolist() == [[5], [6]]
    graph = datasets.read_folder_graph(tmp_path / "toy", split="part")
    assert np.array_equal(graph.features, data.graph.features)
    data = tables("source,target\n1,2\n", nodes, split="part", features=["x", "split"])
    assert data.graph.features.tolist() == [[5, 0.5], [6, 1.5]]


def test_graph_of_an_empty_table_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\n")
    (tmp_path / "nodes.csv").write_text("id,x\n")
    with pytest.raises(DataError, match="has a header but no rows"):
        datasets.read_folder_graph(tmp_path)


PAIR = "id,label,f,split\n1,0,0.5,train\n2,1,0.7,test\n"


def test_the_two_tables_are_found_by_name(write, tmp_path):
    write("edges.tsv", "source\ttarget\n1\t2\n")
    write("nodes.csv", PAIR)
    assert is_plain_table_folder(tmp_path)
    assert read_folder(tmp_path).graph.n_edges == 1


def test_options_reach_the_reader(write, tmp_path):
    write("edges.csv", "source,target\n1,2\n")
    write("nodes.csv", PAIR)
    assert read_folder(tmp_path, directed=True, name="arrow").graph.is_directed


def test_a_missing_or_ambiguous_table_is_named(write, tmp_path):
    write("edges.csv", "source,target\n1,2\n")
    assert not is_plain_table_folder(tmp_path)
    with pytest.raises(DataError, match=r"must hold one nodes table .*; found none"):
        read_folder(tmp_path)
    write("nodes.csv", PAIR)
    write("nodes.parquet", "")
    with pytest.raises(DataError, match=r"found nodes\.csv and nodes\.parquet"):
        read_folder(tmp_path)


def test_a_file_is_not_a_folder(write):
    with pytest.raises(DataError, match=r"edges\.csv is not a folder"):
        read_folder(write("edges.csv", "source,target\n"))


def test_an_edge_table_needs_to_be_there(write):
    with pytest.raises(DataError, match="there is no edge table"):
        read_tables([], write("nodes.csv", NODES))


def test_the_ids_are_the_column_that_edges_refer_to(tables):
    nodes = "rank,who,label,x\n1,007,a,0.5\n2,008,b,0.25\n3,009,a,0.75\n"
    data = tables("from,to,since\n007,008,1999\n008,009,2001\n", nodes, split=NodeSplit([0, 1]))
    assert data.graph.node_ids.tolist() == ["007", "008", "009"]
    assert data.graph.features.tolist() == [[1, 0.5], [2, 0.25], [3, 0.75]]
    assert data.notes == (
        "ids are column 'who' of nodes.csv",
        "edges lead from column 'from' to column 'to' of edges.csv",
        "passed over column 'since' of edges.csv",
    )


def test_an_id_column_by_any_name_is_taken_when_named(tables):
    nodes = NODES.replace("id,", "name,")
    assert tables(nodes=nodes, id="name").graph.node_ids.tolist() == ["ann", "bob", "cat", "dan"]


def test_edges_of_several_files_are_one_graph(write):
    nodes = write("nodes.csv", NODES)
    files = [write("a.csv", "source,target,weight\nann,bob,2\n"), write("b.csv", "source,target\nbob,cat\n")]
    graph = read_tables(files, nodes).graph
    assert graph.adjacency.toarray()[:3, :3].tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]
    plain = read_tables(files, nodes, weight=None).graph
    assert not plain.is_weighted


def test_columns_can_be_dropped(tables):
    assert tables(drop=["age"]).graph.features[0].tolist() == pytest.approx([1.7])
    assert tables(features=["age", "height"], drop=[3]).graph.n_features == 1


def test_a_target_of_numbers_is_found_out_in_text_and_in_types(tables, write):
    nodes = "id,price,x\n1,10.50,0.5\n2,,0.25\n3,7.25,0.75\n"
    data = tables("source,target\n1,2\n", nodes, label="price", split=NodeSplit([0]))
    assert data.is_regression
    assert data.y.tolist() == pytest.approx([10.5, np.nan, 7.25], nan_ok=True)
    assert (
        data.task_reason
        == "column 'price' has 1 different numbers, not all whole, in training and validation: regression"
    )


def test_tables_of_every_kind_give_the_same_graph(tables, tmp_path):
    pa = pytest.importorskip("pyarrow")
    duckdb = pytest.importorskip("duckdb")
    from pyarrow import feather

    known = tables()
    nodes, edges = (datasets.read_arrow(tmp_path / "toy" / f"{stem}.csv") for stem in ("nodes", "edges"))
    assert nodes["label"].to_pylist() == ["x", "y", None, "x"]
    assert pa.types.is_integer(nodes["age"].type)
    for stem, table in (("nodes", nodes), ("edges", edges)):
        feather.write_feather(table, tmp_path / f"{stem}.feather")
    with duckdb.connect(tmp_path / "toy.duckdb") as connection:
        for stem, table in (("people", nodes), ("calls", edges)):
            connection.register("given", table)
            connection.execute(f'CREATE TABLE "{stem}" AS SELECT * FROM given')
            connection.unregister("given")
    base = tmp_path / "toy.duckdb"
    for data in (
        read_tables(tmp_path / "edges.feather", tmp_path / "nodes.feather"),
        read_tables(f"{base}::calls", f"{base}::people"),
    ):
        assert data.graph.node_ids.tolist() == known.graph.node_ids.tolist()
        assert data.graph.features.tolist() == known.graph.features.tolist()
        assert data.graph.adjacency.toarray().tolist() == known.graph.adjacency.toarray().tolist()
        assert data.y.tolist() == known.y.tolist()
        assert data.train.tolist() == known.train.tolist()
    with pytest.raises(
        DataError, match=r"has no table 'poeple'. Did you mean 'people'\? Tables: calls, people"
    ):
        read_tables(f"{base}::calls", f"{base}::poeple")
    with pytest.raises(DataError, match=r"may hold several tables; name one of them: .*toy\.duckdb::TABLE"):
        read_tables(f"{base}::calls", base)


def test_a_file_that_is_no_database_is_named(write):
    pytest.importorskip("duckdb")
    with pytest.raises(DataError, match=r"t\.duckdb is not a readable DuckDB file"):
        datasets.read_arrow(f"{write('t.duckdb', 'words')}::t")


def test_dropped_columns_may_be_missing_where_nothing_is_learned(write):
    edges, nodes = write("edges.csv", EDGES), write("nodes.csv", "id,age\nann,1\nbob,2\ncat,3\ndan,4\n")
    graph = datasets.read_graph(edges, nodes, drop=["height"], label="churn", task="regression")
    assert graph.features.tolist() == [[1], [2], [3], [4]]


def test_a_wide_table_is_read_in_a_time_that_grows_with_its_width(tables):
    n = 20_000
    rows = "".join(f"{k},{k % 2}," + ",".join(["1"] * n) + "\n" for k in range(6))
    nodes = "id,label," + ",".join(f"c{i}" for i in range(n)) + "\n" + rows
    started = time.perf_counter()
    assert tables("source,target\n0,1\n", nodes, split="stratified").graph.n_features == n
    assert time.perf_counter() - started < 20  # a minute and a half, when each name was looked for among all
