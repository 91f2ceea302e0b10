from __future__ import annotations

from dataclasses import fields

import pytest

from gbgnn.errors import ParameterError
from gbgnn_lab.baselines import BASELINES, Baseline, find_baseline

WANTED = [
    *("gcn", "sgc", "tagcn", "dgi", "graphsage", "appnp", "gat", "monet", "jknet", "gcnii", "adagcn"),
    *("correct_and_smooth", "label_propagation", "mlp"),
]
CITATION = ("cora", "citeseer", "pubmed")


def test_every_system_of_the_comparison_is_there() -> None:
    assert list(BASELINES) == WANTED


@pytest.mark.parametrize("entry", BASELINES.values(), ids=lambda entry: entry.name)
def test_an_entry_says_what_it_is_and_where_from(entry: Baseline) -> None:
    for text in (entry.title, entry.description, entry.reference, entry.settings_from):
        assert text.strip()
    assert any(year in entry.reference for year in map(str, range(2003, 2022)))
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


def test_depth_is_a_setting_wherever_there_is_a_graph() -> None:
    without = [name for name, entry in BASELINES.items() if not hasattr(entry.model, "depth")]
    assert without == ["mlp"]


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
    ],
)
def test_settings_are_the_published_ones(settings: str) -> None:
    assert settings in {repr(entry.model) for entry in BASELINES.values()}
