from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gbgnn.population.members import Members, reason_apart
from sklearn.linear_model import LogisticRegression

from gbgnn import (
    MLP,
    FineTuner,
    FunctionalGradient,
    GBGNNClassifier,
    Graph,
    KernelTargetAlignment,
    Lazy,
    Linear,
    Samme,
    SammeR,
)
from gbgnn._random import Seeds
from gbgnn.callbacks import LogProgress
from gbgnn.errors import ParameterError
from gbgnn.population import PopulationInputs
from gbgnn.testing import two_blocks

Build = Callable[..., GBGNNClassifier]
Inputs = Callable[..., PopulationInputs]


def test_settings_become_columns(model: Build, inputs_of: Inputs) -> None:
    models = [
        model({"units": 4, "dropout": 0.5}, rule=Samme(error_floor=1e-3), aggregation=Lazy(mixing=0.1)),
        model({"units": 9}, rule=Samme(), aggregation=Lazy(), learning_rate=0.25, n_rounds=7, random_state=3),
    ]
    members = Members.of(models, inputs_of(models[0]))
    assert members.of_learners("units", torch.int64).tolist() == [4, 9]
    assert members.of_aggregations("mixing").tolist() == [0.1, 0.5]
    assert members.of_rules("error_floor").tolist() == [1e-3, 1e-7]
    assert members.of_rules("learning_rate").tolist() == [1.0, 0.25]
    assert (len(members), members.n_rounds, members.seeds) == (2, [3, 7], [Seeds(0), Seeds(3)])


def test_penalties_are_those_of_the_number_of_rows(model: Build) -> None:
    graph, y = two_blocks(300)
    models = [model(), model({"weight_decay": 0.1})]
    inputs = PopulationInputs.of(models[0], np.arange(250), y[:250], graph=graph)
    assert [learner.weight_decay for learner in Members.of(models, inputs).learners] == [1 / 250, 0.1]
    assert models[0].learner.weight_decay is None


def test_models_stay_as_they_are(model: Build, inputs_of: Inputs) -> None:
    built = model(rule="samme", learning_rate=0.5)
    Members.of([built], inputs_of(built))
    assert (built.rule, built.learning_rate) == ("samme", 0.5)


