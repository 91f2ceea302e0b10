from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics as theirs
from sklearn.metrics import get_scorer_names, make_scorer, mean_pinball_loss, mean_poisson_deviance

from gbgnn.boosting.voting import ClassVoting
from gbgnn.errors import ParameterError
from gbgnn.losses import Loss, Poisson, Quantile, SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
from gbgnn.metrics import METRICS, Accuracy, Metric, Predicted, Scorer, as_metric
from gbgnn.tasks import Classification, MultiLabel, Regression, Task

RANDOM = np.random.default_rng(0)
TWO, THREE = RANDOM.integers(2, size=60), np.array(["a", "b", "c"])[RANDOM.integers(3, size=60)]
LABELS = (RANDOM.random((60, 4)) < 0.4).astype(int)
NUMBERS = RANDOM.normal(50.0, 20.0, size=60)
TABLE = RANDOM.normal(50.0, [1.0, 20.0], size=(60, 2))


def predicted(task: Task, y: np.ndarray, loss: Loss, dtype: torch.dtype = torch.float64) -> Predicted:
    task = task.fit(y)
    scores = np.random.default_rng(1).normal(size=(60, task.n_outputs(loss)))
    targets = task.encode(y)
    codes = task.codes(torch.as_tensor(targets), torch.float64).numpy()
    scores = scores + (codes if codes.shape == scores.shape else codes[:, 1:])  # better than chance
    return Predicted(task, torch.tensor(scores, dtype=dtype), torch.as_tensor(targets), loss.link)


BINARY = predicted(Classification(), TWO, SigmoidCrossEntropy())
PAIR = predicted(Classification(), TWO, SoftmaxCrossEntropy())
CLASSES = predicted(Classification(), THREE, SoftmaxCrossEntropy())
SEVERAL = predicted(MultiLabel(), LABELS, SigmoidCrossEntropy())
NUMBER = predicted(Regression(), NUMBERS, SquaredError())
ROWS = predicted(Regression(), TABLE, SquaredError())


def sigmoid(scores: torch.Tensor) -> np.ndarray:
    return 1 / (1 + np.exp(-scores.numpy()))


def softmax(scores: torch.Tensor) -> np.ndarray:
    e = np.exp(scores.numpy())
    return e / e.sum(axis=1, keepdims=True)


def of_binary(scores: torch.Tensor) -> np.ndarray:
    return (scores.numpy()[:, 0] > 0).astype(int)


def of_classes(scores: torch.Tensor) -> np.ndarray:
    return np.array(["a", "b", "c"])[scores.numpy().argmax(axis=1)]


CASES: dict[str, tuple[str, Predicted, Callable[[torch.Tensor], float]]] = {
    "roc_auc, one score": ("roc_auc", BINARY, lambda s: theirs.roc_auc_score(TWO, s[:, 0])),
    "roc_auc, two scores": ("roc_auc", PAIR, lambda s: theirs.roc_auc_score(TWO, s[:, 1] - s[:, 0])),
    "roc_auc, labels": ("roc_auc", SEVERAL, lambda s: theirs.roc_auc_score(LABELS, s)),
    "roc_auc_ovr": (
        "roc_auc_ovr",
        CLASSES,
        lambda s: theirs.roc_auc_score(THREE, softmax(s), multi_class="ovr"),
    ),
    "average_precision": (
        "average_precision",
        BINARY,
        lambda s: theirs.average_precision_score(TWO, s[:, 0]),
    ),
    "average_precision, labels": (
        "average_precision",
        SEVERAL,
        lambda s: theirs.average_precision_score(LABELS, s),
    ),
    "neg_log_loss, one score": ("neg_log_loss", BINARY, lambda s: -theirs.log_loss(TWO, sigmoid(s)[:, 0])),
    "neg_log_loss, two scores": ("neg_log_loss", PAIR, lambda s: -theirs.log_loss(TWO, softmax(s))),
    "neg_log_loss, classes": ("neg_log_loss", CLASSES, lambda s: -theirs.log_loss(THREE, softmax(s))),
    "neg_brier_score": (
        "neg_brier_score",
        BINARY,
        lambda s: -theirs.brier_score_loss(TWO, sigmoid(s)[:, 0]),
    ),
    "f1": ("f1", BINARY, lambda s: theirs.f1_score(TWO, of_binary(s))),
    "f1_macro, two": ("f1_macro", BINARY, lambda s: theirs.f1_score(TWO, of_binary(s), average="macro")),
    "f1_macro, classes": (
        "f1_macro",
        CLASSES,
        lambda s: theirs.f1_score(THREE, of_classes(s), average="macro"),
    ),
    "f1_micro, labels": (
        "f1_micro",
        SEVERAL,
        lambda s: theirs.f1_score(LABELS, s.numpy() > 0, average="micro"),
    ),
    "balanced_accuracy": (
        "balanced_accuracy",
        CLASSES,
        lambda s: theirs.balanced_accuracy_score(THREE, of_classes(s)),
    ),
    "accuracy, one score": ("accuracy", BINARY, lambda s: theirs.accuracy_score(TWO, of_binary(s))),
    "accuracy, classes": ("accuracy", CLASSES, lambda s: theirs.accuracy_score(THREE, of_classes(s))),
    "accuracy, labels": ("accuracy", SEVERAL, lambda s: theirs.accuracy_score(LABELS, s.numpy() > 0)),
    "r2": ("r2", NUMBER, lambda s: theirs.r2_score(NUMBERS, in_units(s, NUMBERS)[:, 0])),
    "r2, two columns": ("r2", ROWS, lambda s: theirs.r2_score(TABLE, in_units(s, TABLE))),
    "neg_mean_absolute_error": (
        "neg_mean_absolute_error",
        NUMBER,
        lambda s: -theirs.mean_absolute_error(NUMBERS, in_units(s, NUMBERS)[:, 0]),
    ),
}


