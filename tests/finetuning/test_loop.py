from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import gbgnn
from gbgnn import (
    MLP,
    Adjacency,
    Callback,
    FunctionalGradient,
    GBGNNClassifier,
    Graph,
    InputInjection,
    KernelTargetAlignment,
    Lazy,
    Samme,
    SammeR,
    generalisation_bound,
)
from gbgnn._random import Seeds
from gbgnn.aggregation import Aggregation
from gbgnn.boosting import BoostingRule, Ensemble, Voting, apply, boost, boost_many
from gbgnn.boosting.history import without_measurements
from gbgnn.callbacks import StartReport
from gbgnn.errors import GBGNNWarning, ParameterError
from gbgnn.finetuning import EpochReport, FineTuner, FineTuningReport, fine_tune_model, loop
from gbgnn.fitting import FitPlan, build_problem
from gbgnn.losses import Loss
from gbgnn.metrics import Metric, Predicted, as_metric
from gbgnn.model import FittedModel
from gbgnn.problem import LabelledNodes, Problem
from gbgnn.tasks import Classification, Regression
from gbgnn.testing import make_problem, two_blocks

RULES = [Samme(), SammeR(), FunctionalGradient(), FunctionalGradient(target="labels")]


def state(ensemble: Ensemble) -> list[object]:
    """Everything a model is made of, to be compared to the last bit."""
    rounds = ((r.eta, r.hop, {k: v.tolist() for k, v in r.head.state().items()}) for r in ensemble)
    return list(rounds)


def as_vector(ensemble: Ensemble) -> torch.Tensor:
    parts = [torch.tensor([r.eta, *r.hop.coefficients, r.hop.injection]).double() for r in ensemble]
    return torch.cat([*parts, *(v.flatten() for r in ensemble for v in r.head.state().values())])


