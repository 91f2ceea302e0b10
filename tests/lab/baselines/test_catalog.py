from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn.datasets import Dataset
from gbgnn.errors import GraphError, ParameterError
from gbgnn.graph import Graph
from gbgnn.labels import NodeSplit
from gbgnn_lab.baselines import BASELINES, Baseline, BaselineResult, choose_model, find_baseline, fit_baseline
from gbgnn_lab.baselines.data import TrainingData

WANTED = [
    *("gcn", "sgc", "tagcn", "dgi", "graphsage", "appnp", "gat", "monet", "jknet", "gcnii", "adagcn"),
    *("correct_and_smooth", "label_propagation", "mlp"),
    *("lightgbm", "lightgbm_1hop", "lightgbm_2hop", "histgb_1hop", "histgb_2hop", "lightgbm_residuals"),
    *("residual_gcn", "residual_sage", "residual_gat"),
    *("grand", "grand_plus", "gprgnn", "h2gcn", "linkx"),
]
CITATION = ("cora", "citeseer", "pubmed")


def test_every_system_of_the_comparison_is_there() -> None:
    assert list(BASELINES) == WANTED


@pytest.mark.parametrize("entry", BASELINES.values(), ids=lambda entry: entry.name)
def test_an_entry_says_what_it_is_and_where_from(entry: Baseline) -> None:
    for text in (entry.title, entry.description, entry.reference, entry.settings_from):
        assert text.strip()
    assert any(year in entry.reference for year in map(str, range(2003, 2023)))
    assert BASELINES[entry.name] is entry
    assert bool(entry.cited) == bool(entry.cited_from)
    assert all(name in CITATION and 40 < value < 90 for name, value in entry.cited.items())


@pytest.mark.parametrize("entry", BASELINES.values(), ids=lambda entry: entry.name)
def test_published_settings_are_in_range_and_differ_where_they_should(entry: Baseline) -> None:
    entry.model.check()
    for name, model in entry.variants.items():
        assert name in CITATION
        assert type(model) is type(entry.model)
        model.check()
        assert any(getattr(model, f.name) != getattr(entry.model, f.name) for f in fields(model))


def test_settings_are_by_data_set() -> None:
    gcnii = find_baseline("gcnii")
    depths = {name: gcnii.model_for(name).depth for name in ("Cora", "citeseer", "pubmed", "other")}
    assert depths == {"Cora": 64, "citeseer": 32, "pubmed": 16, "other": 64}


def test_adagcn_has_a_classifier_for_every_layer_of_its_published_commands() -> None:
    adagcn = find_baseline("adagcn")
    models = [adagcn.model_for(name) for name in CITATION]
    settings = ("depth", "units", "dropout", "weight_decay", "first_weight_decay", "epochs", "patience")
    # Their layers (12, 15, 20) count the classifier on the features themselves, which is no hop.
    assert [[getattr(model, name) for name in settings] for model in models] == [
        [12 - 1, 5000, 0.0, 1e-4, 5e-3, 500, 300],
        [15 - 1, 5000, 0.0, 1e-3, 5e-3, 500, 300],
        [20 - 1, 5000, 0.2, 1e-4, 5e-3, 500, 300],
    ]


def test_grand_has_the_settings_of_its_scripts() -> None:
    settings = ("depth", "units", "views", "dropped_nodes", "input_dropout", "dropout", "temperature")
    settings += ("consistency", "learning_rate", "weight_decay", "patience", "normalization", "epoch_by")
    models = [find_baseline("grand").model_for(name) for name in CITATION]
    assert [[getattr(model, name) for name in settings] for model in models] == [
        [8, 32, 4, 0.5, 0.5, 0.5, 0.5, 1.0, 0.01, 5e-4, 200, "none", "loss"],
        [2, 32, 2, 0.5, 0.0, 0.2, 0.3, 0.7, 0.01, 5e-4, 200, "none", "loss"],
        [5, 32, 4, 0.5, 0.6, 0.8, 0.2, 1.0, 0.2, 5e-4, 100, "batch", "loss"],
    ]


def test_depth_is_a_setting_wherever_there_is_a_graph() -> None:
    without = [name for name, entry in BASELINES.items() if not hasattr(entry.model, "depth")]
    assert without == ["mlp", "linkx"]  # LINKX reads rows of the adjacency


def test_unknown_name_is_an_error_with_a_hint() -> None:
    with pytest.raises(ParameterError, match=r"unknown baseline 'gcnn'. Did you mean 'gcn'\? Known: gcn, "):
        find_baseline("gcnn")


def test_the_catalogue_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        BASELINES["mine"] = find_baseline("gcn")  # type: ignore[index]


