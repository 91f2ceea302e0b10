from __future__ import annotations

import pytest
import torch

from gbgnn.boosting import BoostingRule, FunctionalGradient, Samme, SammeR
from gbgnn.boosting.rules.base import class_codes, normalized
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


def test_normalized_sums_to_one() -> None:
    assert normalized(torch.tensor([1.0, 3.0])).tolist() == [0.25, 0.75]
