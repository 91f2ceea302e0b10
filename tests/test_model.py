from __future__ import annotations

import dataclasses
import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from sklearn.metrics import f1_score, log_loss

import gbgnn
from gbgnn import MLP, FunctionalGradient, GBGNNClassifier, Graph, KernelTargetAlignment, Samme, StopReason
from gbgnn._random import Seeds
from gbgnn.boosting import boost
from gbgnn.boosting.voting import OutputVoting
from gbgnn.callbacks import Callback, RoundReport
from gbgnn.errors import GraphError, ParameterError
from gbgnn.finetuning import FineTuner
from gbgnn.fitting import FitPlan
from gbgnn.learners import MLPHead
from gbgnn.model import FittedModel, check_graph
from gbgnn.propagation import Propagator
from gbgnn.tasks import MultiLabel, Regression, Task
from gbgnn.testing import two_blocks

GRAPH, Y = two_blocks(40, n_classes=3)
OTHER, _ = two_blocks(27, n_classes=3, seed=4)
NODES, TRAIN = np.arange(40), np.arange(20)
RULES = ["gradient", "samme", "samme_r", FunctionalGradient(target="labels")]


def fit(n_classes: int = 3, **settings: Any) -> GBGNNClassifier:
    graph, y = (GRAPH, Y) if n_classes == 3 else two_blocks(40, n_classes=n_classes)
    small = {"learner": MLP(epochs=5, units=4), "n_rounds": 4, "random_state": 0, "device": "cpu"}
    return GBGNNClassifier(**{**small, **settings}).fit(TRAIN, y[TRAIN], graph=graph)


def fit_task(task: Task, y: Any, rule: str = "gradient") -> FittedModel:
    """Fit through the seams that an estimator uses, for y of any kind."""
    estimator = GBGNNClassifier(rule=rule, learner=MLP(epochs=5, units=4), device="cpu", dtype="float64")
    plan = FitPlan.build(estimator, task, TRAIN, y[TRAIN], GRAPH, seed=0)
    parts = plan.member.aggregation, plan.member.learner, plan.member.rule
    return plan.model(boost(plan.problem, *parts, n_rounds=4, seeds=Seeds(0), metric=plan.member.metric))


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_what_is_looked_up_is_what_applying_the_rounds_gives(rule: Any) -> None:
    model = fit(rule=rule).model_
    *_, last = model.staged_predict_proba(NODES)
    np.testing.assert_allclose(model.predict_proba(NODES), last, rtol=1e-5)
    applied = model.predict_proba(NODES, graph=model.graph)
    np.testing.assert_allclose(model.predict_proba(NODES), applied, rtol=1e-5)


@pytest.mark.parametrize("loss", ["sigmoid", "softmax"])
def test_two_classes_have_one_decision_whatever_the_loss(loss: str) -> None:
    model = fit(2, rule=FunctionalGradient(loss=loss)).model_
    decision = model.decision_function(NODES)
    assert decision.shape == (40,)
    np.testing.assert_array_equal(decision > 0, model.predict(NODES) == 1)


def test_the_estimator_asks_the_model() -> None:
    estimator = fit(rule="samme_r")
    model = estimator.model_
    for graph in (None, OTHER):
        nodes = np.arange(27)
        for ask in ("predict", "predict_proba", "decision_function"):
            told, known = (getattr(who, ask)(nodes, graph=graph) for who in (estimator, model))
            assert told.tobytes() == known.tobytes()
        for ask in ("staged_predict", "staged_predict_proba"):
            told, known = (
                np.stack(list(getattr(who, ask)(nodes, graph=graph))) for who in (estimator, model)
            )
            assert told.tobytes() == known.tobytes()


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_best_round_predicts_as_if_no_other_had_been_trained(rule: Any) -> None:
    """Its probabilities take the steps up to it, and those alone."""
    parts = {"rule": rule, "learner": MLP(epochs=40, units=4)}
    long, short = fit(n_rounds=4, **parts).model_, fit(n_rounds=2, **parts).model_
    assert len(long.ensemble) > 2
    *_, (_, scores) = dataclasses.replace(long, ensemble=long.ensemble[:2]).stage(NODES)
    chosen = dataclasses.replace(long, best_round=2, kept_scores=scores)
    for graph in (None, GRAPH, OTHER):
        nodes = np.arange(27)
        for ask in ("predict", "predict_proba", "decision_function"):
            told, known = (getattr(each, ask)(nodes, graph=graph) for each in (chosen, short))
            np.testing.assert_array_equal(told, known)
        assert chosen.predict_all(nodes, graph=graph)["predict_proba"].tolist() == (
            short.predict_proba(nodes, graph=graph).tolist()
        )
    assert chosen.evaluate(NODES, Y) == short.evaluate(NODES, Y)


