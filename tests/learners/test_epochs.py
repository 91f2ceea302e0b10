from __future__ import annotations

import pytest
import torch

from gbgnn.learners import epochs
from gbgnn.learners.epochs import Dropout, Orders

DOUBLE = torch.empty(0, dtype=torch.float64)


def test_every_epoch_orders_all_rows_anew() -> None:
    orders = Orders(12, seed=3)
    drawn = [orders.order(epoch) for epoch in range(40)]
    assert all(torch.equal(order.sort().values, torch.arange(12)) for order in drawn)
    assert len({tuple(order.tolist()) for order in drawn}) == 40


def test_orders_are_uniform() -> None:
    orders = Orders(4, seed=0)
    first = torch.stack([orders.order(epoch) for epoch in range(6000)])
    counts = torch.stack([(first[:, place] == row).sum() for place in range(4) for row in range(4)])
    assert (counts - 1500).abs().max() < 5 * (6000 * 3 / 16) ** 0.5


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_masks_keep_the_expectation(share: float) -> None:
    masks = Dropout(share, (2, 50, 40), seed=1, like=DOUBLE).masks(0)
    assert masks.shape == (2, 50, 40)
    assert set(masks.unique().tolist()) == {0.0, 1 / (1 - share)}
    assert float(masks.mean()) == pytest.approx(1, abs=5 * (share / (1 - share) / masks.numel()) ** 0.5)


def test_masks_differ_between_layers_and_epochs() -> None:
    dropout = Dropout(0.5, (2, 30, 30), seed=1, like=DOUBLE)
    flat = torch.cat([dropout.masks(epoch).flatten(1) for epoch in range(5)])
    correlations = torch.corrcoef(flat) - torch.eye(10)
    assert correlations.abs().max() < 5 / 30


def test_masks_of_fewer_units_and_rows_are_a_part_of_those_of_more() -> None:
    small, large = (Dropout(0.3, shape, seed=5, like=DOUBLE) for shape in ((1, 6, 4), (2, 9, 7)))
    assert torch.equal(small.masks(8)[0], large.masks(8)[0, :6, :4])


@pytest.mark.parametrize("drawn_at_once", [0, 1, 16])
def test_masks_do_not_depend_on_how_many_are_drawn_at_once(
    monkeypatch: pytest.MonkeyPatch, drawn_at_once: int
) -> None:
    expected, chosen = Dropout(0.3, (2, 6, 4), seed=5, like=DOUBLE), torch.tensor([4, 1])
    monkeypatch.setattr(epochs, "_n_at_once", lambda n_draws: drawn_at_once)
    dropout, orders = Dropout(0.3, (2, 6, 4), seed=5, like=DOUBLE), Orders(9, seed=2)
    for epoch in (0, 1, 20, 3):
        masks = expected.masks(epoch)
        assert torch.equal(dropout.masks(epoch), masks)
        assert torch.equal(dropout.masks(epoch, chosen), masks[:, chosen])
        assert torch.equal(orders.order(epoch), Orders(9, seed=2).order(epoch))


def test_precisions_drop_the_same_units() -> None:
    single, double = (
        Dropout(0.3, (1, 40, 40), seed=5, like=like).masks(0) for like in (DOUBLE.float(), DOUBLE)
    )
    assert single.dtype == torch.float32
    assert torch.equal(single > 0, double > 0)