def test_random_states_that_are_no_seed_draw_one(model: Build, inputs_of: Inputs) -> None:
    models = [model(random_state=None) for _ in range(2)]
    first, second = Members.of(models, inputs_of(models[0])).seeds
    assert first != second


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fine_tune": FineTuner()}, "member 1 has fine_tune; fine-tune after boosting"),
        ({"callbacks": [LogProgress()]}, "member 1 has callbacks; a population calls on_round instead"),
        ({"select": "gradient"}, 'member 1 has select="gradient"; train that model alone'),
        ({"select": "last"}, "members of a population share select; member 0 has 'auto', member 1 'last'"),
        ({"dtype": "float32"}, "member 1 asks for float32 on cpu, but the inputs are float64 on cpu; build"),
        ({"propagation": "laplacian"}, "share propagation; member 0 has 'augmented', member 1 'laplacian'"),
        ({"feature_norm": "l2"}, "share feature_norm; member 0 has None, member 1 'l2'"),
        ({"class_weight": "balanced"}, "share class_weight; member 0 has None, member 1 'balanced'"),
        ({"validation_fraction": 0.1}, "member 1 has validation_fraction=0.1; train that model alone"),
        ({"metric": "f1_macro"}, "member 1 has metric='f1_macro'; train that model alone"),
        ({"n_iter_no_change": 5}, "member 1 has n_iter_no_change=5; train that model alone"),
        ({"warm_start": True}, "member 1 has warm_start=True; train that model alone"),
        ({"n_rounds": 0}, "n_rounds must be an integer >= 1; got 0"),
        ({"aggregation": Linear()}, r"member 1 has the aggregation Linear\(\); populations know Adjacency,"),
        ({"aggregation": "lazy"}, "share the kind of aggregation; member 0 has Adjacency.*member 1 Lazy"),
        ({"learner": {"patience": 3}}, "member 1 has patience=3; train that model alone"),
        ({"learner": {"hidden_layers": 2}}, "share hidden_layers; member 0 has 1, member 1 2"),
        ({"learner": {"standardize": False}}, "share standardize; member 0 has True, member 1 False"),
        ({"learner": {"units": 0}}, "MLP.units must be an integer >= 1; got 0"),
        ({"rule": SammeR()}, r"share the kind of rule; member 0 has Samme\(\), member 1 SammeR\(\)"),
        ({"rule": Samme(error_floor=2)}, "Samme.error_floor must be in"),
        ({"aggregation": Lazy(mixing=2)}, "share the kind"),
    ],
)
def test_what_cannot_be_trained_together_is_named(
    model: Build, inputs_of: Inputs, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        Members.of([model(), model(**settings)], inputs_of(model()))


@pytest.mark.parametrize(
    ("family", "parts", "message"),
    [
        ("aggregation", [KernelTargetAlignment(degree=d) for d in (2, 3)], "share degree; member 0 has 2"),
        ("aggregation", [KernelTargetAlignment(rescale=r) for r in (True, False)], "share rescale"),
        (
            "aggregation",
            [KernelTargetAlignment(solver="exact")],
            "has solver='exact'; train that model alone",
        ),
        ("rule", [FunctionalGradient(target="labels")], "has target='labels'; train that model alone"),
        (
            "rule",
            [FunctionalGradient(retries=r) for r in (0, 1)],
            "share retries; member 0 has 0, member 1 1",
        ),
    ],
)
def test_settings_of_parts_that_must_agree_are_named(
    model: Build, inputs_of: Inputs, family: str, parts: list[Any], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        Members.of([model(**{family: part}) for part in parts], inputs_of(model()))


def test_learners_other_than_mlp_are_named(model: Build, inputs_of: Inputs) -> None:
    other = model().set_params(learner=LogisticRegression())
    with pytest.raises(ParameterError, match="member 1 has the learner SklearnLearner.*populations know MLP"):
        Members.of([model(), other], inputs_of(model()))


def test_selection_by_validation_needs_validation_nodes(model: Build, inputs_of: Inputs) -> None:
    chosen = model(select="validation")
    with pytest.raises(ParameterError, match='select="validation" needs validation nodes'):
        Members.of([chosen], inputs_of(chosen, validation=None))


def test_members_must_be_models(model: Build, inputs_of: Inputs) -> None:
    with pytest.raises(ParameterError, match="member 0 must be a GBGNNClassifier; got MLP"):
        Members.of([MLP()], inputs_of(model()))


def test_nobody_is_no_population(model: Build, inputs_of: Inputs) -> None:
    with pytest.raises(ParameterError, match="a population needs at least one model; got none"):
        Members.of([], inputs_of(model()))


def test_models_that_differ_in_what_members_may_differ_in_are_not_apart(model: Build) -> None:
    assert reason_apart([model(), model({"units": 9}, n_rounds=7, random_state=3)]) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"dtype": "float32"},
            "member 1 asks for float32 on cpu, member 0 for float64 on cpu. Train them in",
        ),
        ({"task": "multilabel"}, "member 1 has the task MultiLabel(); train that model alone"),
        ({"rule": "sammy"}, "unknown rule 'sammy'"),
        ({"dtype": "float3"}, "dtype must be"),
        ({"fine_tune": "yes"}, "fine_tune must be"),
    ],
)
def test_models_alone_say_why_they_are_apart(model: Build, settings: dict[str, Any], message: str) -> None:
    assert message in (reason_apart([model(), model(**settings)]) or "")


def test_a_value_that_no_model_may_have_is_no_reason_but_an_error(model: Build, inputs_of: Inputs) -> None:
    models = [model({"units": 0})]
    assert reason_apart(models) is None
    with pytest.raises(ParameterError, match="MLP.units must be an integer >= 1; got 0"):
        Members.of(models, inputs_of(models[0]))


def test_learned_hops_are_apart_on_a_directed_graph_alone(model: Build, inputs_of: Inputs) -> None:
    graph, y = two_blocks(40)
    one_way = Graph(np.triu(np.ones((40, 40)), 1), graph.features)
    learned = [model(aggregation="kta", propagation="random_walk")]
    directed = PopulationInputs.of(learned[0], np.arange(8), y[:8], graph=one_way)
    assert reason_apart(learned) is None
    assert "needs a P with real eigenvalues" in (reason_apart(learned, directed) or "")
    assert reason_apart([model(propagation="random_walk")], directed) is None