def test_staged_results_that_were_kept_stay_as_they_were() -> None:
    """Scores are added up in one place; what a user has collected must not move with them."""
    model = fit().model_
    collected = list(model.staged_predict_proba(NODES))
    for t, proba in enumerate(collected, start=1):
        short = dataclasses.replace(model, best_round=t).predict_proba(NODES, graph=GRAPH)
        np.testing.assert_array_equal(proba, short)
    scores = [kept for _, kept in model.stage(NODES)]
    assert not torch.equal(scores[0], scores[-1])


def test_the_model_is_there_after_every_round_and_stays_what_it_was() -> None:
    seen: list[tuple[int, StopReason, tuple[int, ...]]] = []
    kept: list[tuple[FittedModel, bytes, list[dict[str, Any]]]] = []

    class Look(Callback):
        def on_round(self, report: RoundReport) -> StopReason | None:
            seen.append((len(estimator.ensemble_), estimator.stop_reason_, estimator.predict([0]).shape))
            kept.append((report.model, report.model.scores.tobytes(), list(report.history.rows)))
            return None

    estimator = GBGNNClassifier(n_rounds=3, learner=MLP(epochs=20), callbacks=[Look()], random_state=0)
    estimator.fit(TRAIN, Y[TRAIN], graph=GRAPH)
    assert seen == [(t, StopReason.INTERRUPTED, (1,)) for t in (1, 2, 3)]
    assert estimator.stop_reason_ is StopReason.ROUNDS_EXHAUSTED
    for t, (model, scores, rows) in enumerate(kept, start=1):
        assert (model.best_round, len(model.ensemble), len(model.history)) == (t, t, t)
        assert (model.scores.tobytes(), model.history.rows) == (scores, rows)


def test_fields_cannot_be_assigned() -> None:
    model = fit().model_
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.best_round = 1  # type: ignore[misc]


# What a user may do to an estimator after fitting it, and none of it may reach the model.
CHANGES: dict[str, Callable[[GBGNNClassifier], Any]] = {
    "rule": lambda m: m.set_params(rule="samme" if m.rule != "samme" else "gradient"),
    "rule's setting": lambda m: m.set_params(rule__learning_rate=0.123),
    "learning_rate": lambda m: m.set_params(learning_rate=0.001),
    "propagation": lambda m: m.set_params(propagation="laplacian"),
    "feature_norm": lambda m: m.set_params(feature_norm="l1"),
    "dtype": lambda m: m.set_params(dtype="float64"),
    "aggregation": lambda m: m.set_params(aggregation="identity"),
    "learner": lambda m: m.set_params(learner=MLP(units=2)),
    "metric": lambda m: m.set_params(metric="neg_log_loss"),
    "select": lambda m: m.set_params(select="gradient", n_rounds=1),
    "class_weight": lambda m: m.set_params(class_weight="balanced", random_state=9),
    "fine_tune": lambda m: m.set_params(fine_tune=True, fine_tune__epochs=3),
    "keep_learners": lambda m: m.set_params(keep_learners=False, warm_start=True),
}
OBJECTS: dict[str, Callable[[GBGNNClassifier], Any]] = {
    "aggregation's setting": lambda m: m.set_params(aggregation__degree=1),
    "learner's setting": lambda m: m.set_params(learner__units=9, learner__hidden_layers=3),
    "aggregation object": lambda m: setattr(m.aggregation, "epochs", 1),
    "learner object": lambda m: setattr(m.learner, "epochs", 77),
    "rule object": lambda m: setattr(m.rule, "learning_rate", 0.5),
}


