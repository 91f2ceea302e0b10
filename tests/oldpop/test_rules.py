from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from gbgnn.population.members import Members
from gbgnn.population.rules import REFUSALS, MemberRules, Votes, rules_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gbgnn import FunctionalGradient, GBGNNClassifier, Samme, SammeR
from gbgnn.boosting import BoostingRule, StopReason
from gbgnn.population import PopulationInputs
from gbgnn.rounds import TrainingLoss
from gbgnn.testing import make_context
from gbgnn.theory import weak_learning

Build = Callable[..., GBGNNClassifier]
Inputs = Callable[..., PopulationInputs]

RULES: dict[str, list[BoostingRule]] = {
    "samme": [Samme(error_floor=0.1), Samme(learning_rate=0.3), Samme()],
    "samme_r": [SammeR(proba_floor=0.1), SammeR(learning_rate=0.3), SammeR()],
    "gradient": [
        FunctionalGradient(min_cosine=0.1),
        FunctionalGradient(learning_rate=0.9),
        FunctionalGradient(),
    ],
}


def make(model: Build, inputs_of: Inputs, rules: list[BoostingRule]) -> tuple[MemberRules, PopulationInputs]:
    models = [model(rule=rule) for rule in rules]
    inputs = inputs_of(models[0])
    return rules_of(Members.of(models, inputs), inputs), inputs


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), skill=st.sampled_from([-1.0, 0.0, 1.0, 30.0]))
def test_tasks_votes_and_importance_are_those_of_every_rule(
    model: Build, inputs_of: Inputs, name: str, seed: int, skill: float
) -> None:
    rules, (members, inputs) = RULES[name], make(model, inputs_of, RULES[name])
    problem, train, ids = inputs.problem, inputs.problem.train, torch.arange(3)
    random = torch.Generator().manual_seed(seed)
    importance = torch.rand(3, train.size, generator=random, dtype=torch.float64)
    importance /= importance.sum(dim=1, keepdim=True)
    everywhere = torch.randn(3, problem.inputs.n_nodes, 3, generator=random, dtype=torch.float64)
    output = torch.randn(3, problem.inputs.n_nodes, 3, generator=random, dtype=torch.float64)
    output[:, train.rows, train.targets] += skill
    scores = everywhere[:, inputs.nodes]
    targets, weights = members.task(ids, importance, scores)
    votes = members.vote(ids, output[:, inputs.nodes], importance, scores)
    new = members.advance(importance, votes)
    for i, rule in enumerate(rules):
        training = TrainingLoss.at(everywhere[i], train, rule.loss_for(problem.task))
        context = replace(make_context(problem), scores=everywhere[i], training=training)
        task = rule.ask(context, importance[i])
        torch.testing.assert_close(weights[i], task.weights)
        if task.is_regression:
            torch.testing.assert_close(targets[i], task.targets)
        else:
            assert torch.equal(targets[0].argmax(dim=1), task.targets)
        direction = rule.voting_for(problem.task).direction(output[i])
        shares = train.weights / train.size
        quality = weak_learning(direction[train.rows], training.residuals, shares)
        vote = rule.vote(direction, quality, context, importance[i])
        torch.testing.assert_close(votes.directions[i], vote.direction[inputs.nodes])
        assert REFUSALS[int(votes.refusals[i])] == vote.refusal
        assert float(votes.etas[i]) == pytest.approx(vote.eta, rel=1e-9)
        torch.testing.assert_close(new[i], rule.update(importance[i], vote, context))


@pytest.mark.parametrize("name", RULES)
def test_outputs_that_are_no_numbers_are_refused(model: Build, inputs_of: Inputs, name: str) -> None:
    members, inputs = make(model, inputs_of, RULES[name])
    output = torch.ones(3, inputs.n_rows, 3, dtype=torch.float64)
    output[1, -1, 0], output[2, 0, 0] = torch.inf, torch.nan
    importance = inputs.problem.train.weights.repeat(3, 1)
    votes = members.vote(torch.arange(3), output, importance, torch.zeros_like(output))
    assert [REFUSALS[i] for i in votes.refusals.tolist()][1:] == [StopReason.DIVERGED] * 2


def test_scores_without_a_gradient_end_boosting(model: Build, inputs_of: Inputs) -> None:
    members, inputs = make(model, inputs_of, [FunctionalGradient()])
    scores = torch.zeros(1, inputs.n_rows, 3, dtype=torch.float64)
    scores[0, torch.arange(inputs.n_train), inputs.problem.train.targets] = 1e4
    votes = members.vote(torch.tensor([0]), torch.ones_like(scores), torch.empty(0), scores)
    assert REFUSALS[int(votes.refusals[0])] is StopReason.GRADIENT_VANISHED


def test_learners_that_return_nothing_fail_the_condition(model: Build, inputs_of: Inputs) -> None:
    members, inputs = make(model, inputs_of, [FunctionalGradient()])
    scores = torch.zeros(1, inputs.n_rows, 3, dtype=torch.float64)
    votes = members.vote(torch.tensor([0]), scores, torch.empty(0), scores)
    assert REFUSALS[int(votes.refusals[0])] is StopReason.WEAK_LEARNING_FAILED
    assert float(votes.etas[0]) == 0


@pytest.mark.parametrize(("on_failure", "left"), [("stop", [0, 4, 1]), ("warn", [0, 0, 1])])
def test_failed_conditions_are_settled_as_asked(
    model: Build, inputs_of: Inputs, on_failure: str, left: list[int]
) -> None:
    members, _ = make(model, inputs_of, [FunctionalGradient(on_failure=on_failure)])
    votes = Votes(torch.zeros(3), torch.zeros(3, 1, 1), torch.tensor([0, 4, 1]))
    assert members.settle(votes).refusals.tolist() == left


def test_votes_of_some_members_are_written_and_read() -> None:
    votes = Votes.none(torch.zeros(3, 2, 2))
    assert votes.refusals.all()
    some: Any = Votes(torch.tensor([0.5]).double(), torch.ones(1, 2, 2), torch.tensor([0]))
    votes.write(torch.tensor([1]), some)
    read = votes.of_members(torch.tensor([1]))
    assert read.etas.tolist() == [0.5]
    assert read.refusals.tolist() == [0]
    assert votes.refusals.tolist() == [1, 0, 1]
