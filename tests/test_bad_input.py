"""Every malformed input gets one clear sentence: what it is, what came, what would work."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.tree import DecisionTreeClassifier

from gbgnn import (
    MLP,
    Adjacency,
    FunctionalGradient,
    GBGNNClassifier,
    Graph,
    InputInjection,
    NodeSplit,
    Samme,
)
from gbgnn.errors import GBGNNError
from gbgnn.metrics import Accuracy
from gbgnn.propagation import AugmentedAdjacency
from gbgnn.testing import two_blocks
from gbgnn.theory import rademacher_complexity

GRAPH, Y = two_blocks(20, n_classes=2)
A, X = GRAPH.adjacency, np.asarray(GRAPH.features)
NODES = np.arange(10)
NAN = float("nan")


def fit(
    nodes: Any = NODES,
    y: Any = Y[:10],
    graph: Any = GRAPH,
    settings: dict[str, Any] | None = None,
    **call: Any,
) -> None:
    small = {"n_rounds": 2, "learner": MLP(epochs=2, units=4), "random_state": 0}
    GBGNNClassifier(**{**small, **(settings or {})}).fit(nodes, y, graph=graph, **call)


def setting(**values: Any) -> Callable[[], None]:
    return lambda: fit(settings=values)


def with_nan(matrix: Any) -> Any:
    broken = np.array(matrix if isinstance(matrix, np.ndarray) else matrix.toarray(), float)
    broken[2, 1] = NAN
    return broken


def counted_from_one(matrix: Any) -> Any:
    shifted = matrix.copy()
    shifted.indices = np.where(shifted.indices == 0, 20, shifted.indices)
    return shifted


def pointing_outside(layout: str, index: int = 10**6) -> Any:
    """Return a matrix that SciPy's compiled code would follow out of its arrays."""
    matrix = A.asformat(layout).copy()
    (matrix.coords[1] if layout == "coo" else matrix.indices)[0] = index
    return matrix


def fit_labels(y: Any) -> None:
    fit(np.arange(20), y, settings={"task": "multilabel"})


def ending_outside() -> Any:
    matrix = A.copy()
    matrix.indptr[-1] = 10**6
    return matrix


