from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from gbgnn.boosting import SammeR
from gbgnn.datasets import Dataset
from gbgnn.graph import Graph
from gbgnn.labels import NodeSplit
from gbgnn.problem import Problem
from gbgnn.propagation import AugmentedAdjacency, NormalizedAdjacency, Propagator
from gbgnn.tasks import Classification
from gbgnn.testing import make_context
from gbgnn.theory import WeakLearnings
from gbgnn_lab.baselines import BaselineModel, propagating
from gbgnn_lab.baselines.base import BaselineFit, Network
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.propagating import (
    APPNP,
    CANDIDATES,
    MLP,
    SGC,
    AdaGCN,
    CorrectAndSmooth,
    LabelPropagation,
    Perceptron,
    compute_votes,
    correct,
    diffuse,
    smooth,
    update_weights,
)


def test_appnp_equals_its_twin(given: TrainingData) -> None:
    nn = pytest.importorskip("torch_geometric.nn", reason="the propagation's twin is its own")
    network = Network(APPNP(depth=6, restart=0.3), given).eval()
    start = network.perceptron(given.features)
    torch.testing.assert_close(network(), nn.APPNP(6, 0.3)(start, given.edges), rtol=1e-4, atol=1e-5)


def test_appnp_comes_to_personalised_pagerank(given: TrainingData) -> None:
    network = Network(APPNP(depth=200, restart=0.2), given).eval()
    P = given.mixing(AugmentedAdjacency()).tensor.to_dense()
    inverse = torch.linalg.inv(torch.eye(given.graph.n_nodes) - 0.8 * P)
    expected = 0.2 * inverse @ network.perceptron(given.features)
    torch.testing.assert_close(network(), expected, rtol=1e-3, atol=1e-4)


def test_the_perceptron_never_sees_an_edge(small: Dataset) -> None:
    bare = replace(small, graph=Graph(np.zeros((120, 120)), small.graph.features))
    scores = []
    for data in (small, bare):
        torch.manual_seed(0)
        scores.append(MLP(epochs=10).fit(TrainingData.from_dataset(data)).scores)
    assert scores[0].equal(scores[1])


def test_sgc_comes_to_the_logistic_regression_of_mixed_features(given: TrainingData) -> None:
    decay = 0.01
    model = SGC(depth=3, epochs=2000, learning_rate=0.05, weight_decay=decay)
    scores = model.fit(replace(given, validation=None)).scores
    P = AugmentedAdjacency().build(given.graph.adjacency).to_scipy()
    X = P @ (P @ (P @ given.graph.features))
    rows = given.train.rows.numpy()
    # Its penalty leaves the bias alone and ours does not, so a column of ones plays the bias.
    ones = np.hstack([X, np.ones((len(X), 1))])
    judge = LogisticRegression(C=1 / (decay * len(rows)), fit_intercept=False, tol=1e-8, max_iter=10_000)
    judge.fit(ones[rows], given.train.targets)
    expected = judge.predict_proba(ones)
    np.testing.assert_allclose(scores.softmax(dim=1).numpy(), expected, atol=2e-3)


def test_rows_are_seen_one_at_a_time() -> None:
    torch.manual_seed(0)
    network, X = Perceptron([4, 3, 2], 0.5).eval(), torch.randn(6, 4)
    some = torch.tensor([5, 0])
    torch.testing.assert_close(network(X[some]), network(X)[some])


def test_weights_grow_for_nodes_predicted_badly_by_a_hand_calculation() -> None:
    """Codes (1, -1/2, -1/2): <y, log p> is log .5 - (log .25 + log .25)/2 = log 2 at node 0."""
    proba = torch.tensor([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]], dtype=torch.float64)
    targets = torch.tensor([0, 1])
    after = update_weights(torch.tensor([0.5, 0.5], dtype=torch.float64), proba.log(), targets)
    good = np.exp(-2 / 3 * np.log(2))
    # At node 1 it is log .25 - (log .5 + log .25)/2 = -log(2)/2.
    bad = np.exp(2 / 3 * np.log(2) / 2)
    np.testing.assert_allclose(after, [good / (good + bad), bad / (good + bad)])
    assert after[1] > 0.5 > after[0]


