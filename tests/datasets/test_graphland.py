from __future__ import annotations

import numpy as np
import pytest

from gbgnn.datasets import read_graphland
from gbgnn.datasets.graphland import read_info
from gbgnn.errors import DataError, ParameterError

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
