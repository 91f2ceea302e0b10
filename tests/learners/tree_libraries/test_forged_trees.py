"""Bytes that a library would believe, and must never be handed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.learners.estimator_bytes import dump_estimator, load_estimator
from gbgnn.learners.tree_libraries import LIBRARIES, Growth, TreeData

ROWS = np.random.default_rng(0).normal(size=(80, 3))
ROWS[:, 2] = np.arange(80) % 5
MASK = np.array([False, False, True])
TARGETS = ((ROWS[:, 0] > 0) + (ROWS[:, 2] % 2)).astype(int)
GROWTH = Growth(
    n_trees=2,
    learning_rate=0.5,
    max_leaves=4,
    min_leaf=2,
    l2=1.0,
    subsample=1.0,
    column_share=1.0,
    patience=None,
    max_bins=32,
    seed=0,
    n_threads=1,
)
DATA = TreeData(ROWS, TARGETS, np.ones(80), 3, is_category=MASK)
STORED = {name: LIBRARIES[name].fit(DATA, GROWTH).to_bytes() for name in ("lightgbm", "xgboost")}
TEXT = STORED["lightgbm"].decode()


def test_the_real_ones_are_read_and_have_categories() -> None:
    for name, data in STORED.items():
        model = LIBRARIES[name].from_bytes(data)
        assert model.predict(ROWS, 1).shape == (80, 3)
        assert any(tree.has_categories for tree in model.trees()[0])


@pytest.mark.parametrize(
    ("pattern", "forged"),
    [
        (r"^tree\n", "bush\n"),
        (r"num_class=3", "num_class=0"),
        (r"num_class=3", "num_class=2"),
        (r"num_tree_per_iteration=3", "num_tree_per_iteration=1"),
        (r"max_feature_idx=2", "max_feature_idx=1"),
        (r"max_feature_idx=2", "max_feature_idx=7"),
        (r"objective=multiclass num_class:3", "objective=custom"),
        (r"feature_names=\S+ ", "feature_names="),
        (r"version=", "linear_tree=1\nversion="),
        (r"version=v4\n", "version=v4\nversion=v4\n"),
        (r"left_child=-?\d+", "left_child=100"),
        (r"left_child=-?\d+", "left_child=-100"),
        (r"left_child=-?\d+", "left_child=0"),
        (r"right_child=-?\d+ ", "right_child="),
        (r"split_feature=\d+", "split_feature=9"),
        (r"split_feature=\d+", "split_feature=-1"),
        (r"num_leaves=\d+", "num_leaves=3"),
        (r"num_leaves=\d+", "num_leaves=0"),
        (r"num_leaves=\d+", "num_leaves=1000000000"),
        (r"leaf_value=\S+", "leaf_value=x"),
        (r"is_linear=0", "is_linear=1"),
        (r"num_cat=[1-9]", "num_cat=9"),
        (r"num_cat=[1-9]", "num_cat=0"),
        (r"cat_boundaries=0 \d+", "cat_boundaries=0 70"),
        (r"cat_boundaries=0 1", "cat_boundaries=1 1"),
        (r"cat_threshold=\d+", "cat_threshold=-5"),
        (r"decision_type=\d+ \d+ \d+", "decision_type=1 1 1"),
        (r"end of trees", "end of"),
        (r"Tree=0", "Trees=0"),
        (r"\nTree=0(.|\n)*end of trees", "\nend of trees"),
        (r"Tree=5(.|\n)*end of trees", "end of trees"),
    ],
)
def test_forged_text_of_lightgbm_is_refused(pattern: str, forged: str) -> None:
    text, n_changed = re.subn(pattern, forged, TEXT, count=1, flags=re.MULTILINE)
    assert n_changed == 1
    with pytest.raises((ValueError, KeyError, IndexError)):
        LIBRARIES["lightgbm"].from_bytes(text.encode())


def test_a_category_that_no_set_has_is_refused() -> None:
    block = next(b for b in re.split(r"(?=^Tree=)", TEXT, flags=re.MULTILINE) if "cat_boundaries" in b)
    kinds = re.search(r"decision_type=(.*)", block)[1].split()  # type: ignore[index]
    at = next(i for i, kind in enumerate(kinds) if int(kind) & 1)
    thresholds = re.search(r"threshold=(.*)", block)[1].split()  # type: ignore[index]
    for wrong in ("7", "-1", "0.5", "nan"):
        own = [wrong if i == at else each for i, each in enumerate(thresholds)]
        forged = block.replace(f"\nthreshold={' '.join(thresholds)}", f"\nthreshold={' '.join(own)}")
        assert forged != block
        with pytest.raises(ValueError, match="categories that are not there"):
            LIBRARIES["lightgbm"].from_bytes(TEXT.replace(block, forged).encode())


def test_what_follows_the_trees_is_dropped() -> None:
    forged = f"{TEXT}\nparameters:\n[machines: 10.0.0.1]\nend of parameters\npandas_categorical:[[1]]\n"
    assert LIBRARIES["lightgbm"].from_bytes(forged.encode()).to_bytes() == STORED["lightgbm"]
    sized = TEXT.replace("\nTree=0", "tree_sizes=1 2 3 4 5 99999999\n\nTree=0", 1)
    assert LIBRARIES["lightgbm"].from_bytes(sized.encode()).to_bytes() == STORED["lightgbm"]


def set_in(*path: Any, value: Any) -> Callable[[Any], None]:
    """A change of one entry of a JSON document."""

    def change(document: Any) -> None:
        *parents, last = path
        for step in parents:
            document = document[step]
        document[last] = value

    return change


MODEL = ("learner", "gradient_booster", "model")
FIRST = (*MODEL, "trees", 0)


@pytest.mark.parametrize(
    "change",
    [
        set_in("learner", "objective", "name", value="rank:ndcg"),
        set_in("learner", "gradient_booster", "name", value="gblinear"),
        set_in("learner", "learner_model_param", "num_class", value="5"),
        set_in("learner", "learner_model_param", "num_class", value="0"),
        set_in("learner", "learner_model_param", "num_feature", value="1"),
        set_in("learner", "learner_model_param", "num_target", value="4"),
        set_in("learner", "learner_model_param", "base_score", value="[1,2]"),
        set_in("learner", "feature_types", value=["q"]),
        set_in("learner", "feature_types", value=["q", "q", "z"]),
        set_in(*MODEL, "tree_info", 0, value=7),
        set_in(*MODEL, "iteration_indptr", value=[0, 300]),
        set_in(*MODEL, "gbtree_model_param", "num_trees", value="60"),
        set_in(*MODEL, "cats", "enc", value=[1]),
        set_in(*MODEL, "trees", value=[]),
        set_in(*FIRST, "left_children", 0, value=1000),
        set_in(*FIRST, "left_children", 0, value=0),
        set_in(*FIRST, "left_children", 0, value=-1),
        set_in(*FIRST, "right_children", 0, value=-2),
        set_in(*FIRST, "split_indices", 0, value=50),
        set_in(*FIRST, "split_indices", value=[0]),
        set_in(*FIRST, "parents", 1, value=40),
        set_in(*FIRST, "tree_param", "num_nodes", value="9999"),
        set_in(*FIRST, "tree_param", "num_deleted", value="1"),
        set_in(*FIRST, "tree_param", "size_leaf_vector", value="8"),
        set_in(*FIRST, "categories_nodes", value=[900]),
        set_in(*FIRST, "categories_sizes", value=[100000]),
        set_in(*FIRST, "categories_segments", value=[77]),
    ],
)
def test_forged_json_of_xgboost_is_refused(change: Callable[[Any], None]) -> None:
    document = json.loads(STORED["xgboost"])
    change(document)
    with pytest.raises((ValueError, KeyError, IndexError, TypeError)):
        LIBRARIES["xgboost"].from_bytes(json.dumps(document).encode())


def test_a_category_beyond_all_numbers_is_refused() -> None:
    document = json.loads(STORED["xgboost"])
    trees = document["learner"]["gradient_booster"]["model"]["trees"]
    next(tree for tree in trees if tree["categories"])["categories"][0] = 2**40
    with pytest.raises(ValueError, match="the categories of a tree do not fit"):
        LIBRARIES["xgboost"].from_bytes(json.dumps(document).encode())


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(sorted(STORED)), data=st.data())
def test_any_changed_byte_is_refused_or_harmless(name: str, data: st.DataObject) -> None:
    forged = bytearray(STORED[name])
    forged[data.draw(st.integers(0, len(forged) - 1))] = data.draw(st.sampled_from(b"0123456789-. =\n[],x"))
    try:
        model = LIBRARIES[name].from_bytes(bytes(forged))
    except Exception:  # whichever the library raises
        return
    assert model.predict(ROWS, 1).shape == (80, 3)


BOOSTED = LIBRARIES["sklearn"].fit(DATA, GROWTH)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_nodes", np.array([3]), "another length than they say"),
        ("n_nodes", np.array([-1, 7, 1, 1, 1, 1]), "another length than they say"),
        ("n_grown", 4, "6 trees are not grown in 4 steps"),
        ("n_grown", 6, "shorter|longer"),
        ("nodes", np.zeros(5), "other fields than scikit-learn's"),
        ("raw_left_cat_bitsets", np.zeros((0, 8), dtype=np.uint32), "another length than they say"),
        ("n_classes", 2, "its classes are not among 2"),
        ("n_classes", 0, "a HistGradientBoostingClassifier stands for a HistGradientBoostingRegressor"),
    ],
)
def test_forged_arrays_of_scikit_learn_are_refused(name: str, value: Any, message: str) -> None:
    parts = load_estimator(BOOSTED.to_bytes())
    assert name in parts
    with pytest.raises(ValueError, match=message):
        LIBRARIES["sklearn"].from_bytes(dump_estimator(parts | {name: value}, "trees"))


@pytest.mark.parametrize(
    ("field", "value"), [("left", 0), ("right", 99), ("feature_idx", 3), ("bitset_idx", 99)]
)
def test_forged_nodes_of_scikit_learn_are_refused(field: str, value: int) -> None:
    parts = load_estimator(BOOSTED.to_bytes())
    parts["nodes"][field] = value
    with pytest.raises(ValueError, match="a node of a tree|a tree (looks at|asks for)"):
        LIBRARIES["sklearn"].from_bytes(dump_estimator(parts, "trees"))
