from __future__ import annotations

import pytest
import torch
from sklearn.base import clone

from gbgnn import FunctionalGradient, Samme, SammeR
from gbgnn.boosting import BoostingRule
from gbgnn.boosting.rules.base import class_codes
from gbgnn.errors import ParameterError
from gbgnn.finetuning.voting import SoftVote, differentiable, votes_for_one_class
from gbgnn.problem import Problem

HARD = [
    Samme(),
    FunctionalGradient(target="labels"),
    FunctionalGradient(target="labels", loss="softmax", retries=1),
]
SMOOTH = [SammeR(), FunctionalGradient(), FunctionalGradient(loss="softmax")]


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("rule", HARD, ids=str)
def test_sure_learners_vote_as_under_the_rule_itself(rule: BoostingRule, n_classes: int) -> None:
    output = 1e4 * torch.randn(20, n_classes, generator=torch.Generator().manual_seed(0)).double()
    soft = SoftVote(rule=rule).direction(output, n_classes)
    torch.testing.assert_close(soft, rule.direction(output, n_classes))


def test_soft_code_is_the_average_code() -> None:
    output = torch.tensor([[0.3, -1.0, 2.0]]).double()
    codes = class_codes(torch.arange(3), 3, like=output)
    wanted = output.softmax(dim=1) @ codes
    torch.testing.assert_close(SoftVote(rule=Samme()).direction(output, 3), wanted)


def test_rules_that_choose_are_told_from_those_with_a_gradient() -> None:
    for rule in HARD:
        assert votes_for_one_class(rule, 2)
        assert differentiable(rule, 2).rule is rule
    for rule in [*SMOOTH, SoftVote(rule=Samme())]:
        assert not votes_for_one_class(rule, 2)
        assert differentiable(rule, 2) is rule


@pytest.mark.parametrize("rule", HARD, ids=str)
def test_all_but_the_direction_is_the_wrapped_rule(rule: BoostingRule, three_classes: Problem) -> None:
    soft = SoftVote(rule=rule)
    importance = soft.initial_importance(three_classes)
    assert torch.equal(importance, rule.initial_importance(three_classes))
    scores = soft.initial_scores(three_classes.inputs, 3)
    assert torch.equal(scores, rule.initial_scores(three_classes.inputs, 3))
    ours, theirs = (r.task(importance, scores, three_classes) for r in (soft, rule))
    assert torch.equal(ours.weights, theirs.weights)
    output = torch.randn(40, 3, generator=torch.Generator().manual_seed(2)).double()
    direction = rule.direction(output, 3)
    vote = soft.vote(direction, ours, scores, three_classes)
    assert vote.eta == rule.vote(direction, ours, scores, three_classes).eta
    assert soft.settle(vote) is vote
    advanced = [r.advance(importance, vote, three_classes) for r in (soft, rule)]
    assert torch.equal(*advanced)
    assert soft.max_attempts == rule.max_attempts
    assert soft.adds_outputs == rule.adds_outputs
    assert type(soft.loss_for(3)) is type(rule.loss_for(3))
    assert torch.equal(soft.proba(output, 2.0, 3), rule.proba(output, 2.0, 3))
    residuals = [r.exponential_residuals(importance, three_classes) for r in (soft, rule)]
    assert residuals == [None, None] or torch.equal(*residuals)
    with pytest.raises(ParameterError):
        clone(soft).set_params(rule__learning_rate=-1).check(3)
