from __future__ import annotations

import numpy as np
import pytest
import torch

from gbgnn import (
    MLP,
    BestOf,
    BoostedTrees,
    ConsistentNetwork,
    FunctionalGradient,
    GBGNNClassifier,
    GraphNetwork,
    Stages,
    load,
)
from gbgnn.datasets import csbm
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


RULE = FunctionalGradient(target="loss", learning_rate=1.0, retries=0)
SMALL = {"units": 4, "n_hops": 2, "n_views": 2, "row_norm": None}
DATA = csbm(n_nodes=200, per_class=10, n_val=60, seed=3)


def fit_on(learner, *, has_validation: bool = True, n_rounds: int = 2) -> GBGNNClassifier:
    model = GBGNNClassifier(learner=learner, rule=RULE, n_rounds=n_rounds, select="last", random_state=0)
    validation = (DATA.val, DATA.y[DATA.val]) if has_validation else None
    return model.fit(DATA.train, DATA.y[DATA.train], graph=DATA.graph, validation=validation)


def validation_loss(model: GBGNNClassifier) -> float:
    proba = model.predict_proba(DATA.val)
    return float(-np.log(proba[np.arange(len(DATA.val)), DATA.y[DATA.val]]).mean())


@pytest.mark.parametrize("order", [1, -1])
def test_the_learner_is_kept_that_validation_nodes_prefer(order: int, tmp_path) -> None:
    learners = [MLP(epochs=100, units=16), MLP(epochs=10, units=16)]
    alone = [fit_on(learner, n_rounds=1) for learner in learners]
    losses = [validation_loss(model) for model in alone]
    assert losses[0] != losses[1]
    better = alone[int(np.argmin(losses))]
    one, other = learners[::order]
    model = fit_on(BestOf(one=one, other=other), n_rounds=1)
    nodes = np.arange(200)
    np.testing.assert_array_equal(model.predict_proba(nodes), better.predict_proba(nodes))
    (told,) = model.history_["learner"]
    assert told["chosen"]["learner"] == repr(better.learner)
    np.testing.assert_allclose(told["chosen"]["val_losses"], losses[::order], rtol=1e-5)
    model.save(tmp_path / "model.gbgnn")
    again = load(tmp_path / "model.gbgnn")
    np.testing.assert_array_equal(again.predict_proba(nodes, graph=DATA.graph), model.predict_proba(nodes))
    again.set_params(warm_start=True, n_rounds=2).fit(
        DATA.train, DATA.y[DATA.train], graph=DATA.graph, validation=(DATA.val, DATA.y[DATA.val])
    )
    assert again.history_["learner"][0] == told  # of a round that was replayed


def test_every_round_chooses_by_the_scores_so_far() -> None:
    small, large = MLP(epochs=30, units=2), MLP(epochs=30, units=16)
    both = fit_on(BestOf(one=small, other=large))
    for first in (small, large):
        begun = fit_on(first, n_rounds=1)
        if validation_loss(begun) == validation_loss(fit_on(BestOf(one=small, other=large), n_rounds=1)):
            then = [fit_on(Stages(first=first, then=second)) for second in (small, large)]
            assert validation_loss(both) == min(map(validation_loss, then))
            return
    pytest.fail("the first round is neither learner's")


def test_more_than_two_are_chosen_from_and_none_is_preferred_without_validation() -> None:
    learners = [MLP(epochs=20, units=units) for units in (2, 4, 8)]
    nested = BestOf(one=BestOf(one=learners[0], other=learners[1]), other=learners[2])
    losses = [validation_loss(fit_on(learner, n_rounds=1)) for learner in learners]
    assert validation_loss(fit_on(nested, n_rounds=1)) == min(losses)
    blind, first = (fit_on(each, has_validation=False, n_rounds=1) for each in (nested, learners[0]))
    np.testing.assert_array_equal(blind.predict_proba(DATA.test), first.predict_proba(DATA.test))
    assert BestOf().watches_validation
    check_learner(BestOf(one=MLP(epochs=3), other=MLP(epochs=3, units=3)))
    named = build_model({"learner": "best_of", "learner__one": "mlp", "learner__other": "trees"})
    assert repr(named.learner) == "BestOf(one=MLP(), other=BoostedTrees())"


def test_a_learner_whose_outputs_are_no_numbers_is_not_kept() -> None:
    class Broken(MLP):
        def fit(self, context):
            head = MLP(epochs=1).fit(context)
            head.layers[0].weight.data.fill_(float("nan"))
            return head

    model = fit_on(BestOf(one=Broken(), other=MLP(epochs=3)), n_rounds=1)
    assert np.isfinite(model.predict_proba(DATA.test)).all()


def test_networks_that_are_trained_at_once_are_those_that_are_trained_one_by_one() -> None:
    before = torch.get_num_threads()
    learner = BestOf(
        one=BestOf(one=ConsistentNetwork(**SMALL, epochs=30), other=ConsistentNetwork(**SMALL, epochs=5)),
        other=ConsistentNetwork(**SMALL, epochs=60, weight_decay=0.0),
    )
    assert all(each.trains_in_threads for each in learner.candidates())
    found = []
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            found.append(fit_on(learner, n_rounds=1).predict_proba(np.arange(200)))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(*found)
    best = min(
        (fit_on(each, n_rounds=1) for each in learner.candidates()),
        key=validation_loss,
    )
    np.testing.assert_array_equal(found[0], best.predict_proba(np.arange(200)))
