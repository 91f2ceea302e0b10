from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier

from gbgnn import (
    MLP,
    FineTuner,
    FunctionalGradient,
    GBGNNClassifier,
    GBGNNRegressor,
    GivenMatrix,
    SoftmaxCrossEntropy,
)
from gbgnn.errors import ParameterError
from gbgnn.registry import FAMILIES, PARAMETERS, as_part
from gbgnn.settings import (
    SettingError,
    build_estimator,
    build_model,
    describe_estimator,
    flatten_document,
    nest_settings,
    override_settings,
    read_settings,
)


def test_nothing_given_is_the_librarys_default() -> None:
    assert build_model({}).get_params(deep=False) == GBGNNClassifier().get_params(deep=False)


def test_a_file_mirrors_the_classifier() -> None:
    document = {
        "n_rounds": 3,
        "rule": "samme",
        "aggregation": {"name": "kta", "degree": 2},
        "learner": {"units": 8},
    }
    model = build_model(flatten_document(document, "x.toml"))
    assert model.n_rounds == 3
    assert repr(as_part("rule", model.rule)) == "Samme()"
    assert repr(model.aggregation) == "KernelTargetAlignment(degree=2)"
    assert repr(model.learner) == "MLP(units=8)"


@pytest.mark.parametrize("family", PARAMETERS)
def test_every_part_comes_back_from_its_record(family: str) -> None:
    for name in FAMILIES[family]:
        estimator = {"estimator": "sklearn.dummy.DummyClassifier"} if name == "sklearn" else {}
        model = build_model(flatten_document({family: {"name": name, **estimator}}, "x"))
        document = nest_settings(read_settings(model))
        again = build_model(flatten_document({k: v for k, v in document.items() if v is not None}, "x"))
        assert type(getattr(again, family)) is FAMILIES[family][name] or getattr(again, family) == name
        assert read_settings(again) == read_settings(model)


MODELS = [
    GBGNNClassifier(),
    GBGNNClassifier(n_rounds=np.int64(3), learner=MLP(units=3), fine_tune=FineTuner(moves=("etas",))),
    GBGNNClassifier(rule=FunctionalGradient(loss=SoftmaxCrossEntropy()), metric="f1_macro", dtype="float64"),
    GBGNNClassifier(learner=Ridge(alpha=0.5), class_weight={"a": 2.0}, random_state=3),
]


@pytest.mark.parametrize("model", MODELS, ids=range(len(MODELS)))
def test_all_four_forms_say_the_same(model: GBGNNClassifier) -> None:
    settings = read_settings(model)
    assert flatten_document(nest_settings(settings), "x") == settings
    again = build_model(settings)
    assert read_settings(again) == settings
    assert repr(as_part("learner", again.learner)) == repr(as_part("learner", model.learner))


def test_metric_and_loss_are_names_in_a_file() -> None:
    document = {"metric": "f1_macro", "rule": {"name": "gradient", "loss": "softmax"}}
    model = build_model(flatten_document(document, "x.toml"))
    assert (model.metric, model.rule.loss) == ("f1_macro", "softmax")
    again = nest_settings(read_settings(model))
    assert (again["metric"], again["rule"]["loss"]) == ("f1_macro", "softmax")


def test_what_has_no_plain_form_is_said() -> None:
    with pytest.raises(ParameterError, match="random_state cannot be written as text or a number"):
        read_settings(GBGNNClassifier(random_state=np.random.RandomState(0)))
    with pytest.raises(ParameterError, match="propagation__matrix cannot be written"):
        read_settings(GBGNNClassifier(propagation=GivenMatrix(matrix=np.eye(2))))


def test_fine_tuning_is_on_by_a_setting_of_it_and_off_by_a_word() -> None:
    assert build_model({"fine_tune__epochs": 3}).fine_tune.epochs == 3
    assert not build_model({"fine_tune__epochs": 3, "fine_tune": False}).fine_tune
    off = override_settings({"fine_tune": True, "fine_tune__epochs": 3}, {"fine_tune": False})
    assert not build_model(off).fine_tune


