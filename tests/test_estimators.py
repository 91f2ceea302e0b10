from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, fbeta_score, make_scorer
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from gbgnn import (
    MLP,
    Callback,
    FineTuner,
    FunctionalGradient,
    GBGNNClassifier,
    Graph,
    KernelTargetAlignment,
    Lazy,
    Samme,
    StopReason,
)
from gbgnn.callbacks import RoundReport
from gbgnn.errors import ParameterError, WeakLearnerError
from gbgnn.model import FittedModel
from gbgnn.tasks import Classification
from gbgnn.testing import two_blocks

GRAPH, Y = two_blocks(60, n_classes=3)
NAMES = np.array(["ant", "bee", "cat"])[Y]
TRAIN, REST = np.arange(24), np.arange(24, 60)
SMALL = {"learner": MLP(epochs=5, units=8), "n_rounds": 5, "random_state": 0, "device": "cpu"}


def model(**settings: Any) -> GBGNNClassifier:
    return GBGNNClassifier(**{**SMALL, **settings})


def fitted(**settings: Any) -> GBGNNClassifier:
    return model(**settings).fit(TRAIN, NAMES[TRAIN], graph=GRAPH)


def test_classifies_with_the_users_own_labels() -> None:
    m = fitted(n_rounds=20, learner=MLP(epochs=30))
    assert m.classes_.tolist() == ["ant", "bee", "cat"]
    assert m.score(REST, NAMES[REST]) > 0.8
    proba = m.predict_proba(REST)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(m.classes_[proba.argmax(axis=1)], m.predict(REST))
    assert m.decision_function(REST).shape == (36, 3)
    assert m.n_features_in_ == 5
    assert m.scores_.shape == (60, 3)
    assert len(m.etas_) == len(m.ensemble_) == len(m.history_) == 20
    assert is_classifier(m)


@pytest.mark.parametrize("rule", ["gradient", "samme", "samme_r"])
def test_two_classes_have_one_decision_column(rule: str) -> None:
    y = (Y == 1).astype(int)
    m = model(rule=rule).fit(TRAIN, y[TRAIN], graph=GRAPH)
    decision = m.decision_function(REST)
    assert decision.shape == (36,)
    np.testing.assert_array_equal(m.predict(REST), (decision > 0).astype(int))
    assert m.predict_proba(REST).shape == (36, 2)


@pytest.mark.parametrize("labels", [[10, 30, 20], [-2.0, 0.0, 5.0], [True, False, True], ["x", "y", "é"]])
def test_labels_of_any_type_come_back(labels: list[object]) -> None:
    y = np.array(labels)[Y]
    m = model().fit(TRAIN, y[TRAIN], graph=GRAPH)
    assert set(m.predict(REST)) <= set(y)
    assert m.predict(REST).dtype == y.dtype


def test_classes_that_are_named_may_be_called_minus_one() -> None:
    y = np.where(Y == 1, 1, -1)
    m = model(task=Classification(classes=[-1, 1])).fit(TRAIN, y[TRAIN], graph=GRAPH)
    assert set(m.predict(REST)) == {-1, 1}


def test_classes_are_as_wide_as_the_labels_that_train() -> None:
    y = np.array(["x", "y", "z"], "<U40")[Y]
    assert model().fit(TRAIN, y[TRAIN], graph=GRAPH).classes_.dtype == "<U1"


@pytest.mark.parametrize("aggregation", ["adjacency", "kta"])
@pytest.mark.parametrize(("norm", "order"), [("l1", 1), ("l2", 2)])
def test_feature_norm_equals_features_of_that_length(aggregation: str, norm: str, order: int) -> None:
    def scaled(graph: Graph) -> Graph:
        return Graph(graph.adjacency, graph.features / np.linalg.norm(graph.features, order, axis=1)[:, None])

    m = fitted(aggregation=aggregation, feature_norm=norm, dtype="float64")
    given = model(aggregation=aggregation, dtype="float64").fit(TRAIN, NAMES[TRAIN], graph=scaled(GRAPH))
    np.testing.assert_allclose(m.scores_, given.scores_, rtol=1e-9, atol=1e-12)
    assert not np.allclose(m.scores_, fitted(aggregation=aggregation, dtype="float64").scores_)
    other, _ = two_blocks(30, n_classes=3, seed=9)
    nodes = np.arange(30)
    expected = given.predict_proba(nodes, graph=scaled(other))
    np.testing.assert_allclose(m.predict_proba(nodes, graph=other), expected, rtol=1e-9, atol=1e-12)