def in_units(scores: torch.Tensor, y: np.ndarray) -> np.ndarray:
    """Standardised scores as numbers of y."""
    return scores.numpy() * y.std(axis=0) + y.mean(axis=0)


@pytest.mark.parametrize(("name", "given", "direct"), CASES.values(), ids=CASES)
def test_names_mean_what_they_mean_to_scikit_learn(
    name: str, given: Predicted, direct: Callable[[torch.Tensor], float]
) -> None:
    metric = as_metric(name)
    assert metric.name == name
    assert metric.score(given) == pytest.approx(direct(given.scores), abs=1e-12)


def test_single_precision_is_judged_without_a_warning() -> None:
    for name, task, y, loss in (
        ("neg_log_loss", Classification(), TWO, SigmoidCrossEntropy()),
        ("neg_log_loss", Classification(), THREE, SoftmaxCrossEntropy()),
        ("roc_auc", Classification(), TWO, SigmoidCrossEntropy()),
        ("r2", Regression(), NUMBERS, SquaredError()),
    ):
        metric = as_metric(name)
        single, double = (predicted(task, y, loss, dtype) for dtype in (torch.float32, torch.float64))
        assert metric.score(single) == pytest.approx(metric.score(double), rel=1e-5)


def test_probabilities_are_those_of_the_voting() -> None:
    """A sum of votes is divided by its steps before it is a probability."""
    voting, votes = ClassVoting(3, 3), 5.0 * CLASSES.scores
    task, targets = CLASSES.task, CLASSES.targets
    given = Predicted(task, votes, targets, partial(voting.link, total_eta=5.0))
    expected = -theirs.log_loss(THREE, softmax(CLASSES.scores / 2))
    assert as_metric("neg_log_loss").score(given) == pytest.approx(expected)


def test_a_scorer_object_is_a_metric_with_the_name_of_its_function() -> None:
    scorer = make_scorer(theirs.fbeta_score, beta=2, average="macro")
    metric = as_metric(scorer)
    assert metric.name == "fbeta_score"
    expected = theirs.fbeta_score(THREE, of_classes(CLASSES.scores), beta=2, average="macro")
    assert metric.score(CLASSES) == pytest.approx(expected)
    positive = as_metric(make_scorer(theirs.f1_score, pos_label="yes"))
    y = np.where(TWO == 1, "yes", "no")
    given = predicted(Classification(), y, SigmoidCrossEntropy())
    assert positive.score(given) == pytest.approx(theirs.f1_score(TWO, of_binary(given.scores)))
    assert Scorer(scorer, "twice recall").name == "twice recall"
    losses = make_scorer(theirs.mean_pinball_loss, greater_is_better=False)
    assert as_metric(losses).score(NUMBER) < 0


