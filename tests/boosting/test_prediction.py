from __future__ import annotations

import numpy as np
import torch

from gbgnn import MLP, InputInjection, SammeR
from gbgnn._random import Seeds
from gbgnn.boosting import apply, boost
from gbgnn.testing import problem_of, two_blocks


def test_applying_the_ensemble_forms_the_same_sums_as_training() -> None:
    graph, y = two_blocks(40, n_classes=3)
    problem = problem_of(graph, y, np.arange(15), dtype=torch.float32)
    parts = (InputInjection(), MLP(epochs=3), SammeR())
    result = boost(problem, *parts, n_rounds=5, seeds=Seeds(0))
    applied = list(apply(result.ensemble, problem.inputs, SammeR(), 3))
    assert [t for t, _ in applied] == [1, 2, 3, 4, 5]
    assert torch.equal(applied[-1][1], result.scores)