def test_same_seed_same_bytes_other_seed_other_bytes() -> None:
    first, second, other = fitted(), fitted(), fitted(random_state=1)
    assert first.scores_.tobytes() == second.scores_.tobytes()
    assert first.scores_.tobytes() != other.scores_.tobytes()
    assert fitted(random_state=np.random.RandomState(3)).scores_.shape == (60, 3)
    assert fitted(random_state=None).seed_ != fitted(random_state=None).seed_


def test_refit_equals_fit_and_leaves_the_settings_alone() -> None:
    m = fitted()
    before = m.scores_.tobytes(), repr(m.get_params())
    m.fit(TRAIN, NAMES[TRAIN], graph=GRAPH)
    assert (m.scores_.tobytes(), repr(m.get_params())) == before


def test_staged_results_equal_shorter_fits() -> None:
    m = fitted(n_rounds=6)
    for t, (labels, proba, score) in enumerate(
        zip(
            m.staged_predict(REST),
            m.staged_predict_proba(REST),
            m.staged_score(REST, NAMES[REST]),
            strict=True,
        ),
        start=1,
    ):
        short = fitted(n_rounds=t)
        assert proba.tobytes() == short.predict_proba(REST).tobytes()
        assert labels.tolist() == short.predict(REST).tolist()
        assert score == short.score(REST, NAMES[REST])


def test_warm_start_equals_one_long_fit() -> None:
    m = model(n_rounds=3, warm_start=True).fit(TRAIN, NAMES[TRAIN], graph=GRAPH)
    m.set_params(n_rounds=7).fit(TRAIN, NAMES[TRAIN], graph=GRAPH)
    assert m.scores_.tobytes() == fitted(n_rounds=7).scores_.tobytes()
    assert len(m.history_) == 7
    with pytest.raises(
        ParameterError, match="warm_start has 7 trained rounds already; n_rounds must be at least"
    ):
        m.set_params(n_rounds=2).fit(TRAIN, NAMES[TRAIN], graph=GRAPH)


PATIENT = MLP(epochs=5, units=8, patience=2)
VALIDATION = REST[:10], NAMES[REST[:10]]
OTHER_VALIDATION = REST[10:20], NAMES[REST[10:20]]


def warm(settings: dict[str, Any] | None = None, **call: Any) -> GBGNNClassifier:
    """A model of two rounds that is to go on."""
    small = {"learner": MLP(epochs=5, units=8), "n_rounds": 2, "warm_start": True, "dtype": "float64"}
    m = model(**{**small, **(settings or {})})
    return m.fit(TRAIN, NAMES[TRAIN], graph=GRAPH, **call)


def go_on(m: GBGNNClassifier, **call: Any) -> GBGNNClassifier:
    return m.set_params(n_rounds=4).fit(**{"nodes": TRAIN, "y": NAMES[TRAIN], "graph": GRAPH, **call})


def changed(settings: dict[str, Any] | None = None, **call: Any) -> Callable[[], object]:
    return lambda: go_on(warm().set_params(**(settings or {})), **call)


def swapped(y: np.ndarray) -> np.ndarray:
    """Two labels exchanged: the classes and their numbers are the same."""
    other = y.copy()
    other[[0, 1]] = y[[1, 0]]
    return other


def moved(graph: Graph) -> Graph:
    """One feature a little different."""
    features = np.array(graph.features)
    features[-1, 0] += 1e-3
    return Graph(graph.adjacency, features)


