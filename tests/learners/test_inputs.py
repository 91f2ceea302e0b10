from __future__ import annotations

import pytest
import torch

from gbgnn.learners.basis import RowBasis
from gbgnn.learners.inputs import InputMap

ROWS = torch.randn(4, 8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 3
WIDE = torch.randn(4, 8, 30, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 1


def test_standardised_rows_are_centred_and_of_size_one() -> None:
    rows = InputMap.fit(ROWS[0], standardize=True, basis="features")(ROWS[0])
    assert rows.mean(dim=0).abs().max() < 1e-12
    assert float(rows.square().sum(dim=1).mean()) == pytest.approx(1)


def test_other_rows_are_mapped_by_what_the_labelled_ones_have_in_common() -> None:
    labelled, other = ROWS[0], ROWS[1]
    inputs = InputMap.fit(labelled, standardize=True, basis="features")
    shift = labelled.mean(dim=0)
    size = (labelled - shift).square().sum(dim=1).mean().sqrt()
    torch.testing.assert_close(inputs(other), (other - shift) / size)


def test_rows_may_stay_as_they_are() -> None:
    rows = ROWS[0]
    inputs = InputMap.fit(rows, standardize=False, basis="rows")
    assert inputs(rows) is rows
    weight, bias = torch.ones(3, 5), torch.ones(3)
    assert inputs.fold(weight, bias) == (weight, bias)
    assert not inputs.is_batched


def test_rows_without_spread_do_not_divide_by_zero() -> None:
    same = torch.full((2, 8, 5), 7.0)
    assert not InputMap.fit(same, standardize=True, basis="rows")(same).any()


def test_coordinates_are_taken_where_there_are_fewer_rows_than_columns() -> None:
    for rows, n_columns in ((WIDE[0], 8), (ROWS[0], 5)):
        inputs = InputMap.fit(rows, standardize=True, basis="rows")
        assert inputs(rows).shape == (8, n_columns)
        assert (inputs.basis is None) == (n_columns == 5)
        assert InputMap.fit(rows, standardize=True, basis="features").basis is None
    centred = InputMap.fit(WIDE[0], standardize=True, basis="features")(WIDE[0])
    expected = RowBasis.of(centred).coordinates(centred)
    found = InputMap.fit(WIDE[0], standardize=True, basis="rows")(WIDE[0])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("basis", ["rows", "features"])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("rows", [ROWS, WIDE], ids=["tall", "wide"])
def test_many_sets_of_rows_are_each_as_if_alone(rows: torch.Tensor, basis: str, standardize: bool) -> None:
    together = InputMap.fit(rows, standardize=standardize, basis=basis)
    assert together.is_batched == (standardize or (basis == "rows" and rows is WIDE))
    for i, own in enumerate(rows):
        alone = InputMap.fit(own, standardize=standardize, basis=basis)
        torch.testing.assert_close(together(rows)[i], alone(own))
        torch.testing.assert_close(together.member(i)(own), alone(own))
        assert not alone.is_batched


@pytest.mark.parametrize("basis", ["rows", "features"])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("is_batched", [True, False])
def test_a_folded_layer_does_for_raw_rows_what_it_did_for_mapped_ones(
    basis: str, standardize: bool, is_batched: bool
) -> None:
    rows = WIDE if is_batched else WIDE[0]
    inputs = InputMap.fit(rows, standardize=standardize, basis=basis)
    random, mapped = torch.Generator().manual_seed(2), inputs(rows)
    weight = torch.randn(*rows.shape[:-2], 6, mapped.shape[-1], generator=random, dtype=torch.float64)
    bias = torch.randn(*rows.shape[:-2], 6, generator=random, dtype=torch.float64)
    raw_weight, raw_bias = inputs.fold(weight, bias)
    expected = mapped @ weight.mT + bias[..., None, :]
    torch.testing.assert_close(rows @ raw_weight.mT + raw_bias[..., None, :], expected)
