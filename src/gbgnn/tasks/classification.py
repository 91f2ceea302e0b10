"""Classification: every node is of one class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.class_weight import compute_sample_weight
from torch.nn import functional

from gbgnn.errors import GraphError, ParameterError
from gbgnn.labels import as_labels, check_marks
from gbgnn.losses import Loss, SigmoidCrossEntropy, SoftmaxCrossEntropy
from gbgnn.tasks.base import Link, Task


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

    def fit(self, y: ArrayLike, name: str = "y", weights: NDArray[np.float64] | None = None) -> Self:
        """Return the task with the classes of y."""
        labels = as_labels(y, name)
        if not len(labels):
            raise GraphError("nodes is empty; training needs labelled nodes.")
        if self.classes is None:
            check_marks(labels, name)
        classes = np.unique(labels) if self.classes is None else np.asarray(self.classes)
        if classes.dtype.kind == "U":
            classes = np.array(classes.tolist())  # as wide as they are, not as any label of the data is
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
            check_marks(unknown, name)
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
    def class_names(self) -> NDArray[Any]:
        """The classes."""
        return self._known()

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

    def balance(
        self, class_weight: Any, targets: NDArray[Any], weights: NDArray[np.float64]
    ) -> tuple[Self, NDArray[np.float64]]:
        """Return the weight of each node times that of its class."""
        try:
            by_class: NDArray[np.float64] = compute_sample_weight(class_weight, self.decode(targets))
        except (ValueError, TypeError, LookupError) as error:
            raise ParameterError(
                f'class_weight={class_weight!r} does not fit: it is "balanced", a weight for each class, or '
                f"nothing ({type(error).__name__}: {error})."
            ) from error
        if not np.isfinite(by_class).all() or by_class.min() < 0 or not by_class.any():
            raise ParameterError(
                f"class_weight={class_weight!r} does not fit: weights are finite, >= 0, and one is above."
            )
        return self, weights * by_class

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
        classes, kind = np.array(record["classes"]), np.dtype(record["dtype"])
        if classes.ndim != 1 or kind.kind not in "biufU" or (kind.kind == "U") != (classes.dtype.kind == "U"):
            raise ValueError(f"classes cannot be {kind}")
        # Text is as wide as it is: the type in a file could claim any width.
        return cls(classes=classes if kind.kind == "U" else classes.astype(kind))

    def _known(self) -> NDArray[Any]:
        assert self.classes is not None, "fit first"
        return self.classes
