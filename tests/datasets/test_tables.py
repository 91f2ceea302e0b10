from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from gbgnn import datasets
from gbgnn.datasets import read_folder, read_graphland, read_tables
from gbgnn.datasets.tables import is_graphland, is_plain_table_folder, read_info
from gbgnn.errors import DataError, GraphError, ParameterError
from gbgnn.graph import NodeSplit

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
    assert data.graph.repairs == ("dropped 1 self loops", "merged 1 repeated edges")
    assert data.graph.n_edges == 2


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


def test_parquet_tables_give_the_same_graph(tables, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    nodes = {"id": ["ann", "bob", "cat", "dan"], "label": ["x", "y", None, "x"], "age": [30, 40, 50, 60]}
    nodes |= {"height": [1.7, 1.8, 1.6, 1.9], "split": ["train", "train", None, "test"]}
    parquet.write_table(pa.table(nodes), tmp_path / "nodes.parquet")
    edges = {"source": ["ann", "bob", "bob", "dan"], "target": ["bob", "ann", "cat", "dan"]}
    parquet.write_table(pa.table(edges), tmp_path / "edges.parquet")
    data, known = read_tables(tmp_path / "edges.parquet", tmp_path / "nodes.parquet"), tables()
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


@pytest.mark.parametrize(
    ("edges", "nodes", "options", "message"),
    [
        ("source,target\nann,zoe\n", NODES, {}, r"edges\.csv, column 'target': data row 1 names node 'zoe'"),
        (EDGES, NODES + "ann,x,1,1,\n", {}, r"nodes\.csv: id 'ann' stands in data rows 1 and 5"),
        (EDGES, NODES.replace("30", ""), {}, r"nodes\.csv: column 'age' has 1 missing .*data row 1"),
        (EDGES, NODES.replace("40", "old"), {}, r"column 'age' is not numeric \(data row 2: 'old'\)"),
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
        (EDGES, NODES.replace(",x,", ",0.5,").replace(",y,", ",1.5,"), {}, r"column 'label' holds 0\.5"),
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


def test_graphland_folders_are_recognised(write, tmp_path):
    write("edgelist.csv", "source,target\n0,1\n")
    write("features.csv", ",f\n0,1\n1,2\n")
    write("targets.csv", ",t\n0,0\n1,1\n")
    assert is_graphland(tmp_path)
    assert read_folder(tmp_path, split="auto").graph.n_edges == 1


INFO = """\
dataset_name: toy  # a comment
task: binary_classification
target_name: banned
numerical_features_names:
- age
- rate
fraction_features_names: [rate]
categorical_features_names:
  - 'town'
"""
FILES = {
    "info.yaml": INFO,
    "edgelist.csv": "source,target\n0,1\n1,2\n3,3\n",
    "features.csv": "node_id,age,rate,town\n0,10,0.1,5\n1,20,0.2,7\n2,,0.3,5\n3,30,0.4,9\n",
    "targets.csv": "node_id,banned\n0,1.0\n1,0.0\n2,\n3,1.0\n",
    "split_masks_RH.csv": "id,train,val,test\n0,False,True,False\n1,True,False,False\n"
    "2,True,False,False\n3,False,False,True\n",
    "split_masks_RL.csv": "id,train,val,test\n0,True,False,False\n1,False,True,False\n"
    "2,True,False,False\n3,False,False,True\n",
}


@pytest.fixture
def folder(write, tmp_path):
    def _folder(**changes):
        for name, text in {**FILES, **changes}.items():
            if text is not None:
                write(f"toy/{name}", text)
        return tmp_path / "toy"

    return _folder


def test_features_targets_and_masks_are_read(folder):
    data = read_graphland(folder())
    assert data.name == "toy"
    assert data.y.tolist() == [1, 0, -1, 1]
    assert (data.train.tolist(), data.val.tolist(), data.test.tolist()) == ([0], [1], [3])
    assert data.split_name == "RL"
    age, rate, *towns = data.graph.features.T
    assert age.mean() == pytest.approx(0, abs=1e-6)
    assert age.std() == pytest.approx(1)
    assert rate == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert np.array(towns).tolist() == [[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]]
    assert data.graph.repairs == (
        "filled 1 gaps of feature 'age' with its median",
        "made 3 one-hot columns of feature 'town'",
        "dropped 1 self loops",
    )


def test_another_mask_or_a_drawn_split_can_be_chosen(folder):
    path = folder()
    assert read_graphland(path, split="RH").train.tolist() == [1]
    assert read_graphland(path, split="stratified").split_name == "stratified, seed 0"
    with pytest.raises(ParameterError, match=r"split must be .* got 'THI'"):
        read_graphland(path, split="THI")


def test_raw_scales_and_direction_can_be_kept(folder):
    graph = read_graphland(folder(), standardize=False, directed=True).graph
    assert graph.features[:, 0].tolist() == [10, 20, 20, 30]
    assert graph.adjacency[1, 0] == 1
    assert graph.adjacency[0, 1] == 0


def test_rows_can_be_normalized(folder):
    rows = np.abs(read_graphland(folder(), normalize_features=True).graph.features).sum(axis=1)
    assert rows == pytest.approx(np.ones(4))


def test_without_a_description_all_columns_are_numbers(folder):
    data = read_graphland(folder(**{"info.yaml": None}))
    assert data.graph.n_features == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"info.yaml": INFO.replace("binary_classification", "regression")}, "regression task"),
        ({"info.yaml": INFO.replace("- age", "- aeg")}, r"no column 'aeg' .* Did you mean 'age'\?"),
        ({"info.yaml": "task: x\n"}, "no feature column"),
        ({"info.yaml": "just words\n"}, r"info\.yaml, line 1: expected 'key: value'"),
        ({"info.yaml": "a:\n  b: c\n"}, r"info\.yaml, line 2: expected 'key: value'"),
        ({"targets.csv": None}, r"lacks targets\.csv"),
        ({"edgelist.csv": "s,t\n0,77\n"}, r"edgelist\.csv: data row 1 names node 77"),
        ({"features.csv": "id,age,rate,town\n0,,1,1\n1,,1,1\n2,,1,1\n3,,1,1\n"}, "'age' has no value at all"),
        ({"split_masks_RL.csv": "id,train,test\n0,True,False\n"}, "no column 'val' for the masks"),
    ],
)
def test_what_is_wrong_is_named(changes, message, folder):
    with pytest.raises(DataError, match=message):
        read_graphland(folder(**changes))


def test_info_knows_words_and_lists(write):
    info = read_info(write("info.yaml", "---\na: 'b'\nc: [x, \"y\"]\nd:\n- 1\n\n# note\ne: []\n"))
    assert info == {"a": "b", "c": ["x", "y"], "d": ["1"], "e": []}
