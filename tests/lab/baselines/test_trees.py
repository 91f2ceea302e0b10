from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.metrics import r2_score

from gbgnn import GraphFeatures
from gbgnn.datasets import Dataset
from gbgnn.errors import MissingDependencyError, ParameterError
from gbgnn.graph import Graph
from gbgnn.labels import NodeSplit
from gbgnn.tasks import Regression
from gbgnn_lab.baselines import BASELINES, fit_baseline, fit_nodes
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.trees import HistGradientBoosting, LightGBM, PropagatedResiduals, TreeModel

TREES: list[TreeModel] = [LightGBM(), HistGradientBoosting()]
NUMERIC = [name for name, entry in BASELINES.items() if entry.model.predicts_numbers]


def lattice(side: int = 20, seed: int = 0) -> tuple[Graph, np.ndarray, np.ndarray]:
    """A grid with random columns; what neighbours' columns tell, and that with a wave that none tells."""
    random = np.random.default_rng(seed)
    path = sp.diags_array([1.0] * (side - 1), offsets=1, shape=(side, side))
    line, eye = path + path.T, sp.eye_array(side)
    A = sp.csr_array(sp.kron(line, eye) + sp.kron(eye, line))
    X = random.normal(size=(side**2, 3))
    wave = 2 * np.sin(4 * np.arange(side) / side)[:, None] * np.ones(side)
    heard = 3 * (A @ X[:, 0]) / A.sum(axis=1)
    return Graph(A, X), heard, heard + wave.ravel()


