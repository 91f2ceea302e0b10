"""MultiLabel: every node has any of several labels."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Number
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.preprocessing import MultiLabelBinarizer

from gbgnn._checks import check_number
from gbgnn._matrices import as_csr
from gbgnn.errors import GraphError, ParameterError
from gbgnn.labels import as_indicators
from gbgnn.losses import Loss, SigmoidCrossEntropy
from gbgnn.tasks.base import Link, Task


@dataclass(kw_only=True, eq=False, repr=False)
class MultiLabel(Task):
    """Every node has any of several labels; targets are 0/1 matrices, a column per label.

    y is such a matrix, dense or sparse, or a list with the labels of every node.

    Parameters
    ----------
    n_labels
        Number of columns; None takes that of y.
    classes
        The labels in the order of the columns; None takes the names of the columns of a frame, the labels in
        lists, sorted, or numbers from 0.
    label_weights
        For every label what a 0 and what a 1 of it weigh in the loss, as :meth:`balance` finds them; None
        weighs all alike.

    Examples
    --------
    >>> task = MultiLabel().fit([["red", "blue"], [], ["red"]])
    >>> task.class_names.tolist(), task.encode([["blue"]]), task.encode([[1, 1]])
    (['blue', 'red'], array([[1., 0.]]), array([[1., 1.]]))
    """

    n_labels: int | None = None
    classes: NDArray[Any] | None = None
    label_weights: NDArray[np.float64] | None = None

    has_proba = True
    kind_of_y = "multi-label y"
    default_metric = "f1_micro"  # over all entries of the matrix

    def fit(self, y: ArrayLike, name: str = "y", weights: NDArray[np.float64] | None = None) -> Self:
        """Return the task with the labels of y."""
        n_labels, classes = self.n_labels, self.classes
        if classes is None and self._has_lists(y):
            classes = _list_labels(y, name)
        elif classes is None and hasattr(y, "columns"):
            classes = np.array(list(y.columns))
        if n_labels is None:
            n_labels = _as_matrix(y, name).shape[1] if classes is None else len(classes)
        classes = np.arange(n_labels) if classes is None else np.asarray(classes)
        fitted = type(self)(n_labels=n_labels, classes=classes, label_weights=self.label_weights)
        if not len(fitted.encode(y, name)):
            raise GraphError("nodes is empty; training needs labelled nodes.")
        return fitted

    def encode(self, y: ArrayLike, name: str = "y") -> NDArray[np.float64]:
        """Return y as numbers."""
        matrix = self._mark(y, name) if self._has_lists(y) else _as_matrix(y, name)
        if matrix.shape[1] != self.n_columns:
            raise GraphError(
                f"{name} has {matrix.shape[1]} columns, but the training nodes have {self.n_columns} labels."
            )
        return matrix

    def decode(self, targets: NDArray[Any]) -> NDArray[np.int64]:
        """Return a matrix of 0 and 1."""
        return np.asarray(targets).astype(np.int64)

    @property
    def class_names(self) -> NDArray[Any]:
        """The labels."""
        assert self.classes is not None, "fit first"
        return self.classes

    @property
    def n_columns(self) -> int:
        """Number of labels."""
        assert self.n_labels is not None, "fit first"
        return self.n_labels

    def n_outputs(self, loss: Loss) -> int:
        """Return one score per label; raise where the loss does not have the weights of the labels."""
        if self.label_weights is not None and repr(loss) != repr(self.default_loss):
            raise ParameterError(
                f'class_weight of labels stands in the loss of its own; leave loss="auto", not {loss!r}.'
            )
        return super().n_outputs(loss)

    def decide(self, scores: torch.Tensor, link: Link) -> torch.Tensor:
        """Return 1 where the score is positive."""
        return (scores > 0).double()

    @property
    def default_loss(self) -> Loss:
        """Sigmoid cross entropy, column by column, with the weights of the labels."""
        weights = self.label_weights
        return SigmoidCrossEntropy(label_weights=None if weights is None else np.asarray(weights).tolist())

    def balance(
        self, class_weight: Any, targets: NDArray[Any], weights: NDArray[np.float64]
    ) -> tuple[Self, NDArray[np.float64]]:
        """Return the task with weights in its loss: every label is balanced by itself.

        ``"balanced"`` gives the 0s and the 1s of a label the same weight in all; a dictionary says what a 1
        of a label weighs, beside 1 for what it does not name.
        """
        pairs = np.ones((self.n_columns, 2))
        if isinstance(class_weight, str) and class_weight == "balanced":
            counts = np.column_stack([(targets == 0).sum(axis=0), (targets == 1).sum(axis=0)])
            is_mixed = (counts > 0).all(axis=1)
            pairs[is_mixed] = len(targets) / (2 * counts[is_mixed])
        elif isinstance(class_weight, dict):
            place = {name: i for i, name in enumerate(self.class_names.tolist())}
            for label, weight in class_weight.items():
                if label not in place:
                    known = ", ".join(map(str, list(place)[:10]))
                    raise ParameterError(
                        f"class_weight has label {label!r}, which y has not (known: {known})."
                    )
                check_number("class_weight", str(label), weight, 0)
                pairs[place[label], 1] = weight
        else:
            raise ParameterError(
                'class_weight of several labels must be "balanced" or a dictionary from label to the weight '
                f"of its nodes; got {class_weight!r}."
            )
        return type(self)(n_labels=self.n_labels, classes=self.classes, label_weights=pairs), weights

    def misses(self, decided: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return which rows have a wrong entry."""
        return (decided != targets).any(dim=-1)

    def _has_lists(self, y: Any) -> bool:
        """Return whether y lists labels, plainer now that there are known to be several per node."""
        if has_label_lists(y):
            return True
        rows, known = _rows_of(y), [] if self.classes is None else self.classes.tolist()
        cells = [cell for row in rows for cell in row]
        if not _are_numbers(rows):
            return True
        return any(cell not in (0, 1) for cell in cells) and all(cell in known for cell in cells)

    def _mark(self, y: Any, name: str) -> NDArray[np.float64]:
        """Return the 0/1 matrix of lists of labels."""
        known = self.class_names.tolist()
        place = {label: i for i, label in enumerate(known)}
        matrix = np.zeros((len(y), len(known)))
        for row, labels in zip(matrix, y, strict=True):
            for label in labels:
                if label not in place:
                    shown = ", ".join(map(str, known[:10]))
                    raise GraphError(
                        f"{name} has label {label!r}, which no training node has (known: {shown})."
                    )
                row[place[label]] = 1
        return matrix


