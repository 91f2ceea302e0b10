from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn import GBGNNClassifier, Graph
from gbgnn.errors import GraphError, ParameterError
from gbgnn.learners import MLP
from gbgnn.population import PopulationInputs
from gbgnn.propagation import chebyshev_terms
from gbgnn.testing import make_problem, two_blocks

GRAPH, Y = two_blocks(30)
Build = Callable[..., GBGNNClassifier]


def make(**settings: Any) -> PopulationInputs:
    return PopulationInputs(make_problem(GRAPH, Y, np.arange(8), np.arange(8, 20)), **settings)


def test_nodes_are_labelled_then_validation_then_further_ones() -> None:
    inputs = make(predict_nodes=[29, 3])
    assert inputs.nodes.tolist() == [*range(20), 29, 3]
    assert [inputs.nodes[part].tolist() for part in (inputs.train, inputs.validation, inputs.further)] == [
        list(range(8)),
        list(range(8, 20)),
        [29, 3],
    ]
    assert (inputs.n_train, inputs.n_validation, inputs.n_rows) == (8, 12, 22)


def test_further_nodes_must_exist() -> None:
    with pytest.raises(GraphError, match="30"):
        make(predict_nodes=[30])


def test_width_has_room_for_a_constant_and_is_aligned() -> None:
    for n_features, width in ((5, 16), (15, 16), (16, 32)):
        graph, y = two_blocks(12, n_features=n_features)
        inputs = PopulationInputs(make_problem(graph, y, np.arange(4)))
        assert (inputs.n_features, inputs.width) == (n_features, width)
        assert inputs.powers.first(2).shape == (2, 4, width)


def test_ready_rows_are_those_that_a_learner_standardises() -> None:
    inputs = make()
    rows = inputs.powers.first(2)[-1]
    ready = inputs.ready(rows, MLP())
    train = ready[inputs.train, :5]
    assert train.mean(dim=0).abs().max() < 1e-12
    assert float(train.square().sum(dim=1).mean()) == pytest.approx(1)
    assert (ready[:, 5] == 1).all()
    assert not ready[:, 6:].any()
    raw = inputs.ready(rows, MLP(standardize=False))
    assert torch.equal(raw[:, :5], rows[:, :5])
    assert (raw[:, 5] == 1).all()
    assert not rows[:, 5:].any()  # what is shared stays as it was
    several = inputs.ready(torch.stack([rows, 3 * rows]), MLP())
    torch.testing.assert_close(several, ready.expand(2, -1, -1))


def test_rows_without_spread_do_not_divide_by_zero() -> None:
    inputs = make()
    ready = inputs.ready(torch.zeros_like(inputs.powers.first(1)[0]), MLP())
    assert not ready[:, :5].any()


def test_chebyshev_rows_are_those_of_the_recurrence() -> None:
    inputs = make()
    data = inputs.problem.inputs
    terms = chebyshev_terms(data.P, data.features.dense(), 6, inputs.interval)
    expected = torch.stack([term[inputs.nodes] for term in terms])
    torch.testing.assert_close(inputs.chebyshev.first(6)[..., :5], expected)


def test_directed_graphs_have_no_interval() -> None:
    P = sp.csr_array(np.triu(np.ones((6, 6))))
    problem = make_problem(Graph(P, np.eye(6)), np.arange(6) % 2, np.arange(4))
    inputs = PopulationInputs(problem)
    inputs.problem.inputs.P.__init__(P, dtype=torch.float64)
    with pytest.raises(ParameterError, match="needs a P with real eigenvalues, as undirected graphs have it"):
        inputs.interval  # noqa: B018


def test_inputs_are_what_fit_would_be_trained_on(model: Build) -> None:
    built = model(class_weight={0: 3.0, 1: 1.0}, dtype="float32", propagation="random_walk")
    inputs = PopulationInputs.of(
        built, np.arange(8), Y[:8], graph=GRAPH, validation=(np.arange(8, 20), Y[8:20])
    )
    assert (inputs.dtype, inputs.device.type) == (torch.float32, "cpu")
    weights = np.where(Y[:8] == 0, 3.0, 1.0)
    np.testing.assert_allclose(inputs.problem.train.weights, weights / weights.sum())
    np.testing.assert_allclose(inputs.problem.inputs.P.to_scipy().sum(axis=1), 1, rtol=1e-6)
    assert inputs.n_validation == 12


def test_rows_have_the_length_that_the_model_asks_for(model: Build) -> None:
    inputs = PopulationInputs.of(model(feature_norm="l2"), np.arange(8), Y[:8], graph=GRAPH)
    np.testing.assert_allclose(inputs.powers.first(1)[0].norm(dim=1), 1)


def test_validation_fraction_is_an_error(model: Build) -> None:
    with pytest.raises(ParameterError, match="validation_fraction sets other nodes aside for every seed"):
        PopulationInputs.of(model(validation_fraction=0.5), np.arange(8), Y[:8], graph=GRAPH)


def test_coordinates_are_those_of_the_learner() -> None:
    graph, y = two_blocks(30)
    wide = Graph(graph.adjacency, np.random.default_rng(0).standard_normal((30, 50)))
    inputs = PopulationInputs(make_problem(wide, y, np.arange(8), np.arange(8, 20)))
    learner, rows = MLP(basis="rows"), inputs.powers.first(2)[1]
    ready = inputs.ready(rows, learner)
    assert (inputs.n_columns("rows"), inputs.n_columns("features")) == (8, 50)
    assert ready.shape == (20, 16)
    train = rows[:8, :50] - rows[:8, :50].mean(dim=0)
    torch.testing.assert_close(
        ready[:8, :8] @ ready[:8, :8].T * train.square().sum(dim=1).mean(), train @ train.T, rtol=0, atol=1e-3
    )
    assert torch.equal(ready[:, 8], torch.ones_like(ready[:, 8]))
    assert ready[:, 9:].abs().max() == 0
