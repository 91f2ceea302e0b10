from __future__ import annotations

import numpy as np
import pytest
import torch

from gbgnn_lab.baselines.attention import AttentionConvolution, HeadedEdges, add_self_loops


def draw_edges(n_nodes: int, n_edges: int) -> torch.Tensor:
    """Random edges, some of them self loops."""
    return torch.tensor(np.random.default_rng(0).integers(n_nodes, size=(2, n_edges)))


@pytest.mark.parametrize("n_heads", [1, 4])
def test_layer_is_that_of_torch_geometric(n_heads: int) -> None:
    nn = pytest.importorskip("torch_geometric.nn", reason="the layer's twin is its own")
    torch.manual_seed(0)
    ours, edges = AttentionConvolution(6, 8, n_heads), draw_edges(20, 70).unique(dim=1)
    theirs = nn.GATConv(6, 8 // n_heads, n_heads)
    with torch.no_grad():
        torch.nn.init.normal_(ours.bias)
        theirs.lin.weight.copy_(ours.dense.weight.t())
        theirs.att_src.copy_(ours.of_source[None])
        theirs.att_dst.copy_(ours.of_target[None])
        theirs.bias.copy_(ours.bias)
    H = torch.randn(20, 6)
    expected, found = theirs(H, edges), ours(HeadedEdges.build(add_self_loops(edges, 20), 20, n_heads), H)
    torch.testing.assert_close(found, expected)
    for output in (expected, found):
        (output.sin() ** 2).sum().backward()
    pairs = (
        (ours.dense.weight, theirs.lin.weight.grad.t()),
        (ours.of_source, theirs.att_src.grad[0]),
        (ours.of_target, theirs.att_dst.grad[0]),
        (ours.bias, theirs.bias.grad),
    )
    for parameter, gradient in pairs:
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-5, rtol=1e-4)


def test_weights_of_a_target_are_a_softmax_however_large_the_scores() -> None:
    edges = add_self_loops(draw_edges(7, 30), 7)
    heads = HeadedEdges.build(edges, 7, 3)
    scores = 200 * torch.randn(len(heads.hearers))
    weights = heads.softmax(scores)
    for pair in range(21):
        is_heard = heads.hearers == pair
        torch.testing.assert_close(weights[is_heard], scores[is_heard].softmax(dim=0))


def test_alone_a_node_hears_itself() -> None:
    layer, H = AttentionConvolution(3, 4, 2), torch.randn(5, 3)
    loops = add_self_loops(torch.empty(2, 0, dtype=torch.int64), 5)
    edges = HeadedEdges.build(loops, 5, 2)
    torch.testing.assert_close(layer(edges, H), H @ layer.dense.weight)