@pytest.mark.parametrize(
    ("go", "what"),
    [
        (changed({"aggregation": "kta"}), "aggregation"),
        (changed({"learner__units": 9}), r"learner.*: it was MLP\(.*units=8.*, and is MLP\(.*units=9"),
        (changed({"learner__optimizer": "sgd"}), "learner"),
        (changed({"learner": DecisionTreeClassifier()}), "learner"),
        (changed({"rule": "samme"}), "rule"),
        (changed({"rule__retries": 1}), "rule"),
        (changed({"rule": FunctionalGradient(loss="sigmoid")}), 'loss="sigmoid" is for two classes'),
        (changed({"learning_rate": 0.2}), "rule"),
        (changed({"propagation": "random_walk"}), "propagation"),
        (changed({"propagation": np.eye(60)}), "propagation"),
        (changed({"feature_norm": "l2"}), "feature_norm, .*: it was None, and is l2"),
        (changed({"dtype": "float32"}), "dtype, .*: it was torch.float64, and is torch.float32"),
        (changed(nodes=TRAIN + 1, y=NAMES[TRAIN]), "labelled nodes"),
        (changed(nodes=TRAIN[:-1], y=NAMES[TRAIN[:-1]]), "labelled nodes"),
        (changed(y=swapped(NAMES[TRAIN])), "labels"),
        (changed(y=np.array(["ant", "bee", "dog"])[Y[TRAIN]]), "task, .*: it was Classification .*cat.*dog"),
        (changed(sample_weight=np.linspace(1, 2, 24)), "sample weights"),
        (changed({"class_weight": {"ant": 1, "bee": 2, "cat": 3}}), "sample weights"),
        (changed(graph=moved(GRAPH)), "the graph"),
        (changed({"validation_fraction": 0.25}), "labelled nodes"),
        (changed({"random_state": 1}), "random_state=0, and that has changed to 1"),
    ],
)
def test_warm_start_refuses_what_its_rounds_do_not_know(go: Callable[[], object], what: str) -> None:
    with pytest.raises(ParameterError, match=what):
        go()


def test_warm_start_says_what_it_needs() -> None:
    with pytest.raises(ParameterError, match="which depend on aggregation, and that has changed") as caught:
        changed({"aggregation": Lazy(mixing=0.25)})()
    assert str(caught.value).endswith(
        ": it was Adjacency(), and is Lazy(mixing=0.25). Restore it, or fit anew with warm_start=False."
    )


def test_a_refused_warm_start_leaves_the_model_as_it_was() -> None:
    m = warm()
    before = m.model_
    with pytest.raises(ParameterError, match="aggregation"):
        go_on(m.set_params(aggregation="kta"))
    assert m.model_ is before
    go_on(m.set_params(aggregation="adjacency"))
    assert m.scores_.tobytes() == fitted(n_rounds=4, dtype="float64").scores_.tobytes()


@pytest.mark.parametrize(
    ("settings", "call"),
    [
        ({}, {"graph": Graph(GRAPH.adjacency.copy(), np.array(GRAPH.features))}),
        ({}, {"nodes": TRAIN.tolist(), "y": NAMES[TRAIN].tolist()}),
        ({}, {"sample_weight": np.full(24, 3.0)}),
        ({"aggregation": "adjacency", "learner": MLP(units=8, epochs=5)}, {}),
        ({"verbose": 3, "callbacks": [Callback()]}, {}),
        ({"random_state": None}, {}),
        ({"keep_learners": True, "n_iter_no_change": None, "metric": "f1_macro"}, {}),
    ],
    ids=["graph", "lists", "weights", "parts", "callbacks", "seed", "choosing"],
)
def test_warm_start_goes_on_with_equal_data_and_settings(
    settings: dict[str, Any], call: dict[str, Any]
) -> None:
    m = go_on(warm().set_params(**settings), **call)
    assert len(m.ensemble_) == 4
    assert m.scores_.tobytes() == fitted(n_rounds=4, dtype="float64").scores_.tobytes()


