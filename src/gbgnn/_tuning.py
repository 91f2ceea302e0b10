"""Fine-tuning behind the estimator: what is checked before a fit, and what becomes of its result."""

from __future__ import annotations

from typing import Any

import numpy as np

from gbgnn.boosting import BoostingRule, apply
from gbgnn.errors import ParameterError
from gbgnn.finetuning import FineTuner, SoftVote, fine_tune
from gbgnn.learners import Learner
from gbgnn.problem import Problem


def as_tuner(value: Any) -> FineTuner | None:
    """Return the tuner that ``fine_tune`` stands for: None and False are none, True is the default one.

    Examples
    --------
    >>> as_tuner(True), as_tuner(None)
    (FineTuner(), None)
    """
    if value is None or value is False:
        return None
    if value is True:
        return FineTuner()
    if not isinstance(value, FineTuner):
        raise ParameterError(
            f"GBGNNClassifier.fine_tune must be None, True or a FineTuner object; got {value!r}."
        )
    return value


def check_tuning(tuner: FineTuner, learner: Learner, *, keep_learners: bool, has_validation: bool) -> None:
    """Raise, before any work is done, when fine-tuning could not work afterwards."""
    tuner.check(has_validation=has_validation)
    if not learner.is_differentiable:
        raise ParameterError(
            f"fine_tune moves learners along gradients, which {learner!r} has none of; use MLP(), or "
            "fine_tune=None."
        )
    if not keep_learners:
        raise ParameterError("fine_tune needs the fitted learners; set keep_learners=True.")


def tune(model: Any, problem: Problem, rule: BoostingRule, tuner: FineTuner, seed: int) -> None:
    """Fine-tune the rounds that predict, and publish the better model (or the tuned one, as asked)."""
    tuned = fine_tune(model.ensemble_[: model.best_round_], problem, rule, tuner, seed)
    model.fine_tuning_ = {
        "before": tuned.before,
        "after": tuned.after,
        "kept": tuned.kept,
        "history": tuned.history,
    }
    if tuned.kept == "boosted":
        return
    voting = SoftVote(rule=rule) if tuned.is_soft else rule
    *_, (_, scores) = apply(tuned.ensemble, problem.inputs, voting, problem.n_classes)
    model.ensemble_, model.is_soft_ = tuned.ensemble, tuned.is_soft
    model.etas_, model.scores_ = np.array(tuned.ensemble.etas), scores.cpu().numpy()
