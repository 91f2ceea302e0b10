from __future__ import annotations

import numpy as np
import pytest

from gbgnn import MLP, BoostedTrees, GBGNNClassifier, GraphNetwork, Stages, load
from gbgnn.errors import ParameterError
from gbgnn.learners import GraphNetworkHead, MLPHead, TreesHead
from gbgnn.learners.base import GRAPH, LABELLED
from gbgnn.settings import SettingError, build_model, flatten_document, nest_settings, read_settings
from gbgnn.testing import check_learner, two_blocks

FIRST = BoostedTrees(library="sklearn", n_trees=5)


def test_the_first_round_and_the_others(tmp_path) -> None:
    graph, y = two_blocks(60)
    learner = Stages(first=FIRST, then=GraphNetwork(epochs=5, depth=2, units=4))
    model = GBGNNClassifier(learner=learner, n_rounds=3, random_state=0).fit(range(30), y[:30], graph=graph)
    kinds = [type(each.head) for each in model.ensemble_]
    assert kinds == [TreesHead, GraphNetworkHead, GraphNetworkHead]
    model.save(tmp_path / "model.gbgnn")
    again = load(tmp_path / "model.gbgnn")
    assert repr(again.learner) == repr(learner)
    nodes = np.arange(60)
    for scores, expected in zip(
        again.model_.staged_predict_proba(nodes, graph=graph),
        model.model_.staged_predict_proba(nodes),
        strict=True,
    ):
        np.testing.assert_array_equal(scores, expected)


def test_is_what_its_parts_are() -> None:
    both = Stages(first=FIRST, then=GraphNetwork())
    assert (both.uses, both.takes_gaps, both.takes_offsets, both.hears_labels) == (GRAPH, True, True, True)
    assert both.watches_validation
    plain = Stages(first=MLP(), then=MLP())
    assert (plain.uses, plain.takes_gaps, plain.hears_labels) == (LABELLED, False, False)
    assert plain.is_differentiable
    assert not plain.watches_validation
    assert not Stages(first=MLP(), then=FIRST).is_differentiable
    check_learner(Stages(first=MLP(epochs=3), then=MLP(epochs=3)))


def test_parts_are_checked() -> None:
    with pytest.raises(ParameterError, match="MLP.units"):
        Stages(first=MLP(units=0)).check()
    with pytest.raises(ParameterError, match=r"Stages.then must be a learner.*'mlp'"):
        Stages(first=MLP(), then="mlp").check()


def test_settings_go_through_documents() -> None:
    model = GBGNNClassifier(learner=Stages(first=MLP(units=7), then=FIRST))
    settings = read_settings(model)
    assert settings["learner__first"]["units"] == 7
    again = build_model(flatten_document(nest_settings(settings)))
    assert repr(again.learner) == repr(model.learner)
    named = build_model({"learner": "stages", "learner__then": "mlp"})
    assert repr(named.learner.then) == "MLP()"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"name": "mlp", "unit": 3}, r"learner.first.unit is unknown.*[Dd]id you mean.*units"),
        ({"units": 3}, "learner.first must be a name or a table with one"),
        ("mpl", "unknown learner 'mpl'"),
    ],
)
def test_wrong_documents_are_named(value: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        build_model({"learner": "stages", "learner__first": value})


def test_setting_error_is_a_parameter_error() -> None:
    with pytest.raises(SettingError):
        build_model({"learner": "stages", "learner__first": {"name": "mlp", "unit": 3}})


def test_heads_of_two_networks() -> None:
    graph, y = two_blocks(40)
    learner = Stages(first=MLP(epochs=3, units=3), then=MLP(epochs=3, units=5))
    model = GBGNNClassifier(learner=learner, n_rounds=2, random_state=0).fit(range(20), y[:20], graph=graph)
    heads = [each.kept_head() for each in model.ensemble_]
    assert all(isinstance(head, MLPHead) for head in heads)
    assert [len(head.layers[0].weight) for head in heads] == [3, 5]
