from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from gbgnn import MLP, FunctionalGradient, GBGNNClassifier, Graph, KernelTargetAlignment, Samme
from gbgnn.errors import ParameterError, WeakLearnerError
from gbgnn.testing import two_blocks

GRAPH, Y = two_blocks(60, n_classes=3)
NAMES = np.array(["ant", "bee", "cat"])[Y]
TRAIN, REST = np.arange(24), np.arange(24, 60)
SMALL = {"learner": MLP(epochs=5, units=8), "n_rounds": 5, "random_state": 0, "device": "cpu"}


def model(**settings: object) -> GBGNNClassifier:
    return GBGNNClassifier(**{**SMALL, **settings})


def fitted(**settings: object) -> GBGNNClassifier:
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


@pytest.mark.parametrize("labels", [[10, 30, 20], [-1.0, 0.0, 5.0], [True, False, True], ["x", "y", "é"]])
def test_labels_of_any_type_come_back(labels: list[object]) -> None:
    y = np.array(labels)[Y]
    m = model().fit(TRAIN, y[TRAIN], graph=GRAPH)
    assert set(m.predict(REST)) <= set(y)
    assert m.predict(REST).dtype == y.dtype


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


def test_clone_pickle_and_deepcopy() -> None:
    m = fitted()
    assert not hasattr(clone(m), "scores_")
    for other in (pickle.loads(pickle.dumps(m)), copy.deepcopy(m)):
        assert other.predict_proba(REST).tobytes() == m.predict_proba(REST).tobytes()
        assert next(other.staged_predict(REST)).tolist() == next(m.staged_predict(REST)).tolist()


def test_grid_search_over_parts_and_their_settings() -> None:
    grid = {"aggregation": ["adjacency", "kta"], "learner__units": [4, 8]}
    search = GridSearchCV(model(), grid, cv=3).fit(TRAIN, NAMES[TRAIN], graph=GRAPH)
    assert len(search.cv_results_["mean_test_score"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.predict(REST).shape == (36,)


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
