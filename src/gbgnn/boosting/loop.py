"""boost: the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from gbgnn._random import Seeds
from gbgnn.aggregation import IDENTITY, Aggregation, Hop
from gbgnn.boosting.diagnostics import describe_round, measure
from gbgnn.boosting.ensemble import Ensemble, Round
from gbgnn.boosting.history import History
from gbgnn.boosting.rules import BoostingRule, Vote
from gbgnn.boosting.selection import BestRound, RoundSelection
from gbgnn.boosting.stopping import StopReason
from gbgnn.boosting.voting import Voting
from gbgnn.learners import Head, Learner
from gbgnn.metrics import Metric, as_metric
from gbgnn.problem import Problem
from gbgnn.propagation import Representation
from gbgnn.rounds import RoundContext, TrainingLoss
from gbgnn.theory import WeakLearning, weak_learning

_NOTHING_KNOWN = Ensemble()


@dataclass(frozen=True, eq=False)
class Boosted:
    """What boosting returns, and what is known of it after every round.

    Parameters
    ----------
    ensemble, history
        The rounds, and what was measured of them.
    scores
        Scores of all nodes after the last round.
    best
        The round that predicts, with its scores; None while there is no round.
    stop
        Why boosting ended; ``INTERRUPTED`` while it goes on.
    """

    ensemble: Ensemble
    history: History
    scores: torch.Tensor
    best: BestRound | None
    stop: StopReason = StopReason.INTERRUPTED


Announce = Callable[[Boosted], StopReason | None]


def boost(
    problem: Problem,
    aggregation: Aggregation,
    learner: Learner,
    rule: BoostingRule,
    *,
    n_rounds: int,
    seeds: Seeds,
    select: str = "auto",
    metric: Metric | None = None,
    announce: Announce | None = None,
    keep_learners: bool = True,
    known: Ensemble = _NOTHING_KNOWN,
) -> Boosted:
    """Train a multi-scale model round by round (the paper's Algorithm 1, for any rule and any task).

    Parameters
    ----------
    problem, aggregation, learner, rule
        What is to be learned, and the parts of the method.
    n_rounds
        The most rounds to train.
    seeds
        A seed for every round.
    select, metric
        Which round predicts, see :class:`RoundSelection`, and by what it is judged; None is the task's own.
    announce
        Told of the model after every round; may return a reason to end boosting.
    keep_learners
        Whether the fitted heads stay in the ensemble; without, memory is flat in the rounds.
    known
        Rounds trained before: they are replayed, not trained, so that the result is the same to the
        byte as one long run.
    """
    metric = as_metric(problem.task.default_metric) if metric is None else metric
    selection, history = RoundSelection(select, metric.name), History(metric=metric.name)
    loss, voting, state = rule.loss_for(problem.task), rule.voting_for(problem.task), rule.start(problem)
    X, scores = problem.inputs.features, problem.inputs.zero_scores(voting.n_outputs)  # X^(1), Y^(0)
    training, ensemble = TrainingLoss.at(scores, problem.train, loss), Ensemble()
    best, stop = None, None
    while stop is None:
        t = len(ensemble) + 1
        context = RoundContext(t, problem, X, ensemble.hops, scores, training, seeds.hop(t))
        hop, X = take_hop(context, aggregation, known)  # g^(t), and X^(t) = g^(t)(X^(t-1)) of all nodes
        context = replace(context, X=X, hops=(*context.hops, hop))
        context = replace(context, task=rule.ask(context, state))  # labelled rows, targets, weights, loss
        heads = candidates(context, learner, rule, seeds, known)
        head, vote = first_accepted(heads, context, rule, voting, state)  # b^(t), f^(t), eta^(t)
        if vote.refusal is not None:
            stop = vote.refusal
            break
        own = own_quality(vote, context, rule, state)
        scores = torch.add(scores, vote.direction, alpha=vote.eta)  # Y^(t) = Y^(t-1) + eta^(t) f^(t)
        training, before = TrainingLoss.at(scores, problem.train, loss), training
        state = rule.update(state, vote, context)
        ensemble = ensemble.add(Round(t, hop, head if keep_learners else None, vote.eta))
        measured = measure(scores, sum(ensemble.etas), problem, training, voting, metric)
        history.append(t, describe_round(hop, head, vote, own, before, training, measured))
        best = selection.better(best, history[-1], scores)
        asked = announce(Boosted(ensemble, history, scores, best)) if announce is not None else None
        stop = StopReason.ROUNDS_EXHAUSTED if asked is None and t >= n_rounds else asked
    return Boosted(ensemble, history, scores, best, stop)


def take_hop(context: RoundContext, aggregation: Aggregation, known: Ensemble) -> tuple[Hop, Representation]:
    """Return g^(t) and X^(t): a known hop, in round 1 (which sees the raw features) none, or a new one."""
    if context.t <= len(known):
        hop = known[context.t - 1].hop
        return hop, hop(context.X, context.inputs)
    return (IDENTITY, context.X) if context.t == 1 else aggregation.step(context)


def candidates(
    context: RoundContext, learner: Learner, rule: BoostingRule, seeds: Seeds, known: Ensemble
) -> Iterator[Head]:
    """Yield the known b^(t), or as many newly trained ones as the rule would try."""
    if context.t <= len(known):
        yield known[context.t - 1].kept_head()
        return
    for attempt in range(rule.max_attempts):
        yield learner.fit(replace(context, seed=seeds.head(context.t, attempt)))


def first_accepted(
    heads: Iterator[Head], context: RoundContext, rule: BoostingRule, voting: Voting, state: object
) -> tuple[Head, Vote]:
    """Return the first head that the rule accepts with its vote, or the last with the rule's verdict."""
    train = context.train
    for attempt, head in enumerate(heads, start=1):
        output = head.evaluate(context.X)
        direction = voting.direction(output)
        shares = train.weights / train.size
        quality = weak_learning(direction[train.rows], context.training.residuals, shares)
        vote = replace(rule.vote(direction, quality, context, state), attempts=attempt)
        if not output.isfinite().all():
            vote = replace(vote, refusal=StopReason.DIVERGED)
        if vote.refusal is None:
            return head, vote
    return head, rule.on_exhausted(vote)


def own_quality(vote: Vote, context: RoundContext, rule: BoostingRule, state: object) -> WeakLearning | None:
    """Return the angle of a direction with the gradient of the rule's own loss, where it has one."""
    train, residuals = context.train, rule.own_residuals(state, context)
    if residuals is None:
        return None
    return weak_learning(vote.direction[train.rows], residuals, train.weights / train.size)
