from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from gbgnn import Adjacency, FunctionalGradient, InputInjection, KernelTargetAlignment, Lazy, Samme, SammeR
from gbgnn.boosting import BoostingRule, Ensemble, EpochReport, apply
from gbgnn.errors import GBGNNWarning, ParameterError
from gbgnn.finetuning import FineTuned, FineTuner, SoftVote, fine_tune
from gbgnn.problem import LabelledNodes, Problem
from gbgnn.testing import problem_of, two_blocks

RULES = [Samme(), SammeR(), FunctionalGradient(), FunctionalGradient(target="labels")]


def state(ensemble: Ensemble) -> list[object]:
    """Everything a model is made of, to be compared to the last bit."""
    rounds = ((r.eta, r.hop, {k: v.tolist() for k, v in r.head.state().items()}) for r in ensemble)
    return list(rounds)


def numbers(ensemble: Ensemble) -> torch.Tensor:
    parts = [torch.tensor([r.eta, *r.hop.coefficients, r.hop.injection]).double() for r in ensemble]
    return torch.cat([*parts, *(v.flatten() for r in ensemble for v in r.head.state().values())])


def scores_of(tuned: FineTuned, problem: Problem, rule: BoostingRule) -> torch.Tensor:
    used = SoftVote(rule=rule) if tuned.is_soft else rule
    *_, (_, scores) = apply(tuned.ensemble, problem.inputs, used, problem.n_classes)
    return scores


