from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

from gbgnn import judging
from gbgnn.averaging import select_average
from gbgnn.judging import TEMPERATURES, Judged, Panel
from gbgnn.losses import SoftmaxCrossEntropy, SquaredError
from gbgnn.metrics import as_metric
from gbgnn.tasks import Classification, Regression


def make_panel(targets: np.ndarray, n_classes: int = 3) -> Panel:
    task = Classification().fit(np.arange(n_classes))
    groups = [np.arange(len(targets))]
    return Panel(task, task.default_loss, as_metric("accuracy"), groups, torch.as_tensor(targets))


def draw(n_nodes: int = 300, seed: int = 0) -> tuple[np.ndarray, torch.Tensor]:
    """Classes, and probabilities that know them a little and are as sure as they may be."""
    random = np.random.default_rng(seed)
    proba = SoftmaxCrossEntropy().link(torch.as_tensor(2 * random.standard_normal((n_nodes, 3))))
    return np.array([random.choice(3, p=row) for row in proba.numpy()]), proba


def judged(losses: list[float], score: float = 0.0) -> Judged:
    return Judged(torch.zeros(len(losses), 1), 1.0, np.array(losses), score)


def test_losses_are_those_of_scikit_learn() -> None:
    targets, proba = draw()
    assert make_panel(targets).losses(proba).mean() == pytest.approx(log_loss(targets, proba.numpy()))


@pytest.mark.parametrize("power", [0.25, 1.0, 3.0])
def test_temperature_undoes_what_made_a_model_too_sure_or_not_sure_enough(power: float) -> None:
    targets, proba = draw(3000)
    panel = make_panel(targets)
    spoiled = proba**power / (proba**power).sum(dim=1, keepdim=True)
    found = panel._find_temperature(spoiled)
    assert found == pytest.approx(power, rel=0.2)
    losses = [panel.losses(judging.temper(panel.task, spoiled, panel.loss, t)).mean() for t in TEMPERATURES]
    assert TEMPERATURES[int(np.argmin(losses))] == pytest.approx(found, rel=0.15)


def test_few_nodes_that_are_all_right_do_not_make_a_model_certain() -> None:
    targets = np.array([0, 1, 2])
    proba = torch.full((3, 3), 0.25).double() + 0.25 * torch.eye(3)
    found = make_panel(targets)._find_temperature(proba)
    assert found > TEMPERATURES[0]
    assert found < 1


def test_numbers_have_no_temperature() -> None:
    task = Regression().fit([1.0, 3.0])
    panel = Panel(task, SquaredError(), as_metric("r2"), [np.arange(2)], torch.tensor([[0.0], [1.0]]))
    assert panel._find_temperature(torch.zeros(2, 1)) == 1.0


def test_weights_of_many_nodes_are_those_of_one_greedy_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "ENOUGH_NODES", 10)
    random = torch.Generator().manual_seed(0)
    truth = torch.randn(50, 1, generator=random).double()
    outputs = truth + torch.randn(4, 50, 1, generator=random).double()
    task = Regression().fit([1.0, 3.0])
    panel = Panel(task, SquaredError(), as_metric("r2"), [np.arange(50)], truth)
    found = panel.choose_weights([Judged(own, 1.0, np.zeros(50), 0.0) for own in outputs], seed=0)
    np.testing.assert_allclose(found, select_average(outputs, SquaredError(), truth))


def test_weights_of_few_nodes_are_a_mean_over_samples() -> None:
    targets, proba = draw(60)
    panel = make_panel(targets)
    useless = torch.full_like(proba, 1 / 3)
    other = SoftmaxCrossEntropy().link(proba.log() + torch.randn(60, 3, generator=torch.manual_seed(0)) / 4)
    candidates = [Judged(own, 1.0, panel.losses(own), 0.0) for own in (useless, proba, other)]
    weights = panel.choose_weights(candidates, seed=0)
    assert weights.sum() == pytest.approx(1)
    assert weights[0] < weights[1]
    assert not ((weights > 0) & (weights < judging.SMALLEST_WEIGHT)).any()
    np.testing.assert_array_equal(weights, panel.choose_weights(candidates, seed=0))
    assert panel.choose_weights(candidates[1:2], seed=0).tolist() == [1.0]


def test_weaker_is_worse_beyond_chance() -> None:
    best = judged([1.0, 1.1, 0.9, 1.0] * 10, score=0.8)
    assert judged([2.0, 2.1, 1.9, 2.0] * 10, score=0.5).is_weaker(best)
    assert not judged([1.05] * 40, score=0.5).is_weaker(best)  # within the margin
    assert not judged([0.0, 0.0, 0.0, 6.0] * 3 + [1.0] * 28).is_weaker(best)  # within chance
    assert not judged([2.0, 2.1, 1.9, 2.0] * 10, score=0.9).is_weaker(best)  # better by the metric
    assert not judged([2.0]).is_weaker(judged([1.0]))  # one node tells nothing