def test_any_callable_of_estimator_and_labels_is_a_metric() -> None:
    def share_of_b(estimator: Any, X: object, y: np.ndarray) -> float:
        assert estimator.classes_.tolist() == ["a", "b", "c"]
        assert y.tolist() == THREE.tolist()
        return float(np.mean(estimator.predict(X) == "b"))

    metric = as_metric(share_of_b)
    assert metric.name == "share_of_b"
    assert metric.score(CLASSES) == pytest.approx(np.mean(of_classes(CLASSES.scores) == "b"))
    assert repr(metric) == "Scorer('share_of_b')"


def test_a_metric_of_ones_own_sees_scores_and_targets() -> None:
    class Hits(Metric):
        name = "hits"

        def score(self, predicted: Predicted) -> float:
            return float((predicted.decided() == predicted.targets).sum())

    metric = Hits()
    assert as_metric(metric) is metric
    assert metric.score(CLASSES) == pytest.approx(60 * Accuracy().score(CLASSES))
    with pytest.raises(TypeError, match="abstract"):
        Metric()


def test_every_name_of_scikit_learn_is_known() -> None:
    assert [as_metric(name).name for name in get_scorer_names()] == get_scorer_names()
    assert set(METRICS) <= {*get_scorer_names(), "neg_mean_pinball_loss"}
    assert type(as_metric("accuracy")) is Accuracy  # counted on the device, where the scores are


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("acuracy", "unknown metric 'acuracy'. Did you mean 'accuracy'?.*scikit-learn's scorers, such as"),
        ("log_loss", "unknown metric 'log_loss'. Did you mean 'neg_log_loss'?"),
        (Accuracy, "metric must be a name of scikit-learn's scorers, a scorer .*; got <class"),
        (3, "metric must be a name .*; got 3"),
    ],
)
def test_what_is_no_metric_is_refused(value: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        as_metric(value)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("roc_auc", NUMBER, "metric 'roc_auc' is for classes; Regression has none"),
        ("neg_mean_pinball_loss", NUMBER, "these predictions have no quantiles; GBGNNRegressor"),
        ("f1", SEVERAL, "metric 'f1' cannot judge these predictions: Target is multilabel-indicator"),
        ("accuracy", NUMBER, "Regression has no accuracy; use another metric"),
        ("neg_log_loss", NUMBER, "Regression has no probabilities; use predict"),
    ],
)
def test_a_metric_of_another_kind_of_y_says_so(name: str, given: Predicted, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        as_metric(name).score(given)


LEVELS = Regression(loss=Quantile(levels=[0.2, 0.5, 0.9]))


@pytest.mark.parametrize("y", [[1.0, 4.0, 2.0, 8.0], [[1.0, -2.0], [4.0, 1.0], [2.0, 9.0], [8.0, 0.0]]])
def test_the_pinball_loss_is_the_mean_over_levels_in_the_unit_of_y(y: list[Any]) -> None:
    task = LEVELS.fit(y)
    scores = torch.randn(4, task.n_columns, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    given = Predicted(task, scores, torch.as_tensor(task.encode(y)), Quantile().link)
    quantiles = task.decode_quantiles(scores.numpy(), [0.2, 0.5, 0.9])
    expected = [mean_pinball_loss(y, quantiles[..., i], alpha=q) for i, q in enumerate((0.2, 0.5, 0.9))]
    assert as_metric("neg_mean_pinball_loss").score(given) == pytest.approx(-np.mean(expected))


def test_the_deviance_of_several_columns_is_that_of_all_numbers() -> None:
    y = np.array([[1.0, 20.0], [0.0, 40.0], [3.0, 10.0]])
    task = Regression(loss=Poisson()).fit(y)
    scores = torch.randn(3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    given = Predicted(task, scores, torch.as_tensor(task.encode(y)), Poisson().link)
    expected = mean_poisson_deviance(y.ravel(), (y.mean(axis=0) * np.exp(scores.numpy())).ravel())
    assert as_metric("neg_mean_poisson_deviance").score(given) == pytest.approx(-expected)
    bare = Predicted(Regression().fit(y), scores, given.targets, SquaredError().link)
    with pytest.raises(ParameterError, match="'neg_mean_poisson_deviance' cannot judge these predictions"):
        as_metric("neg_mean_poisson_deviance").score(replace(bare, scores=scores - 9))
