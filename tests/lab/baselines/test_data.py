from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given as drawing
from hypothesis import settings as budget
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from gbgnn.datasets import Dataset, karate
from gbgnn.errors import GraphError
from gbgnn.graph import Graph
from gbgnn.labels import NodeSplit
from gbgnn.propagation import AugmentedAdjacency, NormalizedAdjacency, RandomWalk
from gbgnn.tasks import Classification
from gbgnn_lab.baselines.data import SparseMatrix, TrainingData, dropout, rank_auc, split_hops


def test_labels_of_training_and_validation_nodes_alone_are_kept(small: Dataset) -> None:
    given = TrainingData.from_dataset(small)
    classes = given.task.classes
    assert classes[given.train.targets].tolist() == small.y[small.train].tolist()
    assert given.validation is not None
    assert classes[given.validation.targets].tolist() == small.y[small.val].tolist()
    told = {*given.train.rows.tolist(), *given.validation.rows.tolist()}
    assert told.isdisjoint(small.test.tolist())
    assert not hasattr(given, "y")


def test_classes_are_those_of_the_training_nodes() -> None:
    data = karate().with_split(NodeSplit([0, 1, 33], test=[2]))
    renamed = replace(data, y=np.where(np.arange(34) == 2, 99, data.y), class_names=None)
    given = TrainingData.from_dataset(renamed)
    assert given.n_outputs == 2
    assert 99 not in given.task.classes


def test_features_stay_sparse_where_the_graph_has_them_sparse(small: Dataset) -> None:
    dense = TrainingData.from_dataset(small).features
    graph = Graph(small.graph.adjacency, sp.csr_array(small.graph.features))
    sparse = TrainingData.from_dataset(replace(small, graph=graph)).features
    assert isinstance(dense, torch.Tensor)
    assert isinstance(sparse, SparseMatrix)
    assert sparse.tensor.to_dense().equal(dense)


def test_mixing_is_the_recipe(given: TrainingData) -> None:
    for recipe in (AugmentedAdjacency(), RandomWalk()):
        expected = torch.tensor(recipe.build(given.graph.adjacency).toarray(), dtype=torch.float32)
        torch.testing.assert_close(given.mixing(recipe).tensor.to_dense(), expected)
        X = given.features
        torch.testing.assert_close(given.inputs(recipe).P(X), expected @ X)


def test_edges_lead_from_the_heard_to_the_hearing() -> None:
    adjacency = np.zeros((3, 3))
    adjacency[0, 2] = 1  # node 0 hears node 2
    data = Dataset("d", Graph(adjacency, np.eye(3)), np.array([0, 1, 1]), NodeSplit([0, 1]))
    given = TrainingData.from_dataset(data)
    assert given.edges.tolist() == [[2], [0]]
    assert given.one_hot().tolist() == [[1, 0], [0, 1], [0, 0]]


def test_a_class_that_only_validation_has_is_an_error() -> None:
    graph = Graph(np.zeros((3, 3)), np.eye(3))
    data = Dataset("d", graph, np.array([0, 1, 2]), NodeSplit([0, 1], val=[2]))
    with pytest.raises(GraphError, match="validation has class 2, which no training node has"):
        TrainingData.from_dataset(data)


def drawn(seed: int, n_rows: int = 7, n_columns: int = 5, density: float = 0.4) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.random_array((n_rows, n_columns), density=density, format="csr", rng=rng)


@drawing(st.integers(0, 10**6), st.floats(0, 1), st.sampled_from([0.0, 0.5]))
@budget(max_examples=25)
def test_sparse_product_and_gradient_equal_the_dense_ones(seed: int, density: float, share: float) -> None:
    plain = drawn(seed, density=density)
    torch.manual_seed(seed)
    matrix = dropout(SparseMatrix.from_scipy(plain), share)
    dense = matrix.tensor.to_dense()
    right = torch.randn(5, 3)
    slopes = torch.randn(7, 3)
    grads = []
    for left in (matrix, dense):
        leaf = right.clone().requires_grad_()
        product = left @ leaf
        torch.testing.assert_close(product, dense @ right)
        grads.append(torch.autograd.grad((product * slopes).sum(), leaf)[0])
    torch.testing.assert_close(grads[0], grads[1])
    torch.testing.assert_close(matrix.transposed.to_dense(), dense.t())


