from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn.datasets import Dataset
from gbgnn.errors import GraphError, ParameterError
from gbgnn.graph import Graph, NodeSplit
from gbgnn_lab.baselines import BASELINES, BaselineResult, choose_model, fit_baseline
from gbgnn_lab.baselines.data import TrainingData

# Enough to learn the small graph of these tests, and no more.
QUICK: dict[str, dict[str, Any]] = {
    "gcn": {"epochs": 60},
    "sgc": {"epochs": 40},
    "tagcn": {"epochs": 60},
    "dgi": {"units": 16, "epochs": 40, "head_epochs": 60},
    "graphsage": {"epochs": 60},
    "appnp": {"epochs": 60},
    "gat": {"units": 4, "epochs": 60, "learning_rate": 0.02},
    "monet": {"epochs": 60},
    "jknet": {"epochs": 60},
    "gcnii": {"depth": 4, "units": 16, "epochs": 60},
    "adagcn": {"depth": 2, "units": 16, "epochs": 40},
    "correct_and_smooth": {},
    "label_propagation": {},
    "mlp": {"epochs": 60},
}
NAMES = list(BASELINES)
WITHOUT_HOPS = ("correct_and_smooth", "label_propagation", "mlp")  # of features


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    """Each baseline, where what it needs is there."""
    if request.param in ("gat", "monet", "dgi"):
        pytest.importorskip("torch_geometric", reason=f"{request.param} needs the extra baselines")
    return str(request.param)


def fit(name: str, data: Dataset, seed: int = 0, **overrides: Any) -> BaselineResult:
    return fit_baseline(name, data, seed=seed, **QUICK[name] | overrides)


def test_training_works_and_is_the_same_for_the_same_seed(name: str, small: Dataset) -> None:
    first, second = fit(name, small), fit(name, small)
    accuracy = (first.predictions == small.y)[small.test].mean()
    assert accuracy > 0.55  # chance is a third
    assert first.predictions.tobytes() == second.predictions.tobytes()
    assert first.val_accuracy == (first.predictions == small.y)[small.val].mean()
    assert (first.best_epoch, first.n_parameters) == (second.best_epoch, second.n_parameters)
    assert first.settings == BASELINES[name].model.__dict__ | QUICK[name]


def test_no_test_label_is_seen(name: str, small: Dataset) -> None:
    y = small.y.copy()
    y[small.test] = 7  # a class that nothing else has
    scrambled = fit(name, replace(small, y=y))
    assert scrambled.predictions.tobytes() == fit(name, small).predictions.tobytes()


def test_scores_are_the_same_bytes_for_the_same_seed(name: str, small: Dataset) -> None:
    model = choose_model(name, small.name, **QUICK[name] | ({"epochs": 5} if "epochs" in QUICK[name] else {}))
    scores = []
    for _ in range(2):
        torch.manual_seed(1)
        scores.append(model.fit(TrainingData.from_dataset(small)[0]).scores.numpy().tobytes())
    assert scores[0] == scores[1]


def test_any_graph_will_do(name: str) -> None:
    """Directed, weighted, nodes that nobody hears, sparse features, words as labels, no validation."""
    rng = np.random.default_rng(0)
    adjacency = sp.random_array((30, 30), density=0.1, rng=rng, format="csr")
    features = sp.random_array((30, 12), density=0.3, rng=rng, format="csr")
    y = np.array(["cat", "dog", ""])[rng.integers(3, size=30)]
    y[:4] = ["cat", "dog", "cat", "dog"]
    data = Dataset("mine", Graph(adjacency, features), y, NodeSplit([0, 1, 2, 3]))
    few = {"epochs": 3, "head_epochs": 3}
    settings = {k: v for k, v in few.items() if hasattr(BASELINES[name].model, k)}
    result = fit_baseline(name, data, seed=0, **QUICK[name] | settings)
    assert set(result.predictions) <= {"cat", "dog"}
    assert result.predictions.shape == (30,)
    assert result.val_accuracy is None


def test_a_graph_without_edges_will_do(name: str, small: Dataset) -> None:
    bare = replace(small, graph=Graph(sp.csr_array((120, 120)), small.graph.features))
    epochs = {"epochs": 3} if hasattr(BASELINES[name].model, "epochs") else {}
    assert len(fit(name, bare, **epochs).predictions) == 120


