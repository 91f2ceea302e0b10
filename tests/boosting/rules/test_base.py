from __future__ import annotations

import pytest
import torch

from gbgnn.boosting import BoostingRule, FunctionalGradient, Samme, SammeR
from gbgnn.boosting.rules.base import average_codes, class_codes, normalized
from gbgnn.testing import check_rule


def test_family_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        BoostingRule()


@pytest.mark.parametrize(
    "rule",
    [
        Samme(),
        Samme(error_floor=0.01, learning_rate=0.5),
        SammeR(),
        FunctionalGradient(loss="softmax"),
        FunctionalGradient(target="labels"),
    ],
    ids=repr,
)
def test_rule_keeps_its_contract(rule: BoostingRule) -> None:
    check_rule(rule)


def test_codes_of_two_classes_are_signs() -> None:
    assert class_codes(torch.tensor([0, 1]), 2, like=torch.empty(0)).tolist() == [[1, -1], [-1, 1]]


def test_average_code_is_the_mean_of_the_codes_by_belief() -> None:
    output = torch.tensor([[0.3, -1.0, 2.0]]).double()
    codes = class_codes(torch.arange(3), 3, like=output)
    torch.testing.assert_close(average_codes(output, 3), output.softmax(dim=1) @ codes)


CHOOSING = [
    Samme(),
    FunctionalGradient(target="labels"),
    FunctionalGradient(target="labels", loss="softmax"),
]
SMOOTH = [SammeR(), FunctionalGradient(), FunctionalGradient(loss="softmax")]


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("rule", CHOOSING, ids=str)
def test_sure_learners_vote_softly_as_they_choose(rule: BoostingRule, n_classes: int) -> None:
    output = 1e4 * torch.randn(20, n_classes, generator=torch.Generator().manual_seed(0)).double()
    direction = rule.direction(output, n_classes)
    torch.testing.assert_close(rule.soft_direction(output, n_classes), direction)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("rule", [*CHOOSING, *SMOOTH], ids=str)
def test_rules_say_whether_a_gradient_passes_their_direction(rule: BoostingRule, n_classes: int) -> None:
    n_outputs = rule.loss_for(n_classes).n_outputs(n_classes) if rule.adds_outputs else n_classes
    output = torch.randn(4, n_outputs, generator=torch.Generator().manual_seed(0)).requires_grad_()
    direction, soft = rule.direction(output, n_classes), rule.soft_direction(output, n_classes)
    assert rule.votes_for_one_class == (rule in CHOOSING) == (not direction.requires_grad)
    assert rule.votes_for_one_class or torch.equal(soft, direction)
    (slope,) = torch.autograd.grad(soft[:, 0].sum(), output)
    assert bool((slope.abs().sum(dim=1) > 0).all())


def test_normalized_sums_to_one() -> None:
    assert normalized(torch.tensor([1.0, 3.0])).tolist() == [0.25, 0.75]
