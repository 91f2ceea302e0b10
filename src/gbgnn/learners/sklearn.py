"""SklearnLearner: any estimator with scikit-learn's manners as the transformation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from gbgnn.errors import MissingDependencyError, ModelFileError, ParameterError
from gbgnn.learners.base import Head, Learner
from gbgnn.learners.estimator_bytes import as_bytes, as_tensor, dump_estimator, load_estimator
from gbgnn.rounds import RoundContext, WeakTask

_SMALLEST_PROBA = 1e-30
_PATIENCE = ("early_stopping_rounds", "early_stopping_round", "n_iter_no_change")
"""What libraries beside scikit-learn call the setting that makes them stop early."""


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

    def importances(self) -> NDArray[np.float64] | None:
        """Return the estimators' ``feature_importances_``, summed; None where they have none."""
        if not all(hasattr(each, "feature_importances_") for each in self.estimators):
            return None
        found = np.array([each.feature_importances_ for each in self.estimators], dtype=np.float64)
        return np.asarray(found.sum(axis=0))

    def state(self) -> dict[str, torch.Tensor]:
        """Return the estimators as bytes; those that only pickle could store are refused."""
        stored = [dump_estimator(each, type(each).__name__) for each in self.estimators]
        models = {f"estimator.{i}": as_tensor(data) for i, data in enumerate(stored)}
        return {"n_outputs": torch.tensor(self.n_outputs)} | models

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> SklearnHead:
        """Read the estimators again, whose types must be those that :func:`load_estimator` trusts."""
        try:
            stored = [as_bytes(state[f"estimator.{i}"]) for i in range(len(state) - 1)]
            head = cls([load_estimator(data) for data in stored], int(state["n_outputs"]))
            head._check()
        except MissingDependencyError:
            raise
        except Exception as error:  # whatever forged bytes lead to
            raise ModelFileError(f"its estimators cannot be read: {error}") from error
        return head

    def _check(self) -> None:
        """Raise ValueError unless there is one classifier of known classes, or there are regressors."""
        first = self.estimators[0]
        if len(self.estimators) == 1 and is_classifier(first):
            classes = np.asarray(first.classes_)
            is_known = classes.dtype.kind in "iu" and classes.min() >= 0 and classes.max() < self.n_outputs
        else:
            is_known = all(is_regressor(each) for each in self.estimators)
        if not is_known:
            raise ValueError(f"they do not give {self.n_outputs} outputs")


@dataclass(kw_only=True, eq=False, repr=False)
class SklearnLearner(Learner):
    """Any classifier or regressor: scikit-learn's, LightGBM's, XGBoost's, a pipeline.

    The estimator is cloned every round and trained on the labelled rows with the round's weights; one
    whose ``fit`` takes no ``sample_weight`` gets rows drawn with replacement by those weights. Every
    ``random_state`` it has is set from the round's seed. One that is set to stop early and takes validation
    data, as ``X_val``, ``eval_X`` or ``eval_set``, gets the validation nodes.

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

    @property
    def watches_validation(self) -> bool:
        """Whether the estimator stops early by the validation nodes."""
        return _watches(self.estimator) is not None

    def fit(self, context: RoundContext) -> Head:
        """Train a clone of the estimator on the labelled rows."""
        task = context.weak_task
        self._check_fits(task)
        rows, targets = context.X.rows(task.rows).cpu().numpy(), task.targets.cpu().numpy()
        is_one = not task.is_regression or get_tags(self.estimator).target_tags.multi_output
        random = np.random.RandomState(context.seed % 2**32)
        weights = task.weights.cpu().numpy()
        fitted = []
        for column in (slice(None),) if is_one else range(task.n_outputs):
            own = targets[..., column]
            watched = self._validation(context, own, column)
            try:
                fitted.append(self._fit_one(rows, own, weights, random, watched))
            except (ValueError, TypeError) as error:  # a setting out of range, rows that it cannot read
                name = type(self.estimator).__name__
                raise ParameterError(f"{name} cannot be fitted in round {context.t}: {error}") from error
        return SklearnHead(fitted, task.n_outputs)

    def _validation(self, context: RoundContext, targets: np.ndarray, column: Any) -> dict[str, Any]:
        """Return the validation rows as the estimator's ``fit`` takes them; nothing where it does not."""
        task, name = context.weak_task, _watches(self.estimator)
        if name is None or task.val_rows is None or task.val_targets is None:
            return {}
        rows, wanted = (
            context.X.rows(task.val_rows).cpu().numpy(),
            task.val_targets.cpu().numpy()[..., column],
        )
        if not task.is_regression:  # estimators refuse a class that training does not have
            known = np.isin(wanted, targets)
            rows, wanted = rows[known], wanted[known]
        if not len(rows):
            return {}
        return (
            {name: [(rows, wanted)]} if name == "eval_set" else {name: rows, name.replace("X", "y"): wanted}
        )

    def _fit_one(
        self,
        rows: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray,
        random: np.random.RandomState,
        watched: dict[str, Any],
    ) -> Any:
        estimator = clone(self.estimator)
        names = [k for k in sorted(estimator.get_params()) if k.split("__")[-1] == "random_state"]
        estimator.set_params(**{name: random.randint(2**31 - 1) for name in names})
        if has_fit_parameter(estimator, "sample_weight"):
            return estimator.fit(rows, targets, sample_weight=weights, **watched)
        drawn = random.choice(len(rows), size=len(rows), p=weights / weights.sum())
        if is_classifier(estimator) and len(np.unique(targets[drawn])) < 2:
            # Most classifiers refuse a single class.
            drawn[:2] = np.unique(targets, return_index=True)[1][:2]
        return estimator.fit(rows[drawn], targets[drawn], **watched)

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


def _watches(estimator: Any) -> str | None:
    """Return by which argument of ``fit`` an estimator that is set to stop early takes validation data."""
    if estimator is None:
        return None
    settings = estimator.get_params(deep=False)
    if settings.get("early_stopping") is True and has_fit_parameter(estimator, "X_val"):
        return "X_val"
    if all(settings.get(name) is None for name in _PATIENCE):
        return None
    return next((name for name in ("eval_X", "eval_set") if has_fit_parameter(estimator, name)), None)
