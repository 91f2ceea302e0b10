from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from gbgnn import datasets
from gbgnn.datasets import kfold_splits, random_split, stratified_split, uniform_split
from gbgnn.datasets.splits import choose_split, named_split
from gbgnn.errors import DataError, GraphError, ParameterError
from gbgnn.labels import NodeSplit

Y = np.repeat([0, 1, 2, -1], [60, 30, 30, 10])


def _parts(split):
    return split.train.tolist(), split.val.tolist(), split.test.tolist()


def _nodes(split):
    return np.concatenate([split.train, split.val, split.test])


def test_random_split_draws_per_class_and_never_unlabelled_nodes():
    split = random_split(Y, per_class=7, n_val=20, n_test=None)
    assert np.bincount(Y[split.train]).tolist() == [7, 7, 7]
    assert len(split.val) == 20
    assert np.array_equal(np.sort(_nodes(split)), np.flatnonzero(Y >= 0))


@pytest.mark.parametrize("draw", [random_split, stratified_split])
def test_same_seed_same_split_whatever_the_global_generator(draw):
    sizes = {"per_class": 5, "n_val": 10, "n_test": 10} if draw is random_split else {}
    first = draw(Y, seed=3, **sizes)
    np.random.seed(1)  # noqa: NPY002 the point is that it does not matter
    assert _parts(first) == _parts(draw(Y, seed=3, **sizes))
    assert _parts(first) != _parts(draw(Y, seed=4, **sizes))


def test_random_split_says_which_class_is_too_small():
    with pytest.raises(ParameterError, match=r"class 'b' has 2 labelled nodes, fewer than per_class=3"):
        random_split(["a"] * 9 + ["b"] * 2, per_class=3, n_val=0, n_test=0)


def test_random_split_says_when_too_few_nodes_are_left():
    with pytest.raises(ParameterError, match=r"need 1500 nodes, but 60 labelled nodes are left after 60"):
        random_split(Y)


def test_stratified_split_keeps_the_class_shares():
    split = stratified_split(Y, 0.5, 0.2)
    for nodes, share in ((split.train, 0.5), (split.val, 0.2), (split.test, 0.3)):
        assert np.bincount(Y[nodes]).tolist() == [60 * share, 30 * share, 30 * share]


def test_stratified_split_can_leave_nodes_out():
    assert len(_nodes(stratified_split(Y, 0.2, 0.1, 0.1))) == 48


def test_stratified_split_gives_every_class_a_training_node():
    split = stratified_split([0] * 20 + [1], train=0.1)
    assert 20 in split.train


def test_stratified_fractions_may_not_exceed_one():
    with pytest.raises(ParameterError, match=r"add up to 1\.3"):
        stratified_split(Y, 0.6, 0.2, 0.5)
    with pytest.raises(ParameterError, match=r"stratified_split\.train must be in \(0, 1\]"):
        stratified_split(Y, 0)
    with pytest.raises(ParameterError, match=r"stratified_split\.test must be in \[0, 1\]"):
        stratified_split(Y, test=-0.1)


def test_folds_cover_every_labelled_node_once_and_are_stratified():
    splits = kfold_splits(Y, 5, val=0.25, seed=2)
    tested = np.concatenate([split.test for split in splits])
    assert np.array_equal(np.sort(tested), np.flatnonzero(Y >= 0))
    for split in splits:
        assert np.bincount(Y[split.test]).tolist() == [12, 6, 6]
        assert np.bincount(Y[split.val]).tolist() == [12, 6, 6]
        assert len(_nodes(split)) == 120


def test_folds_without_validation_nodes():
    assert [len(split.val) for split in kfold_splits(Y, 3, val=0)] == [0, 0, 0]


def test_folds_need_enough_nodes_of_every_class():
    with pytest.raises(ParameterError, match="class 1 has 2 labelled nodes, fewer than n_splits=3"):
        kfold_splits([0, 0, 0, 1, 1], 3)


def test_nothing_labelled_is_an_error():
    with pytest.raises(DataError, match="no labelled node"):
        stratified_split([-1, -1])


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=60), st.integers(0, 5))
def test_stratified_split_of_any_labels_is_a_partition(labels, seed):
    y = np.array([0, *labels])
    if set(y.tolist()) == {-1, 1}:
        return
    assert np.array_equal(np.sort(_nodes(stratified_split(y, seed=seed))), np.flatnonzero(y >= 0))