def test_warm_start_may_get_other_validation_nodes_unless_the_learner_watches_them() -> None:
    m = go_on(warm(validation=VALIDATION), validation=OTHER_VALIDATION)
    alone = model(n_rounds=4, dtype="float64").fit(
        TRAIN, NAMES[TRAIN], graph=GRAPH, validation=OTHER_VALIDATION
    )
    assert m.scores_.tobytes() == alone.scores_.tobytes()
    assert m.best_round_ == alone.best_round_
    assert m.history_["val_accuracy"] == alone.history_["val_accuracy"]
    watching = warm({"learner": PATIENT}, validation=VALIDATION)
    with pytest.raises(ParameterError, match="depend on validation nodes, and that has changed"):
        go_on(watching, validation=OTHER_VALIDATION)
    assert len(go_on(watching, validation=VALIDATION).ensemble_) == 4


def test_a_scikit_learn_learner_is_compared_by_its_settings() -> None:
    m = warm({"rule": "samme", "learner": DecisionTreeClassifier(max_depth=2, random_state=0)})
    go_on(m)
    with pytest.raises(ParameterError, match="depend on learner"):
        go_on(m.set_params(learner__max_depth=3, n_rounds=5))


def test_an_interrupted_fit_keeps_its_rounds() -> None:
    class Stop(Callback):
        def on_round(self, report: RoundReport) -> StopReason | None:
            if report.t == 3:
                raise KeyboardInterrupt
            return None

    m = model(n_rounds=6, callbacks=[Stop()])
    with pytest.raises(KeyboardInterrupt):
        m.fit(TRAIN, NAMES[TRAIN], graph=GRAPH)
    assert m.stop_reason_ is StopReason.INTERRUPTED
    assert len(m.ensemble_) == len(m.history_) == 3
    assert m.predict_proba(REST).tobytes() == fitted(n_rounds=3).predict_proba(REST).tobytes()
    m.set_params(callbacks=[], warm_start=True).fit(TRAIN, NAMES[TRAIN], graph=GRAPH)
    assert m.scores_.tobytes() == fitted(n_rounds=6).scores_.tobytes()


def test_warm_start_needs_kept_learners() -> None:
    m = model(n_rounds=2, warm_start=True, keep_learners=False).fit(TRAIN, NAMES[TRAIN], graph=GRAPH)
    with pytest.raises(ParameterError, match="learners were not kept"):
        m.set_params(n_rounds=3).fit(TRAIN, NAMES[TRAIN], graph=GRAPH)


def test_without_learners_transduction_works_and_the_rest_says_why_not() -> None:
    lean, full = fitted(keep_learners=False), fitted()
    assert lean.predict_proba(REST).tobytes() == full.predict_proba(REST).tobytes()
    for use in (lambda: list(lean.staged_predict(REST)), lambda: lean.predict([0], graph=GRAPH)):
        with pytest.raises(ParameterError, match="fit with keep_learners=True"):
            use()


def test_inductive_prediction_on_the_same_graph_equals_transduction() -> None:
    m = fitted(aggregation="kta")
    assert m.predict_proba(REST, graph=GRAPH).tobytes() == m.predict_proba(REST).tobytes()


def test_inductive_prediction_works_on_new_nodes() -> None:
    m = fitted(n_rounds=15)
    other, y = two_blocks(80, n_classes=3, seed=0)  # the same class centres, other nodes and edges
    assert m.score(np.arange(80), np.array(["ant", "bee", "cat"])[y], graph=other) > 0.5


def test_fit_predict_labels_every_node() -> None:
    labels = model().fit_predict(TRAIN, NAMES[TRAIN], graph=GRAPH)
    np.testing.assert_array_equal(labels, fitted().predict(np.arange(60)))


def test_validation_fraction_is_stratified_and_seeded() -> None:
    m = fitted(validation_fraction=0.25)
    assert m.history_[-1]["val_accuracy"] is not None
    assert m.scores_.tobytes() == fitted(validation_fraction=0.25).scores_.tobytes()
    assert m.scores_.tobytes() != fitted().scores_.tobytes()


