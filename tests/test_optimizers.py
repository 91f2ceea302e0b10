from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from gbgnn._optimizers import OPTIMIZERS, Stepper

CLASSES = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop, "sgd": torch.optim.SGD}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("momentum", [0.0, 0.4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_equal_those_of_torchs_classes(name: str, momentum: float, dtype: torch.dtype) -> None:
    random = torch.Generator().manual_seed(0)
    start = [torch.randn(*shape, generator=random, dtype=dtype) for shape in ((30, 2), (4,))]
    ours = [p.clone() for p in start]
    theirs = [torch.nn.Parameter(p.clone()) for p in start]
    options = {"momentum": momentum} if name != "adam" else {}
    optimizer = CLASSES[name](theirs, lr=0.05, weight_decay=0.1, **options)
    stepper = Stepper(name, ours, 0.05, weight_decay=0.1, momentum=momentum)
    for _ in range(20):
        gradients = [torch.randn(p.shape, generator=random, dtype=dtype) for p in start]
        gradients[0][:5] = 0
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient.clone()
        optimizer.step()
        stepper.step(gradients)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other.detach(), rtol=tolerance, atol=tolerance)


def test_no_compiler_is_imported_for_a_fit() -> None:
    code = """
import sys
from gbgnn import GBGNNClassifier, datasets
data = datasets.load("karate")
GBGNNClassifier(n_rounds=2, aggregation="kta").fit(data.train, data.y[data.train], graph=data.graph)
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_gradients_may_lie_in_memory_in_any_order(name: str) -> None:
    gradient = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    plain, transposed = torch.ones(3, 5), torch.ones(3, 5)
    Stepper(name, [plain], 0.1).step([gradient.T.contiguous()])
    Stepper(name, [transposed], 0.1).step([gradient.T])
    assert torch.equal(plain, transposed)
