from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

from gbgnn.losses import SigmoidCrossEntropy
from gbgnn.testing import check_loss

WEIGHTS = [[0.5, 3.0], [1.0, 1.0], [2.0, 0.25]]


def test_labels_may_have_weights_of_their_own() -> None:
    random = np.random.default_rng(0)
    scores, y = random.normal(size=(30, 3)), random.integers(0, 2, size=(30, 3))
    loss = SigmoidCrossEntropy(label_weights=WEIGHTS)
    check_loss(loss, torch.as_tensor(scores), torch.as_tensor(y.astype(float)))
    found = float(loss.values(torch.as_tensor(scores), torch.as_tensor(y)).sum())
    expected = 0.0
    for k, (off, on) in enumerate(WEIGHTS):
        weights = np.where(y[:, k] == 1, on, off)
        proba = 1 / (1 + np.exp(-scores[:, k]))
        expected += log_loss(y[:, k], proba, sample_weight=weights, normalize=False)
    assert found == pytest.approx(expected)


def test_the_largest_weight_makes_the_smoothness() -> None:
    assert SigmoidCrossEntropy(label_weights=WEIGHTS).smoothness == 0.75
    assert SigmoidCrossEntropy().smoothness == 0.25


def test_weights_of_one_change_nothing() -> None:
    scores = torch.linspace(-50, 50, 12).view(4, 3)
    targets = (torch.arange(12).view(4, 3) % 2).double()
    plain, weighted = SigmoidCrossEntropy(), SigmoidCrossEntropy(label_weights=[[1, 1]] * 3)
    for method in ("values", "gradient", "curvature"):
        assert torch.equal(
            plain.evaluate(method, scores, targets), weighted.evaluate(method, scores, targets)
        )