def everything(estimator: GBGNNClassifier, folder: Path) -> list[Any]:
    """Everything that a fitted estimator says, to the byte."""
    nodes = np.arange(27)
    told: list[Any] = [estimator.predict(NODES).tolist()]
    for graph in (None, OTHER):
        told += [estimator.predict_proba(nodes, graph=graph).tobytes()]
        told += [estimator.predict(nodes, graph=graph).tolist()]
        told += [estimator.decision_function(nodes, graph=graph).tobytes()]
        told += [[proba.tobytes() for proba in estimator.staged_predict_proba(nodes, graph=graph)]]
        told += [[labels.tolist() for labels in estimator.staged_predict(nodes, graph=graph)]]
    told += [estimator.certificate_.rows(), estimator.classes_.tolist(), estimator.best_round_]
    told += [estimator.model_.evaluate(NODES, Y), estimator.history_.rows]
    estimator.save(folder / "model.gbgnn")
    with safe_open(folder / "model.gbgnn", "pt") as file:
        return [*told, file.metadata()]  # with a checksum of everything in the file


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_nothing_that_happens_to_the_parameters_changes_a_fitted_model(rule: Any, tmp_path: Path) -> None:
    estimator = fit(rule=rule, feature_norm="l2", learner=MLP(epochs=40, units=4))
    assert len(estimator.ensemble_) > 1
    before = everything(estimator, tmp_path)
    for what, change in CHANGES.items():
        change(estimator)
        assert everything(estimator, tmp_path) == before, what
    assert fit(rule="samme").predict_proba(NODES).tobytes() != before[1]  # there was something to lose


@pytest.mark.parametrize("rule", [FunctionalGradient(), Samme()], ids=str)
def test_nothing_that_happens_to_a_part_changes_a_fitted_model(rule: Any, tmp_path: Path) -> None:
    parts = {"aggregation": KernelTargetAlignment(), "learner": MLP(epochs=40, units=4), "rule": rule}
    estimator = fit(**parts)
    before = everything(estimator, tmp_path)
    for what, change in OBJECTS.items():
        change(estimator)
        assert everything(estimator, tmp_path) == before, what


def test_a_fine_tuned_model_is_not_changed_either(tmp_path: Path) -> None:
    estimator = fit(
        rule="samme", learner=MLP(epochs=40, units=4), fine_tune=FineTuner(epochs=3, keep="tuned")
    )
    assert estimator.is_soft_
    before = everything(estimator, tmp_path)
    for what, change in CHANGES.items():
        change(estimator)
        assert everything(estimator, tmp_path) == before, what


@pytest.mark.parametrize("rule", [FunctionalGradient(), Samme()], ids=str)
def test_a_loaded_model_is_not_changed_either(rule: Any, tmp_path: Path) -> None:
    parts = {"aggregation": KernelTargetAlignment(), "learner": MLP(epochs=40, units=4), "rule": rule}
    fit(**parts).save(tmp_path / "first.gbgnn")
    estimator = gbgnn.load(tmp_path / "first.gbgnn")
    estimator.model_ = dataclasses.replace(estimator.model_, graph=GRAPH)  # so that it can be staged
    before = everything(estimator, tmp_path)
    for what, change in {**OBJECTS, **CHANGES}.items():
        change(estimator)
        assert everything(estimator, tmp_path) == before, what


@pytest.mark.parametrize("form", ["dense", "sparse", "part"])
def test_a_matrix_of_the_users_own_may_be_changed_after_the_fit(form: str) -> None:
    from gbgnn import GivenMatrix

    matrix = GRAPH.adjacency / 10
    given = {"dense": matrix.toarray(), "sparse": matrix, "part": GivenMatrix(matrix=matrix)}[form]
    estimator = fit(propagation=given)
    before = estimator.predict_proba(NODES, graph=GRAPH)
    if form == "dense":
        given *= 0
    else:
        matrix.data *= 0
    assert estimator.predict_proba(NODES, graph=GRAPH).tobytes() == before.tobytes()
    assert list(estimator.staged_predict_proba(NODES))[-1].tobytes() == before.tobytes()


def test_a_loss_of_the_users_own_may_be_changed_after_the_fit() -> None:
    from gbgnn.losses import SoftmaxCrossEntropy

    loss = SoftmaxCrossEntropy()
    estimator = fit(rule=FunctionalGradient(loss=loss))
    assert estimator.loss_ is not loss
    assert estimator.voting_.loss is not loss


class Watching(OutputVoting):
    """Counts, in every round, the score matrices that are alive."""

    seen: list[int]

    def direction(self, output: torch.Tensor) -> torch.Tensor:
        alive = [each for each in gc.get_objects() if type(each) is torch.Tensor]
        type(self).seen.append(sum(each.shape == output.shape for each in alive))
        return super().direction(output)