def path_dataset(changed: float) -> Dataset:
    """A path of 14 nodes, the first two labelled; ``changed`` is added to the features of the last."""
    steps = np.diag(np.ones(13), 1)
    features = np.random.default_rng(0).normal(size=(14, 5))
    features[-1] += changed
    return Dataset("path", Graph(steps + steps.T, features), np.arange(14) % 2, NodeSplit([0, 1]))


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("name", [n for n in NAMES if n not in WITHOUT_HOPS], indirect=True)
def test_depth_is_hops(name: str, depth: int) -> None:
    """Nodes further than ``depth`` from a change do not notice it, and the one at that distance does."""
    hops = {"depth": depth} if name != "tagcn" else {"depth": 1, "degree": depth}
    few = {"epochs": 2, "head_epochs": 2, "dropout": 0.0, "edge_dropout": 0.0}
    given = {k: v for k, v in few.items() if hasattr(BASELINES[name].model, k)}
    scores = []
    for changed in (0.0, 3.0):
        model = choose_model(name, "path", **given, **hops)
        if name == "dgi":  # its encoder sees the whole graph in training, so leave it as it starts
            model = replace(model, epochs=1, learning_rate=1e-30)
        torch.manual_seed(0)
        scores.append(model.fit(TrainingData.from_dataset(path_dataset(changed))[0]).scores)
    is_same = (scores[0] - scores[1]).abs().amax(dim=1) < 1e-6
    assert is_same[: 13 - depth].all()
    assert not is_same[13 - depth :].any()


def test_another_seed_is_another_network(small: Dataset) -> None:
    results = [fit("gcn", small, seed=seed) for seed in (0, 1)]
    assert results[0].predictions.tobytes() != results[1].predictions.tobytes()
    assert [result.seed for result in results] == [0, 1]


def test_the_global_random_numbers_are_left_alone(small: Dataset) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fit("gcn", small, epochs=2)
    assert torch.rand(3).equal(expected)


def test_published_settings_are_overridden_by_name(small: Dataset) -> None:
    result = fit("gcn", small, depth=3, units=5, epochs=2)
    assert (result.settings["depth"], result.settings["units"], result.settings["dropout"]) == (3, 5, 0.5)
    assert result.n_parameters == 8 * 5 + 5 + 5 * 5 + 5 + 5 * 3 + 3
    assert result.seconds > 0
    assert choose_model("gat", "pubmed").output_heads == 8
    assert choose_model("gat", "pubmed", output_heads=2).learning_rate == 0.01


def test_what_cannot_be_is_an_error(small: Dataset) -> None:
    words = r"the baseline gcn has no setting 'unit'; it takes .*units.*\. Did you mean 'units'\?"
    with pytest.raises(ParameterError, match=words):
        fit_baseline("gcn", small, seed=0, unit=3)
    with pytest.raises(ParameterError, match="the baseline mlp has no setting 'depth'"):
        fit_baseline("mlp", small, seed=0, depth=3)
    with pytest.raises(ParameterError, match="GCN.depth must be an integer >= 1; got 0"):
        fit_baseline("gcn", small, seed=0, depth=0)
    with pytest.raises(ParameterError, match="fit_baseline.seed must be an integer >= 0; got -1"):
        fit_baseline("gcn", small, seed=-1)
    with pytest.raises(ParameterError, match='device must be "auto", "cpu" or "cuda"'):
        fit_baseline("gcn", small, seed=0, device="gpu9")
    with pytest.raises(GraphError, match="y has one class only"):
        fit_baseline("gcn", small.with_split(NodeSplit(small.train[:1])), seed=0)


def test_the_library_does_not_import_the_extra() -> None:
    code = "import sys, gbgnn_lab.baselines; assert 'torch_geometric' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.dataset
@pytest.mark.parametrize(("name", "least"), [("gcn", 0.79), ("sgc", 0.79), ("tagcn", 0.79), ("mlp", 0.54)])
def test_cora_is_where_it_should_be(planetoid_folder: Any, name: str, least: float) -> None:
    from gbgnn import datasets

    data = datasets.load("cora", data_dir=planetoid_folder)
    result = fit_baseline(name, data, seed=0)
    assert least < (result.predictions == data.y)[data.test].mean() < least + 0.06


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
@pytest.mark.parametrize("is_sparse", [False, True])
def test_training_works_on_a_gpu(name: str, small: Dataset, is_sparse: bool) -> None:
    features = sp.csr_array(small.graph.features) if is_sparse else small.graph.features
    data = replace(small, graph=Graph(small.graph.adjacency, features))
    result = fit_baseline(name, data, seed=0, device="cuda", **QUICK[name])
    assert (result.predictions == small.y)[small.test].mean() > 0.55