def has_label_lists(y: Any) -> bool:
    """Return whether y holds the labels of every node in a list, a tuple or a set of its own.

    Lists that make a table of numbers, or a table of one column, are none.

    Examples
    --------
    >>> has_label_lists([["a", "b"], []]), has_label_lists([{3}, {4}]), has_label_lists([[0, 1], [1, 1]])
    (True, True, False)
    """
    rows = _rows_of(y)
    if any(isinstance(row, (set, frozenset)) for row in rows) or len({len(row) for row in rows}) > 1:
        return True
    return len(rows) > 0 and len(rows[0]) > 1 and not _are_numbers(rows)


def _rows_of(y: Any) -> list[Any]:
    """Return the lists, tuples and sets that y holds; none where it is of another form."""
    is_series = isinstance(y, (list, tuple)) or (str(getattr(y, "dtype", "")) == "object" and np.ndim(y) == 1)
    rows = list(y) if is_series else []
    return rows if all(isinstance(row, (list, tuple, set, frozenset)) for row in rows) else []


def _are_numbers(rows: list[Any]) -> bool:
    return all(isinstance(cell, (Number, np.bool_)) for row in rows for cell in row)


def _list_labels(y: Any, name: str) -> NDArray[Any]:
    try:
        labels = MultiLabelBinarizer().fit(y).classes_.tolist()
    except TypeError as error:
        raise GraphError(f"{name} has labels of kinds that do not go together: {error}.") from error
    if not labels:
        raise GraphError(f"{name} has no label at all; at least one node must have one.")
    return np.array(labels)


def _as_matrix(y: Any, name: str) -> NDArray[np.float64]:
    """Return a 0/1 matrix, dense or sparse, as a dense one."""
    return as_indicators(as_csr(y, name).toarray() if sp.issparse(y) else y, name)