def test_prediction_holds_one_score_matrix_however_many_the_rounds() -> None:
    model, seen = fit(n_rounds=6).model_, []
    Watching.seen = seen
    watched = dataclasses.replace(model, voting=Watching(3, model.loss))
    other, _ = two_blocks(31, n_classes=3, seed=5)  # no other tensor here has 31 rows
    applied = watched.predict_proba(np.arange(31), graph=other)
    np.testing.assert_array_equal(applied, model.predict_proba(np.arange(31), graph=other))
    assert len(seen) == 6
    assert len(set(seen[1:])) == 1, seen  # what the second round holds, the last does
    assert seen[-1] <= 4, seen  # the sum, and outputs of this round and the last
    seen.clear()
    for _ in watched.staged_predict(np.arange(31), graph=other):
        pass
    assert len(set(seen[1:])) == 1, seen


_MEMORY = """
import resource, sys
from dataclasses import replace
import numpy as np
import scipy.sparse as sp
import gbgnn

n, k = 20_000, 100
ring = sp.eye_array(n, k=1, format="csr") + sp.eye_array(n, k=-1, format="csr")
graph = gbgnn.Graph(ring, np.random.default_rng(0).normal(size=(n, 2)))
model = gbgnn.load(sys.argv[1]).model_

def peak():
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / (n * k * 4)

def predict(n_rounds):
    replace(model, ensemble=model.ensemble[:n_rounds], best_round=n_rounds).predict([0], graph=graph)
    return peak()

few = predict(5)
print(predict(40) - few)
for labels in model.staged_predict([0], graph=graph):
    pass
print(peak() - few)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="resource is Unix's")
def test_memory_of_prediction_does_not_grow_with_the_rounds(tmp_path: Path) -> None:
    """A process of its own applies 5 rounds to 20,000 nodes, then 40; memory is counted in score matrices."""
    graph = Graph(np.eye(200), np.random.default_rng(0).normal(size=(200, 2)))
    learner = MLP(units=2, epochs=1, standardize=False)
    model = GBGNNClassifier(rule="samme_r", learner=learner, n_rounds=40, random_state=0, device="cpu")
    model.fit(np.arange(100), np.arange(100), graph=graph).save(tmp_path / "m.gbgnn")
    command = [sys.executable, "-c", _MEMORY, str(tmp_path / "m.gbgnn")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    predicted, staged = map(float, done.stdout.split())
    assert predicted < 10  # keeping the scores of every round would take 35
    assert staged < 10


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often P was built and a head was applied."""
    found = {"P": 0, "heads": 0}
    build, evaluate = Propagator.__init__, MLPHead.evaluate

    def counted_build(self: Propagator, *args: Any, **kwargs: Any) -> None:
        found["P"] += 1
        build(self, *args, **kwargs)

    def counted_evaluate(self: MLPHead, *args: Any) -> torch.Tensor:
        found["heads"] += 1
        return evaluate(self, *args)

    monkeypatch.setattr(Propagator, "__init__", counted_build)
    monkeypatch.setattr(MLPHead, "evaluate", counted_evaluate)
    return found


def test_predictions_and_probabilities_of_one_application(counts: dict[str, int]) -> None:
    model = fit().model_
    counts.update(P=0, heads=0)
    found = model.predict_all(np.arange(27), graph=OTHER)
    assert counts == {"P": 1, "heads": 4}
    assert list(found) == ["predict", "predict_proba"]
    np.testing.assert_array_equal(found["predict"], model.predict(np.arange(27), graph=OTHER))
    np.testing.assert_array_equal(found["predict_proba"], model.predict_proba(np.arange(27), graph=OTHER))


def test_the_graph_of_the_fit_is_looked_up_not_computed(counts: dict[str, int]) -> None:
    model = fit().model_
    counts.update(P=0, heads=0)
    found = model.predict_all(NODES)
    assert counts == {"P": 0, "heads": 0}
    np.testing.assert_array_equal(found["predict"], model.predict(NODES))
    np.testing.assert_array_equal(found["predict_proba"], model.predict_proba(NODES))


def test_rounds_after_the_best_are_not_applied(counts: dict[str, int]) -> None:
    model = dataclasses.replace(fit().model_, best_round=2)
    counts.update(P=0, heads=0)
    model.predict(NODES, graph=GRAPH)
    assert counts == {"P": 1, "heads": 2}


@pytest.mark.parametrize("metric", ["accuracy", "f1_macro", "neg_log_loss"])
def test_evaluation_is_by_the_metric_of_the_fit(metric: str) -> None:
    model, nodes = fit(metric=metric, rule="samme").model_, NODES[20:]
    oracle = {
        "accuracy": lambda: (model.predict(nodes) == Y[nodes]).mean(),
        "f1_macro": lambda: f1_score(Y[nodes], model.predict(nodes), average="macro"),
        "neg_log_loss": lambda: -log_loss(Y[nodes], model.predict_proba(nodes).astype(float)),
    }[metric]
    assert model.evaluate(nodes, Y[nodes]) == pytest.approx(oracle(), rel=1e-6)
    assert model.evaluate(nodes, Y[nodes], graph=GRAPH) == pytest.approx(oracle(), rel=1e-6)


