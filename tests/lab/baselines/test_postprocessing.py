from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gbgnn.datasets import Dataset
from gbgnn.graph import Graph, NodeSplit
from gbgnn.propagation import NormalizedAdjacency, Propagator
from gbgnn_lab.baselines import BaselineModel
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.postprocessing import (
    CANDIDATES,
    CorrectAndSmooth,
    LabelPropagation,
    correct,
    diffuse,
    smooth,
)
from gbgnn_lab.baselines.propagating import MLP, SGC


def walk(given: TrainingData) -> Propagator:
    return Propagator(NormalizedAdjacency().build(given.graph.adjacency))


def proba_of(given: TrainingData) -> torch.Tensor:
    return torch.randn(given.n_nodes, 3, generator=torch.Generator().manual_seed(0)).softmax(dim=1)


@pytest.mark.parametrize("spread", [0.2, 0.9])
def test_label_propagation_comes_to_the_closed_form(given: TrainingData, spread: float) -> None:
    S = NormalizedAdjacency().build(given.graph.adjacency).toarray()
    expected = (1 - spread) * np.linalg.solve(np.eye(120) - spread * S, given.one_hot().numpy())
    outcome = LabelPropagation(depth=400, spread=spread).fit(given)
    np.testing.assert_allclose(outcome.scores, expected, atol=1e-5)
    assert (outcome.best_epoch, outcome.n_parameters) == (0, 0)


def test_label_propagation_by_hand() -> None:
    """On the path 0 - 1 - 2 with ends labelled, S has 1/sqrt(2) beside the diagonal."""
    path = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], np.eye(3))
    given = TrainingData.from_dataset(Dataset("path", path, np.array([0, 0, 1]), NodeSplit([0, 2])))[0]
    scores = LabelPropagation(depth=1, spread=0.5).fit(given).scores
    half = 0.5 / np.sqrt(2)
    np.testing.assert_allclose(scores, [[0.5, 0], [half, half], [0, 0.5]], rtol=1e-6)


def test_diffusion_equals_a_plain_loop_and_stays_within_its_limits(given: TrainingData) -> None:
    start = proba_of(given) * 3 - 1
    S = NormalizedAdjacency().build(given.graph.adjacency).toarray()
    expected = start.numpy()
    for _ in range(4):
        expected = np.clip(0.7 * S @ expected + 0.3 * start.numpy(), -0.2, 0.5)
    np.testing.assert_allclose(diffuse(walk(given), start, 0.7, 4, (-0.2, 0.5)), expected, atol=1e-5)
    assert diffuse(walk(given), start, 0.7, 0).equal(start)


@pytest.mark.parametrize("shares", [(0.9, 0.8), (0.3, 1.0), (1.0, 0.1)])
def test_correct_and_smooth_equal_their_twin(given: TrainingData, shares: tuple[float, float]) -> None:
    nn = pytest.importorskip("torch_geometric.nn", reason="the twin is its own")
    twin = nn.CorrectAndSmooth(20, shares[0], 20, shares[1], autoscale=True)
    proba, rows = proba_of(given), given.train.rows
    theirs = twin.correct(proba, given.train.targets, rows, given.edges)
    ours = correct(walk(given), proba, given, shares[0], 20)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    theirs = twin.smooth(theirs, given.train.targets, rows, given.edges)
    torch.testing.assert_close(smooth(walk(given), ours, given, shares[1], 20), theirs, rtol=1e-4, atol=1e-5)


def test_correction_by_brute_force(given: TrainingData) -> None:
    proba, rows, targets = proba_of(given).numpy(), given.train.rows.numpy(), given.train.targets.numpy()
    S = NormalizedAdjacency().build(given.graph.adjacency).toarray()
    errors = np.zeros_like(proba)
    for row, target in zip(rows, targets, strict=True):
        errors[row] = np.eye(3)[target] - proba[row]
    arrived = errors
    for _ in range(5):
        arrived = np.clip(0.6 * S @ arrived + 0.4 * errors, -1, 1)
    mean = np.abs(errors).sum() / len(rows)
    expected = proba.copy()
    for node in range(len(proba)):
        size = np.abs(arrived[node]).sum()
        scale = mean / size if size > mean / 1000 else 1.0
        expected[node] += scale * arrived[node]
    ours = correct(walk(given), torch.tensor(proba), given, 0.6, 5)
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-4)


def test_where_no_error_arrives_nothing_is_corrected() -> None:
    lonely = Graph(np.diag([1.0, 1.0], 1) + np.diag([1.0, 1.0], -1), np.eye(3)).adjacency.toarray()
    lonely[2] = lonely[:, 2] = 0
    data = Dataset("d", Graph(lonely, np.eye(3)), np.array([0, 1, 1]), NodeSplit([0, 1]))
    given = TrainingData.from_dataset(data)[0]
    proba = torch.full((3, 2), 0.5)
    corrected = correct(walk(given), proba, given, 0.5, 10)
    assert corrected[2].equal(proba[2])
    assert corrected[0, 0] > 0.5 > corrected[1, 0]


def test_validation_chooses_the_shares_left_open(given: TrainingData) -> None:
    def hits(model: CorrectAndSmooth) -> int:
        torch.manual_seed(0)
        scores = model.fit(given).scores
        return int((scores[given.validation.rows].argmax(dim=1) == given.validation.targets).sum())

    base = CorrectAndSmooth(base="linear", depth=8)
    grid = [hits(replace(base, correction=a, smoothing=b)) for a in CANDIDATES for b in CANDIDATES]
    assert hits(base) == max(grid)
    assert len(set(grid)) > 1


def test_labels_of_training_nodes_alone_travel(given: TrainingData) -> None:
    """What validation nodes are labelled may choose the shares, and nothing else."""
    flipped = replace(given.validation, targets=given.validation.targets.flip(0))
    scores = []
    for seen in (given, replace(given, validation=flipped), replace(given, validation=None)):
        corrected = correct(walk(seen), proba_of(seen), seen, 0.5, 8)
        scores.append(smooth(walk(seen), corrected, seen, 0.5, 8))
    assert scores[0].equal(scores[1])
    assert scores[0].equal(scores[2])


def test_without_validation_the_largest_share_is_taken(given: TrainingData) -> None:
    alone = replace(given, validation=None)
    open_, fixed = CorrectAndSmooth(depth=8), CorrectAndSmooth(depth=8, correction=0.9, smoothing=0.9)
    scores = []
    for model in (open_, fixed):
        torch.manual_seed(0)
        scores.append(model.fit(alone).scores)
    assert scores[0].equal(scores[1])


@pytest.mark.parametrize(("base", "model"), [("mlp", MLP()), ("linear", SGC(depth=0))])
def test_spreading_improves_the_base(
    given: TrainingData, small: Dataset, base: str, model: BaselineModel
) -> None:
    torch.manual_seed(0)
    plain = model.fit(given)
    torch.manual_seed(0)
    outcome = CorrectAndSmooth(base=base).fit(given)
    right = [(s.argmax(dim=1).numpy() == small.y)[small.test].mean() for s in (plain.scores, outcome.scores)]
    assert right[1] > right[0]
    assert (outcome.best_epoch, outcome.n_parameters) == (plain.best_epoch, plain.n_parameters)
