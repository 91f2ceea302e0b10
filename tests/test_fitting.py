from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.tree import DecisionTreeClassifier

from gbgnn import (
    MLP,
    FunctionalGradient,
    GBGNNClassifier,
    GivenMatrix,
    Graph,
    InputInjection,
    Lazy,
    Samme,
    SklearnLearner,
)
from gbgnn.errors import GBGNNWarning, GraphError, ParameterError
from gbgnn.fitting import (
    FitPlan,
    build_problem,
    check_same,
    check_weights,
    describe_dependencies,
    describe_part,
    given_validation,
    input_recipe,
    resolve_metric,
    resolve_rule,
    split_validation,
)
from gbgnn.losses import SigmoidCrossEntropy, SquaredError
from gbgnn.metrics import Accuracy, as_metric
from gbgnn.tasks import Classification, MultiLabel, Regression
from gbgnn.testing import two_blocks

GRAPH, Y = two_blocks(20, n_classes=3)
NODES = np.arange(12)
ABC = Classification().fit(["a", "b", "c"])


def plan_of(estimator: GBGNNClassifier | None = None, **call: Any) -> FitPlan:
    given: dict[str, Any] = {
        "task": Classification(),
        "nodes": NODES,
        "y": Y[NODES],
        "graph": GRAPH,
        "seed": 0,
    }
    return FitPlan.build(estimator or GBGNNClassifier(device="cpu"), **{**given, **call})


def test_classes_are_sorted_and_encoded() -> None:
    y = np.array(["b", "a", "b"], dtype=object)
    settings = GBGNNClassifier(device="cpu")
    problem = build_problem(settings, Classification(), [4, 2, 0], y, GRAPH, validation=None, seed=0)
    assert problem.task.classes.tolist() == ["a", "b"]
    assert problem.train.targets.tolist() == [1, 0, 1]
    assert problem.train.rows.tolist() == [4, 2, 0]
    np.testing.assert_allclose(problem.train.weights, 1 / 3)
    assert problem.validation is None


def test_validation_is_encoded_with_the_classes_of_training() -> None:
    rows, targets = given_validation(([5, 4], ["b", "a"]), np.array([0]), ABC, GRAPH)
    assert rows.tolist() == [5, 4]
    assert targets.tolist() == [1, 0]


def test_split_is_stratified_disjoint_and_complete() -> None:
    targets = np.array([0] * 30 + [1] * 10)
    stays, leaves = split_validation(0.2, ABC, targets, seed=0)
    assert sorted([*stays, *leaves]) == list(range(40))
    assert np.bincount(targets[leaves]).tolist() == [6, 2]


def test_numbers_are_split_without_strata() -> None:
    y = np.random.default_rng(0).normal(size=(40, 1))
    stays, leaves = split_validation(0.2, Regression().fit(y), y, seed=0)
    assert sorted([*stays, *leaves]) == list(range(40))
    assert len(leaves) == 8


def test_weights_of_nodes_and_classes_multiply() -> None:
    targets, own = np.array([0, 0, 1]), check_weights([1, 2, 3], 3)
    np.testing.assert_array_equal(own, [1, 2, 3])
    np.testing.assert_allclose(ABC.balance({"a": 1.0, "b": 10.0}, targets, own)[1], [1, 2, 30])
    even = check_weights(None, 3)
    np.testing.assert_allclose(ABC.balance("balanced", targets, even)[1], [0.75, 0.75, 1.5])


def test_numbers_have_no_class_weights() -> None:
    task = Regression().fit([0.5, 1.0])
    with pytest.raises(ParameterError, match="class_weight='balanced' is for .* Regression has none"):
        task.balance("balanced", np.zeros((2, 1)), np.ones(2))


def test_a_plan_has_every_part_as_an_object_and_the_problem() -> None:
    estimator = GBGNNClassifier(
        aggregation="kta", rule="samme", metric="f1_macro", fine_tune=True, dtype="float64", device="cpu"
    )
    plan = plan_of(estimator, validation=([12, 13], Y[12:14]))
    parts = plan.member.aggregation, plan.member.learner, plan.member.rule, plan.tuner
    assert [type(part).__name__ for part in parts] == ["KernelTargetAlignment", "MLP", "Samme", "FineTuner"]
    assert plan.member.metric is not None
    assert plan.member.metric.name == "f1_macro"
    assert plan.problem.inputs.dtype == torch.float64
    assert plan.problem.validation is not None
    assert plan.problem.validation.rows.tolist() == [12, 13]
    assert plan.settings == estimator.get_params(deep=False)