def model() -> GBGNNClassifier:
    return GBGNNClassifier(n_rounds=1, learner=MLP(epochs=30), random_state=0).fit(NODES, Y[:10], graph=GRAPH)


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    # Graphs
    "adjacency not square": (lambda: Graph(np.ones((2, 3)), X), r"square matrix; got shape \(2, 3\)"),
    "adjacency is a vector": (lambda: Graph(np.ones(3), X), r"square matrix; got shape \(3,\)"),
    "adjacency empty": (
        lambda: Graph(np.empty((0, 0)), np.empty((0, 1))),
        "0 x 0; a graph needs at least one node",
    ),
    "adjacency of text": (lambda: Graph("edges.csv", X), "adjacency must be numbers; got str"),
    "adjacency ragged": (lambda: Graph([[0, 1], [1]], X), "adjacency is not a matrix"),
    "adjacency NaN": (lambda: Graph(with_nan(A), X), r"1 NaN or infinite weights \(first: edge 2 -> 1\)"),
    "adjacency infinite": (
        lambda: Graph(sp.csr_array([[0, np.inf], [1, 0]]), X[:2]),
        "every weight must be finite",
    ),
    "adjacency complex": (lambda: Graph(1j * A, X), "adjacency must be real; got complex"),
    "adjacency masked": (
        lambda: Graph(np.ma.masked_equal(A.toarray(), 1), X),
        "adjacency has .* masked values; fill or drop them first",
    ),
    "adjacency of objects": (
        lambda: Graph(A.toarray().astype(object), X),
        "must be numbers; .* dtype object",
    ),
    "adjacency of times": (
        lambda: Graph(np.ones((20, 20), "m8[s]"), X),
        "adjacency must be numbers; got ndarray of dtype timedelta64",
    ),
    "adjacency without values": (
        lambda: Graph(torch.ones(20, 20, device="meta"), X),
        "adjacency is a meta tensor, which has a shape but no values",
    ),
    "adjacency of vectors": (
        lambda: Graph(torch.ones(20, 20).to_sparse(1), X),
        "adjacency is a torch tensor that NumPy cannot read",
    ),
    "adjacency a sparse vector": (
        lambda: Graph(sp.coo_array(np.ones(3)), X),
        r"square matrix; got shape \(3,\)",
    ),
    "adjacency counted from 1": (
        lambda: Graph(counted_from_one(A), X),
        r"column 20, but it has 20 columns \(0 to 19\)\. Ids are counted from 0; yours look counted from 1",
    ),
    "adjacency too large for floats": (
        lambda: Graph(np.full((20, 20), np.longdouble(10) ** 4000), X),
        "400 NaN or infinite weights",
    ),
    **{
        f"{what} outside, {layout}": (
            partial(act, pointing_outside(layout)),
            "holds (column|row|block) 1000000, but",
        )
        for layout in ("csr", "csc", "bsr", "coo")
        for what, act in {
            "adjacency": lambda matrix: Graph(matrix, X),
            "features": lambda matrix: Graph(A, matrix),
            "given matrix": lambda matrix: fit(settings={"propagation": matrix}),
            "labels": fit_labels,
            "recipe": lambda matrix: AugmentedAdjacency().build(matrix),
            "bound": lambda matrix: rademacher_complexity(matrix, 5),
        }.items()
    },
    "labels that end outside": (lambda: fit_labels(ending_outside()), "y: indptr ends at 1000000, but"),
    "recipe that ends outside": (
        lambda: AugmentedAdjacency().build(ending_outside()),
        "indptr ends at 1000000",
    ),
    "features too few rows": (lambda: Graph(A, X[:5]), "features has 5 rows but adjacency is 20 x 20"),
    "features a vector": (lambda: Graph(A, X[:, 0]), r"a matrix with one row per node; got shape \(20,\)"),
    "features without columns": (lambda: Graph(A, X[:, :0]), "features has no columns"),
    "features NaN": (lambda: Graph(A, with_nan(X)), r"1 NaN or infinite values \(first: node 2, column 1\)"),
    "features NaN, sparse": (lambda: Graph(A, sp.csr_array(with_nan(X))), r"\(first: node 2, column 1\)"),
    "features of text": (lambda: Graph(A, [["a"]] * 20), "features must be numbers; got list of dtype <U1"),
    "features complex": (lambda: Graph(A, 1j * X), "features must be real"),
    "features complex, torch": (lambda: Graph(A, torch.tensor(1j * X)), "features must be real"),
    "features masked": (lambda: Graph(A, np.ma.masked_equal(X, X[0, 0])), "features has 1 masked values"),
    "features without values": (
        lambda: Graph(A, torch.ones(20, 2, device="meta")),
        "features is a meta tensor",
    ),
    "node_ids too few": (
        lambda: Graph(A, X, node_ids=[1, 2]),
        r"node_ids has shape \(2,\) but the graph has 20",
    ),
    "node_ids ragged": (lambda: Graph(A, X, node_ids=[[1], [1, 2]]), "node_ids is not a list"),
    "node_ids unhashable": (
        lambda: Graph(A[:2, :2], X[:2], node_ids=np.array([{}, []], dtype=object)),
        "node_ids must be numbers or text: .*unhashable",
    ),
    "node_ids masked": (
        lambda: Graph(A, X, node_ids=np.ma.masked_equal(np.arange(20), 3)),
        "node_ids has 1 masked values",
    ),
    "node_ids repeated": (lambda: Graph(A, X, node_ids=[1] * 20), "node_ids holds repeated ids"),
    "negative weights": (lambda: fit(graph=Graph(-A, X)), 'negative weights.*propagation="given"'),
    # Splits
    "split without train": (lambda: NodeSplit([], val=[1]), "train is empty"),
    "split overlaps": (
        lambda: NodeSplit([1, 2, 3], val=[3, 2]),
        r"val shares 2 nodes with train \(first: 2, 3\)",
    ),
    "split repeats": (lambda: NodeSplit([1, 1]), r"1 repeated node ids \(first: 1\)"),
    "split beyond the graph": (
        lambda: NodeSplit([25]).check(20),
        "train holds node id 25, but the graph has 20 nodes",
    ),
    # Nodes and labels
    "graph of another kind": (lambda: fit(graph=A), "graph must be a gbgnn.Graph; got csr_array"),
    "no nodes": (lambda: fit([], []), "nodes is empty; training needs labelled nodes"),
    "node beyond the graph": (
        lambda: fit([0, 20], [0, 1]),
        r"node id 20, but the graph has 20 nodes \(0 to 19\)",
    ),
    "negative node": (lambda: fit([0, -1], [0, 1]), "node id -1"),
    "node repeated": (lambda: fit([0, 1, 1], [0, 1, 1]), "1 repeated node ids"),
    "node fractional": (lambda: fit([0, 1.5], [0, 1]), "whole numbers .* got 1.5"),
    "node NaN": (lambda: fit([0, NAN], [0, 1]), "whole numbers .* got nan"),
    "node of text": (lambda: fit(["a", "b"], [0, 1]), "nodes must be integers .* got dtype <U1"),
    "node mask": (
        lambda: fit(np.ones(20, bool), Y),
        r"boolean mask; node ids are needed: np.flatnonzero\(nodes\)",
    ),
    "nodes as a table": (
        lambda: fit(np.ones((4, 2), int), Y[:4]),
        r"shape \(n,\) or \(n, 1\); got shape \(4, 2\)",
    ),
    "too few labels": (lambda: fit(NODES, Y[:9]), "y has 9 labels for 10 nodes"),
    "one class": (lambda: fit([0, 2], [1, 1]), "y has one class only"),
    "labels as a table": (
        lambda: fit([0, 1], np.eye(2), settings={"task": "classification"}),
        r"one class per node, shape \(n,\); got shape \(2, 2\)",
    ),
    "labels as a table of numbers": (
        lambda: fit([0, 1], np.array([[0.5, 1.0], [2.0, 3.0]])),
        "y must be a matrix of 0 and 1, a column per label; got other entries",
    ),
    "labels continuous": (
        lambda: fit([0, 1], [0.25, 0.5]),
        "must be classes; got continuous numbers such as .*0.25",
    ),
    "labels missing": (lambda: fit([0, 1, 2], [0, NAN, 1]), r"1 missing labels \(first: position 1\)"),
    "labels of -1": (
        lambda: fit([0, 1, 2, 3], [-1, 0, 1, -1]),
        r"y has 2 labels that are -1 \(first: position 0\), which stands for 'no label': leave those",
    ),
    "labels of -1 and 1": (lambda: fit([0, 1], [1, -1]), r"name all of them: task=Classification\(classes="),
    "labels of -1.0": (lambda: fit([0, 1, 2], [1.0, 0.0, -1.0]), "1 labels that are -1 "),
    "labels empty": (lambda: fit([0, 1, 2], ["a", "", "b"]), "1 labels that are ''"),
    "labels of bytes": (
        lambda: fit([0, 1, 2], [b"a", b"", b"b"]),
        "must be text, numbers or truth .* got dtype .S1",
    ),
    "labels of two kinds": (
        lambda: fit([0, 1, 2], np.array([1, "1", 2], object)),
        "y mixes text and numbers; use one kind of label",
    ),
    "validation of -1": (
        lambda: fit(validation=([10, 11], [0, -1])),
        "validation has 1 labels that are -1",
    ),
    "labels None": (lambda: fit([0, 1], ["a", None]), r"1 missing labels \(first: position 1\)"),
    # Validation and weights
    "validation overlaps": (
        lambda: fit(validation=([9, 10], Y[9:11])),
        r"shares 1 nodes with the training nodes",
    ),
    "validation empty": (lambda: fit(validation=([], [])), "validation is empty"),
    "validation no pair": (
        lambda: fit(validation=np.arange(10, 12)),
        r"must be a pair \(nodes, y\); got ndarray",
    ),
    "validation new class": (
        lambda: fit(validation=([10, 11], [0, 7])),
        "validation has class 7, which no training node has",
    ),
    "validation too few labels": (
        lambda: fit(validation=([10, 11], [0])),
        "the y of validation has 1 labels for 2 nodes",
    ),
    "validation beyond": (lambda: fit(validation=([30], [0])), "validation holds node id 30"),
    "validation twice": (
        lambda: fit(validation=([10], [0]), settings={"validation_fraction": 0.1}),
        "either validation= or validation_fraction, not both",
    ),
    "validation_fraction too large": (
        setting(validation_fraction=1.0),
        r"validation_fraction must be in \(0, 1\)",
    ),
    "validation_fraction too small": (setting(validation_fraction=0.01), "cannot be split by class"),
    "weights too few": (
        lambda: fit(sample_weight=[1.0]),
        r"sample_weight has shape \(1,\), but there are 10",
    ),
    "weights negative": (lambda: fit(sample_weight=-np.ones(10)), "must be finite, not negative"),
    "weights zero": (lambda: fit(sample_weight=np.zeros(10)), "not all zero"),
    "weights NaN": (lambda: fit(sample_weight=np.full(10, NAN)), "must be finite"),
    "standardize a table": (
        setting(learner=MLP(standardize={})),
        "MLP.standardize must be True or False; got {}",
    ),
    "weights of text": (
        lambda: fit(sample_weight=["a"] * 10),
        "sample_weight must be a number for each labelled node",
    ),
    "feature_norm unknown": (
        setting(feature_norm="max"),
        "GBGNNClassifier.feature_norm must be one of l1, l2; got 'max'",
    ),
    "class_weight unknown": (setting(class_weight="fair"), "class_weight='fair' does not fit"),
    # Settings
    "n_rounds zero": (setting(n_rounds=0), "GBGNNClassifier.n_rounds must be an integer >= 1; got 0"),
    "n_rounds fractional": (setting(n_rounds=2.5), "n_rounds must be an integer >= 1; got 2.5"),
    "aggregation misspelt": (
        setting(aggregation="adjency"),
        "unknown aggregation 'adjency'. Did you mean 'adjacency'",
    ),
    "aggregation a class": (setting(aggregation=Adjacency), r"got the class Adjacency. Write Adjacency\(\)"),
    "aggregation a number": (
        setting(aggregation=3),
        r"aggregation must be a name \(.*\) or an object of Aggregation; got 3",
    ),
    "learner misspelt": (setting(learner="mpl"), "unknown learner 'mpl'. Did you mean 'mlp'"),
    "learner a class": (setting(learner=DecisionTreeClassifier), r"Write DecisionTreeClassifier\(\)"),
    "learner of the wrong kind": (
        setting(learner=DecisionTreeClassifier()),
        "is a classifier, but .* asks for regression",
    ),
    "rule misspelt": (setting(rule="same"), "unknown rule 'same'. Did you mean 'samme'"),
    "propagation misspelt": (setting(propagation="augmentd"), "Did you mean 'augmented'"),
    "propagation of another size": (setting(propagation=np.eye(3)), "is 3 x 3, but the graph has 20 nodes"),
    "mixing out of range": (setting(aggregation=InputInjection(mixing=1.4)), r"must be in \[0, 1\]; got 1.4"),
    "error_floor out of range": (setting(rule=Samme(error_floor=0.9)), r"must be in \(0, 0.5\); got 0.9"),
    "learning_rate out of range": (
        setting(learning_rate=-1.0),
        r"FunctionalGradient.learning_rate must be in \(0, 2\)",
    ),
    "loss for three classes": (
        lambda: fit(np.arange(6), [0, 1, 2] * 2, settings={"rule": FunctionalGradient(loss="sigmoid")}),
        "is for two classes; got 3",
    ),
    "loss of numbers": (
        setting(rule=FunctionalGradient(loss="squared")),
        'SquaredError takes numbers, but y has classes; use loss="softmax" or "auto"',
    ),
    "loss misspelt": (setting(rule=FunctionalGradient(loss="sofmax")), "Did you mean 'softmax'"),
    "metric misspelt": (setting(metric="acuracy"), "unknown metric 'acuracy'. Did you mean 'accuracy'"),
    "metric a class": (setting(metric=Accuracy), "metric must be a name of .* got <class .*Accuracy"),
    "metric a number": (setting(metric=3), "metric must be a name of scikit-learn's scorers, .* got 3"),
    "metric for two classes": (
        lambda: fit(np.arange(6), [0, 1, 2] * 2, settings={"metric": "f1"}),
        "metric 'f1' cannot judge these predictions: Target is multiclass",
    ),
    "metric of text": (
        setting(metric=lambda *_: "good"),
        "metric '<lambda>' cannot judge these predictions: could not convert",
    ),
    "task misspelt": (setting(task="clasification"), "Did you mean 'classification'"),
    "task of numbers": (
        setting(task="regression"),
        r"GBGNNClassifier predicts classes or labels; task=Regression\(\) is to predict numbers",
    ),
    "labels in one column": (
        setting(task="multilabel"),
        r"y must be a 0/1 matrix with a row per node; got shape \(10,\)",
    ),
    "labels other than 0 and 1": (
        lambda: fit([0, 1], [[0, 2], [1, 0]], settings={"task": "multilabel"}),
        "must be a matrix of 0 and 1, a column per label",
    ),
    "rule for several labels": (
        lambda: fit([0, 1], [[0, 1], [1, 0]], settings={"task": "multilabel", "rule": "samme"}),
        "Samme",
    ),
    "class_weight of several labels": (
        lambda: fit([0, 1], np.eye(2, dtype=int), settings={"task": "multilabel", "class_weight": "even"}),
        "class_weight of several labels must be \"balanced\" or a dictionary from label .* got 'even'",
    ),
    "select misspelt": (setting(select="best"), "GBGNNClassifier.select must be one of auto, last"),
    "select needs validation": (setting(select="validation"), "needs validation nodes"),
    "early stopping needs validation": (
        setting(n_iter_no_change=3),
        "stops on validation nodes, but there are none",
    ),
    "device unknown": (setting(device="gpu0"), 'device must be "auto", "cpu" or "cuda"; got \'gpu0\''),
    "dtype unknown": (
        setting(dtype="float16"),
        "dtype must be one of float32, float64, bfloat16; got 'float16'",
    ),
    "seed negative": (setting(random_state=-5), "random_state must be None, an integer >= 0 .* got -5"),
    "verbose negative": (setting(verbose=-1), "verbose must be an integer >= 0; got -1"),
    # Prediction
    "predict beyond the graph": (lambda: model().predict([99]), "node id 99, but the graph has 20 nodes"),
    "predict other features": (
        lambda: model().predict([0], graph=Graph(A, X[:, :2])),
        "graph has 2 features per node, but the model was fitted with 5",
    ),
    "predict on no graph": (lambda: model().predict([0], graph=A), "graph must be a gbgnn.Graph"),
    "history column": (lambda: model().history_["los"], "no column 'los'"),
    "middle of an ensemble": (lambda: model().ensemble_[1:], "only a prefix of an ensemble is a model"),
}


@pytest.mark.parametrize(("act", "message"), CASES.values(), ids=CASES)
def test_malformed_input_gets_its_message(act: Callable[[], Any], message: str) -> None:
    with pytest.raises(GBGNNError, match=message) as caught:
        act()
    assert isinstance(caught.value, (ValueError, RuntimeError, ImportError))
    assert len(str(caught.value)) < 400


def test_the_table_is_long_enough() -> None:
    assert len(CASES) >= 40


def test_settings_object_of_the_wrong_name_is_scikit_learns_error() -> None:
    with pytest.raises(ValueError, match="Invalid parameter 'mixng'"):
        GBGNNClassifier(aggregation=InputInjection()).set_params(aggregation__mixng=0.3)
