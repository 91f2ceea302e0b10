from __future__ import annotations

import torch

from gbgnn.propagation import DenseRows, GraphRows, KeptRows, Propagator

P = Propagator([[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])
X = torch.tensor([[1.0, 2.0], [3.0, 5.0], [7.0, 11.0]])


def test_kept_rows_are_those_of_the_whole_after_every_hop() -> None:
    whole = GraphRows.of(DenseRows(X), P)
    kept = KeptRows(whole, torch.tensor([2, 0]))
    for _ in range(3):
        whole = whole.mixed((0, 1, 3), torch.tensor([0.5, 0.25, 0.25]), 0.125)
        kept = kept.mixed((0, 1, 3), torch.tensor([0.5, 0.25, 0.25]), 0.125)
        assert torch.equal(kept.dense(), whole.dense()[[2, 0]])
        assert torch.equal(kept.rows(torch.tensor([1, 1])), whole.dense()[[0, 0]])
        assert kept.shape == (2, 2)
    powers = kept.power_rows((1, 2), torch.tensor([1]))
    assert torch.equal(powers, whole.power_rows((1, 2), torch.tensor([0])))
