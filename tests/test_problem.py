from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn.errors import GraphError
from gbgnn.features import LabelledRows, Neighbourhood
from gbgnn.graph import Graph
from gbgnn.problem import InputRecipe, LabelledNodes, NodeInputs, Problem
from gbgnn.propagation import AugmentedAdjacency, DenseRows, Propagator, RandomWalk, SparseRows
from gbgnn.tasks import Regression
from gbgnn.testing import make_problem, path4, two_blocks


def test_features_that_are_hardly_sparse_become_dense_on_the_device() -> None:
    X = np.array([[1.0, 0.0], [0.0, 2.0]])
    inputs = InputRecipe(AugmentedAdjacency()).build(Graph(np.eye(2), sp.csr_array(X)))
    assert isinstance(inputs.features, DenseRows)
    assert inputs.features.dense().tolist() == X.tolist()
    assert inputs.dtype == inputs.P.dtype == torch.float32
    assert inputs.device == torch.device("cpu")
    assert inputs.n_nodes == 2


def test_features_with_few_entries_stay_sparse() -> None:
    X = sp.eye_array(40, format="csr")
    inputs = InputRecipe(AugmentedAdjacency(), dtype=torch.float64).build(Graph(np.eye(40), X))
    assert isinstance(inputs.features, SparseRows)
    assert torch.equal(inputs.features.dense(), torch.eye(40, dtype=torch.float64))
    assert inputs.n_nodes == 40


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_features_are_a_copy_that_cannot_reach_the_graph(kind: Any) -> None:
    graph = Graph(np.eye(40), kind(np.eye(40, dtype=np.float32)))
    features = InputRecipe(AugmentedAdjacency()).build(graph).features
    (features.dense() if isinstance(features, DenseRows) else features.values).fill_(7)
    assert graph.features.max() == 1


@pytest.mark.parametrize(("norm", "row"), [("l1", [-0.25, 0.75]), ("l2", [-1 / 10**0.5, 3 / 10**0.5])])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("n_more", [0, 30])  # with many more columns sparse features stay sparse
def test_rows_have_length_one_and_zeros_stay(kind: Any, norm: str, row: list[float], n_more: int) -> None:
    X = np.hstack([[[-1.0, 3.0], [0.0, 0.0], [-2e9, 6e9]], np.zeros((3, n_more))])
    found = InputRecipe(AugmentedAdjacency(), norm).build(Graph(np.eye(3), kind(X))).features
    assert isinstance(found, SparseRows) == (kind is sp.csr_array and n_more > 0)
    np.testing.assert_allclose(found.dense()[:, :2], [row, [0, 0], row], rtol=1e-6)
    assert not found.dense()[:, 2:].any()


def test_a_recipe_gives_the_same_of_every_graph() -> None:
    recipe = InputRecipe(RandomWalk(), dtype=torch.float64)
    inputs = recipe.build(path4())
    # On the path 0 - 1 - 2 - 3 with features 1, 2, 4, 8.
    assert inputs.P(inputs.features.dense())[:, 0].tolist() == [2, 2.5, 5, 4]
    graph, _ = two_blocks(20)
    other = recipe.build(graph)
    np.testing.assert_allclose(
        other.P.to_scipy().toarray(), RandomWalk().build(graph.adjacency).toarray(), rtol=1e-12
    )


def test_scores_start_at_zero_in_the_precision_of_the_features() -> None:
    P = Propagator(sp.eye_array(3, format="csr"), dtype=torch.float64)
    inputs = NodeInputs.from_tensor(torch.ones(3, 2, dtype=torch.float64), P)
    scores = inputs.zero_scores(4)
    assert torch.equal(scores, torch.zeros(3, 4, dtype=torch.float64))
    assert scores.dtype == torch.float64


def test_weights_sum_to_one() -> None:
    uniform = LabelledNodes.build(np.array([3, 1]), np.array([0, 1]))
    assert uniform.weights.tolist() == [0.5, 0.5]
    weighted = LabelledNodes.build(np.array([3, 1]), np.array([0, 1]), np.array([1.0, 3.0]))
    assert weighted.weights.tolist() == [0.25, 0.75]
    assert weighted.size == 2