@pytest.fixture
def model(three_classes: Problem, boosted: Callable[..., Ensemble]) -> Ensemble:
    return boosted(three_classes, InputInjection(), FunctionalGradient(), 5)


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("aggregation", [KernelTargetAlignment(), Lazy(), Adjacency()], ids=str)
def test_loss_falls_and_what_is_reported_is_what_the_model_predicts(
    aggregation: object, rule: BoostingRule, three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(three_classes, aggregation, rule, 5)
    before = state(ensemble)
    tuned = fine_tune(ensemble, three_classes, rule, FineTuner(epochs=15, keep="tuned"), seed=0)
    assert state(ensemble) == before
    losses = [row["train_loss"] for row in tuned.history]
    assert losses[-1] < losses[0]
    assert tuned.is_soft == (rule is RULES[0] or rule is RULES[3])
    loss = rule.loss_for(3)
    scores = scores_of(tuned, three_classes, rule)
    for name, nodes in (("train", three_classes.train), ("val", three_classes.validation)):
        value = loss.mean(scores[nodes.rows], nodes.targets, nodes.weights)
        assert tuned.after[f"{name}_loss"] == pytest.approx(value, rel=1e-8)
    total = rule.soft_total(3)
    start = ensemble if total is None else ensemble.rescaled(total)
    *_, (_, first) = apply(start, three_classes.inputs, rule, 3)
    rows, targets = three_classes.validation.rows, three_classes.validation.targets
    assert tuned.before["val_loss"] == pytest.approx(loss.mean(first[rows], targets), rel=1e-9)
    assert tuned.before["val_accuracy"] == float((first[rows].argmax(dim=1) == targets).double().mean())


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "sgd"])
def test_same_seed_gives_the_same_bytes_and_another_order_does_not(
    optimizer: str, three_classes: Problem, model: Ensemble
) -> None:
    tuner = FineTuner(epochs=4, batch_size=4, optimizer=optimizer, keep="tuned")
    runs = [fine_tune(model, three_classes, RULES[2], tuner, seed) for seed in (0, 0, 1)]
    assert state(runs[0].ensemble) == state(runs[1].ensemble)
    assert state(runs[0].ensemble) != state(runs[2].ensemble)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_memory_limit_does_not_change_the_result(
    batch_size: int | None, three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(three_classes, KernelTargetAlignment(), SammeR(), 6)
    tuner = FineTuner(epochs=5, batch_size=batch_size, optimizer="sgd", keep="tuned")
    wanted = numbers(fine_tune(ensemble, three_classes, SammeR(), tuner, 0).ensemble)
    with pytest.raises(ParameterError, match="at least") as info:
        fine_tune(ensemble, three_classes, SammeR(), tuner.set_params(memory_limit=1), 0)
    least = int(str(info.value).split("at least ")[1].split(" bytes")[0].replace(",", ""))
    for extra in (0, 10_000):
        tuner.set_params(memory_limit=least + extra)
        got = numbers(fine_tune(ensemble, three_classes, SammeR(), tuner, 0).ensemble)
        torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


def test_tuned_model_is_that_of_the_best_epoch_and_patience_ends_the_search(
    three_classes: Problem, model: Ensemble
) -> None:
    val = three_classes.validation  # with labels that tuning leads away from
    problem = replace(three_classes, validation=replace(val, targets=(val.targets + 1) % 3))
    tuner = FineTuner(epochs=60, learning_rate=0.05, keep="tuned")
    tuned = fine_tune(model, problem, RULES[2], tuner, seed=0)
    keys = [(row["val_accuracy"], -row["val_loss"]) for row in tuned.history]
    best = keys.index(max(keys)) + 1
    assert best < 60
    assert (tuned.after["val_accuracy"], -tuned.after["val_loss"]) == pytest.approx(max(keys), rel=1e-12)
    shorter, impatient = (FineTuner(epochs=best), FineTuner(epochs=60, patience=best))
    for other in (shorter, impatient):
        other.set_params(learning_rate=0.05, keep="tuned")
        again = fine_tune(model, problem, RULES[2], other, seed=0)
        assert state(again.ensemble) == state(tuned.ensemble)
    assert len(again.history) == min(60, 2 * best)


def test_validation_labels_choose_the_epoch_and_move_nothing(three_classes: Problem, model: Ensemble) -> None:
    val = three_classes.validation
    swapped = replace(three_classes, validation=replace(val, targets=(val.targets + 1) % 3))
    without = replace(three_classes, validation=None)
    tuners = [FineTuner(epochs=k, batch_size=6, keep="tuned") for k in (1, 5)]
    problems = (three_classes, swapped, without)
    runs = [[fine_tune(model, p, RULES[2], tuner, seed=0) for tuner in tuners] for p in problems]
    assert state(runs[0][0].ensemble) == state(runs[1][0].ensemble)
    torch.testing.assert_close(
        numbers(runs[0][0].ensemble), numbers(runs[2][0].ensemble), rtol=1e-9, atol=1e-11
    )
    seen = [[row["train_loss"] for row in run[1].history] for run in runs]
    assert seen[0] == seen[1] == pytest.approx(seen[2], rel=1e-9)
    assert set(runs[2][1].after) == {"train_loss", "train_accuracy"}
    assert runs[2][1].history[0]["val_loss"] is None


def test_node_of_weight_zero_is_as_good_as_absent(boosted: Callable[..., Ensemble]) -> None:
    graph, y = two_blocks(40, n_classes=3)
    small = problem_of(graph, y, np.arange(12))
    weights = np.r_[np.ones(12), np.zeros(3)]
    wrong = np.r_[y[:12], (y[12:15] + 1) % 3]
    large = replace(small, train=LabelledNodes.build(np.arange(15), wrong, weights))
    ensemble = boosted(small, KernelTargetAlignment(), RULES[2], 4)
    # The coordinates of etas and hops do not depend on the labelled nodes; only those are moved here.
    tuner = FineTuner(epochs=5, optimizer="sgd", moves=("etas", "aggregation"), keep="tuned")
    ours, theirs = (fine_tune(ensemble, p, RULES[2], tuner, 0) for p in (small, large))
    torch.testing.assert_close(numbers(ours.ensemble), numbers(theirs.ensemble), rtol=1e-10, atol=1e-12)


def test_better_model_by_validation_accuracy_is_kept(three_classes: Problem, model: Ensemble) -> None:
    val = three_classes.validation
    *_, (_, scores) = apply(model, three_classes.inputs, RULES[2], 3)
    right = scores[val.rows].argmax(dim=1)  # what the boosted model says is true
    agreeing = replace(three_classes, validation=replace(val, targets=right))
    harsh = FineTuner(epochs=3, learning_rate=3.0)
    tuned = fine_tune(model, agreeing, RULES[2], harsh, seed=0)
    assert tuned.after["val_accuracy"] < tuned.before["val_accuracy"] == 1
    assert tuned.kept == "boosted"
    assert tuned.ensemble is model
    assert not tuned.is_soft
    assert fine_tune(model, agreeing, RULES[2], harsh.set_params(keep="tuned"), seed=0).kept == "tuned"


def test_weight_decay_shrinks_learners_only(three_classes: Problem, model: Ensemble) -> None:
    without = replace(three_classes, validation=None)
    light, heavy = (
        fine_tune(
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
        tuned = fine_tune(model, replace(three_classes, validation=None), RULES[2], tuner, seed=0)
    assert tuned.kept == "boosted"
    assert len(tuned.history) < 50


def test_divergence_after_good_epochs_loses_nothing(three_classes: Problem, model: Ensemble) -> None:
    with pytest.warns(GBGNNWarning, match="diverged"):
        tuned = fine_tune(
            model, three_classes, RULES[2], FineTuner(epochs=50, optimizer="sgd", learning_rate=1e200), seed=0
        )
    assert all(np.isfinite(value) for value in numbers(tuned.ensemble).tolist())


def test_samme_starts_from_steps_that_do_not_saturate_and_predict_the_same(
    three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(three_classes, Adjacency(), Samme(), 5)
    tuned = fine_tune(ensemble, three_classes, Samme(), FineTuner(epochs=1, optimizer="sgd", keep="tuned"), 0)
    assert sum(tuned.ensemble.etas) == pytest.approx(np.log(19 * 2), rel=0.01)
    *_, (_, raw) = apply(ensemble, three_classes.inputs, Samme(), 3)
    rows, targets = three_classes.train.rows, three_classes.train.targets
    assert tuned.before["train_accuracy"] == float((raw[rows].argmax(dim=1) == targets).double().mean())


def test_the_boosted_model_and_every_epoch_are_announced(three_classes: Problem, model: Ensemble) -> None:
    seen: list[EpochReport] = []
    tuned = fine_tune(model, three_classes, RULES[2], FineTuner(epochs=3), seed=0, on_epoch=seen.append)
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
    tuned = fine_tune(model, bare, RULES[2], FineTuner(epochs=0), seed=0, on_epoch=seen.append)
    assert tuned.history == []
    assert [(report.epoch, report.n_epochs) for report in seen] == [(0, 0)]
    assert seen[0].row["train_loss"] == tuned.before["train_loss"]
    assert seen[0].row["val_loss"] is seen[0].row["val_accuracy"] is None


def test_nothing_to_tune_and_nothing_to_stop_by_are_errors(three_classes: Problem, model: Ensemble) -> None:
    with pytest.raises(ParameterError, match="the ensemble has no rounds"):
        fine_tune(Ensemble(), three_classes, RULES[2], FineTuner(), seed=0)
    bare = replace(three_classes, validation=None)
    with pytest.raises(ParameterError, match="patience stops on validation nodes, but there are none"):
        fine_tune(model, bare, RULES[2], FineTuner(patience=2), seed=0)
    lean = Ensemble(tuple(replace(r, head=None) for r in model))
    with pytest.raises(ParameterError, match="learners were not kept"):
        fine_tune(lean, three_classes, RULES[2], FineTuner(), seed=0)


def test_tuned_model_can_be_tuned_again(three_classes: Problem, boosted: Callable[..., Ensemble]) -> None:
    ensemble = boosted(three_classes, Lazy(), Samme(), 3)
    once = fine_tune(ensemble, three_classes, Samme(), FineTuner(epochs=3, keep="tuned"), seed=0)
    soft = SoftVote(rule=Samme())
    twice = fine_tune(once.ensemble, three_classes, soft, FineTuner(epochs=3, keep="tuned"), seed=0)
    assert twice.before["train_loss"] == pytest.approx(once.after["train_loss"], rel=1e-9)
    assert not twice.is_soft  # the rule that was given is soft already