def halves(n_nodes: int, seed: int = 0) -> NodeSplit:
    order = np.random.default_rng(seed).permutation(n_nodes)
    return NodeSplit(*np.split(order, [n_nodes // 2, 3 * n_nodes // 4]))


@pytest.fixture(scope="module")
def fitted() -> dict[str, float]:
    """R2 of the test nodes by every system that predicts numbers, of what neighbours' columns tell."""
    graph, y, _ = lattice()
    split, quick = halves(graph.n_nodes), {"depth": 2, "dropout": 0.0, "learning_rate": 0.01, "epochs": 150}
    also = {
        "gprgnn": quick | {"restart": 0.1, "output_dropout": 0.0},
        "h2gcn": quick | {"weight_decay": 1e-5},
        "linkx": {"layers": 1, "dropout": 0.0, "learning_rate": 0.01, "epochs": 150},
    }
    scores = {}
    for name in NUMERIC:
        given = quick if name.startswith("residual") else also.get(name, {})
        seen = np.where(np.isin(np.arange(len(y)), split.test), np.nan, y)  # no y of a test node is there
        result = fit_nodes(name, graph, seen, split, task="regression", seed=0, **given)
        assert (result.proba, result.classes, result.val_accuracy) == (None, None, None)
        scores[name] = result.judge(split.test, y[split.test])["r2"]
    return scores


def test_neighbours_tell_what_the_own_columns_do_not(fitted: dict[str, float]) -> None:
    assert fitted.pop("lightgbm") < 0.3
    del fitted["linkx"]  # reads who the neighbours are, and not what these have
    assert min(fitted.values()) > 0.6, fitted


@pytest.mark.parametrize("model", TREES, ids=lambda model: type(model).__name__)
def test_table_is_that_of_graph_features(model: TreeModel, given: TrainingData) -> None:
    own = model.tabulate(given)
    np.testing.assert_array_equal(own, given.graph.features)
    features = GraphFeatures(hops=2, structure=("degree",), encodings=())
    expected = features.fit_transform(np.arange(120), graph=given.graph)
    np.testing.assert_array_equal(replace(model, depth=2).tabulate(given), expected)


@pytest.mark.parametrize("model", TREES, ids=lambda model: type(model).__name__)
def test_trees_stop_by_validation_and_without_it_are_few(model: TreeModel, given: TrainingData) -> None:
    noise = replace(given, train=replace(given.train, targets=given.train.targets[torch.randperm(30)]))
    patient = replace(model, n_trees=400, patience=5, leaf_nodes=3)
    assert 1 <= patient.fit(noise).best_epoch < 60
    alone = replace(model, few_trees=7).fit(replace(given, validation=None))
    assert alone.best_epoch == 7
    assert alone.n_parameters >= 7


@pytest.mark.parametrize("model", TREES, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_are_logarithms_of_probabilities(model: TreeModel, n_classes: int) -> None:
    from gbgnn.datasets import csbm

    data = csbm(n_nodes=150, n_classes=n_classes, separation=2.5, per_class=20)
    scores = replace(model, n_trees=20, depth=1).fit(TrainingData.from_dataset(data)).scores
    assert scores.shape == (150, n_classes)
    torch.testing.assert_close(scores.exp().sum(dim=1), torch.ones(150))
    assert (scores.argmax(dim=1).numpy() == data.y)[data.test].mean() > 0.8


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("model", TREES, ids=lambda model: type(model).__name__)
def test_depth_is_hops(model: TreeModel, depth: int) -> None:
    graph, y, _ = lattice(12)
    data = TrainingData.build(graph, y, halves(144), Regression())
    changed = graph.features.copy()
    changed[143] += 5
    other = replace(data, graph=Graph(graph.adjacency, changed))
    reach = sum(
        sp.linalg.matrix_power(graph.adjacency, k)[[143]].toarray()[0] > 0 for k in range(1, depth + 1)
    )
    before, after = (replace(model, depth=depth).tabulate(each) for each in (data, other))
    differs = np.flatnonzero(~np.isclose(before, after).all(axis=1))
    np.testing.assert_array_equal(differs, np.union1d(np.flatnonzero(reach), [143]))


def test_residuals_tell_what_no_column_does() -> None:
    graph, _, y = lattice(24)
    split = halves(graph.n_nodes)
    found = {
        name: fit_nodes(name, graph, y, split, task="regression", seed=0).judge(split.test, y[split.test])[
            "r2"
        ]
        for name in ("lightgbm_2hop", "lightgbm_residuals")
    }
    assert found["lightgbm_residuals"] > found["lightgbm_2hop"] + 0.02


def test_residuals_are_of_trees_that_have_not_seen_the_node() -> None:
    """Each training node is in one fold, and its residual is that of trees grown without it."""
    graph, y, _ = lattice(8)
    data = TrainingData.build(graph, y, halves(64), Regression())
    X = np.arange(32.0)[:, None]
    seen: list[set[float]] = []

    class Recorder:
        def __init__(self, rows: tuple[np.ndarray, np.ndarray]) -> None:
            self.rows = {float(row[0]) for row in rows[0]}

        def predict(self, unseen: np.ndarray) -> np.ndarray:
            asked = {float(row[0]) for row in unseen}
            assert not asked & self.rows
            seen.append(asked)
            return np.full((len(unseen), 1), 0.25)

    targets = np.linspace(0, 1, 32)
    residuals = PropagatedResiduals(folds=4)._residuals((X, targets), Recorder, data, 0)
    np.testing.assert_allclose(residuals[:, 0], targets - 0.25)
    assert sorted(value for fold in seen for value in fold) == X[:, 0].tolist()


def test_what_arrives_is_a_shrunken_mean_of_residuals() -> None:
    graph, y, _ = lattice(5)
    data = TrainingData.build(graph, y, NodeSplit([0, 7, 12, 20]), Regression())
    residuals = np.array([[1.0], [-2.0], [3.0], [0.5]])
    arrived = list(PropagatedResiduals(depth=2)._arrivals(residuals, data))
    P = (graph.adjacency / graph.adjacency.sum(axis=1)[:, None]).toarray()
    r, m = np.zeros(25), np.zeros(25)
    r[[0, 7, 12, 20]], m[[0, 7, 12, 20]] = residuals[:, 0], 1
    kernel = 0.5 * P + 0.25 * P @ P
    np.testing.assert_allclose(arrived[0][:, 0], kernel @ r / (kernel @ m + 0.1))
    assert len(arrived) == 12


def test_residuals_without_validation_are_passed_on_as_first_tried() -> None:
    graph, _, y = lattice(10)
    split = NodeSplit(np.arange(0, 100, 2))
    result = fit_nodes("lightgbm_residuals", graph, y, split, task="regression", seed=0)
    odd = np.arange(1, 100, 2)
    assert r2_score(y[odd], result.predictions[odd]) > 0.3


def test_systems_for_classes_refuse_numbers() -> None:
    graph, y, _ = lattice(5)
    words = "the baseline gcn is for classes; those that predict numbers: lightgbm, lightgbm_1hop, "
    with pytest.raises(ParameterError, match=words):
        fit_nodes("gcn", graph, y, NodeSplit([0, 1, 2]), task="regression", seed=0)
    with pytest.raises(ParameterError, match="LightGBM predicts one number; y has 2 columns"):
        fit_nodes("lightgbm", graph, np.stack([y, y], 1), NodeSplit([0, 1, 2]), task="regression", seed=0)


def test_classes_are_judged_by_probabilities(small: Dataset) -> None:
    result = fit_baseline("histgb_1hop", small, seed=0, n_trees=20)
    found = result.judge(small.test, small.y[small.test])
    assert set(found) == {"accuracy", "auc", "average_precision", "log_loss", "macro_f1"}
    assert found["auc"] > 0.8
    np.testing.assert_allclose(result.proba.sum(axis=1), 1, rtol=1e-5)
    spread = fit_baseline("label_propagation", small, seed=0)
    assert spread.proba is None
    assert spread.judge(small.test, small.y[small.test])["auc"] is None


def test_lightgbm_is_said_to_be_missing(small: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    gone: Any = None
    monkeypatch.setitem(sys.modules, "lightgbm", gone)
    with pytest.raises(
        MissingDependencyError, match='the baseline lightgbm needs lightgbm: pip install "gbgnn'
    ):
        fit_baseline("lightgbm", small, seed=0)
