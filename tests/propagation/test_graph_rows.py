from __future__ import annotations

import pytest
import torch

from gbgnn.propagation import DenseRows, GraphRows, Propagator, mix

P = Propagator([[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])
X = torch.tensor([[1.0, 2.0], [3.0, 5.0], [7.0, 11.0]])


@pytest.mark.parametrize("exponents", [(0,), (1,), (0, 1), (1, 4), (0, 2, 3)])
def test_mixing_is_the_polynomial(exponents: tuple[int, ...]) -> None:
    dense = torch.as_tensor(P.to_scipy().toarray()).float()
    weights = [0.5 + place for place in range(len(exponents))]
    wanted = sum(w * torch.matrix_power(dense, p) @ X for p, w in zip(exponents, weights, strict=True))
    before = X.clone()
    torch.testing.assert_close(mix(P, DenseRows(X), exponents, weights), wanted)
    assert torch.equal(X, before)


def test_rows_stored_in_16_bits_are_handed_out_in_32_and_stay_in_16() -> None:
    half = Propagator(P.operator, dtype=torch.bfloat16)
    rows = GraphRows.of(DenseRows(X.bfloat16()), half).mixed((1,), torch.tensor([1.0]))
    assert rows.X.dtype == torch.bfloat16
    for part in (
        rows.dense(),
        rows.rows(torch.tensor([1])),
        *rows.blocks(),
        rows.power_rows((1,), torch.tensor([0])),
    ):
        assert part.dtype == torch.float32
    assert rows.nbytes == 12
    torch.testing.assert_close(rows.dense(), P(X), rtol=0.01, atol=0.01)