@given(st.integers(0, 10**6), st.integers(2, 6))
@budget(max_examples=30)
def test_weights_follow_the_formula_with_codes(seed: int, n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    logs = torch.tensor(rng.normal(size=(9, n_classes))).log_softmax(dim=1)
    targets, weights = rng.integers(n_classes, size=9), rng.dirichlet(np.ones(9))
    codes = np.full((9, n_classes), -1 / (n_classes - 1))
    codes[np.arange(9), targets] = 1
    grown = weights * np.exp(-(n_classes - 1) / n_classes * (codes * logs.numpy()).sum(axis=1))
    ours = update_weights(torch.tensor(weights), logs, torch.tensor(targets))
    np.testing.assert_allclose(ours, grown / grown.sum())
    # Of two nodes with equal weight and class, the one that is predicted worse weighs more afterwards.
    same = update_weights(
        torch.full((9,), 1 / 9, dtype=torch.float64), logs, torch.zeros(9, dtype=torch.int64)
    )
    margins = logs[:, 0] - logs.mean(dim=1)
    assert same.argsort().tolist() == margins.argsort(descending=True).tolist()


def test_without_a_graph_weights_and_scores_are_those_of_sammer(
    small: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = replace(small, graph=Graph(np.zeros((120, 120)), small.graph.features))
    given = TrainingData.from_dataset(bare)
    given_weights: list[torch.Tensor] = []
    outputs: list[torch.Tensor] = []
    plain = propagating.train

    def remember(pace: Any, network: Any, scores: Any, groups: Any, data: Any, weights: Any) -> BaselineFit:
        given_weights.append(weights)
        result = plain(pace, network, scores, groups, data, weights)
        outputs.append(network(given.features).detach())
        return result

    monkeypatch.setattr(propagating, "train", remember)
    torch.manual_seed(0)
    scores = AdaGCN(depth=3, units=8, epochs=10).fit(given).scores
    rule, classes = SammeR(), Classification(classes=np.arange(3))
    context = make_context(Problem(given.inputs(AugmentedAdjacency()), classes, given.train)).batched()
    own_weights, total = rule.start(context.problem, 1), torch.zeros_like(scores)
    assert len(outputs) == 4
    for weights, output in zip(given_weights, outputs, strict=True):
        torch.testing.assert_close(weights, own_weights[0])
        direction = rule.voting_for(classes).direction(output)
        total += direction
        residuals = context.training.residuals
        quality = WeakLearnings.measure(direction[None, given.train.rows], residuals, weights)
        vote = rule.vote(direction[None], quality, context, own_weights).broadcast()
        assert vote.eta == 1
        own_weights = rule.update(own_weights, vote, context)
    torch.testing.assert_close(scores, total)


def test_one_classifier_is_trained_on_from_hop_to_hop(
    given: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks: list[int] = []
    before: list[torch.Tensor] = []
    after: list[torch.Tensor] = []
    plain = propagating.train

    def remember(pace: Any, network: Any, *rest: Any) -> BaselineFit:
        networks.append(id(network))
        before.append(network.layers[0].weight.detach().clone())
        result = plain(pace, network, *rest)
        after.append(network.layers[0].weight.detach().clone())
        return result

    monkeypatch.setattr(propagating, "train", remember)
    outcome = AdaGCN(depth=2, units=8, epochs=5).fit(given)
    assert len(set(networks)) == 1
    assert before[1].equal(after[0])
    assert before[2].equal(after[1])
    assert outcome.n_parameters == 8 * 8 + 8 * 3


def test_votes_are_centred() -> None:
    logs = torch.tensor([[0.2, 0.3, 0.5]]).log()
    torch.testing.assert_close(compute_votes(logs), 2 * (logs - logs.mean()))


def walk(given: TrainingData) -> Propagator:
    return Propagator(NormalizedAdjacency().build(given.graph.adjacency))


def proba_of(given: TrainingData) -> torch.Tensor:
    return torch.randn(given.graph.n_nodes, 3, generator=torch.Generator().manual_seed(0)).softmax(dim=1)


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
    given = TrainingData.from_dataset(Dataset("path", path, np.array([0, 0, 1]), NodeSplit([0, 2])))
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
    given = TrainingData.from_dataset(data)
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
