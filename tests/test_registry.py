from __future__ import annotations

import importlib.metadata

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from gbgnn import MLP, GivenMatrix, SklearnLearner, registry
from gbgnn.errors import ParameterError
from gbgnn.registry import FAMILIES, as_part, part_class, part_name


@pytest.mark.parametrize(
    ("family", "name"), [(family, name) for family, known in FAMILIES.items() for name in known]
)
def test_every_name_makes_a_part_and_back(family: str, name: str) -> None:
    assert part_name(family, as_part(family, name)) == name


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


def test_part_without_a_name_says_how_to_get_one() -> None:
    with pytest.raises(
        ParameterError, match=r"Plugin has no name; register it as an entry point of gbgnn\.learner"
    ):
        part_name("learner", Plugin())
