from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gbgnn.errors import DataError
from gbgnn.graph import NodeSplit
from gbgnn_lab.experiments.evaluation import check_splits, identify_data, judge


def test_identity_tells_apart_what_matters(tiny, scrambled):
    known, other = identify_data(tiny), identify_data(scrambled)
    assert known["data"]["test"] != other["data"]["test"]
    assert known["data"] | {"test": ""} == other["data"] | {"test": ""}
    swapped = identify_data(tiny.with_split(NodeSplit(tiny.val, tiny.train, tiny.test), "swapped"))
    assert (swapped["split"], swapped["data"]["graph"]) == ("swapped", known["data"]["graph"])
    assert swapped["data"]["labels"] != known["data"]["labels"]


def test_accuracy_is_the_share_of_hits(tiny):
    predictions = tiny.y.copy()
    predictions[tiny.test[:3]] = (predictions[tiny.test[:3]] + 1) % 3
    assert judge(predictions, tiny) == {"val_accuracy": 1.0, "test_accuracy": 1 - 3 / len(tiny.test)}


def test_a_part_without_nodes_has_no_accuracy(tiny):
    bare = replace(tiny, split=NodeSplit(tiny.train, tiny.val))
    assert judge(np.array(tiny.y), bare)["test_accuracy"] is None


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (("train",), "no val nodes, so there is nothing to choose"),
        (("train", "val"), "no test nodes, .* judge"),
    ],
)
def test_data_needs_nodes_to_choose_and_to_judge_by(tiny, parts, words):
    check_splits(tiny)
    with pytest.raises(DataError, match=words):
        check_splits(replace(tiny, split=NodeSplit(*(getattr(tiny, part) for part in parts))))
