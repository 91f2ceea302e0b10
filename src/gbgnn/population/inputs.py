"""PopulationInputs: the problem that all members share, as rows of the nodes that matter."""

from __future__ import annotations

import sys
from functools import cached_property
from itertools import count

import torch
from numpy.typing import ArrayLike
from torch.nn import functional

from gbgnn.errors import ParameterError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.fitting import Labels, build_problem
from gbgnn.graph import Graph, as_nodes, check_range
from gbgnn.learners import MLP
from gbgnn.learners.basis import RowBasis, is_smaller
from gbgnn.population.terms import TermRows
from gbgnn.problem import Problem
from gbgnn.propagation.interval import Interval, spectral_interval
from gbgnn.propagation.polynomial import chebyshev_terms, powers
from gbgnn.tasks import Classification

_ALIGNMENT = 16
"""Rows have a multiple of this many columns: products of matrices are up to 1.4 times as fast."""

COMPLEX = (
    "KernelTargetAlignment in a population needs a P with real eigenvalues, as undirected graphs have it; "
    "train these models alone, by fit()."
)


class PopulationInputs:
    """A problem, and the rows of its labelled, validation and further nodes in every representation so far.

    Rows are computed once and kept, so that the populations of a study should share one such object.

    Parameters
    ----------
    problem
        What all members are trained on.
    predict_nodes
        Further nodes whose scores are wanted; None for none. Their labels are never asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from gbgnn.testing import problem_of, two_blocks
    >>> inputs = PopulationInputs(problem_of(*two_blocks(40), np.arange(8), np.arange(8, 20)))
    >>> inputs.n_train, inputs.n_rows, inputs.n_features
    (8, 20, 5)
    """

    def __init__(self, problem: Problem, predict_nodes: ArrayLike | None = None) -> None:
        self.problem, self.n_train = problem, problem.train.size
        self.n_validation = 0 if problem.validation is None else problem.validation.size
        parts = [problem.train.rows] + ([] if problem.validation is None else [problem.validation.rows])
        if predict_nodes is not None:
            further = as_nodes(predict_nodes, unique=False)
            check_range(further, problem.inputs.n_nodes)
            parts.append(torch.as_tensor(further, device=problem.train.rows.device))
        self.nodes = torch.cat(parts)

    @classmethod
    def of(
        cls,
        model: GBGNNClassifier,
        nodes: ArrayLike,
        y: ArrayLike,
        *,
        graph: Graph,
        validation: Labels | None = None,
        sample_weight: ArrayLike | None = None,
        predict_nodes: ArrayLike | None = None,
    ) -> PopulationInputs:
        """Build what ``model.fit`` would be trained on, from the arguments of ``fit``.

        Examples
        --------
        >>> from gbgnn import datasets
        >>> data = datasets.load("karate")
        >>> model = GBGNNClassifier(dtype="float64", device="cpu")
        >>> PopulationInputs.of(model, data.train, data.y[data.train], graph=data.graph).dtype
        torch.float64
        """
        if model.validation_fraction is not None:
            raise ParameterError(
                "validation_fraction sets other nodes aside for every seed, but a population shares its "
                "nodes; pass validation=(nodes, y)."
            )
        problem = build_problem(
            model,
            Classification(),
            nodes,
            y,
            graph,
            validation=validation,
            sample_weight=sample_weight,
            seed=0,
        )
        return cls(problem, predict_nodes)

    @property
    def n_rows(self) -> int:
        """Number of nodes whose rows are kept: labelled first, then validation, then further ones."""
        return len(self.nodes)

    @property
    def train(self) -> slice:
        """Positions of the labelled nodes."""
        return slice(0, self.n_train)

    @property
    def validation(self) -> slice:
        """Positions of the validation nodes."""
        return slice(self.n_train, self.n_train + self.n_validation)

    @property
    def further(self) -> slice:
        """Positions of the further nodes."""
        return slice(self.n_train + self.n_validation, self.n_rows)

    @property
    def n_features(self) -> int:
        """Number of feature columns."""
        return self.problem.inputs.features.shape[1]

    @property
    def width(self) -> int:
        """Columns of a row: the features, a constant for the bias, and zeros."""
        return aligned(self.n_features + 1)

    def n_columns(self, basis: str) -> int:
        """Return how many columns learners are trained on: the features, or coordinates of the rows."""
        return self.n_train if is_smaller(basis, self.n_train, self.n_features) else self.n_features

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the features."""
        return self.problem.inputs.dtype

    @property
    def device(self) -> torch.device:
        """Where the features are."""
        return self.problem.inputs.device

    def ready(self, rows: torch.Tensor, learner: MLP) -> torch.Tensor:
        """Return rows as learners are trained on them: columns, then a constant, then zeros.

        Those that are standardised have the mean and the size of the labelled rows taken out, and those with
        ``basis="rows"`` are coordinates, as in :class:`~gbgnn.MLP`.
        """
        if learner.standardize:
            train = rows[..., self.train, :]
            centre = train.mean(dim=-2, keepdim=True)
            size = (train - centre).square().sum(dim=-1).mean(dim=-1)[..., None, None].sqrt()
            rows = (rows - centre).div_(torch.where(size > 0, size, 1.0))
        n_columns = self.n_columns(learner.basis)
        if n_columns < self.n_features:
            found = RowBasis.of(rows[..., self.train, :]).coordinates(rows)
            rows = functional.pad(found, (0, aligned(n_columns + 1) - n_columns))
        elif not learner.standardize:
            rows = rows.clone()
        rows[..., n_columns] = 1
        return rows

    @cached_property
    def powers(self) -> TermRows:
        """Rows of X, P X, P^2 X, ..."""
        inputs = self.problem.inputs
        return TermRows(powers(inputs.P, inputs.features.dense(), count()), self.nodes, self.width)

    @cached_property
    def real_interval(self) -> Interval | None:
        """Where the eigenvalues of P are, or None where they may be complex."""
        return spectral_interval(self.problem.inputs.P)

    @property
    def interval(self) -> Interval:
        """Where the eigenvalues of P are; raises where they may be complex."""
        if self.real_interval is None:
            raise ParameterError(COMPLEX)
        return self.real_interval

    @cached_property
    def chebyshev(self) -> TermRows:
        """Rows of T_0(P) X, T_1(P) X, ..."""
        inputs = self.problem.inputs
        terms = chebyshev_terms(inputs.P, inputs.features.dense(), sys.maxsize, self.interval)
        return TermRows(terms, self.nodes, self.width)


def aligned(n_columns: int) -> int:
    """Return how many columns there are with padding.

    Examples
    --------
    >>> aligned(1434)
    1440
    """
    return -(-n_columns // _ALIGNMENT) * _ALIGNMENT