@pytest.mark.parametrize(
    "settings",
    [
        "GCN(learning_rate=0.01, weight_decay=0.0005, epochs=200, patience=None, dropout=0.5, depth=2, "
        "units=16)",
        "SGC(depth=2, learning_rate=0.2, weight_decay=5e-06, epochs=100, patience=None)",
        "TAGCN(learning_rate=0.01, weight_decay=0.0005, epochs=200, patience=None, dropout=0.5, depth=2, "
        "units=16, degree=2)",
        "DGI(depth=1, units=512, learning_rate=0.001, epochs=10000, patience=20, head_learning_rate=0.01, "
        "head_epochs=100)",
        "GraphSAGE(learning_rate=0.01, weight_decay=0.0005, epochs=200, patience=None, dropout=0.5, depth=2, "
        "units=16)",
        "APPNP(learning_rate=0.01, weight_decay=0.005, epochs=10000, patience=100, dropout=0.5, depth=10, "
        "restart=0.1, units=64, edge_dropout=0.5)",
        "GAT(learning_rate=0.005, weight_decay=0.0005, epochs=1000, patience=100, dropout=0.6, depth=2, "
        "units=8, heads=8, output_heads=1)",
        "MoNet(learning_rate=0.01, weight_decay=0.0005, epochs=200, patience=None, dropout=0.5, depth=2, "
        "units=16, kernels=3, coordinates=2)",
        "JKNet(learning_rate=0.005, weight_decay=0.0005, epochs=500, patience=None, dropout=0.5, depth=2, "
        "units=32)",
        "GCNII(learning_rate=0.01, weight_decay=0.0005, epochs=1500, patience=100, dropout=0.6, depth=64, "
        "units=64, restart=0.1, identity=0.5, mixing_weight_decay=0.01)",
        "AdaGCN(depth=11, units=5000, dropout=0.0, learning_rate=0.01, weight_decay=0.0001, "
        "first_weight_decay=0.005, epochs=500, patience=300)",
        "CorrectAndSmooth(base='mlp', depth=50, correction=None, smoothing=None)",
        "LabelPropagation(depth=50, spread=0.9)",
        "MLP(learning_rate=0.01, weight_decay=0.0005, epochs=200, patience=None, dropout=0.5, units=16)",
        "LightGBM(depth=2, learning_rate=0.05, n_trees=1000, patience=50, few_trees=100, leaves=31, "
        "leaf_nodes=10)",
        "HistGradientBoosting(depth=1, learning_rate=0.1, n_trees=500, patience=20, few_trees=100, "
        "leaves=31, leaf_nodes=10)",
        "PropagatedResiduals(depth=16, hops=2, folds=5)",
        "ResidualGAT(learning_rate=None, weight_decay=0.0, epochs=1000, patience=100, dropout=None, "
        "depth=None, units=64, heads=4)",
        "GPRGNN(learning_rate=None, weight_decay=0.0005, epochs=1000, patience=200, dropout=0.5, depth=10, "
        "restart=None, units=64, output_dropout=None)",
        "H2GCN(learning_rate=0.01, weight_decay=None, epochs=1000, patience=100, dropout=None, depth=None, "
        "units=64)",
        "LINKX(learning_rate=None, weight_decay=0.0, epochs=500, patience=100, dropout=None, units=128, "
        "adjacency_layers=1, feature_layers=1, layers=None)",
    ],
)
def test_settings_are_the_published_ones(settings: str) -> None:
    assert settings in {repr(entry.model) for entry in BASELINES.values()}


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
    "lightgbm": {"n_trees": 30, "leaf_nodes": 3},
    "lightgbm_1hop": {"n_trees": 30, "leaf_nodes": 3},
    "lightgbm_2hop": {"n_trees": 30, "leaf_nodes": 3},
    "histgb_1hop": {"n_trees": 30, "leaf_nodes": 3},
    "histgb_2hop": {"n_trees": 30, "leaf_nodes": 3},
    "lightgbm_residuals": {"depth": 3, "folds": 2},
    "residual_gcn": {"units": 16, "epochs": 40, "dropout": 0.2, "depth": 2},
    "residual_sage": {"units": 16, "epochs": 40, "learning_rate": 0.01, "depth": 2},
    "residual_gat": {"units": 16, "epochs": 40, "dropout": 0.2, "learning_rate": 0.01},
    "grand": {"epochs": 40, "depth": 2, "input_dropout": 0.0},
    "grand_plus": {"epochs": 10, "steps": 3, "restart": 0.2, "input_dropout": 0.0},
    "gprgnn": {"epochs": 40, "restart": 0.1, "output_dropout": 0.0},
    "h2gcn": {"epochs": 40, "depth": 1, "weight_decay": 5e-4},
    "linkx": {"epochs": 40, "layers": 1, "dropout": 0.0},
}
NAMES = list(BASELINES)
WITHOUT_HOPS = ("correct_and_smooth", "label_propagation", "mlp")  # of features
# Quantiles of a column, thresholds of trees and views of all nodes change everywhere with one node: they have
# their own tests.
LOOK_AT_ALL = ("grand", "grand_plus", *(n for n, entry in BASELINES.items() if entry.model.predicts_numbers))


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
    usual = BASELINES[name].model.__dict__ | QUICK[name]
    searched = getattr(BASELINES[name].model, "searched", {})
    chosen = {setting for setting, value in usual.items() if value is None and setting in searched}
    assert first.settings == usual | {setting: first.settings[setting] for setting in chosen}
    assert all(first.settings[setting] in searched[setting] for setting in chosen)


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
        scores.append(model.fit(TrainingData.from_dataset(small)).scores.numpy().tobytes())
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
@pytest.mark.parametrize("name", [n for n in NAMES if n not in WITHOUT_HOPS + LOOK_AT_ALL], indirect=True)
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
        scores.append(model.fit(TrainingData.from_dataset(path_dataset(changed))).scores)
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
    extras = {"torch_geometric", "lightgbm"}
    code = f"import sys, gbgnn_lab.baselines; assert not {extras!r} & set(sys.modules)"
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