def test_class_weight_balanced_equals_the_same_sample_weights() -> None:
    nodes = np.flatnonzero((Y != 2) | (np.arange(60) < 20))[:40]
    counts = np.bincount(Y[nodes])
    weights = len(nodes) / (3 * counts[Y[nodes]])
    balanced = model(class_weight="balanced").fit(nodes, Y[nodes], graph=GRAPH)
    weighted = model().fit(nodes, Y[nodes], graph=GRAPH, sample_weight=7 * weights)
    np.testing.assert_allclose(balanced.scores_, weighted.scores_, rtol=1e-4, atol=1e-5)
    mapped = model(class_weight={0: 1, 1: 1, 2: 50}).fit(nodes, Y[nodes], graph=GRAPH)
    assert (mapped.predict(REST) == 2).sum() > (balanced.predict(REST) == 2).sum() - 1


@pytest.mark.parametrize("rule", ["gradient", "samme", "samme_r"])
def test_node_of_weight_zero_does_not_matter(rule: str) -> None:
    """A full-batch learner without dropout gives the same model whatever the label of a weightless node."""
    learner = MLP(epochs=5, units=8, dropout=0, standardize=False)
    weights = np.ones(24)
    weights[3] = 0
    wrong = NAMES[TRAIN].copy()
    wrong[3] = "ant" if wrong[3] != "ant" else "bee"
    fits = [
        model(rule=rule, learner=learner, dtype="float64").fit(TRAIN, y, graph=GRAPH, sample_weight=weights)
        for y in (NAMES[TRAIN], wrong)
    ]
    np.testing.assert_allclose(fits[0].scores_, fits[1].scores_, atol=1e-9)


def test_learning_rate_overrides_that_of_the_rule() -> None:
    rule = FunctionalGradient(learning_rate=0.5)
    slow = fitted(rule=rule, learning_rate=0.01)
    np.testing.assert_array_equal(slow.etas_, fitted(rule=FunctionalGradient(learning_rate=0.01)).etas_)
    assert rule.learning_rate == 0.5


def test_parts_by_name_and_as_objects_are_the_same() -> None:
    by_name = fitted(aggregation="kta", rule="samme")
    as_object = fitted(aggregation=KernelTargetAlignment(), rule=Samme())
    assert by_name.scores_.tobytes() == as_object.scores_.tobytes()


def test_parameters_reach_down_to_the_parts() -> None:
    m = GBGNNClassifier(aggregation=KernelTargetAlignment(degree=2))
    assert m.get_params()["aggregation__degree"] == 2
    m.set_params(aggregation__degree=1, learner__units=7, rule__learning_rate=0.2)
    assert (m.aggregation.degree, m.learner.units, m.rule.learning_rate) == (1, 7, 0.2)
    copied = clone(m)
    assert copied.aggregation.degree == 1
    assert copied.aggregation is not m.aggregation
    nested = GBGNNClassifier(learner=DecisionTreeClassifier()).set_params(learner__max_depth=3)
    assert nested.learner.max_depth == 3


@pytest.mark.parametrize("rule", ["gradient", "samme", "samme_r"])
@pytest.mark.parametrize("metric", ["auto", "f1_macro"])
def test_clone_pickle_and_deepcopy(rule: str, metric: str) -> None:
    tuner = FineTuner(epochs=2, keep="tuned")
    m = fitted(rule=rule, metric=metric, learner=MLP(epochs=20), fine_tune=tuner)
    assert not hasattr(clone(m), "scores_")
    assert not hasattr(clone(m), "model_")
    other_graph, _ = two_blocks(20, n_classes=3, seed=3)
    for other in (pickle.loads(pickle.dumps(m)), copy.deepcopy(m), copy.copy(m)):
        assert other.predict_proba(REST).tobytes() == m.predict_proba(REST).tobytes()
        assert next(other.staged_predict(REST)).tolist() == next(m.staged_predict(REST)).tolist()
        told, known = (each.predict_proba(np.arange(20), graph=other_graph) for each in (other, m))
        assert told.tobytes() == known.tobytes()
        assert other.model_.evaluate(REST, NAMES[REST]) == m.model_.evaluate(REST, NAMES[REST])
        assert other.certificate_.rows() == m.certificate_.rows()


