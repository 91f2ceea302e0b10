from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn.datasets import Dataset, karate
from gbgnn.errors import GraphError
from gbgnn.graph import Graph, NodeSplit
from gbgnn.propagation import AugmentedAdjacency, RandomWalk
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.layers import DenseMatrix, SparseMatrix


def test_labels_of_training_and_validation_nodes_alone_are_kept(small: Dataset) -> None:
    given, classes = TrainingData.from_dataset(small)
    assert classes[given.train.targets].tolist() == small.y[small.train].tolist()
    assert given.validation is not None
    assert classes[given.validation.targets].tolist() == small.y[small.val].tolist()
    told = {*given.train.rows.tolist(), *given.validation.rows.tolist()}
    assert told.isdisjoint(small.test.tolist())
    assert not hasattr(given, "y")


def test_classes_are_those_of_the_training_nodes() -> None:
    data = karate().with_split(NodeSplit([0, 1, 33], test=[2]))
    renamed = replace(data, y=np.where(np.arange(34) == 2, 99, data.y), class_names=None)
    given, classes = TrainingData.from_dataset(renamed)
    assert given.n_classes == 2
    assert 99 not in classes


def test_features_stay_sparse_where_the_graph_has_them_sparse(small: Dataset) -> None:
    dense = TrainingData.from_dataset(small)[0].features
    graph = Graph(small.graph.adjacency, sp.csr_array(small.graph.features))
    sparse = TrainingData.from_dataset(replace(small, graph=graph))[0].features
    assert isinstance(dense, DenseMatrix)
    assert isinstance(sparse, SparseMatrix)
    assert sparse.tensor.to_dense().equal(dense.tensor)


def test_mixing_is_the_recipe(given: TrainingData) -> None:
    for recipe in (AugmentedAdjacency(), RandomWalk()):
        expected = torch.tensor(recipe.build(given.graph.adjacency).toarray(), dtype=torch.float32)
        torch.testing.assert_close(given.mixing(recipe).tensor.to_dense(), expected)
        X = given.features.tensor
        torch.testing.assert_close(given.inputs(recipe).P(X), expected @ X)


def test_edges_lead_from_the_heard_to_the_hearing() -> None:
    adjacency = np.zeros((3, 3))
    adjacency[0, 2] = 1  # node 0 hears node 2
    data = Dataset("d", Graph(adjacency, np.eye(3)), np.array([0, 1, 1]), NodeSplit([0, 1]))
    given = TrainingData.from_dataset(data)[0]
    assert given.edges.tolist() == [[2], [0]]
    assert given.one_hot().tolist() == [[1, 0], [0, 1], [0, 0]]


def test_a_class_that_only_validation_has_is_an_error() -> None:
    graph = Graph(np.zeros((3, 3)), np.eye(3))
    data = Dataset("d", graph, np.array([0, 1, 2]), NodeSplit([0, 1], val=[2]))
    with pytest.raises(GraphError, match="validation has class 2, which no training node has"):
        TrainingData.from_dataset(data)
