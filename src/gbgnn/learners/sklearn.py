"""SklearnLearner: any estimator with scikit-learn's manners as the transformation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from gbgnn.errors import ModelFileError, ParameterError
from gbgnn.learners.base import Head, Learner
from gbgnn.rounds import RoundContext, WeakTask

_SMALLEST_PROBA = 1e-30


class SklearnHead(Head):
    """One or more fitted estimators: a classifier, a regressor, or a regressor per column."""

    def __init__(self, estimators: list[Any], n_outputs: int) -> None:
        super().__init__()
        self.estimators, self.n_outputs = estimators, n_outputs

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities of a classifier, or numbers of a regressor."""
        rows = X.detach().cpu().numpy()
        if is_classifier(self.estimators[0]):
            output = np.log(np.maximum(self._proba(rows), _SMALLEST_PROBA))
        else:
            columns = [np.reshape(e.predict(rows), (len(rows), -1)) for e in self.estimators]
            output = np.hstack(columns)
        return torch.tensor(output, dtype=X.dtype, device=X.device)

    def _proba(self, rows: np.ndarray) -> np.ndarray:
        """Return probabilities of all classes; a class the estimator never saw has none."""
        estimator = self.estimators[0]
        proba = np.zeros((len(rows), self.n_outputs))
        if hasattr(estimator, "predict_proba"):
            proba[:, estimator.classes_] = estimator.predict_proba(rows)
        else:
            proba[np.arange(len(rows)), estimator.predict(rows)] = 1
        return proba

    def state(self) -> NoReturn:
        """Refuse: an arbitrary Python object can only be pickled, and a model file must not be."""
        raise ModelFileError(
            f"a {type(self.estimators[0]).__name__} cannot be stored without pickle; save with "
            "learners=False to keep the predictions for this graph, or use MLP()."
        )

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> NoReturn:
        """Refuse, like :meth:`state`."""
        raise ModelFileError("scikit-learn estimators are never stored in model files.")


@dataclass(kw_only=True, eq=False, repr=False)
class SklearnLearner(Learner):
    """Any classifier or regressor: scikit-learn's, LightGBM's, XGBoost's, a pipeline.

    The estimator is cloned every round and trained on the labelled rows with the round's weights; one
    whose ``fit`` takes no ``sample_weight`` gets rows drawn with replacement by those weights. Every
    ``random_state`` it has is set from the round's seed.

    Parameters
    ----------
    estimator
        A classifier for ``Samme``, ``SammeR`` and ``FunctionalGradient(target="labels")``; a regressor
        for ``FunctionalGradient(target="gradient")``. One that takes a single column of numbers is
        cloned per column.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from gbgnn.testing import learner_round
    >>> X = torch.tensor([[-1.0], [1.0]])
    >>> learner = SklearnLearner(estimator=DecisionTreeClassifier())
    >>> learner.fit(learner_round(X, torch.tensor([0, 1])))(X).argmax(dim=1)
    tensor([0, 1])
    """

    estimator: Any = None

    def check(self) -> None:
        """Raise unless ``estimator`` is an instance of a classifier or regressor."""
        usable = hasattr(self.estimator, "fit") and not isinstance(self.estimator, type)
        if not usable or not (is_classifier(self.estimator) or is_regressor(self.estimator)):
            raise ParameterError(
                "SklearnLearner.estimator must be a classifier or regressor object, such as "
                f"DecisionTreeClassifier(max_depth=2); got {self.estimator!r}."
            )

    @property
    def is_differentiable(self) -> bool:
        """No: torch sees nothing of what another library fitted."""
        return False

    def fit(self, context: RoundContext) -> Head:
        """Train a clone of the estimator on the labelled rows."""
        task = context.weak_task
        self._check_fits(task)
        rows, targets = context.X.rows(task.rows).cpu().numpy(), task.targets.cpu().numpy()
        is_one = not task.is_regression or get_tags(self.estimator).target_tags.multi_output
        columns = [targets] if is_one else list(targets.T)
        random = np.random.RandomState(context.seed % 2**32)
        weights = task.weights.cpu().numpy()
        fitted = [self._fit_one(rows, column, weights, random) for column in columns]
        return SklearnHead(fitted, task.n_outputs)

    def _fit_one(
        self, rows: np.ndarray, targets: np.ndarray, weights: np.ndarray, random: np.random.RandomState
    ) -> Any:
        estimator = clone(self.estimator)
        names = [k for k in sorted(estimator.get_params()) if k.split("__")[-1] == "random_state"]
        estimator.set_params(**{name: random.randint(2**31 - 1) for name in names})
        if has_fit_parameter(estimator, "sample_weight"):
            return estimator.fit(rows, targets, sample_weight=weights)
        drawn = random.choice(len(rows), size=len(rows), p=weights / weights.sum())
        if is_classifier(estimator) and len(np.unique(targets[drawn])) < 2:
            # Most classifiers refuse a single class.
            drawn[:2] = np.unique(targets, return_index=True)[1][:2]
        return estimator.fit(rows[drawn], targets[drawn])

    def _check_fits(self, task: WeakTask) -> None:
        name = type(self.estimator).__name__
        if task.is_regression and not is_regressor(self.estimator):
            raise ParameterError(
                f"{name} is a classifier, but this boosting rule asks for regression; use a regressor "
                'or FunctionalGradient(target="labels").'
            )
        if not task.is_regression and not is_classifier(self.estimator):
            raise ParameterError(
                f"{name} is a regressor, but this boosting rule asks for classes; use a classifier or "
                'FunctionalGradient(target="gradient").'
            )
