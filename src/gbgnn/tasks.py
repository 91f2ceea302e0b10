"""Tasks: what y is, how it is encoded and decoded, and by what it is judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from torch.nn import functional

from gbgnn.errors import GraphError, ParameterError
from gbgnn.graph import as_indicators, as_labels, as_numbers
from gbgnn.losses import LOSSES, Loss, SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError

Link = Callable[[torch.Tensor], torch.Tensor]


class Task(BaseEstimator, ABC):
    """What y is: how it becomes targets and back, how many score columns it takes, what it is judged by.

    A task is a setting until ``fit`` has seen the labels of the training nodes; that returns a task which
    knows what they were (the classes, the mean) and changes no more. It is all that the rest of the library
    knows of y: losses and learners see targets. ``encode`` makes them of labels, training or validation;
    ``decide`` makes them of scores; ``decode`` leads back to what the user would write.
    """

    has_classes: ClassVar[bool] = False
    """Whether every node is of one class, its target the index of it."""

    has_proba: ClassVar[bool] = False
    """Whether scores stand for probabilities."""

    kind_of_y: ClassVar[str] = "y"
    """What a message calls y."""

    default_metric: ClassVar[str]
    """The metric by which people usually judge; a name of scikit-learn's scorers."""

    @abstractmethod
    def fit(self, y: ArrayLike, name: str = "y") -> Self:
        """Return the task as the labels of the training nodes tell it; raise for labels of another kind."""

    @abstractmethod
    def encode(self, y: ArrayLike, name: str = "y") -> NDArray[Any]:
        """Return targets: class indices, shape (n,), int64; or numbers, shape (n, n_columns), float64."""

    @abstractmethod
    def decode(self, targets: NDArray[Any]) -> NDArray[Any]:
        """Return targets as the user would write them."""

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """How many classes, labels or numbers there are."""

    def n_outputs(self, loss: Loss) -> int:
        """Return the number of score columns under a loss; raise where the loss is of another kind."""
        kind = self.default_loss.takes
        if loss.takes != kind:
            suits = next(name for name, other in LOSSES.items() if other.takes == kind)
            raise ParameterError(
                f"{type(loss).__name__} takes {loss.takes}, but {self.kind_of_y} has {kind}; "
                f"use loss={suits!r}."
            )
        return self.n_columns

    @abstractmethod
    def decide(self, scores: torch.Tensor, link: Link) -> torch.Tensor:
        """Return the targets that scores speak for; ``link`` is that of the loss."""

    @property
    @abstractmethod
    def default_loss(self) -> Loss:
        """The loss that suits."""

    def record(self) -> dict[str, Any]:
        """Return what was learned of y, as JSON-ready values, for the model file."""
        params = self.get_params(deep=False)
        return {
            name: each.tolist() if isinstance(each, np.ndarray) else each for name, each in params.items()
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Build the task again from :meth:`record`."""
        return cls(
            **{name: np.array(each) if isinstance(each, list) else each for name, each in record.items()}
        )

    def codes(self, targets: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return targets as vectors, shape (n, n_columns), whose inner products say who is alike."""
        return targets.to(dtype)

    def misses(self, decided: torch.Tensor, targets: torch.Tensor) -> torch.Tensor | None:
        """Return which decisions are wrong, shape (n,); None where there is no right and wrong."""
        return None

    def strata(self, targets: NDArray[Any]) -> NDArray[Any] | None:
        """Return groups that a split should keep in proportion, or None."""
        return targets if self.has_classes else None

    def proba(self, scores: torch.Tensor, link: Link) -> torch.Tensor:
        """Return probabilities, a column per class or label; raise where there are none."""
        if not self.has_proba:
            raise ParameterError(f"{type(self).__name__} has no probabilities; use predict.")
        return link(scores)

    def margins(self, scores: torch.Tensor) -> torch.Tensor:
        """Return scores as scikit-learn's ``decision_function`` has them."""
        return scores


@dataclass(kw_only=True, eq=False, repr=False)
class Classification(Task):
    """Every node is of one class; targets are indices of classes.

    Parameters
    ----------
    classes
        The classes in the order of the columns of probabilities; None finds them in y, sorted.

    Examples
    --------
    >>> task = Classification().fit(["b", "a", "b"])
    >>> task.encode(["a", "b"]), task.decode(np.array([1, 1, 0])).tolist()
    (array([0, 1]), ['b', 'b', 'a'])
    """

    classes: NDArray[Any] | None = None

    has_classes = True
    has_proba = True
    default_metric = "accuracy"

    def fit(self, y: ArrayLike, name: str = "y") -> Self:
        """Return the task with the classes of y."""
        labels = as_labels(y, name)
        if not len(labels):
            raise GraphError("nodes is empty; training needs labelled nodes.")
        classes = np.unique(labels) if self.classes is None else np.asarray(self.classes)
        if len(classes) < 2:
            raise GraphError(
                f"{name} has one class only ({classes.tolist()[0]!r}); a classifier needs at least two to "
                "tell apart."
            )
        fitted = type(self)(classes=classes)
        fitted.encode(labels, name)  # classes that were given must be all there are
        return fitted

    def encode(self, y: ArrayLike, name: str = "y") -> NDArray[np.int64]:
        """Return the index of each label's class."""
        classes, labels = self._known(), as_labels(y, name)
        unknown = np.setdiff1d(labels, classes)
        if len(unknown):
            raise GraphError(
                f"{name} has class {unknown.tolist()[0]!r}, which no training node has "
                f"(known: {', '.join(map(str, classes[:10]))})."
            )
        order = np.argsort(classes)
        return order[np.searchsorted(classes, labels, sorter=order)].astype(np.int64)

    def decode(self, targets: NDArray[Any]) -> NDArray[Any]:
        """Return the classes of indices."""
        return np.asarray(self._known()[targets])

    @property
    def n_columns(self) -> int:
        """Number of classes, K."""
        return len(self._known())

    def n_outputs(self, loss: Loss) -> int:
        """Return one score per class; under the sigmoid loss, for two classes, one in all."""
        if loss.takes == "classes":
            return self.n_columns
        if loss.takes == "binary":
            if self.n_columns != 2:
                raise ParameterError(
                    f'loss="sigmoid" is for two classes; got {self.n_columns}. Use loss="softmax".'
                )
            return 1
        raise ParameterError(
            f'{type(loss).__name__} takes {loss.takes}, but y has classes; use loss="softmax" or "auto".'
        )

    def decide(self, scores: torch.Tensor, link: Link) -> torch.Tensor:
        """Return the column of the largest score; of one score, whether it is positive."""
        return (scores[..., 0] > 0).long() if scores.shape[-1] == 1 else scores.argmax(dim=-1)

    def codes(self, targets: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return one-hot rows."""
        return functional.one_hot(targets, self.n_columns).to(dtype)

    @property
    def default_loss(self) -> Loss:
        """Sigmoid cross entropy for two classes, softmax for more."""
        return SigmoidCrossEntropy() if self.n_columns == 2 else SoftmaxCrossEntropy()

    def misses(self, decided: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return which classes are wrong."""
        return decided != targets

    def proba(self, scores: torch.Tensor, link: Link) -> torch.Tensor:
        """Return class probabilities, shape (n, K)."""
        # Of one score, each class by itself: 1 - p would round small probabilities away.
        return link(torch.cat([-scores, scores], dim=-1) if scores.shape[-1] == 1 else scores)

    def margins(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores; for two classes one number, positive for the second."""
        if self.n_columns > 2:
            return scores
        return scores[..., 0] if scores.shape[-1] == 1 else scores[..., 1] - scores[..., 0]

    def record(self) -> dict[str, Any]:
        """Return the classes and their type."""
        classes = self._known()
        return {"dtype": str(classes.dtype), "classes": classes.tolist()}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Build the task again."""
        return cls(classes=np.array(record["classes"], dtype=record["dtype"]))

    def _known(self) -> NDArray[Any]:
        assert self.classes is not None, "fit first"
        return self.classes


@dataclass(kw_only=True, eq=False, repr=False)
class MultiLabel(Task):
    """Every node has any of several labels; y and targets are 0/1 matrices, a column per label.

    Parameters
    ----------
    n_labels
        Number of columns; None takes that of y.

    Examples
    --------
    >>> task = MultiLabel().fit([[1, 0, 1], [0, 0, 0]])
    >>> task.n_columns, task.encode([[1, 1, 0]])
    (3, array([[1., 1., 0.]]))
    """

    n_labels: int | None = None

    has_proba = True
    kind_of_y = "multi-label y"
    default_metric = "f1_micro"  # over all entries of the matrix

    def fit(self, y: ArrayLike, name: str = "y") -> Self:
        """Return the task with the number of labels of y."""
        matrix = as_indicators(y, name)
        if not len(matrix):
            raise GraphError("nodes is empty; training needs labelled nodes.")
        fitted = type(self)(n_labels=matrix.shape[1] if self.n_labels is None else self.n_labels)
        fitted.encode(matrix, name)
        return fitted

    def encode(self, y: ArrayLike, name: str = "y") -> NDArray[np.float64]:
        """Return y as numbers."""
        matrix = as_indicators(y, name)
        if matrix.shape[1] != self.n_columns:
            raise GraphError(
                f"{name} has {matrix.shape[1]} columns, but the training nodes have {self.n_columns} labels."
            )
        return matrix

    def decode(self, targets: NDArray[Any]) -> NDArray[np.int64]:
        """Return a matrix of 0 and 1."""
        return np.asarray(targets).astype(np.int64)

    @property
    def n_columns(self) -> int:
        """Number of labels."""
        assert self.n_labels is not None, "fit first"
        return self.n_labels

    def decide(self, scores: torch.Tensor, link: Link) -> torch.Tensor:
        """Return 1 where the score is positive."""
        return (scores > 0).double()

    @property
    def default_loss(self) -> Loss:
        """Sigmoid cross entropy, column by column."""
        return SigmoidCrossEntropy()

    def misses(self, decided: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return which rows have a wrong entry."""
        return (decided != targets).any(dim=-1)


@dataclass(kw_only=True, eq=False, repr=False)
class Regression(Task):
    """Every node has a number, or several; targets are the numbers, standardised by the training nodes.

    Scores then start at the mean, and settings mean the same whatever the unit of y.

    Parameters
    ----------
    centre, scale
        What is subtracted from every column, and what it is divided by; None takes the mean and the standard
        deviation of y.
    is_flat
        Whether predictions are a vector rather than a matrix; None is as y was.

    Examples
    --------
    >>> task = Regression().fit([10.0, 30.0])
    >>> task.encode([30.0, 40.0]).tolist(), task.decode(np.array([[0.5]])).tolist()
    ([[1.0], [2.0]], [25.0])
    """

    centre: NDArray[np.float64] | None = None
    scale: NDArray[np.float64] | None = None
    is_flat: bool | None = None

    kind_of_y = "numeric y"
    default_metric = "r2"

    def fit(self, y: ArrayLike, name: str = "y") -> Self:
        """Return the task with the mean and the standard deviation of y."""
        numbers, is_flat = as_numbers(y, name)
        if not len(numbers):
            raise GraphError("nodes is empty; training needs labelled nodes.")
        deviation = numbers.std(axis=0)
        # A column that never changes is learned by its mean alone; its deviation may be a rounding error.
        deviation = np.where((np.ptp(numbers, axis=0) > 0) & (deviation > 0), deviation, 1.0)
        n_columns = numbers.shape[1]
        return type(self)(
            centre=np.full(n_columns, numbers.mean(axis=0) if self.centre is None else self.centre, float),
            scale=np.full(n_columns, deviation if self.scale is None else self.scale, float),
            is_flat=is_flat if self.is_flat is None else self.is_flat and n_columns == 1,
        )

    def encode(self, y: ArrayLike, name: str = "y") -> NDArray[np.float64]:
        """Return y, standardised."""
        numbers, _ = as_numbers(y, name)
        if numbers.shape[1] != self.n_columns:
            raise GraphError(
                f"{name} has {numbers.shape[1]} columns, but the training nodes have {self.n_columns}."
            )
        centre, scale = self._known()
        return np.asarray((numbers - centre) / scale)

    def decode(self, targets: NDArray[Any]) -> NDArray[np.float64]:
        """Return numbers in the unit of y."""
        centre, scale = self._known()
        numbers = np.asarray(targets, np.float64) * scale + centre
        return numbers[:, 0] if self.is_flat else numbers

    @property
    def n_columns(self) -> int:
        """How many numbers a node has."""
        return len(self._known()[0])

    def decide(self, scores: torch.Tensor, link: Link) -> torch.Tensor:
        """Return what the loss's link makes of the scores."""
        return link(scores)

    @property
    def default_loss(self) -> Loss:
        """Squared error."""
        return SquaredError()

    def _known(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        assert self.centre is not None, "fit first"
        assert self.scale is not None, "fit first"
        return self.centre, self.scale
