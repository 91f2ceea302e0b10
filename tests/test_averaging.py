from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.averaging import select_average
from gbgnn.losses import Loss, Poisson, SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError

LOSSES: dict[str, Loss] = {
    "squared": SquaredError(),
    "softmax": SoftmaxCrossEntropy(),
    "sigmoid": SigmoidCrossEntropy(),
    "poisson": Poisson(),
}


def draw(name: str, n_models: int, seed: int, n_nodes: int = 15) -> dict[str, torch.Tensor]:
    """Models that know something of the targets, offsets and weights of the nodes."""
    random = np.random.default_rng(seed)
    truth = random.standard_normal((n_nodes, 3))
    outputs = truth * random.random((n_models, 1, 1)) + random.standard_normal((n_models, n_nodes, 3))
    targets = {
        "squared": truth,
        "softmax": truth.argmax(axis=1),
        "sigmoid": (truth > 0).astype(float),
        "poisson": np.floor(np.exp(truth)),
    }[name]
    weights = random.random(n_nodes)
    found = {
        "outputs": outputs,
        "targets": targets,
        "offsets": random.standard_normal((n_nodes, 3)) / 4,
        "weights": weights / weights.sum(),
    }
    return {key: torch.tensor(value) for key, value in found.items()}


def select(name: str, asked: dict[str, torch.Tensor], **options: Any) -> np.ndarray:
    return select_average(loss=LOSSES[name], **asked, **options)


def mean_loss(name: str, asked: dict[str, torch.Tensor], weights: np.ndarray) -> float:
    mean = torch.einsum("m,mnk->nk", torch.tensor(weights), asked["outputs"]) + asked["offsets"]
    return float(LOSSES[name].values(mean, asked["targets"]) @ asked["weights"])


def greedy_by_hand(name: str, asked: dict[str, torch.Tensor], n_steps: int) -> np.ndarray:
    """The same selection, of lists of models."""
    n_models, chosen, best = len(asked["outputs"]), [], np.inf
    for _ in range(n_steps):
        tried = [[*chosen, k] for k in range(n_models)]
        losses = [mean_loss(name, asked, np.bincount(each, minlength=n_models) / len(each)) for each in tried]
        if min(losses) >= best:
            break
        best, chosen = min(losses), tried[int(np.argmin(losses))]
    return np.bincount(chosen, minlength=n_models) / len(chosen)


drawn = given(st.sampled_from(list(LOSSES)), st.integers(1, 5), st.integers(0, 10_000))


@settings(max_examples=40, deadline=None)
@drawn
def test_weights_are_those_of_the_selection_by_hand(name: str, n_models: int, seed: int) -> None:
    asked = draw(name, n_models, seed)
    np.testing.assert_allclose(select(name, asked, n_steps=12), greedy_by_hand(name, asked, 12), atol=1e-12)


@settings(max_examples=40, deadline=None)
@drawn
def test_the_mean_is_never_worse_than_any_model(name: str, n_models: int, seed: int) -> None:
    asked = draw(name, n_models, seed)
    weights = select(name, asked)
    assert weights.shape == (n_models,)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    alone = min(mean_loss(name, asked, each) for each in np.eye(n_models))
    assert mean_loss(name, asked, weights) <= alone + 1e-9 * abs(alone)


@settings(max_examples=40, deadline=None)
@drawn
def test_the_order_of_nodes_does_not_matter(name: str, n_models: int, seed: int) -> None:
    asked = draw(name, n_models, seed)
    order = torch.tensor(np.random.default_rng(seed).permutation(15))
    turned = {key: each[:, order] if key == "outputs" else each[order] for key, each in asked.items()}
    np.testing.assert_array_equal(select(name, turned), select(name, asked))


@settings(max_examples=40, deadline=None)
@drawn
def test_a_copy_of_a_model_changes_nothing(name: str, n_models: int, seed: int) -> None:
    asked = draw(name, n_models, seed)
    copied = asked | {"outputs": torch.cat([asked["outputs"], asked["outputs"][:1]])}
    np.testing.assert_array_equal(select(name, copied), [*select(name, asked), 0.0])


@pytest.mark.parametrize("seed", range(5))
def test_two_models_come_close_to_the_best_of_all_means(seed: int) -> None:
    # With two models and a convex loss, the selection comes as near as a step of its grid.
    asked = draw("squared", 2, seed)
    found = mean_loss("squared", asked, select("squared", asked))
    grid = [np.bincount(each, minlength=2) / 20 for each in combinations_with_replacement(range(2), 20)]
    losses = [mean_loss("squared", asked, weights) for weights in grid]
    assert min(losses) * (1 - 1e-9) <= found * (1 + 1e-9)
    assert found - min(losses) <= 0.05 * (max(losses) - min(losses))


def test_without_offsets_and_weights_all_nodes_count_alike() -> None:
    asked = draw("softmax", 4, 0)
    plain = select_average(asked["outputs"], LOSSES["softmax"], asked["targets"])
    same = asked | {
        "offsets": torch.zeros(15, 3),
        "weights": torch.full((15,), 1 / 15, dtype=torch.float64),
    }
    np.testing.assert_array_equal(plain, select("softmax", same))


def test_one_model_and_models_that_say_no_numbers() -> None:
    asked = draw("squared", 3, 0)
    only = asked | {"outputs": asked["outputs"][:1]}
    assert select("squared", only).tolist() == [1.0]
    broken = asked["outputs"].clone()
    broken[0, 3] = torch.nan
    broken[2, 1] = torch.inf
    assert select("squared", asked | {"outputs": broken}).tolist() == [0.0, 1.0, 0.0]
    assert select("squared", asked, n_steps=1).max() == 1.0
