"""Several labels per node: matrices, sparse ones, frames, lists of labels; weights of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import accuracy_score, average_precision_score, recall_score, roc_auc_score
from sklearn.model_selection import cross_validate

from gbgnn import MLP, Classification, FunctionalGradient, GBGNNClassifier, MultiLabel, load
from gbgnn.errors import GraphError, ParameterError
from gbgnn.population import PopulationInputs, train_population
from gbgnn.tasks import find_task
from gbgnn.testing import two_blocks

GRAPH, BLOCKS = two_blocks(120, n_classes=3)
RANDOM = np.random.default_rng(0)
SMOOTH = GRAPH.adjacency @ np.asarray(GRAPH.features)
MATRIX = np.column_stack([BLOCKS == 0, BLOCKS == 1, SMOOTH[:, 0] > 1.5 * SMOOTH[:, 0].std()]).astype(int)
NAMES = np.array(["ant", "bee", "cat"])
LISTS = [NAMES[row == 1].tolist() for row in MATRIX]
TRAIN, VAL, TEST = np.arange(70), np.arange(70, 90), np.arange(90, 120)
SMALL: dict[str, Any] = {
    "learner": MLP(epochs=10, units=8),
    "n_rounds": 8,
    "random_state": 0,
    "device": "cpu",
}


def pick(y: Any, nodes: np.ndarray) -> Any:
    if isinstance(y, list):
        return [y[i] for i in nodes]
    return y.iloc[nodes] if hasattr(y, "iloc") else y[nodes]


FORMS: dict[str, Any] = {
    "matrix": MATRIX,
    "booleans": MATRIX.astype(bool),
    "sparse array": sp.csr_array(MATRIX),
    "sparse matrix": sp.csr_matrix(MATRIX),
    "frame": pd.DataFrame(MATRIX, columns=NAMES),
    "lists": LISTS,
    "sets": [set(labels) for labels in LISTS],
    "tuples in a series": pd.Series([tuple(labels) for labels in LISTS]),
    "rows": MATRIX.tolist(),
}


def fit(y: Any = MATRIX, **chosen: Any) -> GBGNNClassifier:
    model = GBGNNClassifier(**SMALL | chosen)
    return model.fit(TRAIN, pick(y, TRAIN), graph=GRAPH, validation=(VAL, pick(y, VAL)))


@pytest.mark.parametrize("form", FORMS)
def test_labels_in_any_form_are_found_out_and_train_the_same(form: str) -> None:
    y = FORMS[form]
    model, expected = fit(y), fit(task="multilabel")
    assert isinstance(model.task_, MultiLabel)
    assert model.scores_.tobytes() == expected.scores_.tobytes()
    assert model.predict(TEST).dtype.kind == "i"
    np.testing.assert_array_equal(model.predict(TEST), model.predict_proba(TEST) > 0.5)
    np.testing.assert_array_equal(model.predict(TEST), model.decision_function(TEST) > 0)
    named = form in ("frame", "lists", "sets", "tuples in a series")
    assert model.classes_.tolist() == (NAMES.tolist() if named else [0, 1, 2])
    accuracy = accuracy_score(MATRIX[TEST], model.predict(TEST))
    assert model.score(TEST, pick(y, TEST)) == accuracy
    assert model.score(TEST, MATRIX[TEST]) == accuracy
    assert list(model.staged_score(TEST, pick(y, TEST)))[model.best_round_ - 1] == accuracy


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        ([0, 1, 1], Classification),
        (["ab", "cd"], Classification),
        ([["a"], ["b"]], Classification),
        (np.array([[0], [1]]), Classification),
        ([True, False], Classification),
        (np.array(["x", "y"], object), Classification),
        ([["a"], ["b", "c"]], MultiLabel),
        ([["a", "b"], ["c", "a"]], MultiLabel),
        ([{"a"}, {"b"}], MultiLabel),
        ([(1, 2), ()], MultiLabel),
        ([[0, 1], [1, 1]], MultiLabel),
        (np.eye(2), MultiLabel),
        (sp.eye_array(2), MultiLabel),
    ],
    ids=repr,
)
def test_what_y_is_taken_for(y: Any, kind: type) -> None:
    assert type(find_task(y)) is kind


def test_numbers_may_be_the_names_of_labels() -> None:
    task = MultiLabel().fit([{30, 10}, {20}, set()])
    assert task.class_names.tolist() == [10, 20, 30]
    assert task.encode([[20, 30], []]).tolist() == [[0, 1, 1], [0, 0, 0]]
    assert task.encode([[20, 30], [10, 20]]).tolist() == [[0, 1, 1], [1, 1, 0]]
    assert task.encode([[1, 0, 1]]).tolist() == [[1, 0, 1]]


def test_nodes_of_one_label_each_are_lists_where_several_are_possible() -> None:
    task = MultiLabel().fit([["a"], ["b"], ["a"]])
    assert task.class_names.tolist() == ["a", "b"]
    assert MultiLabel().fit([["a", "b"], []]).encode([["b"], ["a"]]).tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([["a", "b"], ["c"], []], None),
        ([[], []], "0/1 matrix with a row per node"),
        ([set(), set()], "y has no label at all"),
        ([{"a"}, {1}], "y has labels of kinds that do not go together"),
        ([[0, 1], [2, 3]], "y must be a matrix of 0 and 1"),
    ],
    ids=str,
)
def test_lists_that_are_no_labels_are_refused(y: Any, message: str | None) -> None:
    if message is None:
        assert MultiLabel().fit(y).n_columns == 3
        return
    with pytest.raises(GraphError, match=message):
        MultiLabel().fit(y)


def test_a_label_that_no_training_node_has_is_named() -> None:
    with pytest.raises(GraphError, match=r"the y of validation has label 'dog', which no training node has"):
        GBGNNClassifier(**SMALL).fit(
            TRAIN, pick(LISTS, TRAIN), graph=GRAPH, validation=([80], [["dog", "ant"]])
        )


def test_balanced_labels_are_found_more_often() -> None:
    rare = 2
    plain, balanced = fit(), fit(class_weight="balanced")
    counts = MATRIX[TRAIN].sum(axis=0)
    expected = np.column_stack([70 / (2 * (70 - counts)), 70 / (2 * counts)])
    np.testing.assert_allclose(balanced.task_.label_weights, expected)
    assert balanced.certificate_.holds
    recalls = [recall_score(MATRIX[:, rare], m.predict(np.arange(120))[:, rare]) for m in (plain, balanced)]
    assert recalls[1] > recalls[0]
    named = fit(LISTS, class_weight={"cat": 50.0})
    assert recall_score(MATRIX[:, rare], named.predict(np.arange(120))[:, rare]) > recalls[0]
    assert named.task_.label_weights.tolist() == [[1, 1], [1, 1], [1, 50]]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (
            {"class_weight": {"cow": 2}},
            r"class_weight has label 'cow', which y has not \(known: ant, bee, cat\)",
        ),
        ({"class_weight": {"ant": -1}}, r"class_weight.ant must be in \[0, inf\); got -1"),
        ({"class_weight": [1, 2, 3]}, 'must be "balanced" or a dictionary from label to the weight'),
        ({"class_weight": "balanced", "rule": FunctionalGradient(loss="sigmoid")}, 'leave loss="auto"'),
        ({"rule": "samme"}, "Samme votes for classes"),
    ],
    ids=str,
)
def test_weights_that_do_not_fit_are_said(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        fit(LISTS, **chosen)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_scikit_learns_scorers_judge_several_labels(n_labels: int) -> None:
    scoring = ["accuracy", "roc_auc", "average_precision", "f1_micro"]
    found = cross_validate(
        GBGNNClassifier(**SMALL),
        np.arange(120),
        MATRIX[:, :n_labels],
        params={"graph": GRAPH},
        scoring=scoring,
        cv=3,
        error_score="raise",
    )
    assert np.isfinite([found[f"test_{name}"] for name in scoring]).all()
    assert found["test_roc_auc"].mean() > 0.6


@pytest.mark.parametrize(
    ("metric", "score"), [("roc_auc", roc_auc_score), ("average_precision", average_precision_score)]
)
def test_metrics_of_ranks_are_means_over_the_labels(metric: str, score: Any) -> None:
    model = fit(metric=metric)
    assert model.model_.evaluate(TEST, MATRIX[TEST]) == pytest.approx(
        score(MATRIX[TEST], model.predict_proba(TEST), average="macro")
    )
    column = model.history_[f"val_{metric}"]
    assert column[model.best_round_ - 1] == max(column)


def test_a_file_keeps_names_and_weights(tmp_path: Path) -> None:
    model = fit(LISTS, class_weight={"cat": 3.0})
    model.save(tmp_path / "labels.gbgnn")
    again = load(tmp_path / "labels.gbgnn")
    assert again.classes_.tolist() == NAMES.tolist()
    assert again.predict_proba(TEST).tobytes() == model.predict_proba(TEST).tobytes()
    assert again.score(TEST, pick(LISTS, TEST)) == model.score(TEST, pick(LISTS, TEST))
    again.set_params(warm_start=True, n_rounds=10)
    again.fit(TRAIN, pick(LISTS, TRAIN), graph=GRAPH, validation=(VAL, pick(LISTS, VAL)))
    assert again.scores_.tobytes() == fit(LISTS, class_weight={"cat": 3.0}, n_rounds=10).scores_.tobytes()


def test_a_population_takes_lists_and_weights() -> None:
    model = GBGNNClassifier(**SMALL | {"class_weight": "balanced", "dtype": "float64"})
    validation = (VAL, pick(LISTS, VAL))
    data: dict[str, Any] = {"graph": GRAPH, "validation": validation}
    inputs = PopulationInputs.from_model(model, TRAIN, pick(LISTS, TRAIN), **data, predict_nodes=TEST)
    (found,) = train_population(inputs, [model])
    alone = fit(LISTS, class_weight="balanced", dtype="float64")
    np.testing.assert_allclose(found.scores, alone.scores_[TEST], atol=1e-8)
