from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gbgnn.datasets.columns import Table
from gbgnn.datasets.roles import (
    AUTO,
    choose_features,
    decide,
    find_edge_columns,
    find_ends,
    find_label,
    find_split_column,
    no_ids,
)
from gbgnn.errors import DataError


def _table(*names: str) -> Table:
    return Table(Path("t.csv"), {name: np.arange(3) for name in names})


def test_ends_are_told_by_name_or_the_first_two() -> None:
    assert find_ends(["source", "x", "target"], None, None) == ("source", "target")
    assert find_ends(["a", "b", "c"], None, None) == ("a", "b")
    assert find_ends(["a", "b", "c"], "c", None) == ("c", "target")


def test_what_was_chosen_and_passed_over_is_noted() -> None:
    notes: list[str] = []
    assert find_edge_columns(_table("a", "b", "weight", "when"), None, None, AUTO, notes) == (
        ("a", "b"),
        "weight",
    )
    assert notes == [
        "edges lead from column 'a' to column 'b' of t.csv",
        "edges weigh as in column 'weight' of t.csv",
        "passed over column 'when' of t.csv",
    ]
    assert find_edge_columns(_table("a", "b", "weight"), 0, 1, None, []) == (("a", "b"), None)
    with pytest.raises(DataError, match=r"t\.csv has no column 'w' for the weights"):
        find_edge_columns(_table("a", "b"), None, None, "w", [])


def test_features_are_the_columns_without_another_role() -> None:
    given = {"label": "y", "features": None, "drop": [], "split": None}
    table = _table("id", "y", "age", "split", "height")
    assert choose_features(table, "id", **given) == ["age", "height"]
    assert choose_features(table, "id", **given | {"drop": ["age"]}) == ["height"]
    assert choose_features(table, "id", **given | {"features": [4, "split"]}) == ["height", "split"]
    with pytest.raises(DataError, match="has no feature column"):
        choose_features(table, "id", **given | {"features": []})


def test_the_label_and_the_split_are_found_by_their_names() -> None:
    table = _table("id", "label", "split")
    assert (find_label(table, "label"), find_label(table, 0)) == ("label", "id")
    with pytest.raises(
        DataError, match=r"has no column 'label'; name the one to be predicted with label= \(--target\)"
    ):
        find_label(_table("id"), "label")
    assert [find_split_column(table, split) for split in (None, "auto", "id", "stratified", 3)] == [
        *("split", "split", "id"),
        *(None, None),
    ]
    assert "name the one with the ids by id= (--id). Columns: id, label, split." in str(no_ids(table))


def test_labels_decide_what_is_predicted_and_words_which_nodes_train() -> None:
    given = {"split": None, "task": None, "seed": 0}
    words = np.array(["train", "val", "test", ""])
    known = decide(Path("t.csv"), "y", np.array(["1", "0", "1", ""]), "split", words, **given)
    assert known.target.values.tolist() == [1, 0, 1, -1]
    assert (known.split.train.tolist(), known.split_name) == ([0], "public")
    drawn = decide(
        Path("t.csv"), "y", np.arange(20) % 2, None, None, **given | {"split": "stratified", "seed": 3}
    )
    assert drawn.split_name == "stratified, seed 3"
    with pytest.raises(DataError, match="has a header but no rows"):
        decide(Path("t.csv"), "y", np.empty(0), None, None, **given)
