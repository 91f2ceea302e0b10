from __future__ import annotations

import pytest
import torch
from sklearn.base import clone

from gbgnn import FunctionalGradient, Samme
from gbgnn.boosting import BoostingRule
from gbgnn.errors import ParameterError
from gbgnn.finetuning import SoftVote
from gbgnn.problem import Problem

HARD = [
    Samme(),
    FunctionalGradient(target="labels"),
    FunctionalGradient(target="labels", loss="softmax", retries=1),
]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("rule", HARD, ids=str)
def test_direction_is_the_soft_one_and_no_softer_still(rule: BoostingRule, n_classes: int) -> None:
    output = torch.randn(20, n_classes, generator=torch.Generator().manual_seed(0)).double()
    soft, wanted = SoftVote(rule=rule), rule.soft_direction(output, n_classes)
    assert torch.equal(soft.direction(output, n_classes), wanted)
    assert torch.equal(soft.soft_direction(output, n_classes), wanted)
    assert not soft.votes_for_one_class


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
