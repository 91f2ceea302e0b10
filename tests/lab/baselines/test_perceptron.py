from __future__ import annotations

import pytest
import scipy.sparse as sp
import torch
from torch import nn

from gbgnn_lab.baselines.data import SparseMatrix
from gbgnn_lab.baselines.perceptron import NormedPerceptron


def test_layers_equal_torch_modules_in_the_order_that_is_said() -> None:
    torch.manual_seed(0)
    ours, X = NormedPerceptron([4, 5, 3], (0.0, 0.0), (True, True), unit_rows=True), torch.randn(9, 4)
    first, second = nn.BatchNorm1d(4), nn.BatchNorm1d(5)
    one, two = ours.layers
    H = first(X / X.norm(dim=1, keepdim=True)) @ one.weight + one.bias
    H = H.relu()
    expected = second(H / H.norm(dim=1, keepdim=True).clamp_min(1e-12)) @ two.weight + two.bias
    torch.testing.assert_close(ours(X), expected)
    torch.testing.assert_close(ours.norms[1].running_var, second.running_var)


def test_one_layer_is_linear_and_may_read_a_sparse_matrix() -> None:
    matrix = sp.random_array((6, 4), density=0.5, rng=0, format="csr")
    layer = NormedPerceptron([4, 2], (0.0, 0.5), (False, True))
    dense = torch.tensor(matrix.toarray(), dtype=torch.float32)
    expected = dense @ layer.layers[0].weight
    torch.testing.assert_close(layer(SparseMatrix.from_scipy(matrix)), expected)
    torch.testing.assert_close(layer(dense), expected)


@pytest.mark.parametrize("rates", [(0.5, 0.0), (0.0, 0.5)])
def test_dropout_is_for_training_only(rates: tuple[float, float]) -> None:
    torch.manual_seed(0)
    network, X = NormedPerceptron([4, 8, 2], rates), torch.randn(6, 4)
    assert not network(X).equal(network(X))
    network.eval()
    assert network(X).equal(network(X))
