from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from gbgnn import GBGNNClassifier, Graph, NodeSplit
from gbgnn.errors import GraphError
from gbgnn.report import Subject


def test_kinds(classes: Subject, labels: Subject, numbers: Subject) -> None:
    assert [each.kind for each in (classes, labels, numbers)] == ["classes", "labels", "numbers"]


def test_answers_are_what_the_model_predicts(classes: Subject) -> None:
    test = classes.part("test")
    assert test is not None
    assert (classes.answers["test"].predicted == classes.model.predict(test.nodes)).all()
    assert classes.answers["test"].proba.shape == (20, 3)
    assert classes.judged is test


def test_another_graph_than_that_of_the_fit_is_predicted(classes: Subject) -> None:
    graph = classes.graph
    other = Graph(
        graph.adjacency, 2 * graph.features, node_ids=graph.node_ids, feature_names=graph.feature_names
    )
    y = np.array([*classes.titles * 20])
    subject = Subject.of(classes.model, other, y, NodeSplit([0, 1], test=[2, 3, 4]))
    assert subject.parts[0].graph is other
    assert (subject.answers["test"].predicted == classes.model.predict([2, 3, 4], graph=other)).all()


def test_names_of_classes_stand_for_labels(classes: Subject) -> None:
    from dataclasses import replace

    named = replace(classes, class_names={classes.titles[0]: "first"})
    assert named.titles[0] == "first"
    assert named.titles[1:] == classes.titles[1:]


def test_y_of_another_length_is_refused(classes: Subject) -> None:
    with pytest.raises(GraphError, match="y has 3 entries, but the graph has 60 nodes"):
        Subject.of(classes.model, classes.graph, [0, 1, 2], None)


def test_a_model_that_is_not_fitted_is_refused(classes: Subject) -> None:
    with pytest.raises(NotFittedError):
        Subject.of(GBGNNClassifier(), classes.graph, np.zeros(60), None)