def test_a_plan_does_not_look_at_the_parameters_again() -> None:
    estimator = GBGNNClassifier(aggregation=Lazy(mixing=0.5), device="cpu", class_weight={0: 1, 1: 2, 2: 3})
    plan = plan_of(estimator)
    estimator.set_params(aggregation__mixing=0.1, n_rounds=3)
    estimator.class_weight[0] = 9
    assert plan.settings["aggregation"].mixing == 0.5
    assert plan.settings["n_rounds"] == 20
    assert plan.settings["class_weight"] == {0: 1, 1: 2, 2: 3}


@pytest.mark.parametrize(
    ("settings", "call", "message"),
    [
        ({"aggregation": InputInjection(mixing=2.0)}, {}, r"InputInjection.mixing must be in \[0, 1\]"),
        ({"learner": MLP(units=0)}, {}, "MLP.units must be an integer >= 1"),
        ({"rule": Samme(error_floor=0.9)}, {}, "Samme.error_floor"),
        ({"rule": "samme"}, {"task": Regression(), "y": np.arange(12.0)}, "Samme"),
        ({"rule": FunctionalGradient(loss="squared")}, {}, "SquaredError takes numbers, but y has classes"),
        ({"select": "validation"}, {}, 'select="validation" needs validation nodes'),
        ({"metric": "accurate"}, {}, "unknown metric 'accurate'. Did you mean 'accuracy'"),
        ({"fine_tune": True, "keep_learners": False}, {}, "keep_learners"),
        ({}, {"y": Y[:5]}, "y has 5 labels for 12 nodes"),
        ({}, {"nodes": [0, 99], "y": [0, 1]}, "node id 99"),
    ],
)
def test_a_plan_is_checked_before_any_work(
    settings: dict[str, Any], call: dict[str, Any], message: str
) -> None:
    with pytest.raises((ParameterError, GraphError), match=message):
        plan_of(GBGNNClassifier(device="cpu", **settings), **call)


def test_the_rule_gets_the_learning_rate_and_its_loss_as_an_object() -> None:
    own = FunctionalGradient(learning_rate=0.5, loss="sigmoid")
    rule = resolve_rule(GBGNNClassifier(rule=own, learning_rate=0.1))
    assert (rule.learning_rate, type(rule.loss)) == (0.1, SigmoidCrossEntropy)
    assert (own.learning_rate, own.loss) == (0.5, "sigmoid")
    kept = resolve_rule(GBGNNClassifier(rule=FunctionalGradient(loss=SquaredError())))
    assert isinstance(kept.loss, SquaredError)
    assert resolve_rule(GBGNNClassifier(rule="gradient")).loss == "auto"


def test_the_metric_is_the_tasks_own_unless_named() -> None:
    assert isinstance(resolve_metric("auto", ABC), Accuracy)
    assert resolve_metric("auto", MultiLabel().fit([[0, 1]])).name == "f1_micro"
    assert resolve_metric("roc_auc", ABC).name == "roc_auc"
    own = as_metric("recall_macro")
    assert resolve_metric(own, ABC) is own


def test_the_recipe_of_inputs_is_that_of_the_parameters() -> None:
    task = Classification().fit([0, 1])
    recipe = input_recipe(GBGNNClassifier(propagation="random_walk", feature_norm="l1", device="cpu"), task)
    inputs = recipe.build(GRAPH)
    np.testing.assert_allclose(inputs.P.to_scipy().sum(axis=1)[GRAPH.adjacency.sum(axis=1) > 0], 1)
    np.testing.assert_allclose(inputs.features.dense().abs().sum(dim=1), 1, rtol=1e-6)
    assert inputs.dtype == torch.float32
    with pytest.raises(ParameterError, match="feature_norm must be one of l1, l2; got 'max'"):
        input_recipe(GBGNNClassifier(feature_norm="max"), task)


def test_a_part_is_described_by_all_its_settings() -> None:
    assert describe_part(Lazy(mixing=0.5)) == "Lazy(mixing=0.5)"
    assert describe_part(MLP(units=3)) != describe_part(MLP(units=4))
    assert "units=3" in describe_part(MLP(units=3))
    assert describe_part(Lazy(mixing=np.float64(0.5))) == "Lazy(mixing=0.5)"  # a file would say 0.5
    tree = describe_part(SklearnLearner(estimator=DecisionTreeClassifier(max_depth=3)))
    assert tree.startswith("SklearnLearner(estimator=DecisionTreeClassifier(")
    assert "max_depth=3" in tree


