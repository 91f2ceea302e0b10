from __future__ import annotations

import numpy as np
import pytest

from gbgnn.datasets import load, load_dataset, load_graphland, read_folder, save_dataset
from gbgnn.datasets.graphland import is_graphland, read_info
from gbgnn.errors import DataError, ParameterError


def test_graphland_folders_are_recognised(write, tmp_path):
    write("edgelist.csv", "source,target\n0,1\n")
    write("features.csv", ",f\n0,1\n1,2\n")
    write("targets.csv", ",t\n0,0\n1,1\n")
    assert is_graphland(tmp_path)
    assert read_folder(tmp_path, split="auto").graph.n_edges == 1
    assert load(tmp_path).task_reason == "column 't' has 2 different whole numbers: classification"


def test_no_test_label_changes_what_the_target_is(write, tmp_path):
    write("edgelist.csv", "source,target\n0,1\n")
    write("features.csv", ",f\n0,1\n1,2\n2,3\n")
    write("split_masks_RL.csv", "id,train,val,test\n0,1,0,0\n1,1,0,0\n2,0,0,1\n")
    write("targets.csv", ",t\n0,0\n1,1\n2,9\n")
    assert load(tmp_path).y.tolist() == [0, 1, 9]
    write("targets.csv", ",t\n0,0\n1,1\n2,nine\n")
    with pytest.raises(DataError, match=r"labels that train are numbers, but data row 3 says 'nine'"):
        load(tmp_path)


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
    data = load_graphland(folder())
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
    assert load_graphland(path, split="RH").train.tolist() == [1]
    assert load_graphland(path, split="stratified").split_name == "stratified, seed 0"
    with pytest.raises(DataError, match=r"has no split_masks_THI\.csv, so no setting THI; it has RH, RL"):
        load_graphland(path, "THI")
    with pytest.raises(ParameterError, match=r"setting must be one of RL, RH, TH, THI; got 'rh'"):
        load_graphland(path, "rh")


def test_raw_scales_and_direction_can_be_kept(folder):
    graph = load_graphland(folder(), standardize=False, directed=True).graph
    assert graph.features[:, 0].tolist() == [10, 20, 20, 30]
    assert graph.adjacency[1, 0] == 1
    assert graph.adjacency[0, 1] == 0


def test_rows_can_be_normalized(folder):
    rows = np.abs(load_graphland(folder(), normalize_features=True).graph.features).sum(axis=1)
    assert rows == pytest.approx(np.ones(4))


def test_without_a_description_all_columns_are_numbers(folder):
    data = load_graphland(folder(**{"info.yaml": None}))
    assert data.graph.n_features == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
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
        load_graphland(folder(**changes))


def test_info_knows_words_and_lists(write):
    info = read_info(write("info.yaml", "---\na: 'b'\nc: [x, \"y\"]\nd:\n- 1\n\n# note\ne: []\n"))
    assert info == {"a": "b", "c": ["x", "y"], "d": ["1"], "e": []}


PUBLISHED = """\
dataset_name: tiny
task: regression
metric: R2
target_name: price
numerical_features_names:
- age
- rate
fraction_features_names:
- rate
categorical_features_names:
- town
graph_is_directed: false
has_unlabeled_nodes: true
has_nans_in_numerical_features: true
"""


@pytest.fixture
def timed(write, tmp_path):
    """A regression in the published layout: six nodes, the first three train, the fourth validates."""
    masks = "".join(f"{i},{i < 3},{i == 3},{i > 3}\n" for i in range(6))
    rows = ["10,0.1,5", ",0.2,7", "30,0.3,5", "40,0.4,9", "50,0.5,9", "60,0.6,5"]
    files = {
        "info.yaml": PUBLISHED,
        "features.csv": "node_id,age,rate,town\n" + "".join(f"{i},{row}\n" for i, row in enumerate(rows)),
        "targets.csv": "node_id,price\n0,1.5\n1,\n2,2.5\n3,3.5\n4,4.5\n5,5.5\n",
        "edgelist.csv": "source,target\n0,1\n1,2\n2,3\n3,4\n4,5\n",
        "split_masks_TH.csv": "node_id,train,val,test\n" + masks,
    }
    for name, text in files.items():
        write(f"tiny/{name}", text)
    return tmp_path / "tiny"


def test_a_regression_is_read_as_published(timed):
    data = load_graphland(timed, "TH")
    assert data.is_regression
    assert data.task_reason == "info.yaml says regression"
    assert data.notes == ("info.yaml judges by R2",)
    assert data.y.tolist() == pytest.approx([1.5, np.nan, 2.5, 3.5, 4.5, 5.5], nan_ok=True)
    assert (data.train.tolist(), data.val.tolist(), data.test.tolist()) == ([0, 2], [3], [4, 5])
    assert data.snapshot("train") is data
    assert (data.n_splits, load(timed, split="stratified").n_splits) == (1, 1)


def test_in_the_inductive_setting_training_sees_its_part_of_the_graph(timed):
    data = load_graphland(timed, "THI")
    assert data.is_inductive
    assert data.split_name == "THI"
    train, val = data.snapshot("train"), data.snapshot("val")
    assert train.graph.node_ids.tolist() == [0, 1, 2]  # the one without a label too
    assert (train.graph.n_edges, val.graph.n_edges, data.graph.n_edges) == (2, 3, 5)
    assert (train.train.tolist(), train.val.tolist(), val.val.tolist()) == ([0, 2], [], [3])
    # Median and scale are those of the training nodes: ages 10, 20 (filled) and 30.
    assert train.graph.features[:, 0].mean() == pytest.approx(0, abs=1e-6)
    assert train.graph.features[:, 0].std() == pytest.approx(1)
    assert data.graph.features.shape[1] == 4  # the town 9 is seen in no training node
    assert data.snapshot("test").graph.n_nodes == 6


def test_what_is_inductive_stays_so_on_disk(timed, tmp_path):
    data = load_graphland(timed, "THI")
    again = load_dataset(save_dataset(data, tmp_path / "tiny.gbgraph"))
    assert again.is_regression
    assert again.arrivals.tolist() == [0, 0, 0, 1, 2, 2]
    assert again.notes == data.notes
    assert again.y.tolist() == pytest.approx(data.y.tolist(), nan_ok=True)


def test_an_inductive_split_cannot_be_replaced_by_one_that_is_not(timed):
    with pytest.raises(DataError, match="train holds node .*, which arrives later"):
        load(timed, setting="THI", split="stratified")
