from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.losses import SquaredError
from gbgnn.testing import check_loss

NUMBER = st.one_of(st.floats(-5, 5), st.sampled_from([0.0, 40.0, -40.0, 700.0, -700.0, 1e6]))


@settings(max_examples=60)
@given(st.integers(1, 3), st.data())
def test_gradient_and_curvature_are_those_of_autograd_at_any_score(
    n_columns: int, data: st.DataObject
) -> None:
    size = 2 * n_columns
    scores, targets = (
        torch.tensor(data.draw(st.lists(NUMBER, min_size=size, max_size=size)), dtype=torch.float64)
        for _ in range(2)
    )
    check_loss(SquaredError(), scores.view(2, n_columns), targets.view(2, n_columns))


def test_by_hand() -> None:
    loss, scores, targets = SquaredError(), torch.tensor([[0.0, 0.0], [1.0, 3.0]]), torch.ones(2, 2)
    assert loss.values(scores, targets).tolist() == [2.0, 4.0]
    assert loss.gradient(scores, targets).tolist() == [[-2.0, -2.0], [0.0, 4.0]]
    assert loss.curvature(scores, targets).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert loss.link(scores) is scores
    assert scores.tolist() == [[0.0, 0.0], [1.0, 3.0]]  # the gradient is no view of it


def test_a_step_of_one_over_the_smoothness_lands_on_the_target() -> None:
    loss, targets = SquaredError(), torch.tensor([[2.0], [-7.0]])
    scores = torch.tensor([[1.0], [1.0]])
    landed = scores - loss.gradient(scores, targets) / loss.smoothness
    assert loss.mean(landed, targets) == pytest.approx(0)
