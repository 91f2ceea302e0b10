"""Fine-tuning behind the estimator: what is checked before a fit, and what becomes of its result."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from gbgnn.boosting import BoostingRule, Callback, TuningReport, apply
from gbgnn.boosting.callbacks import announce_epoch, announce_tuned
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


def tune(
    model: Any,
    problem: Problem,
    rule: BoostingRule,
    tuner: FineTuner,
    seed: int,
    callbacks: Sequence[Callback] = (),
) -> None:
    """Fine-tune the rounds that predict, and publish the better model (or the tuned one, as asked)."""
    rounds = model.ensemble_[: model.best_round_]
    tuned = fine_tune(rounds, problem, rule, tuner, seed, on_epoch=partial(announce_epoch, callbacks))
    record = {"before": tuned.before, "after": tuned.after, "kept": tuned.kept, "history": tuned.history}
    published: dict[str, Any] = {"fine_tuning_": record}
    if tuned.kept == "tuned":
        voting = SoftVote(rule=rule) if tuned.is_soft else rule
        *_, (_, scores) = apply(tuned.ensemble, problem.inputs, voting, problem.n_classes)
        published |= {
            "ensemble_": tuned.ensemble,
            "etas_": np.array(tuned.ensemble.etas),
            "scores_": scores.cpu().numpy(),
            "is_soft_": tuned.is_soft,
        }
    # In one step: whenever a fit is interrupted, the model is boosted or tuned, never half of each.
    vars(model).update(published)
    announce_tuned(callbacks, TuningReport(tuned.before, tuned.after, tuned.kept, len(tuned.history)))
