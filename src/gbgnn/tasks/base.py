"""Task: what y is, how it is encoded and decoded, and by what it is judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from gbgnn.errors import ParameterError
from gbgnn.losses import LOSSES, Loss

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

    default_metric: str
    """The metric by which people usually judge; a name of a metric."""

    levels: NDArray[np.float64] | None = None
    """Levels of the quantiles that are fitted; None where there are none."""

    @property
    def class_names(self) -> NDArray[Any] | None:
        """The classes or labels, in the order of the columns of probabilities; None where there are none."""
        return None

    @abstractmethod
    def fit(self, y: ArrayLike, name: str = "y", weights: NDArray[np.float64] | None = None) -> Self:
        """Return the task as the labels of the training nodes tell it; raise for labels of another kind.

        ``weights`` are those of the nodes, alike when None.
        """

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
        self.check_loss(loss, self.default_loss.takes)
        return self.n_columns

    def check_loss(self, loss: Loss, kind: str) -> None:
        """Raise unless a loss takes targets of a kind."""
        if loss.takes != kind:
            suits = next(name for name, other in LOSSES.items() if other.takes == kind)
            raise ParameterError(
                f"{type(loss).__name__} takes {loss.takes}, but {self.kind_of_y} has {kind}; "
                f"use loss={suits!r}."
            )

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

    def balance(
        self, class_weight: Any, targets: NDArray[Any], weights: NDArray[np.float64]
    ) -> tuple[Self, NDArray[np.float64]]:
        """Return the task, and the weights of nodes, with the weights of classes or labels in them."""
        raise ParameterError(
            f"class_weight={class_weight!r} is for classes and labels; {type(self).__name__} has none."
        )

    def decode_quantiles(self, targets: NDArray[Any], levels: ArrayLike) -> NDArray[np.float64]:
        """Return quantiles as the user would write them, a column per level; raise where none were fitted."""
        raise ParameterError(
            "these predictions have no quantiles; "
            'GBGNNRegressor(loss="quantile", quantile=[0.1, 0.9]) fits them.'
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