def test_a_copy_is_a_model_of_its_own() -> None:
    m = fitted()
    other = copy.deepcopy(m).set_params(n_rounds=2)
    other.fit(TRAIN, NAMES[TRAIN], graph=GRAPH)
    assert (len(m.ensemble_), len(other.ensemble_)) == (5, 2)


def test_attributes_are_those_of_the_fitted_model() -> None:
    m = fitted()
    documented = [
        *("model_", "classes_", "n_features_in_", "ensemble_", "etas_", "history_", "certificate_"),
        *("train_nodes_", "train_targets_", "best_round_", "stop_reason_", "fine_tuning_", "is_soft_"),
        *("scores_", "graph_", "metric_", "loss_", "task_", "voting_", "seed_"),
    ]
    assert set(documented) <= set(dir(m))
    for name in documented:
        assert name == "model_" or getattr(m, name) is not None or name == "fine_tuning_"
    assert m.best_round_ == m.model_.best_round
    assert m.scores_ is m.model_.scores
    assert isinstance(m.model_, FittedModel)
    shown = [name for name in dir(m) if name.endswith("_") and not name.startswith("_")]
    assert not [name for name in shown if callable(getattr(m, name)) and name != "loss_"]


@pytest.mark.parametrize("name", ["clases_", "predict_", "scores", "_scores_", "__wrapped__", "_"])
def test_other_attributes_do_not_exist(name: str) -> None:
    for m in (model(), fitted()):
        assert not hasattr(m, name)
        with pytest.raises(AttributeError, match=f"'GBGNNClassifier' object has no attribute '{name}'"):
            getattr(m, name)


def test_an_unfitted_model_has_none_of_them() -> None:
    m = model()
    for name in ("model_", "classes_", "scores_", "ensemble_", "n_features_in_"):
        assert not hasattr(m, name)
        assert name not in dir(m)


def test_fitted_attributes_are_not_copied_by_hand() -> None:
    """What is assigned to one is shown, but nothing predicts from it."""
    m = fitted()
    before = m.predict_proba(REST).tobytes()
    m.best_round_ = 1
    assert m.predict_proba(REST).tobytes() == before
    assert m.model_.best_round == 5


@pytest.mark.parametrize("metric", ["accuracy", "f1_macro", "neg_log_loss", "roc_auc_ovr"])
def test_the_metric_chooses_the_round_and_names_the_columns(metric: str) -> None:
    m = model(metric=metric, n_rounds=12, rule="samme_r")
    m.fit(TRAIN, NAMES[TRAIN], graph=GRAPH, validation=VALIDATION)
    values, losses = m.history_[f"val_{metric}"], m.history_["val_loss"]
    keys = [(value, -loss) for value, loss in zip(values, losses, strict=True)]
    assert m.best_round_ == 1 + keys.index(max(keys))
    assert m.history_.metric == m.metric_.name == metric
    assert len(m.history_[f"train_{metric}"]) == 12
    assert m.model_.evaluate(*VALIDATION) == pytest.approx(max(values))
    if metric == "f1_macro":  # by scikit-learn itself
        staged = [f1_score(VALIDATION[1], p, average="macro") for p in m.staged_predict(VALIDATION[0])]
        np.testing.assert_allclose(values, staged)
        assert "val_accuracy" not in m.history_[0]


def test_metrics_may_choose_different_rounds() -> None:
    def best(metric: str) -> int:
        m = model(metric=metric, n_rounds=12, learner=MLP(epochs=20, units=8), rule="samme_r")
        return m.fit(TRAIN, NAMES[TRAIN], graph=GRAPH, validation=VALIDATION).best_round_

    assert len({best(metric) for metric in ("accuracy", "neg_log_loss", "roc_auc_ovr")}) > 1


