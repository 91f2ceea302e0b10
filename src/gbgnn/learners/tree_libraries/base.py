"""TreeModel: what a library of boosted trees must be able to do, and what it is handed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from gbgnn.errors import ParameterError
from gbgnn.learners.tree_arrays import TreeArrays

Array = NDArray[Any]


ABSENT = -50.0
"""Logit of a class that no labelled row has."""


@dataclass(frozen=True, eq=False)
class TreeData:
    """Labelled rows for one model: classes, counted from 0, or one column of numbers.

    Weights have mean one, so that settings mean the same whatever the number of rows; ``n_classes`` is None
    for numbers. ``validation`` rows and targets are for early stopping. ``is_category`` says which columns
    hold codes of categories, whole numbers from 0; None is no column. Values may be missing (NaN). Raw
    outputs are added to ``offsets`` of classes, and to ``val_offsets``; of two classes, to one column.
    """

    rows: Array
    targets: Array
    weights: Array
    n_classes: int | None = None
    validation: tuple[Array, Array] | None = None
    is_category: Array | None = None
    offsets: Array | None = None
    val_offsets: Array | None = None

    @property
    def categories(self) -> list[int]:
        """Numbers of the columns with categories."""
        return [] if self.is_category is None else np.flatnonzero(self.is_category).tolist()


@dataclass(frozen=True)
class Growth:
    """How trees are grown; the settings of :class:`~gbgnn.learners.BoostedTrees`, all decided."""

    n_trees: int
    learning_rate: float
    max_leaves: int
    min_leaf: int
    l2: float
    subsample: float
    column_share: float
    patience: int | None
    max_bins: int
    seed: int
    n_threads: int


class TreeModel(ABC):
    """The fitted trees of one library.

    ``fit`` trains them, with the library's own early stopping where there are validation rows and
    ``patience``. ``predict`` returns raw outputs, shape (rows, ``n_columns``): numbers, or logits, a column
    per class; of two classes one column will do, the logit of the second. ``to_bytes`` and ``from_bytes`` are
    the library's own format, without pickle; ``from_bytes`` trusts nothing: what is not of that form raises
    an exception, whichever. ``trees`` are what other formats are made of, with what is added to their sum.
    """

    library: ClassVar[str]
    extra: ClassVar[str]
    """What to install, as an extra of gbgnn."""

    takes_offsets: ClassVar[bool] = False
    """Whether classes can be fitted with offsets."""

    n_columns: int
    n_features: int

    @classmethod
    @abstractmethod
    def load_library(cls) -> Any:
        """Return the library's module, or say that it is not installed."""

    @classmethod
    @abstractmethod
    def fit(cls, data: TreeData, growth: Growth) -> Self:
        """Train the trees."""

    @abstractmethod
    def predict(self, rows: Array, n_threads: int) -> Array:
        """Return the raw outputs."""

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Return the model in the library's own format."""

    @classmethod
    @abstractmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Build the model again."""

    def importances(self) -> Array:
        """Return the gains of all splits of each column, shape (``n_features``,), in the library's unit."""
        total = np.zeros(self.n_features)
        for tree in self.trees()[0]:
            total += tree.gain_by_feature(self.n_features)
        return total

    def trees(self) -> tuple[Sequence[TreeArrays], Array]:
        """Return the trees, and what is added to each column."""
        raise ParameterError(f"the trees of {self.library} cannot be read one by one.")
