"""boost: the algorithm, for one model or for many at once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from gbgnn._random import RoundSeeds, Seeds
from gbgnn.aggregation import IDENTITY, Aggregation, Hop
from gbgnn.boosting.ensemble import Ensemble, Round
from gbgnn.boosting.history import History, Row, describe_rounds, measure
from gbgnn.boosting.rules import BoostingRule, Vote
from gbgnn.boosting.selection import BestRound, StopReason, better_round
from gbgnn.learners import Heads, Learner, ListedHeads
from gbgnn.metrics import Metric, as_metric
from gbgnn.problem import LabelledNodes, Problem
from gbgnn.propagation import Representation
from gbgnn.rounds import RoundContext, TrainingLoss, for_rows, map_tensors, stack
from gbgnn.theory import WeakLearnings


@dataclass(frozen=True, eq=False)
class Boosted:
    """What boosting returns, and what is known of it after every round.

    ``scores`` are those of all nodes after the last round, ``best`` is the round that predicts, with its own,
    None while there is no round; ``stop`` says why boosting ended, ``INTERRUPTED`` while it goes on.
    """

    ensemble: Ensemble
    history: History
    scores: torch.Tensor
    best: BestRound | None
    stop: StopReason = StopReason.INTERRUPTED

    @property
    def goes_on(self) -> bool:
        """Whether boosting has not ended."""
        return self.stop is StopReason.INTERRUPTED


Announce = Callable[[Boosted], StopReason | None]
"""Is told of a model after every round; may return a reason to end boosting."""

Listen = Callable[[int, Mapping[int, Boosted]], Mapping[int, StopReason]]
"""Is told of all models that trained a round, by their numbers; returns reasons to end some of them."""


@dataclass(frozen=True, eq=False)
class Member:
    """A model that is to be boosted, alone or beside others whose parts are of the same kinds.

    Settings mean what they mean to :class:`~gbgnn.GBGNNClassifier`; a ``metric`` of None is the task's own.
    ``announce`` is told of the model after every round. Rounds ``known`` from before, of a model that is
    boosted alone, are replayed, not trained, so that the result is the same to the byte as one long run;
    ``known_rows`` of the history say of them what only training can tell.
    """

    aggregation: Aggregation
    learner: Learner
    rule: BoostingRule
    n_rounds: int
    seeds: Seeds
    select: str = "auto"
    metric: Metric | None = None
    announce: Announce | None = None
    keep_learners: bool = True
    known: Ensemble = field(default_factory=Ensemble)
    known_rows: Sequence[Row] = ()


def boost(
    problem: Problem, aggregation: Aggregation, learner: Learner, rule: BoostingRule, **settings: Any
) -> Boosted:
    """Train a multi-scale model round by round; ``settings`` are the others of :class:`Member`."""
    return boost_many(problem, [Member(aggregation, learner, rule, **settings)])[0]


def boost_many(problem: Problem, members: Sequence[Member], *, listen: Listen | None = None) -> list[Boosted]:
    """Train multi-scale models round by round (the paper's Algorithm 1, for any rule and any task).

    No member's rounds depend on other members, up to rounding. Members agree in the metric and in all that
    :func:`~gbgnn.rounds.shared_settings` says of their parts. ``listen`` is told of all after every round.
    """
    metric = members[0].metric or as_metric(problem.task.default_metric)
    rule = stack([member.rule for member in members], problem.inputs.device)
    loss, state = rule.loss_for(problem.task), rule.start(problem, len(members))
    n_outputs = rule.voting_for(problem.task).n_outputs
    X, scores = problem.inputs.features, problem.inputs.zero_scores(n_outputs, len(members))  # X^(1), Y^(0)
    training = TrainingLoss.at(scores, problem.train, loss)
    models = [Boosted(Ensemble(), History(metric=metric.name), own, None) for own in scores]
    total_eta = torch.zeros(len(members), dtype=torch.float64, device=scores.device)
    paths: list[tuple[Hop, ...]] = [()] * len(members)  # g^(1), ..., g^(t) of every member
    previous: list[Any] | None = None  # returns b^(t-1) of every member
    ids, t = list(range(len(members))), 0
    workspace: dict[Any, Any] = {}
    while ids:
        t, started = t + 1, time.perf_counter()
        going = [members[i] for i in ids]
        seeds = RoundSeeds([member.seeds for member in going], t)
        context = RoundContext(t, problem, X, paths, scores, training, seeds, None, ids, workspace, previous)
        hops, X = take_hops(context, going)  # g^(t), and X^(t) = g^(t)(X^(t-1)) of all nodes
        paths = [(*path, hop) for path, hop in zip(paths, hops, strict=True)]
        context = replace(context, X=X, hops=paths)
        context = replace(context, task=rule.ask(context, state))  # labelled rows, targets, weights, loss
        heads, vote = find_votes(context, going, rule, state)  # b^(t), f^(t), eta^(t)
        previous = [partial(fitted.head, place) for fitted, place in heads]
        models = end_some(models, dict(zip(ids, vote.refusals(), strict=True)))
        if not any(models[i].goes_on for i in ids):
            break
        own = compare_own(vote, context, rule, state)
        scores = scores + for_rows(vote.eta, scores) * vote.direction  # Y^(t) = Y^(t-1) + eta^(t) f^(t)
        state = rule.update(state, vote, context)
        before, training = training, TrainingLoss.at(scores, problem.train, loss)
        total_eta = total_eta + vote.eta
        measured = measure(scores, total_eta, problem, training, rule, metric)
        reports = [fitted.report(place) for fitted, place in heads]
        rows = describe_rounds(t, hops, reports, vote, own, before, training, measured, started)
        for i, hop, (fitted, place), row, reached in zip(ids, hops, heads, rows, scores, strict=True):
            if models[i].goes_on:
                head = fitted.head(place) if members[i].keep_learners else None
                trained = Round(t, hop, head, row["eta"])
                models[i] = add_round(models[i], members[i], trained, row, reached)
        if listen is not None:
            models = end_some(models, listen(t, {i: models[i] for i in ids if len(models[i].ensemble) == t}))
        stay = [place for place, i in enumerate(ids) if models[i].goes_on]
        if len(stay) < len(ids):
            ids, index = [ids[place] for place in stay], torch.tensor(stay, device=scores.device).long()
            X, scores, training = X.members(stay), scores[index], training.members(index)
            total_eta = total_eta[index]
            paths, previous = ([each[place] for place in stay] for each in (paths, previous))
            state = map_tensors(lambda each, index=index: each[index], state)
            rule = stack([members[i].rule for i in ids] or [rule], scores.device)
    return models


def end_some(models: Sequence[Boosted], reasons: Mapping[int, StopReason | None]) -> list[Boosted]:
    """Return the models, of which those with a reason have ended."""
    ended = {i: replace(models[i], stop=reason) for i, reason in reasons.items() if reason is not None}
    return [ended.get(i, model) for i, model in enumerate(models)]


def take_hops(context: RoundContext, members: Sequence[Member]) -> tuple[Sequence[Hop], Representation]:
    """Return g^(t) and X^(t): known hops, in round 1 (which sees the raw features) none, or new ones."""
    if context.t <= len(members[0].known):
        hop = members[0].known[context.t - 1].hop
        return [hop], hop(context.X, context.inputs)
    if context.t == 1:
        return [IDENTITY] * len(members), context.X
    aggregations = [member.aggregation for member in members]
    return aggregations[0].step_many(aggregations, context)


def find_votes(
    context: RoundContext, members: Sequence[Member], rule: BoostingRule, state: Any
) -> tuple[list[tuple[Heads, int]], Vote]:
    """Train the learners of a round, again where a rule refuses one and would try another.

    Returns for every member the heads of the attempt that was settled on and its place among them. A learner
    that stays refused adds nothing: its step and its direction are zero.
    """
    known = [own.kept_head() for own in members[0].known.rounds[context.t - 1 : context.t]]
    heads: dict[int, tuple[Heads, int]] = {}
    places = list(range(len(members)))
    for attempt in range(1 if known else rule.max_attempts):
        asked, own = context.members(places), [members[place] for place in places]
        learners, seeds = [member.learner for member in own], [member.seeds for member in own]
        asked = replace(asked, seed=Seeds.heads(seeds, context.t, attempt))
        fitted = ListedHeads(known) if known else learners[0].fit_many(learners, asked)
        heads |= {place: (fitted, i) for i, place in enumerate(places)}
        if attempt == 0:
            vote = cast_vote(asked, rule, fitted, state)
        else:
            index, own_rule = (
                torch.tensor(places),
                stack([member.rule for member in own], context.scores.device),
            )
            remembered = map_tensors(lambda each, index=index: each[index], state)
            again = cast_vote(asked, own_rule, fitted, remembered)
            again = replace(again, attempts=torch.full_like(index, attempt + 1))
            vote = map_tensors(lambda a, b, i=index: a.index_copy(0, i.to(a.device), b), vote, again)
        places = [place for place, refusal in enumerate(vote.refusals()) if refusal is not None]
        if not places:
            return list(heads.values()), vote
    vote = rule.on_exhausted(vote)
    is_refused = vote.refusal > 0
    direction = vote.direction.masked_fill(for_rows(is_refused, vote.direction).bool(), 0.0)
    vote = replace(vote, direction=direction, eta=vote.eta.masked_fill(is_refused, 0.0))
    return list(heads.values()), vote


def cast_vote(context: RoundContext, rule: BoostingRule, heads: Heads, state: Any) -> Vote:
    """Return what the rule makes of trained learners; a learner that returns no numbers is refused."""
    output, voting = heads.evaluate(context.X, context.inputs), rule.voting_for(context.problem.task)
    direction = voting.direction(output)
    quality = compare(direction, context.training.residuals, context.train, has_edges=voting.is_choice)
    vote = rule.vote(direction, quality, context, state).broadcast()
    most = torch.finfo(output.dtype).max
    is_finite = output.flatten(1).norm(math.inf, dim=1) <= most
    added = direction.flatten(1).norm(math.inf, dim=1).double() * vote.eta.double().abs()
    is_finite &= added.to(is_finite.device) <= most  # what overflows would make NaN of all scores
    return replace(vote, refusal=torch.where(is_finite, vote.refusal, StopReason.DIVERGED.code))


def compare(
    direction: torch.Tensor, residuals: torch.Tensor, train: LabelledNodes, *, has_edges: bool = False
) -> WeakLearnings:
    """Return the angles of directions with negative gradients, by the weights of the labelled nodes."""
    rows = direction[:, train.rows]
    return WeakLearnings.measure(rows, residuals, train.weights / train.size, has_edges=has_edges)


def compare_own(vote: Vote, context: RoundContext, rule: BoostingRule, state: Any) -> WeakLearnings | None:
    """Return the angles with the gradient of the rule's own loss, where it has one."""
    residuals = rule.own_residuals(state, context)
    return None if residuals is None else compare(vote.direction, residuals, context.train)


def add_round(model: Boosted, member: Member, trained: Round, row: Row, scores: torch.Tensor) -> Boosted:
    """Return a model with one more round, and whether it is the last one."""
    for before in member.known_rows[trained.t - 1 : trained.t]:
        row = row | {name: before[name] for name in ("learner", "attempts") if name in before}
    model.history.append(row)
    best = better_round(model.best, row, scores, member.select, model.history.metric)
    model = Boosted(model.ensemble.add(trained), model.history, scores, best)
    asked = member.announce(model) if member.announce is not None else None
    stop = StopReason.ROUNDS_EXHAUSTED if asked is None and trained.t >= member.n_rounds else asked
    return model if stop is None else replace(model, stop=stop)
