from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gbgnn.theory.rademacher import (
    mlp_complexity,
    nonlinear_mlp_complexity,
    q_factor,
    sign_probability,
)

AllSigns = Callable[[int, float], tuple[np.ndarray, np.ndarray]]


class Networks:
    """For every sigma one network of the class, improved by random steps that are kept where they help."""

    def __init__(self, sigma: np.ndarray, shapes: list[tuple[int, int, float]], seed: int) -> None:
        self.sigma, self.shapes, self.rng = sigma, shapes, np.random.default_rng(seed)

    def _project(self, layers: list[np.ndarray]) -> list[np.ndarray]:
        return [
            W * radius / np.maximum(abs(W).sum(axis=1, keepdims=True), radius)
            for W, (_, _, radius) in zip(layers, self.shapes, strict=True)
        ]

    def _steps(self, size: float) -> list[np.ndarray]:
        # Sparse steps and sparse starts: the supremum is often at a corner of the ball.
        shapes = [(len(self.sigma), rows, columns) for rows, columns, _ in self.shapes]
        return [size * self.rng.standard_normal(s) * (self.rng.random(s) < 0.5) for s in shapes]

    def best(
        self, forward: Callable[..., np.ndarray], n_starts: int = 30, n_steps: int = 300
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the largest <sigma, v> found for each sigma, and its network."""
        layers = self._project(self._steps(0.0))
        values = np.zeros(len(self.sigma))
        for step in range(n_starts + n_steps):
            restart = step < n_starts
            change = self._steps(9.0 if restart else float(self.rng.choice([0.1, 0.5, 2.0])))
            trial = self._project(change if restart else [W + d for W, d in zip(layers, change, strict=True)])
            new = np.einsum("sn,sn->s", self.sigma, forward(*trial))
            better = new > values
            values = np.where(better, new, values)
            layers = [np.where(better[:, None, None], t, W) for t, W in zip(trial, layers, strict=True)]
        return values, layers


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("bias", [False, True])
def test_no_network_of_two_layers_exceeds_the_closed_form(all_signs: AllSigns, seed: int, bias: bool) -> None:
    rng = np.random.default_rng(seed)
    N, C, B, M = 6, 3, 1.5, 1 + seed
    X = rng.standard_normal((N, C)) * (0.2 if bias else 1.0)
    columns = np.column_stack([X, np.ones(N)]) if bias else X
    sigma, weights = all_signs(N, sign_probability(M, N - M))

    def forward(first: np.ndarray, last: np.ndarray) -> np.ndarray:
        return (np.maximum(columns @ first, 0) @ last)[:, :, 0]

    found, _ = Networks(sigma, [(columns.shape[1], 4, B), (4, 1, B)], seed).best(forward)
    bound = mlp_complexity(np.linalg.norm(X), M, N - M, n_layers=2, max_norm=B, bias=bias)
    least = q_factor(M, N - M) * weights @ found
    assert bound / 10 < least <= bound


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_hops", [1, 2])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_no_network_on_nonlinear_hops_exceeds_the_closed_form(
    all_signs: AllSigns, seed: int, n_hops: int, n_layers: int
) -> None:
    rng = np.random.default_rng(seed)
    N, C, B, M = 6, 2, 1.2, 1 + seed
    mixing = [0.8, 1.3][:n_hops]
    X = rng.standard_normal((N, C))
    # Sparse rows and orthogonal matrices: averages, as graphs have them, would keep the scores small.
    P = [np.linalg.qr(rng.standard_normal((N, N)))[0] * (rng.random((N, N)) < 0.7) for _ in range(n_hops)]
    sigma, weights = all_signs(N, sign_probability(M, N - M))

    def forward(*layers: np.ndarray) -> np.ndarray:
        Z = np.broadcast_to(X, (len(sigma), N, C))
        for hop, W in zip(P, layers, strict=False):
            Z = np.maximum(hop @ Z @ W, 0)
        for W in layers[n_hops:-1]:
            Z = np.maximum(Z @ W, 0)
        return (Z @ layers[-1])[:, :, 0]

    shapes = [(C, C, norm) for norm in mixing] + [(C, C, B)] * (n_layers - 1) + [(C, 1, B)]
    found, _ = Networks(sigma, shapes, seed).best(forward)
    bound = nonlinear_mlp_complexity(
        np.linalg.norm(P[0] @ X),
        M,
        N - M,
        n_layers=n_layers,
        max_norm=B,
        mixing_norms=mixing,
        operator_norms=[np.linalg.norm(hop, 2) for hop in P[1:]],
    )
    least = q_factor(M, N - M) * weights @ found
    assert bound / 30 < least <= bound