def test_parts_may_be_objects() -> None:
    assert build_model({"learner": MLP(units=3), "learner__epochs": 2}).learner.epochs == 2
    tree = DecisionTreeClassifier(max_depth=1)
    assert build_model({"learner": "sklearn", "learner__estimator": tree}).learner.estimator is tree


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"n_round": 3}, r"x.toml: unknown key 'n_round'. Did you mean 'n_rounds'\? Known: .*aggregation"),
        ({"warm_start": True}, "unknown key 'warm_start'"),
        ({"learner": {"unit": 3}}, r"x.toml: learner.unit is unknown.*Did you mean 'units'\?"),
        ({"aggregation": {"name": "adjacency", "mixing": 1}}, "belongs to aggregation injection or lazy"),
        ({"aggregation": {"name": "adjency"}}, r"Did you mean 'adjacency'\?"),
        (
            {"fine_tune": {"epoch": 3}},
            r"fine_tune.epoch is unknown: fine-tuning has no such setting. Did you",
        ),
        ({"rule": 3}, r"rule must be a name or a table, \[rule\]; got 3"),
        ({"rule": {"name": 3}}, "rule.name must be a string; got 3"),
    ],
)
def test_mistakes_in_a_file_are_named(document: dict, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        build_model(flatten_document(document, "x.toml"))


def test_a_setting_that_no_model_has_is_named() -> None:
    with pytest.raises(ParameterError, match="not those of a model: .*n_round"):
        build_model({"n_round": 3})


def test_changes_override_the_settings() -> None:
    file = {"learner__units": 8, "learner__epochs": 2, "n_rounds": 5}
    assert override_settings(file, {"learner__units": 4}) == file | {"learner__units": 4}


def test_another_part_takes_nothing_from_the_old_ones_settings() -> None:
    file = {"aggregation": "kta", "aggregation__degree": 2}
    changes = {"aggregation": "lazy", "aggregation__mixing": 0.1}
    assert override_settings(file, changes) == changes


def test_a_setting_of_another_part_is_refused_in_the_callers_words() -> None:
    with pytest.raises(SettingError, match=r"^--mixing belongs to .* injection or lazy; the .* is kta"):
        override_settings(
            {}, {"aggregation": "kta", "aggregation__mixing": 0.1}, {"aggregation__mixing": "--mixing"}.get
        )


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("os.system", {}, r"full name of a class in sklearn, lightgbm, xgboost.*got 'os.system'"),
        (None, {}, "learner sklearn needs an estimator"),
        ("sklearn.tree.Oak", {}, "there is no estimator 'sklearn.tree.Oak' here"),
        ("sklearn.trees.Oak", {}, "there is no estimator"),
        ("sklearn.tree.export_text", {}, "is not the class of an estimator"),
        ("sklearn.tree.DecisionTreeClassifier", {"depth": 2}, "does not take these parameters"),
    ],
)
def test_names_of_estimators_that_cannot_work(name: Any, params: dict, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        build_estimator(name, params)


def test_estimators_are_described_by_their_public_names() -> None:
    described = describe_estimator(DummyClassifier(strategy="uniform"))
    assert described == {
        "estimator": "sklearn.dummy.DummyClassifier",
        "estimator_params": {"strategy": "uniform"},
    }
    assert describe_estimator(None) == {"estimator": None}


def test_a_record_of_defaults_leaves_parts_untouched() -> None:
    for kind in (GBGNNClassifier, GBGNNRegressor):
        again = build_model(flatten_document(nest_settings(read_settings(kind()))))
        assert repr(again) == repr(kind())
    assert build_model({"learner": "mlp", "learner__units": 64}).learner == "mlp"
    assert build_model({"learner__units": 65}).learner.units == 65
