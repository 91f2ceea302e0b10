from __future__ import annotations

import pytest

from gbgnn import GBGNNClassifier
from gbgnn.cli.command import UsageError
from gbgnn.cli.settings import build_model, from_document, is_setting, override, to_document
from gbgnn.errors import ParameterError
from gbgnn.registry import FAMILIES, PARAMETERS

FLAGS = {"aggregation__mixing": "--mixing", "learner__units": "--units"}


def test_nothing_given_is_the_librarys_default() -> None:
    assert build_model({}).get_params(deep=False) == GBGNNClassifier().get_params(deep=False)


def test_a_file_mirrors_the_classifier() -> None:
    document = {
        "n_rounds": 3,
        "rule": "samme",
        "aggregation": {"name": "kta", "degree": 2},
        "learner": {"units": 8},
    }
    model = build_model(from_document(document, "x.toml"))
    assert model.n_rounds == 3
    assert repr(model.rule) == "Samme()"
    assert repr(model.aggregation) == "KernelTargetAlignment(degree=2)"
    assert repr(model.learner) == "MLP(units=8)"


@pytest.mark.parametrize("family", PARAMETERS)
def test_every_part_comes_back_from_its_record(family: str) -> None:
    for name in FAMILIES[family]:
        estimator = {"estimator": "sklearn.dummy.DummyClassifier"} if name == "sklearn" else {}
        settings = from_document({family: {"name": name, **estimator}}, "x")
        document = to_document(build_model(settings), settings)
        again = from_document({k: v for k, v in document.items() if v is not None}, "x")
        part = getattr(build_model(again), family)
        assert type(part) is FAMILIES[family][name]


def test_metric_and_loss_are_names_in_a_file() -> None:
    document = {"metric": "f1_macro", "rule": {"name": "gradient", "loss": "softmax"}}
    settings = from_document(document, "x.toml")
    model = build_model(settings)
    assert (model.metric, model.rule.loss) == ("f1_macro", "softmax")
    again = to_document(model, settings)
    assert (again["metric"], again["rule"]["loss"]) == ("f1_macro", "softmax")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"n_round": 3}, r"x.toml: unknown key 'n_round'. Did you mean 'n_rounds'\? Known: .*aggregation"),
        ({"warm_start": True}, "unknown key 'warm_start'"),
        ({"learner": {"unit": 3}}, r"x.toml: learner.unit is unknown.*Did you mean 'units'\?"),
        ({"aggregation": {"name": "adjacency", "mixing": 1}}, "belongs to aggregation injection or lazy"),
        ({"aggregation": {"name": "adjency"}}, r"Did you mean 'adjacency'\?"),
        ({"rule": 3}, r"rule must be a name or a table, \[rule\]; got 3"),
        ({"rule": {"name": 3}}, "rule.name must be a string; got 3"),
    ],
)
def test_mistakes_in_a_file_are_named(document: dict, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        build_model(from_document(document, "x.toml"))


def test_options_override_the_file() -> None:
    file = {"learner__units": 8, "learner__epochs": 2, "n_rounds": 5}
    assert override(file, {"learner__units": 4}, FLAGS) == file | {"learner__units": 4}


def test_another_part_takes_nothing_from_the_files_table() -> None:
    file = {"aggregation": "kta", "aggregation__degree": 2}
    assert override(file, {"aggregation": "lazy", "aggregation__mixing": 0.1}, FLAGS) == {
        "aggregation": "lazy",
        "aggregation__mixing": 0.1,
    }


def test_an_option_of_another_part_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--mixing belongs to aggregation injection or lazy; the .* is kta"):
        override({}, {"aggregation": "kta", "aggregation__mixing": 0.1}, FLAGS)


def test_what_is_a_setting() -> None:
    assert is_setting("n_rounds")
    assert is_setting("learner__units")
    assert not is_setting("data_dir")
    assert not is_setting("callbacks")