def test_a_scorer_may_be_the_metric() -> None:
    scorer = make_scorer(fbeta_score, beta=2, average="macro")
    m = model(metric=scorer).fit(TRAIN, NAMES[TRAIN], graph=GRAPH, validation=VALIDATION)
    assert m.metric_.name == "fbeta_score"
    expected = fbeta_score(VALIDATION[1], m.predict(VALIDATION[0]), beta=2, average="macro")
    assert max(m.history_["val_fbeta_score"]) == pytest.approx(expected)


def test_a_round_that_the_metric_cannot_judge_is_not_the_best() -> None:
    answers = iter([float("nan"), 0.5, float("nan"), 0.25, float("nan")] * 2)
    judged = model(metric=lambda *_: next(answers)).fit(
        TRAIN, NAMES[TRAIN], graph=GRAPH, validation=VALIDATION
    )
    values = judged.history_["val_<lambda>"]
    assert np.isnan(values).any()
    assert values[judged.best_round_ - 1] == np.nanmax(values)


def test_several_labels_per_node() -> None:
    y = np.stack([Y == 0, Y != 1], axis=1).astype(int)
    m = model(task="multilabel", n_rounds=20, learner=MLP(epochs=30, units=8))
    m.fit(TRAIN, y[TRAIN], graph=GRAPH, validation=(REST[:10], y[REST[:10]]))
    assert m.metric_.name == "f1_micro"
    assert m.predict(REST).shape == m.predict_proba(REST).shape == (36, 2)
    np.testing.assert_array_equal(m.predict(REST), m.predict_proba(REST) > 0.5)
    assert f1_score(y[REST], m.predict(REST), average="micro") > 0.7
    assert m.classes_.tolist() == [0, 1]
    assert m.certificate_.holds
    staged = [f1_score(y[REST[:10]], p, average="micro") for p in m.staged_predict(REST[:10])]
    np.testing.assert_allclose(m.history_["val_f1_micro"], staged)
    again = pickle.loads(pickle.dumps(m))
    assert again.predict_proba(REST, graph=GRAPH).tobytes() == m.predict_proba(REST, graph=GRAPH).tobytes()


def test_early_stopping_and_fine_tuning_go_by_the_metric() -> None:
    m = model(
        metric="neg_log_loss", n_rounds=30, n_iter_no_change=2, rule="samme_r", fine_tune=FineTuner(epochs=3)
    )
    m.fit(TRAIN, NAMES[TRAIN], graph=GRAPH, validation=VALIDATION)
    values = m.history_["val_neg_log_loss"]
    assert m.stop_reason_ is StopReason.NO_IMPROVEMENT
    assert len(values) == 1 + values.index(max(values)) + 2
    done = m.fine_tuning_
    better = done["after"]["val_neg_log_loss"] >= done["before"]["val_neg_log_loss"]
    assert done["kept"] == ("tuned" if better else "boosted")
    assert "val_neg_log_loss" in done["history"][0]


def test_score_is_the_accuracy_whatever_the_metric() -> None:
    m = fitted(metric="neg_log_loss")
    assert m.score(REST, NAMES[REST]) == (m.predict(REST) == NAMES[REST]).mean()


