"""train_population: many models boosted at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

import torch

from gbgnn.aggregation import Adjacency, Identity, InputInjection, KernelTargetAlignment
from gbgnn.boosting import StopReason
from gbgnn.errors import ParameterError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.population.alignment import AlignedHops
from gbgnn.population.crew import Crew
from gbgnn.population.hops import MemberHops, MixedHops, SharedHops
from gbgnn.population.inputs import PopulationInputs
from gbgnn.population.members import Members
from gbgnn.population.results import MemberResult, Records
from gbgnn.population.rules import MemberRules, Votes, rules_of

Listener = Callable[[int, Mapping[int, float | None]], Collection[int]]
"""Hears of the validation accuracies after a round, by member, and says which members to drop."""


def train_population(
    inputs: PopulationInputs,
    models: Sequence[GBGNNClassifier],
    *,
    on_round: Listener | None = None,
    use_graphs: bool = True,
) -> list[MemberResult]:
    """Train many models at once, on the rows of labelled, validation and further nodes alone.

    Every member equals the same model trained alone by ``fit``, up to rounding. Members share the kind of
    aggregation and of rule, the number of hidden layers and what ``inputs`` were built from; they differ in
    seed, rounds, units, dropout, optimiser, rates, epochs, batches, floors and mixing.

    Parameters
    ----------
    inputs
        What they are trained on; hold on to it between the populations of a study.
    models
        The members, unfitted; they stay as they are.
    on_round
        Called after every round with its number and the validation accuracy of every member that took it
        (None without validation nodes); members it returns are dropped.
    use_graphs
        Whether the steps of training are replayed as CUDA graphs on a GPU, which is faster.

    Examples
    --------
    >>> from gbgnn import MLP, datasets
    >>> data = datasets.load("karate")
    >>> models = [
    ...     GBGNNClassifier(rule="samme", learner=MLP(units=u, epochs=20), n_rounds=3, random_state=u)
    ...     for u in (8, 16)
    ... ]
    >>> inputs = PopulationInputs.of(models[0], data.train, data.y[data.train], graph=data.graph)
    >>> [result.n_rounds for result in train_population(inputs, models)]
    [3, 3]
    """
    members = Members.of(models, inputs)
    hops, rules = hops_of(members, inputs), rules_of(members, inputs)
    records = Records(inputs, len(members), rules.loss, members.select)
    crew = Crew(
        inputs,
        members,
        n_outputs=rules.n_outputs,
        is_regression=rules.is_regression,
        use_graphs=use_graphs and inputs.device.type == "cuda",
    )
    n_members, device = len(members), inputs.device
    scores = torch.zeros(n_members, inputs.n_rows, rules.n_outputs, dtype=inputs.dtype, device=device)
    importance = inputs.problem.train.weights.repeat(n_members, 1)
    ids, t = list(range(n_members)), 0
    while ids:
        t, started = t + 1, time.perf_counter()
        now, took_part = torch.tensor(ids, device=device), ids
        hops.advance(t, now)  # X^(t)
        crew.assign(ids, hops.is_shared)
        votes = find_votes(t, ids, members, hops, crew, rules, importance[now], scores[now])
        kept = records.keep_accepted(ids, votes.refusals)
        ids, votes = [ids[i] for i in kept], votes.of_members(torch.tensor(kept, device=device).long())
        now = torch.tensor(ids, device=device).long()
        scores[now] += votes.etas.to(scores.dtype)[:, None, None] * votes.directions
        importance[now] = rules.advance(importance[now], votes)
        if ids:
            records.add_round(ids, votes.etas, scores[now])
        records.add_time(took_part, time.perf_counter() - started)
        dropped = listen(on_round, t, {member: records.latest(member) for member in ids})
        for member in ids:
            if member in dropped:
                records.stop(member, StopReason.REQUESTED)
            elif t == members.n_rounds[member]:
                records.stop(member, StopReason.ROUNDS_EXHAUSTED)
        ids = [member for member in ids if not records.has_stopped(member)]
    return [records.result(member, hops.coefficients(member)) for member in range(n_members)]


def find_votes(
    t: int,
    ids: list[int],
    members: Members,
    hops: MemberHops,
    crew: Crew,
    rules: MemberRules,
    importance: torch.Tensor,
    scores: torch.Tensor,
) -> Votes:
    """Train the learners of round ``t``, again where a rule refuses one and would try another."""
    now = torch.tensor(ids, device=scores.device)
    targets, weights = rules.task(now, importance, scores)
    votes, trying = Votes.none(scores), list(range(len(ids)))
    for attempt in range(rules.max_attempts):
        at = torch.tensor(trying, device=scores.device)
        output = crew.fit(
            [ids[i] for i in trying],
            hops,
            [members.seeds[ids[i]].head(t, attempt) for i in trying],
            targets[at] if rules.is_regression else targets,
            weights[at],
        )
        votes.write(at, rules.vote(now[at], output, importance[at], scores[at]))
        trying = [i for i, refusal in enumerate(votes.refusals.tolist()) if refusal]
        if not trying:
            break
    return rules.settle(votes)


def listen(on_round: Listener | None, t: int, accuracies: Mapping[int, float | None]) -> Collection[int]:
    """Tell of the round, and return which members to drop."""
    if on_round is None or not accuracies:
        return ()
    dropped = on_round(t, accuracies)
    strangers = sorted(set(dropped) - set(accuracies))
    if strangers:
        raise ParameterError(
            f"on_round asked to drop member {strangers[0]}, who did not take part in round {t}; members in "
            f"training: {', '.join(map(str, accuracies))}."
        )
    return dropped


def hops_of(members: Members, inputs: PopulationInputs) -> MemberHops:
    """Return the hops of members, by the kind of their aggregation."""
    aggregation = members.aggregation
    if isinstance(aggregation, KernelTargetAlignment):
        return AlignedHops(inputs, members)
    if isinstance(aggregation, (Adjacency, Identity)):
        return SharedHops(inputs, is_moving=isinstance(aggregation, Adjacency))
    is_injecting = isinstance(aggregation, InputInjection)
    return MixedHops(inputs, members.of_aggregations("mixing"), is_injecting)
