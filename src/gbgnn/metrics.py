"""Metric: by what predictions are judged; it chooses rounds, stops early, judges fine-tuning and searches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

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
    >>> as_metric("roc_auc").score(Predicted(task, scores, torch.tensor([0, 1, 0]), torch.sigmoid))
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
        kind = _Answers if predicted.task.has_classes else _Numbers
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
        return self.predicted.task.decode(np.arange(self.predicted.task.n_columns))


METRICS: dict[str, type[Metric]] = {"accuracy": Accuracy}
"""Metrics of our own by name; all other names are scikit-learn's."""


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