def test_words_name_the_parts():
    split = named_split(np.array(["Train", "valid", "validation", "test", "", "none"]), "x")
    assert _parts(split) == ([0], [1, 2], [3])


def test_unknown_words_and_missing_training_nodes_are_errors():
    with pytest.raises(DataError, match=r"nodes\.csv: data row 2 says 'dev'; use train, val, test"):
        named_split(np.array(["train", "dev"]), "nodes.csv")
    with pytest.raises(DataError, match="marks no node as train"):
        named_split(np.array(["test"]), "nodes.csv")


def test_choose_split_answers_every_way_of_asking():
    own = [NodeSplit([0]), NodeSplit([1])]
    assert choose_split(None, Y, own, "x")[0] is own[0]
    assert choose_split("public", Y, own, "x")[0] is own[0]
    assert choose_split("auto", Y, own, "x")[0] is own[0]
    assert choose_split(1, Y, own, "x") == (own[1], "public 1 of 2")
    assert choose_split(own[1], Y, (), "x") == (own[1], "given")
    assert choose_split("auto", Y, (), "x", seed=4)[1] == "stratified, seed 4"
    assert choose_split("random", Y, own, "x", per_class=2, n_val=3, n_test=4)[1] == "random, seed 0"
    fold, name = choose_split(4, Y, own[:1], "x")
    assert _parts(fold) == _parts(kfold_splits(Y)[4])
    assert name == "fold 4 of 5, seed 0"


def test_choose_split_refuses_what_it_cannot_give():
    with pytest.raises(DataError, match=r"x comes without a split; give split='stratified'"):
        choose_split(None, Y, (), "x")
    with pytest.raises(ParameterError, match=r"got 'randm'. Did you mean 'random'\?"):
        choose_split("randm", Y, (), "x")
    with pytest.raises(ParameterError, match=r"x\.split must be an integer from 0 to 4; got 5"):
        choose_split(5, Y, (), "x")


def test_a_uniform_split_takes_every_set_of_nodes_equally_often() -> None:
    y = np.array([0, 0, 0, 1, 1, -1])  # the last has no label
    counts = Counter(tuple(uniform_split(y, 0.4, 0.2, seed=seed).train.tolist()) for seed in range(4000))
    assert set(counts) == set(combinations(range(5), 2))
    assert chisquare(list(counts.values())).pvalue > 1e-3


def test_a_uniform_split_has_the_shares_that_were_asked_for() -> None:
    y = np.repeat([0, 1, 2], 20)
    split = uniform_split(y, 0.5, 0.25, 0.1, seed=3)
    assert (len(split.train), len(split.val), len(split.test)) == (30, 15, 6)
    assert len(uniform_split(y, 0.5, 0.25).test) == 15
    assert len(uniform_split(y, 1e-9, 0.0).train) == 1
    with pytest.raises(ParameterError, match="add up to 1.1"):
        uniform_split(y, 0.8, 0.3)
    with pytest.raises(DataError, match="no labelled node"):
        uniform_split([-1, -1])


def test_numbers_are_drawn_uniformly_too() -> None:
    y = np.array([0.5, np.nan, 1.5, 2.25])
    split = uniform_split(y, 0.5, 0.0)
    assert sorted([*split.train, *split.test]) == [0, 2, 3]


def test_splits_know_how_they_were_drawn(tmp_path: Path) -> None:
    y = np.repeat([0, 1], 30)
    assert uniform_split(y).draw == "uniform"
    assert random_split(y, 5, 10, 10).draw == "per class"
    assert stratified_split(y).draw == kfold_splits(y)[0].draw == "strata"
    assert NodeSplit([0]).draw == ""
    assert NodeSplit([0]).holds_out_uniformly is None
    with pytest.raises(GraphError, match="draw must be one of '', 'uniform'"):
        NodeSplit([0], draw="blind")
    data = datasets.load("karate", split="uniform", seed=2)
    assert (data.split.draw, data.split_name) == ("uniform", "uniform, seed 2")
    assert datasets.load_dataset(datasets.save_dataset(data, tmp_path / "k.gbgraph")).split.draw == "uniform"
