from __future__ import annotations

import importlib.metadata

import numpy as np
import pytest
import torch
from sklearn.tree import DecisionTreeClassifier

from gbgnn import MLP, GBGNNClassifier, GivenMatrix, SklearnLearner, registry
from gbgnn.boosting import Voting
from gbgnn.errors import ParameterError
from gbgnn.losses import SigmoidCrossEntropy, SoftmaxCrossEntropy
from gbgnn.metrics import Accuracy, Metric, Predicted, Scorer
from gbgnn.registry import FAMILIES, FITTED, PARAMETERS, as_device, as_dtype, as_part, part_class, part_name
from gbgnn.tasks import MultiLabel
from gbgnn.testing import two_blocks


@pytest.mark.parametrize(
    ("family", "name"), [(family, name) for family, known in FAMILIES.items() for name in known]
)
def test_every_name_makes_a_part_and_back(family: str, name: str) -> None:
    assert part_name(family, as_part(family, name)) == name


def test_parameters_are_families_and_parameters_of_the_estimator() -> None:
    params = GBGNNClassifier().get_params(deep=False)
    assert set(PARAMETERS) <= set(FAMILIES) & set(params)
    for family in PARAMETERS:
        assert params[family] in FAMILIES[family]


@pytest.mark.parametrize("name", FITTED["voting"])
def test_every_voting_has_a_name(name: str) -> None:
    kind = part_class("voting", name)
    assert issubclass(kind, Voting)
    needed = {"n_outputs": 3, "n_classes": 3, "proba_floor": 1e-7}
    record = {key: value for key, value in needed.items() if key in kind.__dataclass_fields__}
    voting = kind.from_record(record, SoftmaxCrossEntropy())
    assert part_name("voting", voting) == name
    assert kind.from_record(voting.record(), SoftmaxCrossEntropy()).record() == voting.record()


def test_objects_stay_what_they_are() -> None:
    for family, part in {"task": MultiLabel(), "loss": SigmoidCrossEntropy(), "metric": Accuracy()}.items():
        assert as_part(family, part) is part


def test_metrics_have_the_names_of_scorers_too() -> None:
    assert isinstance(as_part("metric", "accuracy"), Accuracy)
    metric = as_part("metric", "balanced_accuracy")
    assert isinstance(metric, Scorer)
    assert metric.name == "balanced_accuracy"


@pytest.mark.parametrize(
    ("family", "value", "message"),
    [
        (
            "loss",
            "sofmax",
            "unknown loss 'sofmax'. Did you mean 'softmax'.* Known: softmax, sigmoid",
        ),
        ("loss", 3, r"loss must be a name \(softmax, sigmoid, squared, .*\) or an object of Loss; got 3"),
        ("task", MultiLabel, r"got the class MultiLabel. Write MultiLabel\(\)"),
        ("metric", "f1_makro", "unknown metric 'f1_makro'. Did you mean 'f1_macro'"),
    ],
)
def test_unknown_parts_of_the_new_families_say_what_there_is(
    family: str, value: object, message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        as_part(family, value)


def test_estimators_and_matrices_are_wrapped() -> None:
    assert isinstance(as_part("learner", DecisionTreeClassifier()), SklearnLearner)
    assert isinstance(as_part("propagation", np.eye(2)), GivenMatrix)


class Plugin(MLP):
    pass


def test_entry_points_add_names(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("mine", f"{__name__}:Plugin", "gbgnn.learner")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == "gbgnn.learner" else [])
    monkeypatch.setattr(importlib.metadata.EntryPoint, "load", lambda self: Plugin)
    assert part_class("learner", "mine") is Plugin
    assert part_name("learner", Plugin()) == "mine"


class Hits(Metric):
    name = "hits"

    def score(self, predicted: Predicted) -> float:
        return float((predicted.decided() == predicted.targets).sum())


def test_entry_points_add_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("hits", f"{__name__}:Hits", "gbgnn.metric")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == "gbgnn.metric" else [])
    monkeypatch.setattr(importlib.metadata.EntryPoint, "load", lambda self: Hits)
    assert isinstance(as_part("metric", "hits"), Hits)
    graph, y = two_blocks(30, n_classes=3)
    model = GBGNNClassifier(metric="hits", n_rounds=2, learner=MLP(epochs=3), random_state=0)
    model.fit(np.arange(15), y[:15], graph=graph, validation=(np.arange(15, 30), y[15:]))
    right = (model.predict(np.arange(15, 30)) == y[15:]).sum()
    assert max(model.history_["val_hits"]) == right


def test_part_without_a_name_says_how_to_get_one() -> None:
    with pytest.raises(
        ParameterError, match=r"Plugin has no name; register it as an entry point of gbgnn\.learner"
    ):
        part_name("learner", Plugin())


def test_auto_is_the_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for available, kind in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda available=available: available)
        assert as_device("auto").type == kind


def test_cuda_without_a_device_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ParameterError, match='torch finds no CUDA device; use "cpu" or "auto"'):
        as_device("cuda:0")


def test_words_and_objects() -> None:
    assert as_device(torch.device("cpu")) == as_device("cpu")
    assert as_dtype("float64") is as_dtype(torch.float64) is torch.float64