def test_labelled_nodes_are_copies_of_any_kind_of_target() -> None:
    rows, numbers = np.array([3, 1]), np.array([[0.5, 2.0], [1.0, 3.0]])
    nodes = LabelledNodes.build(rows, numbers)
    rows[:], numbers[:] = 0, 0
    assert nodes.rows.tolist() == [3, 1]
    assert nodes.targets.tolist() == [[0.5, 2.0], [1.0, 3.0]]
    assert (nodes.rows.dtype, nodes.targets.dtype) == (torch.int64, torch.float64)


def test_a_problem_holds_no_label_but_those_it_was_given() -> None:
    graph, _ = two_blocks(20)
    y = np.arange(20.0)
    problem = make_problem(graph, y, np.array([2, 4]), np.array([5]), task=Regression(centre=0.0, scale=1.0))
    assert problem.train.targets.tolist() == [[2.0], [4.0]]
    assert problem.validation is not None
    assert problem.validation.targets.tolist() == [[5.0]]
    assert Problem(problem.inputs, problem.task, problem.train).validation is None


TABLE = {"age": [31.0, np.nan, 58.0, 40.0], "city": ["Oslo", "Rome", "Oslo", "Oslo"]}


def test_a_recipe_that_was_fitted_encodes_other_tables_alike() -> None:
    graph = Graph(np.eye(4), TABLE)
    recipe = InputRecipe(AugmentedAdjacency()).fitted_on(graph)
    assert recipe.column_names == ("age", "city")
    assert recipe.encoder is graph.encoder
    inputs = recipe.build(graph)
    np.testing.assert_array_equal(inputs.features.dense(), graph.features)
    one = Graph(np.eye(1), {"city": ["Bern"], "age": [31.0]})
    recipe.check(one, 2)
    np.testing.assert_array_equal(
        recipe.build(one).features.dense()[:, :2], inputs.features.dense()[:1, :2]
    )  # the age
    assert recipe.build(one).features.dense()[:, 2:].tolist() == [[0, 0]]  # an unseen city


def test_trees_see_the_table_as_it_is_or_the_features() -> None:
    raw = InputRecipe(AugmentedAdjacency()).build(Graph(np.eye(4), TABLE)).raw
    np.testing.assert_array_equal(raw.matrix, [[31, 0], [np.nan, 1], [58, 0], [40, 0]])
    assert raw.categorical.tolist() == [False, True]
    assert raw.names == ["age", "city"]
    plain = InputRecipe(AugmentedAdjacency()).build(path4()).raw
    assert plain.matrix.tolist() == [[1], [2], [4], [8]]
    assert (plain.categorical.tolist(), plain.names) == ([False], ["x0"])
    named = Graph(np.eye(2), [[1.0], [2.0]], feature_names=["height"])
    assert InputRecipe(AugmentedAdjacency()).build(named).raw.names == ["height"]


@pytest.mark.parametrize("takes_gaps", [False, True])
def test_wide_columns_are_in_memory_once(takes_gaps: bool) -> None:
    graph = Graph(np.eye(4)[::-1], TABLE)
    recipe = InputRecipe(
        AugmentedAdjacency(), neighbourhood=Neighbourhood(), n_targets=1, takes_gaps=takes_gaps
    )
    inputs = recipe.build(graph, LabelledRows(np.array([0]), np.array([[1.0]])))
    assert np.shares_memory(inputs.features.dense().numpy(), inputs.raw.matrix)
    assert bool(inputs.features.dense().isnan().any()) == takes_gaps
    assert "features" not in vars(graph)  # nor are those of which the neighbours' are made kept


def test_a_graph_with_other_columns_is_refused() -> None:
    recipe = InputRecipe(AugmentedAdjacency())
    table, matrix = Graph(np.eye(4), TABLE), path4()
    with pytest.raises(GraphError, match="fitted on a table with columns age, city; this graph has a matrix"):
        recipe.fitted_on(table).check(matrix, 2)
    with pytest.raises(GraphError, match="fitted on a matrix of 1 features; this graph has a table"):
        recipe.fitted_on(matrix).check(table, 1)
    with pytest.raises(GraphError, match="graph has 1 features per node, but the model was fitted with 2"):
        recipe.check(matrix, 2)
    named = Graph(np.eye(2), np.eye(2), feature_names=["a", "b"])
    fitted = recipe.fitted_on(named)
    fitted.check(Graph(np.eye(2), np.eye(2)), 2)
    with pytest.raises(GraphError, match="feature 0 of the graph is 'b', but the model was fitted with 'a'"):
        fitted.check(Graph(np.eye(2), np.eye(2), feature_names=["b", "a"]), 2)
