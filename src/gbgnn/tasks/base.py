"""Task: what is to be predicted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from gbgnn.errors import GraphError, ParameterError
from gbgnn.losses import Loss

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

    @abstractmethod
    def n_outputs(self, loss: Loss) -> int:
        """Return the number of score columns under a loss; raise where the loss is of another kind."""

    @abstractmethod
    def decide(self, scores: torch.Tensor, link: Link) -> torch.Tensor:
        """Return the targets that scores speak for; ``link`` is that of the loss."""

    @abstractmethod
    def codes(self, targets: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return targets as vectors, shape (n, n_columns), whose inner products say who is alike."""

    @property
    @abstractmethod
    def default_loss(self) -> Loss:
        """The loss that suits."""

    @property
    @abstractmethod
    def default_metric(self) -> str:
        """The metric by which people usually judge; a name of scikit-learn's scorers."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return what was learned of y, as JSON-ready values, for the model file."""

    @classmethod
    @abstractmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Build the task again from :meth:`record`."""

    def misses(self, decided: torch.Tensor, targets: torch.Tensor) -> torch.Tensor | None:
        """Return which decisions are wrong, shape (n,); None where there is no right and wrong."""
        return None

    def strata(self, targets: NDArray[Any]) -> NDArray[Any] | None:
        """Return groups that a split should keep in proportion, or None."""
        return None

    def proba(self, scores: torch.Tensor, link: Link) -> torch.Tensor:
        """Return probabilities, a column per class or label; raise where there are none."""
        raise ParameterError(f"{type(self).__name__} has no probabilities; use predict.")

    def margins(self, scores: torch.Tensor) -> torch.Tensor:
        """Return scores as scikit-learn's ``decision_function`` has them."""
        return scores


def as_table(y: ArrayLike, name: str) -> NDArray[Any]:
    """Return labels as an array of one or two dimensions without missing entries, or say what is wrong."""
    try:
        labels = np.asarray(y)
    except ValueError as error:
        raise GraphError(f"{name} is not an array: {error}.") from error
    if labels.ndim not in (1, 2):
        raise GraphError(f"{name} must have one entry or one row per node; got shape {labels.shape}.")
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
    elif labels.dtype.kind in "OmM":
        missing = np.array([label is None or label != label for label in labels.ravel().tolist()], bool)
    else:
        return labels
    if missing.any():
        positions = np.flatnonzero(missing.reshape(len(labels), -1).any(axis=1))
        raise GraphError(
            f"{name} has {len(positions)} missing labels (first: position {positions[0]}); "
            "train on the labelled nodes only."
        )
    return labels


def check_kind(task: str, loss: Loss, kind: str, instead: str) -> None:
    """Raise unless a loss takes targets of ``kind``."""
    if loss.takes != kind:
        raise ParameterError(
            f"{type(loss).__name__} takes {loss.takes}, but {task} has {kind}; use loss={instead!r}."
        )
