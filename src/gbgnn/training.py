"""train: a checked plan in, fitted models out, one for each seed, boosted at once and then fine-tuned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from gbgnn._random import Seeds
from gbgnn.boosting import Announce, Boosted, Ensemble, Member, StopReason, boost_many
from gbgnn.callbacks import Callback, RoundReport, StartReport, announce
from gbgnn.errors import WeakLearnerError
from gbgnn.finetuning import FineTuningReport, fine_tune_model
from gbgnn.fitting import FitPlan
from gbgnn.model import FittedModel

Keep = Callable[[FittedModel], None]
"""Is handed a model as it is after every round, so that an interrupted fit keeps its work."""


def train(
    plan: FitPlan,
    callbacks: Sequence[Callback],
    *,
    keep: Keep | None = None,
    known: FittedModel | None = None,
    candidate: str | None = None,
) -> FittedModel:
    """Return the model that a plan leads to; the rounds of a ``known`` one are replayed."""
    rounds, rows = (Ensemble(), []) if known is None else (known.ensemble, known.history.rows)
    start = StartReport(plan.problem, plan.member.n_rounds, len(rounds), candidate)
    announce(callbacks, "on_start", start)
    member = replace(
        plan.member, announce=_announce(plan, callbacks, keep), known=rounds, known_rows=rows[: len(rounds)]
    )
    (boosted,) = boost_many(plan.boosted_on, [member])
    return _finish(plan, boosted, callbacks, keep)


def train_seeds(
    plan: FitPlan, seeds: Sequence[int], callbacks: Sequence[Sequence[Callback]], candidate: str | None = None
) -> list[FittedModel]:
    """Return a model for every seed, all boosted at once; each has callbacks of its own."""
    plans = [replace(plan, member=replace(plan.member, seeds=Seeds(seed))) for seed in seeds]
    start = StartReport(plan.problem, plan.member.n_rounds, candidate=candidate)
    members: list[Member] = []
    for each, own in zip(plans, callbacks, strict=True):
        announce(own, "on_start", start)
        members.append(replace(each.member, announce=_announce(each, own)))
    trained = boost_many(plan.boosted_on, members)
    return [_finish(*every) for every in zip(plans, trained, callbacks, strict=True)]


def _announce(plan: FitPlan, callbacks: Sequence[Callback], keep: Keep | None = None) -> Announce:
    """Return what boosting tells of every round."""

    def on_round(so_far: Boosted) -> StopReason | None:
        model = plan.model(so_far)
        if keep is not None:
            keep(model)
        return announce(callbacks, "on_round", RoundReport(model, plan.member.n_rounds, so_far.scores))

    return on_round


def _finish(
    plan: FitPlan, boosted: Boosted, callbacks: Sequence[Callback], keep: Keep | None = None
) -> FittedModel:
    """Return the boosted model, fine-tuned where that was asked for."""
    if not len(boosted.ensemble):
        raise WeakLearnerError(
            f"round 1: {boosted.stop.message}, so there is nothing to predict with "
            f"({plan.member.learner!r}). Give the learner more capacity or epochs, check the features, or "
            "try another rule."
        )
    model = plan.model(boosted)
    if keep is not None:
        keep(model)
    announce(callbacks, "on_end", model)
    if plan.tuner is not None and boosted.stop not in (StopReason.PRUNED, StopReason.TIME_IS_UP):
        model = fine_tune_model(model, plan.problem, plan.tuner, partial(announce, callbacks, "on_epoch"))
        if keep is not None:
            keep(model)
        announce(callbacks, "on_fine_tuned", FineTuningReport.from_model(model))
    return model
