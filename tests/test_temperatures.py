from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import check_grad, minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.calibration import _TemperatureScaling

from gbgnn import Graph
from gbgnn.blend import SMALLEST
from gbgnn.temperatures import LIMIT, Temperatures, describe_nodes


def _sure_nodes(n: int, k: int, sharpness: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities that are too sure by a factor, and classes drawn from the honest ones."""
    random = np.random.default_rng(seed)
    scores = random.normal(size=(n, k)) * 2
    honest = softmax(scores, axis=1)
    targets = (honest.cumsum(axis=1) < random.uniform(size=(n, 1))).sum(axis=1)
    return softmax(sharpness * scores, axis=1), targets


def _none(n: int) -> np.ndarray:
    return np.zeros((n, 0))


@pytest.mark.parametrize("k", [2, 5])
def test_one_temperature_is_that_of_scikit_learn(k: int) -> None:
    proba, targets = _sure_nodes(400, k, 3.0)
    found = Temperatures.fit(proba, _none(400), np.arange(400), targets)
    theirs = _TemperatureScaling().fit(np.log(proba), targets)
    assert np.exp(-found.intercept) == pytest.approx(theirs.beta_, rel=1e-3)
    assert np.exp(found.intercept) == pytest.approx(3.0, rel=0.2)


@given(st.floats(0.2, 5), st.integers(0, 5))
def test_one_temperature_minimises_the_log_loss(sharpness: float, seed: int) -> None:
    proba, targets = _sure_nodes(60, 3, sharpness, seed)

    def loss(log_t: float) -> float:
        return -log_softmax(np.log(np.maximum(proba, SMALLEST)) / np.exp(log_t), axis=1)[
            np.arange(60), targets
        ].sum()

    best = minimize_scalar(loss, bounds=(-np.log(LIMIT), np.log(LIMIT)), method="bounded")
    found = Temperatures.fit(proba, _none(60), np.arange(60), targets)
    assert loss(found.intercept) <= best.fun + 1e-4


def test_nodes_that_are_all_right_ask_for_no_more_than_the_limit() -> None:
    proba = np.array([[0.9, 0.1], [0.2, 0.8]])
    found = Temperatures.fit(proba, _none(2), np.arange(2), np.array([0, 1]))
    assert (found(_none(2)) >= 1 / LIMIT).all()
    assert (found(_none(2)) < 2 / LIMIT).all()
    steep = Temperatures(0.0, np.array([99.0]), np.zeros(1), np.ones(1))
    np.testing.assert_allclose(steep(np.array([[-1.0], [1.0]])), [1 / LIMIT, LIMIT])


def test_a_column_that_tells_who_is_too_sure_is_found() -> None:
    proba, targets = _sure_nodes(3000, 4, 1.0)
    marked = np.random.default_rng(1).uniform(size=3000) < 0.5
    logs = np.log(proba) * np.where(marked, 4.0, 1.0)[:, None]
    columns = np.column_stack([marked.astype(float), np.ones(3000)])  # and one that tells nothing
    found = Temperatures.fit(softmax(logs, axis=1), columns, np.arange(2000), targets[:2000])
    learned = found(columns)
    assert learned[marked].mean() == pytest.approx(4, rel=0.15)
    assert learned[~marked].mean() == pytest.approx(1, rel=0.15)
    assert found.weights[1] == pytest.approx(0, abs=1e-6)


def test_of_few_nodes_little_is_believed() -> None:
    proba, targets = _sure_nodes(2000, 4, 1.0)
    random = np.random.default_rng(2)
    columns = random.normal(size=(2000, 3))
    few = Temperatures.fit(proba, columns, np.arange(5), targets[:5])
    assert np.abs(few.weights).max() < 1.5


def test_the_gradient_of_the_fit_is_that_of_its_objective(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def spy(objective, start, **rest):
        asked["f"], asked["x"] = objective, start
        return real(objective, start, **rest)

    import gbgnn.temperatures as module

    real = module.minimize
    monkeypatch.setattr(module, "minimize", spy)
    proba, targets = _sure_nodes(40, 3, 2.0)
    Temperatures.fit(proba, np.random.default_rng(0).normal(size=(40, 2)), np.arange(40), targets)
    at = np.array([0.3, -0.2, 0.4])
    assert check_grad(lambda x: asked["f"](x)[0], lambda x: asked["f"](x)[1], at) < 1e-4


def test_columns_say_how_a_node_stands_among_its_neighbours() -> None:
    path = Graph([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]], np.zeros((4, 1)))
    proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.5, 0.5]])
    expected = [
        [0.6, 0.9 - 0.6, np.log(2)],
        [(0.9 + 0.2) / 2, 0.6 - (0.9 + 0.8) / 2, np.log(3)],
        [0.4, 0.8 - 0.6, np.log(2)],
        [0.0, 0.5, 0.0],  # nobody beside it
    ]
    np.testing.assert_allclose(describe_nodes("graph", proba, path), expected)
    assert describe_nodes("temperature", proba, None).shape == (4, 0)