def test_a_matrix_is_described_by_its_entries_in_whatever_form() -> None:
    dense = np.array([[0.0, 0.5], [0.25, 0.0]])
    forms = [dense, sp.csr_array(dense), sp.coo_array(dense), torch.tensor(dense), dense.tolist()]
    forms.append(sp.csr_array((dense[dense != 0], np.array([1, 0], np.int64), np.array([0, 1, 2], np.int64))))
    assert len({describe_part(GivenMatrix(matrix=form)) for form in forms}) == 1
    assert describe_part(GivenMatrix(matrix=2 * dense)) != describe_part(GivenMatrix(matrix=dense))
    assert describe_part(GivenMatrix(matrix=dense.T.copy())) != describe_part(GivenMatrix(matrix=dense))
    assert describe_part(GivenMatrix()) == "GivenMatrix(matrix=None)"


def test_rounds_depend_on_what_they_were_made_of_and_no_more() -> None:
    def told(**changes: Any) -> dict[str, str]:
        estimator = GBGNNClassifier(device="cpu").set_params(**changes)
        plan = plan_of(estimator, validation=([12, 13], Y[12:14]))
        return describe_dependencies(estimator, plan.member, plan.problem)

    base = told()
    for same in ({"n_rounds": 7}, {"select": "last"}, {"metric": "f1_macro"}, {"verbose": 0}):
        assert told(**same) == base
    other = {"aggregation": "kta", "learner__units": 3, "rule": "samme", "propagation": "laplacian"}
    for name, value in {**other, "feature_norm": "l1", "dtype": "float64"}.items():
        differs = [key for key, text in told(**{name: value}).items() if text != base[key]]
        assert differs == [name.partition("__")[0]]
    assert base["validation nodes"] == "not watched"
    assert told(learner__patience=3)["validation nodes"] != "not watched"


def test_the_same_is_asked_of_graph_and_dependencies() -> None:
    estimator = GBGNNClassifier(n_rounds=1, learner=MLP(epochs=1), random_state=0, device="cpu")
    known = estimator.fit(NODES, Y[NODES], graph=GRAPH).model_
    same, other = two_blocks(20, n_classes=3)[0], two_blocks(20, n_classes=3, seed=1)[0]
    check_same(known, GRAPH, known.depends_on)
    check_same(known, same, known.depends_on)
    with pytest.raises(ParameterError, match="which depend on the graph, and that has changed. Restore it"):
        check_same(known, other, known.depends_on)
    with pytest.raises(ParameterError, match="depend on dtype, .*: it was torch.float32, and is half"):
        check_same(known, GRAPH, {**known.depends_on, "dtype": "half"})
    with pytest.raises(ParameterError, match="depend on a new thing, and that has changed. Restore"):
        check_same(known, GRAPH, {**known.depends_on, "a new thing": "here"})
    loaded = replace(known, graph=None, stored_checksum=GRAPH.checksum)
    check_same(loaded, same, known.depends_on)
    with pytest.raises(ParameterError, match="depend on the graph"):
        check_same(loaded, other, known.depends_on)
    with pytest.raises(ParameterError, match="these are of a file of format 2, which does not say on what"):
        check_same(replace(loaded, stored_checksum=None), same, {})


@pytest.mark.parametrize("kind", ["table", "named matrix"])
def test_a_column_that_is_the_target_is_warned_of_where_it_has_a_name(kind: str) -> None:
    y = np.random.default_rng(0).integers(0, 2, 60)
    X = np.column_stack([np.random.default_rng(1).normal(size=60), 3.0 - y])
    names = ["noise", "paid"]
    nodes, table = np.arange(60), dict(zip(names, X.T, strict=True))
    graph = Graph(np.eye(60), table) if kind == "table" else Graph(np.eye(60), X, feature_names=names)
    with pytest.warns(GBGNNWarning, match="column 'paid' gives nearly all of the target alone"):
        plan_of(nodes=nodes, y=y, graph=graph)
    # Columns without names and words of a text are as good as they are.
    assert plan_of(nodes=nodes, y=y, graph=Graph(np.eye(60), X)).inputs.column_names is None
    words = Graph(np.eye(60), sp.csr_array(X), feature_names=names)
    assert plan_of(nodes=nodes, y=y, graph=words).inputs.column_names == ("noise", "paid")


def test_a_plan_keeps_what_encodes_the_table() -> None:
    graph = Graph(GRAPH.adjacency, {"x": np.arange(20.0), "same": np.ones(20)})
    plan = plan_of(graph=graph)
    assert plan.inputs.encoder is graph.encoder
    assert plan.inputs.column_names == ("x", "same")
    assert plan.problem.inputs.features.shape == (20, 1)
