from __future__ import annotations

import pytest
import torch

from gbgnn._optimizers import OPTIMIZERS, build_optimizer


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_settings_reach_torch(name: str) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    group = build_optimizer(name, [weight], 0.1, weight_decay=0.2, momentum=0.3).param_groups[0]
    assert (group["lr"], group["weight_decay"]) == (0.1, 0.2)
    assert group.get("momentum", 0.3) == 0.3