def test_grid_search_over_parts_and_their_settings() -> None:
    grid = {"aggregation": ["adjacency", "kta"], "learner__units": [4, 8]}
    search = GridSearchCV(model(), grid, cv=3).fit(TRAIN, NAMES[TRAIN], graph=GRAPH)
    assert len(search.cv_results_["mean_test_score"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.predict(REST).shape == (36,)


@pytest.mark.parametrize("scoring", ["f1_macro", "neg_log_loss", "roc_auc_ovr", "balanced_accuracy"])
def test_grid_search_by_any_scorer(scoring: str) -> None:
    search = GridSearchCV(model(), {"n_rounds": [1, 3]}, cv=2, scoring=scoring, error_score="raise")
    search.fit(TRAIN, NAMES[TRAIN], graph=GRAPH)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.score(REST, NAMES[REST]) == pytest.approx(
        model(n_rounds=search.best_params_["n_rounds"], metric=scoring)
        .fit(TRAIN, NAMES[TRAIN], graph=GRAPH)
        .model_.evaluate(REST, NAMES[REST]),
        rel=1e-5,
    )


def test_grid_search_over_metrics() -> None:
    grid = {"metric": ["accuracy", "f1_macro"], "validation_fraction": [0.25]}
    search = GridSearchCV(model(), grid, cv=2, error_score="raise").fit(TRAIN, NAMES[TRAIN], graph=GRAPH)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_grid_search_is_honest_when_every_node_is_labelled() -> None:
    """A graph as long as the ids must be handed through whole, not sliced."""
    nodes = np.arange(60)
    search = GridSearchCV(model(learner=MLP(epochs=30)), {"n_rounds": [2, 3]}, cv=3)
    search.fit(nodes, NAMES, graph=GRAPH)
    assert search.best_score_ > 0.5


def test_random_search_cross_validation_and_pipelines() -> None:
    search = RandomizedSearchCV(model(), {"n_rounds": [1, 2, 3]}, n_iter=2, cv=2, random_state=0)
    search.fit(TRAIN, NAMES[TRAIN], graph=GRAPH)
    scores = cross_val_score(model(), TRAIN, NAMES[TRAIN], cv=3, params={"graph": GRAPH})
    assert scores.shape == (3,)
    predicted = cross_val_predict(
        model(), TRAIN, NAMES[TRAIN], cv=3, params={"graph": GRAPH}, method="predict_proba"
    )
    assert predicted.shape == (24, 3)
    pipe = Pipeline([("ids", FunctionTransformer()), ("gbgnn", model())])
    pipe.fit(TRAIN[:, None], NAMES[TRAIN], gbgnn__graph=GRAPH)
    np.testing.assert_array_equal(pipe.predict(REST[:, None]), fitted().predict(REST))


@pytest.mark.parametrize("learner", [DecisionTreeClassifier(max_depth=2), LogisticRegression()])
def test_scikit_learn_estimators_are_learners(learner: object) -> None:
    m = fitted(learner=learner, rule="samme", n_rounds=8)
    assert m.score(REST, NAMES[REST]) > 0.5


def test_unfitted_use_is_scikit_learns_error() -> None:
    for use in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(GBGNNClassifier(), use)([0])
    with pytest.raises(NotFittedError):
        next(GBGNNClassifier().staged_predict([0]))


def test_first_round_that_fails_says_what_to_do() -> None:
    with pytest.raises(
        WeakLearnerError, match="round 1: a learner did not point along the negative gradient"
    ):
        fitted(rule=FunctionalGradient(min_cosine=0.999999, retries=0), learner=MLP(epochs=0))


def test_a_failed_fit_keeps_the_model_that_was_there() -> None:
    m = fitted()
    before = m.scores_.tobytes()
    with pytest.raises(ValueError, match="labels for"):
        m.fit(TRAIN, NAMES[TRAIN][:-1], graph=GRAPH)
    assert m.scores_.tobytes() == before


def test_dtype_is_that_of_the_scores() -> None:
    assert fitted(dtype="float64").scores_.dtype == np.float64
    assert fitted(dtype=torch.float32).scores_.dtype == np.float32


def test_repr_is_short() -> None:
    assert repr(GBGNNClassifier(n_rounds=3)) == "GBGNNClassifier(n_rounds=3)"


def test_fitted_attributes_of_an_unfitted_model_say_that_it_is_not_fitted() -> None:
    model = GBGNNClassifier()
    with pytest.raises(NotFittedError, match="certificate_ is known after a fit; call fit first"):
        _ = model.certificate_
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("reason", [StopReason.REQUESTED, StopReason.PRUNED])
def test_a_model_that_is_given_up_is_not_fine_tuned(reason: StopReason) -> None:
    class Stop(Callback):
        def on_round(self, report: RoundReport) -> StopReason | None:
            return reason if report.t == 2 else None

    m = fitted(n_rounds=6, fine_tune=FineTuner(epochs=2), callbacks=[Stop()])
    assert (m.stop_reason_, len(m.ensemble_)) == (reason, 2)
    assert (m.fine_tuning_ is None) == (reason is StopReason.PRUNED)