def test_without_dropout_the_matrix_is_as_it_came() -> None:
    plain = drawn(0)
    np.testing.assert_allclose(SparseMatrix.from_scipy(plain).tensor.to_dense(), plain.toarray(), rtol=1e-6)
    assert SparseMatrix.from_scipy(plain).shape == (7, 5)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_dropout_keeps_the_mean_and_silences_a_share(kind: str) -> None:
    torch.manual_seed(0)
    ones = torch.ones(400, 100)
    matrix = ones if kind == "dense" else SparseMatrix.from_scipy(sp.csr_array(ones.numpy()))
    dropped = dropout(matrix, 0.6)
    dropped = dropped if kind == "dense" else dropped.tensor.to_dense()
    assert sorted(dropped.unique().tolist()) == pytest.approx([0, 2.5])
    assert float((dropped == 0).float().mean()) == pytest.approx(0.6, abs=0.01)
    assert dropout(matrix, 0.0) is matrix


def test_dropout_passes_gradients_where_it_passes_values() -> None:
    torch.manual_seed(0)
    X = torch.ones(50, requires_grad=True)
    kept = dropout(X, 0.5)
    assert torch.autograd.grad(kept.sum(), X)[0].equal(kept.detach())
    assert dropout(X, 0.0) is X


@budget(deadline=None)
@drawing(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 1)), min_size=2).filter(
        lambda pairs: len({target for _, target in pairs}) == 2
    )
)
def test_auc_is_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    scores, targets = np.array(pairs).T
    found = rank_auc(torch.tensor(scores, dtype=torch.float32), torch.tensor(targets))
    assert found == pytest.approx(roc_auc_score(targets, scores))


def test_two_classes_are_ranked_by_auc_and_more_by_hits(given: TrainingData) -> None:
    assert given.validation is not None
    scores = torch.randn(len(given.validation.rows), 3)
    assert given.judge_ranking(scores, given.validation) == given.judge(scores, given.validation)
    labels = np.arange(120) % 2
    two = TrainingData.build(given.graph, labels, NodeSplit(range(60), range(60, 90)), Classification())
    assert two.validation is not None
    scores = torch.randn(30, 2)
    first, loss = two.judge_ranking(scores, two.validation)
    assert first == pytest.approx(roc_auc_score(labels[60:90], scores.softmax(dim=1)[:, 1]))
    assert loss == two.judge(scores, two.validation)[1]
    assert rank_auc(scores[:, 0], torch.ones(30)) == 0.0  # one class says nothing


@pytest.mark.parametrize("is_directed", [False, True])
def test_hops_are_those_of_shortest_paths(is_directed: bool) -> None:
    graph = nx.gnp_random_graph(40, 0.08, seed=1, directed=is_directed)
    graph.add_edge(3, 3)
    A = nx.to_scipy_sparse_array(graph, format="csr", dtype=float)
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    distances = np.array([[lengths[i].get(j, 99) for j in range(40)] for i in range(40)])
    near, far = split_hops(A)
    np.testing.assert_array_equal(near.toarray(), distances == 1)
    np.testing.assert_array_equal(far.toarray(), distances == 2)


def test_the_graph_of_two_hops_is_made_once(given: TrainingData) -> None:
    assert given.hops is given.hops
    for hop, links in zip(given.hops, split_hops(given.graph.adjacency), strict=True):
        expected = NormalizedAdjacency().build(links).toarray()
        np.testing.assert_allclose(hop.tensor.to_dense(), expected, rtol=1e-6)
