"""boost: the algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from gbgnn._random import Seeds
from gbgnn.aggregation import IDENTITY, Aggregation, Hop
from gbgnn.boosting.callbacks import (
    Boosted,
    Callback,
    RoundReport,
    StartReport,
    announce_end,
    announce_round,
    announce_start,
)
from gbgnn.boosting.diagnostics import describe_round, look_ahead
from gbgnn.boosting.ensemble import Ensemble, Round
from gbgnn.boosting.history import History
from gbgnn.boosting.rules import BoostingRule, Vote
from gbgnn.boosting.stopping import StopReason
from gbgnn.learners import Head, Learner, WeakTask
from gbgnn.problem import Problem

_NOTHING_KNOWN = Ensemble()


def boost(
    problem: Problem,
    aggregation: Aggregation,
    learner: Learner,
    rule: BoostingRule,
    *,
    n_rounds: int,
    seeds: Seeds,
    callbacks: Sequence[Callback] = (),
    keep_learners: bool = True,
    known: Ensemble = _NOTHING_KNOWN,
    model: Any = None,
) -> Boosted:
    """Train a multi-scale model round by round (the paper's Algorithm 1, for any rule).

    Parameters
    ----------
    problem, aggregation, learner, rule
        The task and the parts of the method.
    n_rounds
        The most rounds to train.
    seeds
        A seed for every round.
    callbacks
        Look on, and may end boosting.
    keep_learners
        Whether the fitted heads stay in the ensemble; without, memory is flat in the rounds.
    known
        Rounds trained before: they are replayed, not trained, so that the result is the same to the
        byte as one long run.
    model
        Handed to the callbacks; the loop does not look at it.
    """
    X = problem.inputs.features  # X^(1)
    scores = rule.initial_scores(problem.inputs, problem.n_classes)
    importance, loss = rule.initial_importance(problem), rule.loss_for(problem.n_classes)
    ensemble, history = Ensemble(), History()
    announce_start(callbacks, StartReport(problem, n_rounds, model, len(known)))
    stop = None
    while stop is None:
        t = len(ensemble) + 1
        hop = find_hop(t, X, problem, aggregation, seeds, known)  # g^(t)
        X = hop(X, problem.inputs)  # X^(t) = g^(t)(X^(t-1)), all nodes
        task = rule.task(importance, scores, problem)  # labelled rows, targets, weights
        heads = candidates(t, X, task, learner, rule, seeds, known)
        head, vote = first_accepted(heads, X, task, scores, problem, rule)  # b^(t), f^(t), eta^(t)
        if vote.refusal is not None:
            stop = vote.refusal
            break
        before = look_ahead(vote, importance, scores, problem, rule)  # the condition, before the update
        scores = scores + vote.eta * vote.direction  # Y^(t) = Y^(t-1) + eta^(t) f^(t)
        importance = rule.advance(importance, vote, problem)
        ensemble = ensemble.add(Round(t, hop, head if keep_learners else None, vote.eta))
        history.append(t, describe_round(hop, head, vote, before, scores, problem, loss))
        stop = announce_round(callbacks, RoundReport(t, n_rounds, ensemble, scores, history))
    result = Boosted(ensemble, scores, history, stop)
    announce_end(callbacks, result)
    return result


def find_hop(
    t: int,
    X: torch.Tensor,
    problem: Problem,
    aggregation: Aggregation,
    seeds: Seeds,
    known: Ensemble,
) -> Hop:
    """Return g^(t): a known one, the identity in round 1 (which sees the raw features), or a new one."""
    if t <= len(known):
        return known[t - 1].hop
    return IDENTITY if t == 1 else aggregation.fit(X, problem, seed=seeds.hop(t))


def candidates(
    t: int,
    X: torch.Tensor,
    task: WeakTask,
    learner: Learner,
    rule: BoostingRule,
    seeds: Seeds,
    known: Ensemble,
) -> Iterator[Head]:
    """Yield the known b^(t), or as many newly trained ones as the rule would try."""
    if t <= len(known):
        yield known[t - 1].kept_head()
        return
    for attempt in range(rule.max_attempts):
        yield learner.fit(X, task, seed=seeds.head(t, attempt))


def first_accepted(
    heads: Iterator[Head],
    X: torch.Tensor,
    task: WeakTask,
    scores: torch.Tensor,
    problem: Problem,
    rule: BoostingRule,
) -> tuple[Head, Vote]:
    """Return the first head that the rule accepts with its vote, or the last with the rule's verdict."""
    for attempt, head in enumerate(heads, start=1):
        output = head.evaluate(X)
        vote = rule.vote(rule.direction(output, problem.n_classes), task, scores, problem)
        if not output.isfinite().all():
            vote = replace(vote, refusal=StopReason.DIVERGED)
        vote = replace(vote, attempts=attempt)
        if vote.refusal is None:
            return head, vote
    return head, rule.settle(vote)