def test_numbers_are_predicted_as_numbers_without_classes_and_probabilities() -> None:
    y = np.asarray(GRAPH.features)[:, 0] * 100 + 1000
    model = fit_task(Regression(), y)
    predicted = model.predict(NODES)
    assert predicted.shape == (40,)
    assert np.square(predicted - y)[TRAIN].mean() < np.square(y - y[TRAIN].mean())[TRAIN].mean()
    assert list(model.predict_all(NODES)) == ["predict"]
    assert not hasattr(model, "classes")
    with pytest.raises(ParameterError, match=r"Regression has no probabilities; use predict\."):
        model.predict_proba(NODES)
    np.testing.assert_allclose(model.predict(NODES, graph=GRAPH), predicted, rtol=1e-9)


def test_several_labels_have_a_column_each() -> None:
    y = np.stack([Y == 0, Y != 1], axis=1).astype(int)
    model = fit_task(MultiLabel(), y)
    found = model.predict_all(NODES)
    assert found["predict"].shape == found["predict_proba"].shape == (40, 2)
    np.testing.assert_array_equal(found["predict"], found["predict_proba"] > 0.5)
    assert model.classes.tolist() == [0, 1]


def test_a_certificate_says_what_it_covers() -> None:
    notes = fit().model_.certificate.notes
    assert notes == ("of the training loss, SoftmaxCrossEntropy, whatever the learner looked at",)
    tuned = fit(fine_tune=FineTuner(epochs=2, keep="tuned")).model_.certificate.notes
    assert tuned[1] == "of the rounds as they were boosted, before fine-tuning moved them"


def test_a_loss_without_a_bound_of_its_curvature_has_no_certificate() -> None:
    from gbgnn.losses import SoftmaxCrossEntropy

    class Rough(SoftmaxCrossEntropy):
        smoothness = None

    model = dataclasses.replace(fit().model_, loss=Rough())
    with pytest.raises(ParameterError, match="no certificate: nothing bounds the curvature of Rough"):
        model.certificate  # noqa: B018


def test_graphs_are_checked() -> None:
    model = fit().model_
    with pytest.raises(GraphError, match=r"graph must be a gbgnn\.Graph; got ndarray"):
        model.predict([0], graph=np.eye(3))  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="graph has 2 features per node, but the model was fitted with 5"):
        model.build_inputs(Graph(np.eye(3), np.ones((3, 2))))
    with pytest.raises(ParameterError, match=r"does not hold its graph; pass graph="):
        dataclasses.replace(model, graph=None).known_graph(None)
    check_graph(GRAPH)


def test_a_model_moves_with_all_it_has() -> None:
    model = fit().model_
    moved = model.with_device(torch.device("meta"))
    where = [moved.score_tensor, moved.train.rows, moved.train.targets, moved.train.weights]
    assert {each.device.type for each in where} == {"meta"}
    assert moved.inputs.device.type == "meta"
    assert model.score_tensor.device.type == "cpu"
    heads = [
        (own.kept_head(), other.kept_head())
        for own, other in zip(model.ensemble, moved.ensemble, strict=True)
    ]
    assert {each.device.type for _, head in heads for each in head.parameters()} == {"meta"}
    assert {each.device.type for head, _ in heads for each in head.parameters()} == {"cpu"}
    assert model.with_device(torch.device("cpu")).ensemble is model.ensemble


def test_the_graph_of_the_fit_is_put_beside_a_model_of_a_file(tmp_path: Path) -> None:
    data = gbgnn.datasets.csbm(n_nodes=60, per_class=6, seed=0)
    for settings in ({"n_rounds": 2}, {"preset": "best", "time_limit": 1}):
        model = GBGNNClassifier(random_state=0, **settings)
        model.fit(data.train, data.y[data.train], graph=data.graph).save(tmp_path / "m.gbgnn")
        assert gbgnn.load(tmp_path / "m.gbgnn").model_.graph is None
        assert gbgnn.load(tmp_path / "m.gbgnn", graph=data.graph).model_.graph is data.graph
        with pytest.raises(GraphError, match="this is not the graph that the model was fitted on"):
            gbgnn.load(tmp_path / "m.gbgnn", graph=Graph(data.graph.adjacency, data.graph.features + 1))
