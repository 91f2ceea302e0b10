from __future__ import annotations

import pickle
from itertools import pairwise

import pytest
import scipy.sparse as sp
import torch

from gbgnn.learners import MLP, ConstrainedMLP, Learner, MLPHead, WideReLU
from gbgnn.learners.inputs import InputMap
from gbgnn.learners.network import MLPHeads, Trained
from gbgnn.propagation import DenseRows, MemberRows, SparseRows
from gbgnn.testing import learner_round

RANDOM = torch.Generator().manual_seed(0)
X = torch.randn(15, 5, generator=RANDOM, dtype=torch.float64)


def networks(n_members: int, units: int = 6, n_hidden: int = 1) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Random layers of members."""
    sizes, random = [5, *[units] * n_hidden, 3], torch.Generator().manual_seed(1)
    return [
        (
            torch.randn(n_members, n_out, n_in, generator=random, dtype=torch.float64),
            torch.randn(n_members, n_out, generator=random, dtype=torch.float64),
        )
        for n_in, n_out in pairwise(sizes)
    ]


def one(
    layers: list[tuple[torch.Tensor, torch.Tensor]], i: int = 0
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(weight[i], bias[i]) for weight, bias in layers]


@pytest.mark.parametrize("n_hidden", [0, 1, 2])
def test_head_computes_what_its_layers_do_and_keeps_copies(plainly, n_hidden: int) -> None:
    layers = one(networks(1, n_hidden=n_hidden))
    head, expected = MLPHead.from_layers(layers), plainly.apply(layers, X)
    torch.testing.assert_close(head(X), expected)
    n_weights = sum(each.numel() for layer in layers for each in layer)
    assert len(pickle.dumps(head)) < len(pickle.dumps(MLPHead([]))) + 8 * n_weights + 4000
    for weight, bias in layers:
        weight.zero_()
        bias.zero_()
    torch.testing.assert_close(head(X), expected)


@pytest.mark.parametrize(
    "learner",
    [MLP(epochs=2), MLP(epochs=2, hidden_layers=0), ConstrainedMLP(epochs=2, bias=True), WideReLU(units=64)],
    ids=str,
)
def test_first_layer_is_what_rows_meet_first(learner: Learner) -> None:
    head = learner.fit(learner_round(X, X[:, :3] ** 2))
    weight, bias = (head.state()[name] for name in head.first_layer)
    hidden = X @ weight.T + bias
    for layer in head.layers[1:]:
        hidden = layer(hidden.relu())
    torch.testing.assert_close(hidden, head(X))


@pytest.mark.parametrize("n_hidden", [0, 1])
def test_sparse_rows_give_the_same_outputs(n_hidden: int) -> None:
    few = torch.where(X.abs() < 0.8, 0.0, X)
    head = MLPHead.from_layers(one(networks(1, n_hidden=n_hidden)))
    sparse = SparseRows.from_scipy(sp.csr_array(few.numpy()), dtype=torch.float64)
    torch.testing.assert_close(head.evaluate(sparse), head(few))


def test_report_stays_with_the_head_but_not_in_its_state() -> None:
    head = MLPHead.from_layers(one(networks(1, n_hidden=0)), {"epochs": 3})
    assert head.report() == {"epochs": 3}
    assert set(head.state()) == {"layers.0.weight", "layers.0.bias"}
    assert MLPHead.from_state(head.state()).report() is None


@pytest.mark.parametrize("n_hidden", [0, 1, 2])
@pytest.mark.parametrize("is_batched", [True, False])
@pytest.mark.parametrize("standardize", [True, False])
def test_a_members_head_is_its_network_on_raw_rows_without_padding(
    plainly, n_hidden: int, is_batched: bool, standardize: bool
) -> None:
    layers, units = networks(2, n_hidden=n_hidden), [4, 6]
    for depth, (weight, bias) in enumerate(layers):
        weight[0, :, 4 if depth else 5 :] = 0
        if depth < n_hidden:
            weight[0, 4:], bias[0, 4:] = 0, 0
    rows = torch.stack([X, 3 + 2 * X.flip(0)])
    inputs = InputMap.fit(rows if is_batched else X, standardize=standardize, basis="features")
    trained = Trained([1, 0], layers, inputs, units)
    heads = MLPHeads([trained])
    for place, position in enumerate((1, 0)):
        head, own = heads.head(position), rows[place] if is_batched else X
        sizes = [5, *[units[place]] * n_hidden, 3]
        assert [layer.weight.T.shape for layer in head.layers] == list(pairwise(sizes))
        mapped = inputs.member(place)(own)
        torch.testing.assert_close(head(own), plainly.apply(one(layers, place), mapped))
        assert heads.report(position) is None
        assert heads.head(position) is head


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("at_once", [1, 20, 10**9])
def test_outputs_of_members_are_those_of_their_heads_in_the_members_order(
    monkeypatch: pytest.MonkeyPatch, is_shared: bool, at_once: int
) -> None:
    monkeypatch.setattr("gbgnn.learners.network._UNITS_AT_ONCE", at_once)  # rows in blocks
    many = [X, 2 * X + 1, X.flip(0)]
    rows = DenseRows(X) if is_shared else MemberRows([DenseRows(each) for each in many])
    labelled, parts = torch.arange(8), []
    for positions, units in (([2, 0], 6), ([1], 3)):
        own = rows.members(positions).rows(labelled)
        inputs = InputMap.fit(own, standardize=True, basis="features")
        parts.append(Trained(positions, networks(len(positions), units), inputs, [units] * len(positions)))
    heads = MLPHeads(parts)
    output = heads.evaluate(rows)
    assert output.shape == (3, 15, 3)
    for i in range(3):
        torch.testing.assert_close(output[i], heads.head(i).evaluate(rows.member(i)))


def test_a_single_member_is_evaluated_on_sparse_rows() -> None:
    few = torch.where(X.abs() < 0.8, 0.0, X)
    sparse = SparseRows.from_scipy(sp.csr_array(few.numpy()), dtype=torch.float64)
    heads = MLPHeads([Trained([0], networks(1), InputMap(), [6])])
    torch.testing.assert_close(heads.evaluate(sparse), heads.head(0)(few)[None])