@dataclass
class Rounds:
    """As much of a model as fine-tuning asks for, and what it says of itself afterwards."""

    ensemble: Ensemble
    voting: Voting
    loss: Loss
    metric: Metric
    seed: int
    best_round: int
    kept_scores: torch.Tensor | None = None
    fine_tuning: dict[str, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name not in ("before", "after", "kept", "history"):
            raise AttributeError(name)
        return self.fine_tuning[name]


def tune(
    ensemble: Ensemble,
    problem: Problem,
    rule: BoostingRule,
    tuner: FineTuner,
    seed: int = 0,
    metric: Metric | None = None,
    on_epoch: Callable[[EpochReport], None] | None = None,
) -> Rounds:
    voting, loss = rule.voting_for(problem.task), rule.loss_for(problem.task)
    metric = metric or as_metric(problem.task.default_metric)
    rounds = Rounds(ensemble, voting, loss, metric, seed, len(ensemble))
    return fine_tune_model(rounds, problem, tuner, on_epoch)


def is_soft(tuned: Rounds) -> bool:
    return getattr(tuned.voting, "is_soft", False)


@pytest.fixture
def model(three_classes: Problem, boosted: Callable[..., Ensemble]) -> Ensemble:
    return boosted(three_classes, InputInjection(), FunctionalGradient(), 5)


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("aggregation", [KernelTargetAlignment(), Lazy(), Adjacency()], ids=str)
def test_loss_falls_and_what_is_reported_is_what_the_model_predicts(
    aggregation: Aggregation, rule: BoostingRule, three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(three_classes, aggregation, rule, 5)
    before = state(ensemble)
    tuned = tune(ensemble, three_classes, rule, FineTuner(epochs=15, keep="tuned"), seed=0)
    assert state(ensemble) == before
    losses = [row["train_loss"] for row in tuned.history]
    assert losses[-1] < losses[0]
    assert is_soft(tuned) == (rule is RULES[0] or rule is RULES[3])
    loss, voting = rule.loss_for(three_classes.task), rule.voting_for(three_classes.task)
    scores = apply(tuned.ensemble, three_classes.inputs, tuned.voting)
    for name, nodes in (("train", three_classes.train), ("val", three_classes.validation)):
        value = float(loss.mean(scores[nodes.rows], nodes.targets, nodes.weights))
        assert tuned.after[f"{name}_loss"] == pytest.approx(value, rel=1e-8)
    total = voting.fine_tuning_total()
    assert (total is None) == (rule is not RULES[0])
    start = ensemble if total is None else ensemble.rescaled(total)
    first = apply(start, three_classes.inputs, voting)
    rows, targets = three_classes.validation.rows, three_classes.validation.targets
    assert tuned.before["val_loss"] == pytest.approx(float(loss.mean(first[rows], targets)), rel=1e-9)
    assert tuned.before["val_accuracy"] == float((first[rows].argmax(dim=1) == targets).double().mean())


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "sgd"])
def test_same_seed_gives_the_same_bytes_and_another_order_does_not(
    optimizer: str, three_classes: Problem, model: Ensemble
) -> None:
    tuner = FineTuner(epochs=4, batch_size=4, optimizer=optimizer, keep="tuned")
    runs = [tune(model, three_classes, RULES[2], tuner, seed) for seed in (0, 0, 1)]
    assert state(runs[0].ensemble) == state(runs[1].ensemble)
    assert state(runs[0].ensemble) != state(runs[2].ensemble)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_memory_limit_does_not_change_the_result(
    batch_size: int | None, three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(three_classes, KernelTargetAlignment(), SammeR(), 6)
    tuner = FineTuner(epochs=5, batch_size=batch_size, optimizer="sgd", keep="tuned")
    wanted = as_vector(tune(ensemble, three_classes, SammeR(), tuner, 0).ensemble)
    with pytest.raises(ParameterError, match="at least") as info:
        tune(ensemble, three_classes, SammeR(), tuner.set_params(memory_limit=1), 0)
    least = int(str(info.value).split("at least ")[1].split(" bytes")[0].replace(",", ""))
    for extra in (0, 10_000):
        tuner.set_params(memory_limit=least + extra)
        got = as_vector(tune(ensemble, three_classes, SammeR(), tuner, 0).ensemble)
        torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


def test_tuned_model_is_that_of_the_best_epoch_and_patience_ends_the_search(
    three_classes: Problem, model: Ensemble
) -> None:
    val = three_classes.validation  # with labels that tuning leads away from
    problem = replace(three_classes, validation=replace(val, targets=(val.targets + 1) % 3))
    tuner = FineTuner(epochs=60, learning_rate=0.05, keep="tuned")
    tuned = tune(model, problem, RULES[2], tuner, seed=0)
    keys = [(row["val_accuracy"], -row["val_loss"]) for row in tuned.history]
    best = keys.index(max(keys)) + 1
    assert best < 60
    assert (tuned.after["val_accuracy"], -tuned.after["val_loss"]) == pytest.approx(max(keys), rel=1e-12)
    shorter, impatient = (FineTuner(epochs=best), FineTuner(epochs=60, patience=best))
    for other in (shorter, impatient):
        other.set_params(learning_rate=0.05, keep="tuned")
        again = tune(model, problem, RULES[2], other, seed=0)
        assert state(again.ensemble) == state(tuned.ensemble)
    assert len(again.history) == min(60, 2 * best)


def test_validation_labels_choose_the_epoch_and_move_nothing(three_classes: Problem, model: Ensemble) -> None:
    val = three_classes.validation
    swapped = replace(three_classes, validation=replace(val, targets=(val.targets + 1) % 3))
    without = replace(three_classes, validation=None)
    tuners = [FineTuner(epochs=k, batch_size=6, keep="tuned") for k in (1, 5)]
    problems = (three_classes, swapped, without)
    runs = [[tune(model, p, RULES[2], tuner, seed=0) for tuner in tuners] for p in problems]
    assert state(runs[0][0].ensemble) == state(runs[1][0].ensemble)
    torch.testing.assert_close(
        as_vector(runs[0][0].ensemble), as_vector(runs[2][0].ensemble), rtol=1e-9, atol=1e-11
    )
    seen = [[row["train_loss"] for row in run[1].history] for run in runs]
    assert seen[0] == seen[1] == pytest.approx(seen[2], rel=1e-9)
    assert set(runs[2][1].after) == {"train_loss", "train_accuracy"}
    assert runs[2][1].history[0]["val_loss"] is None


def test_node_of_weight_zero_is_as_good_as_absent(boosted: Callable[..., Ensemble]) -> None:
    graph, y = two_blocks(40, n_classes=3)
    small = make_problem(graph, y, np.arange(12))
    weights = np.r_[np.ones(12), np.zeros(3)]
    wrong = np.r_[y[:12], (y[12:15] + 1) % 3]
    large = replace(small, train=LabelledNodes.build(np.arange(15), wrong, weights))
    ensemble = boosted(small, KernelTargetAlignment(), RULES[2], 4)
    # The coordinates of etas and hops do not depend on the labelled nodes; only those are moved here.
    tuner = FineTuner(epochs=5, optimizer="sgd", moves=("etas", "aggregation"), keep="tuned")
    ours, theirs = (tune(ensemble, p, RULES[2], tuner, 0) for p in (small, large))
    torch.testing.assert_close(as_vector(ours.ensemble), as_vector(theirs.ensemble), rtol=1e-10, atol=1e-12)


def test_better_model_by_validation_accuracy_is_kept(three_classes: Problem, model: Ensemble) -> None:
    val = three_classes.validation
    scores = apply(model, three_classes.inputs, RULES[2].voting_for(three_classes.task))
    right = scores[val.rows].argmax(dim=1)  # what the boosted model says is true
    agreeing = replace(three_classes, validation=replace(val, targets=right))
    harsh = FineTuner(epochs=3, learning_rate=3.0)
    tuned = tune(model, agreeing, RULES[2], harsh, seed=0)
    assert tuned.after["val_accuracy"] < tuned.before["val_accuracy"] == 1
    assert tuned.kept == "boosted"
    assert tuned.ensemble is model
    assert tune(model, agreeing, RULES[2], harsh.set_params(keep="tuned"), seed=0).kept == "tuned"


def test_weight_decay_shrinks_learners_only(three_classes: Problem, model: Ensemble) -> None:
    without = replace(three_classes, validation=None)
    light, heavy = (
        tune(
            model,
            without,
            RULES[2],
            FineTuner(epochs=1, optimizer="sgd", learning_rate=1e-3, weight_decay=decay, keep="tuned"),
            seed=0,
        ).ensemble
        for decay in (0.0, 100.0)
    )
    assert heavy.etas == light.etas
    assert [r.hop for r in heavy] == [r.hop for r in light]
    last = [m[4].head.state()["layers.1.weight"] for m in (model, light, heavy)]
    torch.testing.assert_close(last[2], last[1] - 0.1 * last[0])


def test_divergence_is_noticed_and_the_boosted_model_kept(three_classes: Problem, model: Ensemble) -> None:
    tuner = FineTuner(epochs=50, optimizer="sgd", learning_rate=1e200, keep="tuned")
    with pytest.warns(GBGNNWarning, match=r"fine-tuning diverged in epoch \d+ .* smaller learning_rate"):
        tuned = tune(model, replace(three_classes, validation=None), RULES[2], tuner, seed=0)
    assert tuned.kept == "boosted"
    assert len(tuned.history) < 50


def test_divergence_after_good_epochs_loses_nothing(three_classes: Problem, model: Ensemble) -> None:
    with pytest.warns(GBGNNWarning, match="diverged"):
        tuned = tune(
            model, three_classes, RULES[2], FineTuner(epochs=50, optimizer="sgd", learning_rate=1e200), seed=0
        )
    assert all(np.isfinite(value) for value in as_vector(tuned.ensemble).tolist())


def test_samme_starts_from_steps_that_do_not_saturate_and_predict_the_same(
    three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(three_classes, Adjacency(), Samme(), 5)
    tuned = tune(ensemble, three_classes, Samme(), FineTuner(epochs=1, optimizer="sgd", keep="tuned"), 0)
    assert sum(tuned.ensemble.etas) == pytest.approx(np.log(19 * 2), rel=0.01)
    raw = apply(ensemble, three_classes.inputs, Samme().voting_for(three_classes.task))
    rows, targets = three_classes.train.rows, three_classes.train.targets
    assert tuned.before["train_accuracy"] == float((raw[rows].argmax(dim=1) == targets).double().mean())


def test_the_boosted_model_and_every_epoch_are_announced(three_classes: Problem, model: Ensemble) -> None:
    seen: list[EpochReport] = []
    tuned = tune(model, three_classes, RULES[2], FineTuner(epochs=3), seed=0, on_epoch=seen.append)
    assert [(report.epoch, report.n_epochs) for report in seen] == [(k, 3) for k in range(4)]
    first, *rows = (report.row for report in seen)
    assert rows == tuned.history
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert list(first) == list(rows[0]) == ["epoch", "train_loss", "val_loss", "val_accuracy", "seconds"]
    for name in ("train_loss", "val_loss", "val_accuracy"):
        assert first[name] == tuned.before[name]


def test_without_epochs_or_validation_nodes_the_boosted_model_is_announced(
    three_classes: Problem, model: Ensemble
) -> None:
    seen: list[EpochReport] = []
    bare = replace(three_classes, validation=None)
    tuned = tune(model, bare, RULES[2], FineTuner(epochs=0), seed=0, on_epoch=seen.append)
    assert tuned.history == []
    assert [(report.epoch, report.n_epochs) for report in seen] == [(0, 0)]
    assert seen[0].row["train_loss"] == tuned.before["train_loss"]
    assert seen[0].row["val_loss"] is seen[0].row["val_accuracy"] is None


def test_nothing_to_tune_and_nothing_to_stop_by_are_errors(three_classes: Problem, model: Ensemble) -> None:
    with pytest.raises(ParameterError, match="the ensemble has no rounds"):
        tune(Ensemble(), three_classes, RULES[2], FineTuner(), seed=0)
    bare = replace(three_classes, validation=None)
    with pytest.raises(ParameterError, match="patience stops on validation nodes, but there are none"):
        tune(model, bare, RULES[2], FineTuner(patience=2), seed=0)
    lean = Ensemble(tuple(replace(r, head=None) for r in model))
    with pytest.raises(ParameterError, match="learners were not kept"):
        tune(lean, three_classes, RULES[2], FineTuner(), seed=0)


def test_tuned_model_can_be_tuned_again(three_classes: Problem, boosted: Callable[..., Ensemble]) -> None:
    ensemble = boosted(three_classes, Lazy(), Samme(), 3)
    once = tune(ensemble, three_classes, Samme(), FineTuner(epochs=3, keep="tuned"))
    twice = fine_tune_model(once, three_classes, FineTuner(epochs=3, keep="tuned"))
    assert twice.before["train_loss"] == pytest.approx(once.after["train_loss"], rel=1e-9)
    assert twice.before["val_accuracy"] == once.after["val_accuracy"]
    assert twice.voting == once.voting


@pytest.mark.parametrize("has_validation", [True, False])
@pytest.mark.parametrize("metric", ["neg_log_loss", "roc_auc_ovr"])
def test_divergence_is_no_matter_for_a_metric_that_refuses_what_is_not_finite(
    metric: str, has_validation: bool, three_classes: Problem, model: Ensemble
) -> None:
    problem = three_classes if has_validation else replace(three_classes, validation=None)
    tuner = FineTuner(epochs=50, optimizer="sgd", learning_rate=1e200, keep="tuned")
    with pytest.warns(GBGNNWarning, match="diverged"):
        tuned = tune(model, problem, RULES[2], tuner, metric=as_metric(metric))
    assert as_vector(tuned.ensemble).isfinite().all()
    assert np.isfinite(tuned.before[f"train_{metric}"])


def test_epoch_that_is_best_by_another_metric_is_kept(three_classes: Problem, model: Ensemble) -> None:
    metric = "neg_log_loss"
    val = three_classes.validation  # with labels that tuning leads away from, but not at once
    targets = torch.where(torch.arange(10) < 5, val.targets, (val.targets + 1) % 3)
    problem = replace(three_classes, validation=replace(val, targets=targets))
    tuner = FineTuner(epochs=60, learning_rate=0.05, keep="tuned")
    own, usual = (tune(model, problem, RULES[2], tuner, metric=as_metric(m)) for m in (metric, "accuracy"))
    column = f"val_{metric}"
    keys = [(row[column], -row["val_loss"]) for row in own.history]
    best = keys.index(max(keys)) + 1
    assert (own.after[column], -own.after["val_loss"]) == pytest.approx(max(keys), rel=1e-12)
    until = tune(model, problem, RULES[2], tuner.set_params(epochs=best), metric=as_metric(metric))
    assert state(until.ensemble) == state(own.ensemble)
    by_accuracy = [(row["val_accuracy"], -row["val_loss"]) for row in usual.history]
    assert by_accuracy.index(max(by_accuracy)) + 1 != best
    assert state(usual.ensemble) != state(own.ensemble)


def test_better_model_by_another_metric_is_kept(three_classes: Problem, model: Ensemble) -> None:
    tuner = FineTuner(epochs=1, learning_rate=0.05)
    found = {}
    for sign in (1, -1):

        class Judge(Metric):
            name = "judge"

            def score(self, predicted: Predicted, sign: int = sign) -> float:
                return sign * float(predicted.scores.abs().sum())

        found[sign] = tune(model, three_classes, RULES[2], tuner, metric=Judge())
    assert {found[1].kept, found[-1].kept} == {"boosted", "tuned"}
    assert found[1].after["val_judge"] == -found[-1].after["val_judge"]
    for tuned in found.values():
        is_better = tuned.after["val_judge"] > tuned.before["val_judge"]
        assert tuned.kept == ("tuned" if is_better else "boosted")


@pytest.mark.parametrize("aggregation", [KernelTargetAlignment(), Adjacency()], ids=str)
def test_squared_error_of_numbers_falls(
    aggregation: Aggregation, numbers: Problem, boosted: Callable[..., Ensemble]
) -> None:
    rule = FunctionalGradient()
    ensemble = boosted(numbers, aggregation, rule, 5)
    tuned = tune(ensemble, replace(numbers, validation=None), rule, FineTuner(epochs=40, learning_rate=0.01))
    assert tuned.kept == "tuned"
    assert tuned.after["train_loss"] < 0.9 * tuned.before["train_loss"]
    assert tuned.after["train_r2"] > tuned.before["train_r2"]
    train = numbers.train
    for rounds, voting, told in (
        (ensemble, rule.voting_for(numbers.task), tuned.before),
        (tuned.ensemble, tuned.voting, tuned.after),
    ):
        scores = apply(rounds, numbers.inputs, voting)[train.rows]
        squares = (scores - train.targets).square().sum(dim=1)
        assert told["train_loss"] == pytest.approx(float(squares.mean()), rel=1e-8)


def test_tuned_regression_predicts_in_the_unit_of_its_numbers() -> None:
    graph, _ = two_blocks(60)
    X = np.asarray(graph.features)
    y = 1000 + 50 * X[:, 0] * X[:, 1] + 10 * (graph.adjacency @ X[:, 2])
    settings = GBGNNClassifier(learner=MLP(epochs=5), aggregation="kta", n_rounds=4)
    plan = FitPlan.build(settings, Regression(), NODES[:40], y[:40], graph, seed=0)
    model = plan.model(boost_many(plan.problem, [plan.member])[0])
    tuned = fine_tune_model(model, plan.problem, FineTuner(epochs=50, learning_rate=0.01))
    errors = [np.mean((m.predict(NODES[:40]) - y[:40]) ** 2) for m in (model, tuned)]
    assert errors[1] < 0.8 * errors[0]
    scale = y[:40].std() ** 2  # the loss is of standardised numbers
    told = [tuned.fine_tuning[when]["train_loss"] for when in ("before", "after")]
    np.testing.assert_allclose(errors, np.multiply(told, scale), rtol=1e-4)
    assert tuned.fine_tuning["after"]["train_r2"] == pytest.approx(1 - errors[1] / scale, abs=1e-4)
    np.testing.assert_allclose(tuned.predict(NODES, graph=graph), tuned.predict(NODES), rtol=1e-4)


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of all tensors that were made inside and are still alive; ``peak`` is the most."""

    def __init__(self, known: list[torch.Tensor]) -> None:
        super().__init__()
        self.known = {StorageWeakRef(tensor.untyped_storage()).cdata for tensor in known}
        self.alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
                self._note(tensor.untyped_storage())
        return result

    def _note(self, storage: torch.UntypedStorage) -> None:
        reference = StorageWeakRef(storage)
        if (
            reference.cdata in self.known
            or self.alive.get(reference.cdata, (None, -1))[1] == storage.nbytes()
        ):
            return
        self.alive[reference.cdata] = reference, storage.nbytes()
        if sum(size for _, size in self.alive.values()) > self.peak:
            self.alive = {key: own for key, own in self.alive.items() if not own[0].expired()}
            self.peak = max(self.peak, sum(size for _, size in self.alive.values()))


@pytest.mark.parametrize("is_directed", [False, True])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("moves", [("learners",), ("learners", "etas", "aggregation")], ids=str)
def test_tensors_that_are_alive_stay_within_the_memory_limit(
    moves: tuple[str, ...], is_sparse: bool, is_directed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float32, where a product with P has buffers of its own; P is thin, features are wide."""
    monkeypatch.setattr(loop, "apply", lambda *_: None)  # what is tuned predicts as any other model does
    n_nodes, n_columns, random = 1200, 750, np.random.default_rng(0)
    X = sp.random_array((n_nodes, n_columns), density=0.02, rng=random, format="csr", dtype=np.float32)
    forth = sp.eye_array(n_nodes, k=1, format="csr")
    graph = Graph(forth if is_directed else forth + forth.T, X if is_sparse else X.toarray())
    problem = make_problem(graph, random.integers(3, size=n_nodes), np.arange(40), dtype=torch.float32)
    learner = MLP(epochs=2, units=4, dropout=0.0)
    ensemble = boost(
        problem, KernelTargetAlignment(degree=1), learner, SammeR(), n_rounds=3, seeds=Seeds(0)
    ).ensemble
    array = 4 * n_nodes * n_columns
    known = [value for trained in ensemble for value in trained.head.parameters()]
    known += [] if is_sparse else [problem.inputs.features.dense()]
    # Sparse rows become dense a megabyte at a time; beside arrays there are a few numbers of nodes and edges.
    beside = 100_000 + (2**20 if is_sparse else 0)
    for limit in (3_000_000, 6_000_000):
        assert limit + beside < 2 * array
        tuner = FineTuner(epochs=1, moves=moves, memory_limit=limit, keep="tuned")
        with LiveBytes(known) as counted:
            tune(ensemble, problem, SammeR(), tuner)
        assert limit / 4 < counted.peak < limit + beside


# What an estimator does with all of this.

GRAPH, Y = two_blocks(60, n_classes=3)
TRAIN, VAL, NODES = np.arange(15), np.arange(15, 30), np.arange(60)
TUNER = FineTuner(epochs=15, learning_rate=0.01, keep="tuned")


def estimator(**settings: Any) -> GBGNNClassifier:
    defaults: dict[str, Any] = {
        "learner": MLP(epochs=3, units=6),
        "n_rounds": 4,
        "random_state": 0,
        "select": "last",
        "fine_tune": clone(TUNER),
    }
    return GBGNNClassifier(**defaults | settings)


def fit(
    model: GBGNNClassifier | None = None, val: np.ndarray | None = None, **settings: Any
) -> GBGNNClassifier:
    model = estimator(**settings) if model is None else model
    val = Y[VAL] if val is None else val
    return model.fit(TRAIN, Y[TRAIN], graph=GRAPH, validation=(VAL, val))


def problem_like(model: GBGNNClassifier, val: np.ndarray | None = None) -> Problem:
    """What the estimator was fitted on."""
    labels = VAL, Y[VAL] if val is None else val
    return build_problem(model, Classification(), TRAIN, Y[TRAIN], GRAPH, validation=labels, seed=model.seed_)


def boosted_opinion(**settings: Any) -> np.ndarray:
    """What the boosted model says of the validation nodes: were it true, tuning could but ruin it."""
    return fit(fine_tune=None, **settings).predict(VAL)


@pytest.mark.parametrize("rule", ["gradient", "samme", "samme_r"])
@pytest.mark.parametrize("aggregation", ["adjacency", "injection", "kta"])
def test_tuned_models_save_load_stage_and_predict_other_graphs(
    rule: str, aggregation: str, tmp_path: Path
) -> None:
    model = fit(rule=rule, aggregation=aggregation)
    assert model.fine_tuning_["kept"] == "tuned"
    assert model.is_soft_ == (rule == "samme")
    assert len(model.fine_tuning_["history"]) == 15
    proba = model.predict_proba(NODES)
    np.testing.assert_allclose(proba, model.predict_proba(NODES, graph=GRAPH), rtol=1e-4, atol=1e-6)
    *_, last = model.staged_predict_proba(NODES)
    np.testing.assert_allclose(proba, last, rtol=1e-4, atol=1e-6)
    model.save(tmp_path / "m.gbgnn")
    again = gbgnn.load(tmp_path / "m.gbgnn")
    np.testing.assert_array_equal(again.predict_proba(NODES), proba)
    told = model.fine_tuning_
    assert again.fine_tuning_ == {**told, "history": without_measurements(told["history"])}
    assert again.get_params()["fine_tune__epochs"] == 15
    part = np.arange(40)
    smaller = Graph(GRAPH.adjacency[part][:, part], np.asarray(GRAPH.features)[part])
    inductive = again.predict_proba(part, graph=smaller)
    np.testing.assert_allclose(inductive, model.predict_proba(part, graph=smaller), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rule", ["gradient", "samme"])
@pytest.mark.parametrize("keep", ["tuned", "best"])
def test_fine_tuning_returns_another_model_and_leaves_the_one_it_was_given(rule: str, keep: str) -> None:
    ruinous = FineTuner(epochs=3, learning_rate=3.0, keep=keep)
    boosted = fit(rule=rule, fine_tune=None)
    model, problem = boosted.model_, problem_like(boosted, val=boosted_opinion(rule=rule))
    rounds, scores, proba = state(model.ensemble), model.scores.tobytes(), model.predict_proba(NODES)
    fields, rows = dict(vars(model)), [dict(row) for row in model.history]
    tuned = fine_tune_model(model, problem, ruinous)
    assert tuned is not model
    assert state(model.ensemble) == rounds
    assert model.scores.tobytes() == scores
    assert [dict(row) for row in model.history] == rows
    assert all(getattr(model, name) is value for name, value in fields.items())
    assert model.fine_tuning is None
    assert not model.is_fine_tuned
    np.testing.assert_array_equal(model.predict_proba(NODES), proba)
    kept = {name for name in FittedModel.__dataclass_fields__ if getattr(tuned, name) is fields[name]}
    changed = {"fine_tuning"}
    if keep == "tuned":
        changed |= {"ensemble", "kept_scores"} | ({"voting"} if rule == "samme" else set())
        assert not np.allclose(tuned.predict_proba(NODES), proba)
        assert tuned.is_fine_tuned
    else:
        assert tuned.fine_tuning["after"]["val_accuracy"] < tuned.fine_tuning["before"]["val_accuracy"] == 1
        assert tuned.fine_tuning["kept"] == "boosted"
        assert not tuned.is_fine_tuned
        assert not tuned.is_soft
        assert tuned.scores.tobytes() == scores
    assert kept == set(FittedModel.__dataclass_fields__) - changed


@pytest.mark.parametrize("rule", ["gradient", "samme"])
def test_fit_with_a_tuner_is_a_fit_without_one_and_then_fine_tuning(rule: str) -> None:
    boosted, whole = fit(rule=rule, fine_tune=None), fit(rule=rule)
    apart = fine_tune_model(boosted.model_, problem_like(boosted), TUNER)
    assert apart.scores.tobytes() == whole.scores_.tobytes()
    assert state(apart.ensemble) == state(whole.ensemble_)
    assert apart.fine_tuning["after"] == whole.fine_tuning_["after"]


def test_metric_of_the_estimator_judges_fine_tuning() -> None:
    model = fit(metric="neg_log_loss", fine_tune=FineTuner(epochs=30, learning_rate=0.05))
    done, column = model.fine_tuning_, "val_neg_log_loss"
    best = max((row[column], -row["val_loss"]) for row in done["history"])
    assert (done["after"][column], -done["after"]["val_loss"]) == pytest.approx(best, rel=1e-6)
    assert done["after"][column] == pytest.approx(-done["after"]["val_loss"], rel=1e-4)
    assert "val_accuracy" not in done["after"]
    assert done["kept"] == ("tuned" if best[0] >= done["before"][column] else "boosted")
    assert model.model_.evaluate(VAL, Y[VAL]) == pytest.approx(max(best[0], done["before"][column]), rel=1e-5)


def test_tuning_lowers_the_training_loss() -> None:
    tuning = fit().fine_tuning_
    assert tuning["after"]["train_loss"] < tuning["before"]["train_loss"]
    boosted = fit(fine_tune=None)
    assert tuning["before"]["train_loss"] == pytest.approx(boosted.history_["train_loss"][-1], rel=1e-5)


def test_certificate_of_a_tuned_model_says_that_it_is_of_the_boosted_rounds() -> None:
    note = "of the rounds as they were boosted, before fine-tuning moved them"
    tuned, boosted = fit(), fit(fine_tune=None)
    spared = fit(val=boosted_opinion(), fine_tune=FineTuner(epochs=3, learning_rate=3.0))
    assert spared.fine_tuning_["kept"] == "boosted"
    assert note in tuned.certificate_.notes
    assert tuned.certificate_.rounds == boosted.certificate_.rounds
    for model in (boosted, spared):
        assert note not in model.certificate_.notes
        assert model.certificate_.notes


def test_only_the_rounds_that_predict_are_tuned() -> None:
    wrong = (Y[VAL] + 1) % 3
    model = fit(val=wrong, select="validation", n_rounds=6, metric="neg_log_loss")
    assert model.best_round_ < 6
    assert len(model.ensemble_) == model.best_round_ == len(model.etas_)
    assert len(model.history_) == 6


def test_same_seed_same_bytes_and_a_refit_forgets() -> None:
    model = fit(rule="samme")
    first = model.scores_.tobytes()
    assert fit(rule="samme").scores_.tobytes() == first
    fit(model.set_params(fine_tune=None))
    assert model.fine_tuning_ is None
    assert model.is_soft_ is False
    np.testing.assert_array_equal(model.predict(NODES, graph=GRAPH), model.predict(NODES))


class _Witness(Callback):
    """Notes what it is told, in order, and what the estimator has at that time."""

    model: GBGNNClassifier

    def on_start(self, start: StartReport) -> None:
        self.told: list[Any] = []

    def on_end(self, model: FittedModel) -> None:
        assert model.fine_tuning is None
        self.told.append("boosted")

    def on_epoch(self, report: EpochReport) -> None:
        assert self.model.fine_tuning_ is None
        self.told.append(report.row)

    def on_fine_tuned(self, report: FineTuningReport) -> None:
        assert self.model.fine_tuning_["kept"] == report.kept
        self.told.append(report)


@pytest.mark.parametrize("keep", ["best", "tuned"])
def test_callbacks_are_told_of_every_epoch_and_of_the_end_when_the_model_is_published(keep: str) -> None:
    witness = _Witness()
    tuner, opinion = FineTuner(epochs=4, learning_rate=3.0, keep=keep), boosted_opinion()
    for _ in range(2):  # one object serves many fits
        witness.model = estimator(callbacks=[witness], fine_tune=tuner)
        tuning = fit(witness.model, val=opinion).fine_tuning_
        boosted, first, *rows, end = witness.told
        assert boosted == "boosted"
        assert first["epoch"] == 0
        assert first["val_loss"] == tuning["before"]["val_loss"]
        assert rows == tuning["history"]
        assert (end.before, end.after, end.kept, end.epochs) == (
            *(tuning[k] for k in ("before", "after", "kept")),
            4,
        )
        assert tuning["kept"] == {"best": "boosted", "tuned": "tuned"}[keep]
    fit(callbacks=[witness], fine_tune=None)
    assert witness.told == ["boosted"]


def test_interrupted_when_the_tuned_scores_are_computed_is_a_boosted_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    model = estimator(rule="samme")
    with monkeypatch.context() as patch:
        patch.setattr(loop, "apply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fit(model)
    boosted = fit(rule="samme", fine_tune=None)
    model.save(tmp_path / "m.gbgnn")
    for left in (model, gbgnn.load(tmp_path / "m.gbgnn")):
        assert (left.fine_tuning_, left.is_soft_) == (None, False)
        assert left.scores_.tobytes() == boosted.scores_.tobytes()
        assert left.etas_.tolist() == boosted.etas_.tolist()


def test_tuned_rounds_are_not_boosted_on_and_have_no_bound() -> None:
    model = fit(learner="constrained", warm_start=True)
    with pytest.raises(ParameterError, match="these rounds were fine-tuned; fit anew"):
        fit(model.set_params(n_rounds=6))
    with pytest.raises(ParameterError, match="no bound covers a fine-tuned model"):
        generalisation_bound(model)
