"""Metric: by what predictions are judged; it chooses rounds, stops early, judges fine-tuning and searches."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import (
    average_precision_score,
    get_scorer,
    get_scorer_names,
    mean_pinball_loss,
    mean_poisson_deviance,
    roc_auc_score,
)

from gbgnn.errors import ParameterError, suggest
from gbgnn.tasks import Link, Task


@dataclass(frozen=True, eq=False)
class Predicted:
    """Scores of nodes whose targets are known, as a metric may look at them; ``link`` is that of the loss."""

    task: Task
    scores: torch.Tensor
    targets: torch.Tensor
    link: Link

    def decided(self) -> torch.Tensor:
        """Return the targets that the scores speak for."""
        return self.task.decide(self.scores, self.link)


@dataclass(frozen=True, eq=False)
class PredictedMany:
    """The same of several models, scores of shape (members, n, K): iterating gives what each predicts."""

    task: Task
    scores: torch.Tensor
    targets: torch.Tensor
    link: Callable[..., torch.Tensor]  # that of a voting, which also asks for the sum of all steps
    total_eta: torch.Tensor

    def decided(self) -> torch.Tensor:
        """Return the targets that the scores speak for."""
        return self.task.decide(self.scores, partial(self.link, total_eta=self.total_eta))

    def __iter__(self) -> Iterator[Predicted]:
        for own, total in zip(self.scores, self.total_eta, strict=True):
            yield Predicted(self.task, own, self.targets, partial(self.link, total_eta=total))


class Metric(ABC):
    """How good predictions are; larger is better.

    ``name`` stands in the columns of the history, ``val_accuracy`` for example. A metric of one's own that is
    no scorer of scikit-learn's looks at scores and targets::

        class Hits(Metric):
            name = "hits"

            def score(self, predicted):
                return float((predicted.decided() == predicted.targets).sum())
    """

    name: str

    @abstractmethod
    def score(self, predicted: Predicted) -> float:
        """Return how good the predictions are."""

    def scores(self, predicted: PredictedMany) -> Sequence[float] | torch.Tensor:
        """Return how good the predictions of every model are."""
        return [self.score(each) for each in predicted]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Accuracy(Metric):
    """The share of nodes whose class is right, counted where the scores are.

    Examples
    --------
    >>> from gbgnn.tasks import Classification
    >>> task = Classification().fit(["a", "b"])
    >>> scores = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    >>> Accuracy().score(Predicted(task, scores, torch.tensor([0, 1]), torch.sigmoid))
    0.5
    """

    name = "accuracy"

    def score(self, predicted: Predicted) -> float:
        """Return the share; of several labels per node, all must be right."""
        return float(self.scores(predicted))

    def scores(self, predicted: Predicted | PredictedMany) -> torch.Tensor:
        """Return the share of every model."""
        misses = predicted.task.misses(predicted.decided(), predicted.targets)
        if misses is None:
            raise ParameterError(f"{type(predicted.task).__name__} has no accuracy; use another metric.")
        hits = misses.logical_not().sum(dim=-1).double()
        # By a tensor: by a number a GPU multiplies with the inverse, which is rounded.
        return hits / torch.full_like(hits, misses.shape[-1])


class _Ranking(Metric):
    """How well scores put the nodes of a class before the others; of several classes or labels, the mean.

    Each class is told from the rest by its probability. One that all of the nodes have, or none, is left out;
    NaN where none is left. Of two classes it is the second that is put first.
    """

    def score(self, predicted: Predicted) -> float:
        """Return the mean over the columns."""
        task = predicted.task
        if not task.has_proba:
            raise ParameterError(f"metric {self.name!r} is for classes; {type(task).__name__} has none.")
        truth = np.asarray(task.codes(predicted.targets, torch.float64).cpu())
        if task.has_classes and task.n_columns == 2:
            truth, given = truth[:, 1:], np.asarray(task.margins(predicted.scores).cpu())[:, None]
        else:
            given = np.asarray(task.proba(predicted.scores, predicted.link).cpu())
        found = [
            self.rank(own, scores)
            for own, scores in zip(truth.T, given.T, strict=True)
            if 0 < own.sum() < len(own)
        ]
        return float(np.mean(found)) if found else math.nan

    @abstractmethod
    def rank(self, truth: NDArray[Any], scores: NDArray[Any]) -> float:
        """Return how well scores tell the nodes of one class from the rest."""


class RocAuc(_Ranking):
    """The area under the ROC curve, one class against the rest.

    Examples
    --------
    >>> from gbgnn.tasks import Classification
    >>> task = Classification().fit(["a", "b"])
    >>> scores = torch.tensor([[-1.0], [2.0], [1.0]])
    >>> RocAuc().score(Predicted(task, scores, torch.tensor([0, 1, 0]), torch.sigmoid))
    1.0
    """

    name = "roc_auc"

    def rank(self, truth: NDArray[Any], scores: NDArray[Any]) -> float:
        """Return the area."""
        return float(roc_auc_score(truth, scores))


class AveragePrecision(_Ranking):
    """The area under the curve of precision and recall, one class against the rest."""

    name = "average_precision"

    def rank(self, truth: NDArray[Any], scores: NDArray[Any]) -> float:
        """Return the area."""
        return float(average_precision_score(truth, scores))


class NegLogLoss(Metric):
    """The mean log probability of what is right; of several labels over all entries.

    Probabilities are kept above the rounding of their precision, as in scikit-learn.
    """

    name = "neg_log_loss"

    def score(self, predicted: Predicted) -> float:
        """Return the mean."""
        task, targets = predicted.task, predicted.targets
        proba = task.proba(predicted.scores, predicted.link)
        if task.has_classes:
            right = proba.gather(-1, targets[:, None])
        else:
            right = torch.where(targets > 0, proba, 1 - proba)
        eps = torch.finfo(proba.dtype).eps
        return float(right.double().clamp(eps, 1 - eps).log().mean())


class NegPinballLoss(Metric):
    """The mean pinball loss over all quantiles that were fitted, negative; in the unit of y."""

    name = "neg_mean_pinball_loss"

    def score(self, predicted: Predicted) -> float:
        """Return the mean."""
        task = predicted.task
        levels = np.array([0.5]) if task.levels is None else task.levels  # which there then are none of
        quantiles = task.decode_quantiles(predicted.decided().cpu().numpy(), levels)
        truth = task.decode(predicted.targets.cpu().numpy())
        losses = [mean_pinball_loss(truth, quantiles[..., i], alpha=q) for i, q in enumerate(levels)]
        return -float(np.mean(losses))


class NegPoissonDeviance(Metric):
    """The mean Poisson deviance over all numbers, negative; in the unit of y."""

    name = "neg_mean_poisson_deviance"

    def score(self, predicted: Predicted) -> float:
        """Return the mean."""
        targets = predicted.targets.cpu().numpy(), predicted.decided().cpu().numpy()
        try:
            return -float(mean_poisson_deviance(*(predicted.task.decode(each).ravel() for each in targets)))
        except ValueError as error:
            raise ParameterError(f"metric {self.name!r} cannot judge these predictions: {error}") from error


@dataclass(eq=False, repr=False)
class Scorer(Metric):
    """A scorer of scikit-learn's: ``scorer(estimator, X, y)``, larger is better.

    Parameters
    ----------
    scorer
        The scorer, such as ``make_scorer(fbeta_score, beta=2)``.
    name
        What the history calls it; None takes the name that the scorer itself has.

    Examples
    --------
    >>> from gbgnn.tasks import Classification
    >>> task = Classification().fit(["a", "b"])
    >>> scores = torch.tensor([[-1.0], [2.0], [1.0]])
    >>> as_metric("roc_auc_ovr").score(Predicted(task, scores, torch.tensor([0, 1, 0]), torch.sigmoid))
    1.0
    """

    scorer: Callable[..., Any]
    name: str = ""

    def __post_init__(self) -> None:
        function = getattr(self.scorer, "_score_func", self.scorer)
        self.name = self.name or str(getattr(function, "__name__", type(self.scorer).__name__))

    def score(self, predicted: Predicted) -> float:
        """Ask the scorer about an estimator that has nothing but these predictions."""
        truth = predicted.task.decode(predicted.targets.cpu().numpy())
        kind = _Numbers if predicted.task.class_names is None else _Answers
        try:
            return float(self.scorer(kind(predicted), truth, truth))
        except (ValueError, TypeError, AttributeError) as error:
            raise ParameterError(f"metric {self.name!r} cannot judge these predictions: {error}") from error


class _Numbers(RegressorMixin, BaseEstimator):
    """An estimator that was fitted elsewhere: it answers with predictions that are there already."""

    def __init__(self, predicted: Predicted) -> None:
        self.predicted = predicted

    def predict(self, X: Any) -> NDArray[Any]:
        return self.predicted.task.decode(self.predicted.decided().cpu().numpy())

    def predict_proba(self, X: Any) -> NDArray[Any]:
        return np.asarray(self.predicted.task.proba(self.predicted.scores, self.predicted.link).cpu())

    def decision_function(self, X: Any) -> NDArray[Any]:
        return np.asarray(self.predicted.task.margins(self.predicted.scores).cpu())

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _Answers(ClassifierMixin, _Numbers):
    """The same for classes."""

    @property
    def classes_(self) -> NDArray[Any]:
        names = self.predicted.task.class_names
        assert names is not None
        return names


METRICS: dict[str, type[Metric]] = {
    kind.name: kind
    for kind in (Accuracy, RocAuc, AveragePrecision, NegLogLoss, NegPinballLoss, NegPoissonDeviance)
}
"""Metrics of our own by name, for any number of classes or columns; all other names are scikit-learn's."""


def as_metric(value: Any) -> Metric:
    """Return the metric that a name or an object stands for.

    Examples
    --------
    >>> as_metric("accuracy"), as_metric("neg_log_loss").name
    (Accuracy('accuracy'), 'neg_log_loss')
    """
    if isinstance(value, Metric):
        return value
    if isinstance(value, str):
        if value in METRICS:
            return METRICS[value]()
        try:
            return Scorer(get_scorer(value), value)
        except (ValueError, KeyError) as error:
            names = [*METRICS, *get_scorer_names()]
            raise ParameterError(
                f"unknown metric {value!r}.{suggest(value, names)} Names are those of scikit-learn's "
                "scorers, such as accuracy, f1_macro, roc_auc, average_precision, neg_log_loss, r2."
            ) from error
    if callable(value) and not isinstance(value, type):
        return Scorer(value)
    raise ParameterError(
        "metric must be a name of scikit-learn's scorers, a scorer such as make_scorer(...), or an object of "
        f"Metric; got {value!r}."
    )
