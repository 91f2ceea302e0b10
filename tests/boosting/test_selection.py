from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

from gbgnn import MLP, FunctionalGradient, Samme
from gbgnn._random import Seeds
from gbgnn.aggregation import Adjacency
from gbgnn.boosting import Boosted, BoostingRule, StopReason, boost, stage
from gbgnn.boosting.selection import SELECTIONS, better_round, check_selection, validation_key
from gbgnn.errors import ParameterError
from gbgnn.metrics import Accuracy, as_metric
from gbgnn.testing import make_problem, two_blocks

GRAPH, Y = two_blocks(60, n_classes=3, seed=1)
TRAIN, VAL = np.arange(15), np.arange(15, 35)
# Labels with errors: then later rounds are surer of their classes, not righter.
WRONG = np.random.default_rng(1).permutation(35)[:10]
Y[WRONG] = (Y[WRONG] + 1) % 3
WITH, WITHOUT = make_problem(GRAPH, Y, TRAIN, VAL), make_problem(GRAPH, Y, TRAIN)


def run(problem: object = WITH, rule: BoostingRule | None = None, **options: object) -> Boosted:
    rule = FunctionalGradient(learning_rate=1.0) if rule is None else rule
    parts = (Adjacency(), MLP(epochs=20, units=8), rule)
    return boost(problem, *parts, **{"n_rounds": 12, "seeds": Seeds(0)} | options)


def test_validation_selects_the_most_accurate_round_and_the_lower_loss_among_equals() -> None:
    result = run()
    history = result.history
    keys = list(zip(history["val_accuracy"], [-x for x in history["val_loss"]], strict=True))
    assert len(set(history["val_accuracy"])) < 12  # some are equal
    assert result.best.t == max(range(12), key=lambda i: keys[i]) + 1
    assert result.best.key == max(keys)
    decided = result.best.scores[VAL].argmax(dim=1).numpy()
    assert np.mean(decided == Y[VAL]) == max(history["val_accuracy"])


def test_the_metric_chooses_the_round() -> None:
    """The round of the lowest log loss of the validation nodes is not that of the best accuracy."""
    result = run(metric=as_metric("neg_log_loss"))
    losses = [
        log_loss(Y[VAL], scores[VAL].softmax(dim=1).numpy())
        for _, scores in stage(result.ensemble, WITH.inputs, FunctionalGradient().voting_for(WITH.task))
    ]
    np.testing.assert_allclose(result.history["val_neg_log_loss"], np.negative(losses), rtol=1e-9)
    assert result.best.t == int(np.argmin(losses)) + 1
    assert result.best.t != run().best.t
    assert result.history["train_loss"] == run().history["train_loss"]  # it only chooses


def test_a_metric_of_ones_own_chooses_too() -> None:
    class Worst(Accuracy):
        name = "worst"

        def score(self, predicted: object) -> float:
            return -super().score(predicted)

    history = run(metric=Worst()).history
    accuracies = [-value for value in history["val_worst"]]
    assert run(metric=Worst()).best.t == 1 + min(
        range(12), key=lambda i: (accuracies[i], history["val_loss"][i])
    )


def test_gradient_selects_the_smallest_norm() -> None:
    result = run(WITHOUT, Samme(), select="gradient")
    assert result.best.t == int(np.argmin(result.history["gradient_norm"])) + 1


def test_last_is_last_and_auto_without_validation_too() -> None:
    assert run(select="last").best.t == 12
    assert run(WITHOUT).best.t == 12


@pytest.mark.parametrize("problem", [WITH, WITHOUT])
@pytest.mark.parametrize("select", ["auto", "last", "gradient"])
def test_selected_scores_are_those_of_the_selected_round(problem: object, select: str) -> None:
    rule = Samme()
    result = run(problem, rule, select=select)
    staged = stage(result.ensemble, WITH.inputs, rule.voting_for(WITH.task))
    scores = next(scores.clone() for t, scores in staged if t == result.best.t)
    assert torch.equal(result.best.scores, scores)
    assert (result.best.scores is result.scores) == (result.best.t == len(result.ensemble))


@pytest.mark.parametrize("select", SELECTIONS)
def test_of_two_equal_rounds_the_first_is_kept_except_where_the_last_is_wanted(select: str) -> None:
    rows = [{"round": t, "val_accuracy": 0.5, "val_loss": 1.0, "gradient_norm": 2.0} for t in (1, 2)]
    best = None
    for row in rows:
        best = better_round(best, row, torch.empty(0), select)
    assert best.t == (2 if select == "last" else 1)


def test_selection_remembers_nothing() -> None:
    rows = [{"round": t, "val_loss": None} for t in (3, 1)]
    assert [better_round(None, row, torch.empty(0), "last").t for row in rows] == [3, 1]


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: check_selection("validation", False), 'select="validation" needs validation nodes'),
        (
            lambda: check_selection("best", True),
            "select must be one of auto, last, validation, gradient",
        ),
    ],
)
def test_what_cannot_be_selected_by_is_refused(check: Callable[[], None], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        check()
    check_selection("validation", True)


def test_key_orders_by_the_metric_then_by_the_loss() -> None:
    rows = [(0.5, 0.1), (0.6, 9.0), (0.6, 8.0)]
    keys = [validation_key({"val_f1": score, "val_loss": loss}, "f1") for score, loss in rows]
    assert sorted(keys) == keys


def test_a_round_of_which_the_metric_can_say_nothing_is_never_the_best() -> None:
    best, chosen = None, []
    for t, value in enumerate([float("nan"), 0.2, float("nan"), 0.1], start=1):
        row = {"round": t, "val_f1": value, "val_loss": 1.0}
        best = better_round(best, row, torch.empty(0), "auto", "f1")
        chosen.append(best.t)
    assert chosen == [1, 2, 2, 2]


def test_every_reason_has_a_sentence() -> None:
    sentences = {reason.message for reason in StopReason}
    assert len(sentences) == len(StopReason)
    assert all(sentences)
