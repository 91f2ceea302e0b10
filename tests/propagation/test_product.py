from __future__ import annotations

import numpy as np
import torch

from gbgnn.propagation import Propagator, RandomWalk
from gbgnn.propagation.product import Mixing
from gbgnn.testing import two_blocks


def test_gradients_are_those_of_a_dense_product() -> None:
    P = RandomWalk().build(two_blocks(20, seed=1)[0].adjacency)
    mixing, dense = Mixing(Propagator(P, dtype=torch.float64)), torch.from_numpy(P.toarray())
    X = torch.from_numpy(np.random.default_rng(0).standard_normal((20, 3))).requires_grad_()
    for function in (mixing, dense.matmul):
        X.grad = None
        (function(X).square() * torch.arange(20)[:, None]).sum().backward()
        if function is mixing:
            found = X.grad
    torch.testing.assert_close(found, X.grad)
    assert torch.autograd.gradcheck(mixing, X)
