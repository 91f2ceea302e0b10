from __future__ import annotations

import numpy as np
import pytest
import torch

from gbgnn import MLP, InputInjection, Samme, SammeR
from gbgnn._random import Seeds
from gbgnn.boosting import Boosted, BoostingRule, Ensemble, Voting, apply, boost, stage
from gbgnn.errors import ParameterError
from gbgnn.testing import make_problem, two_blocks

GRAPH, Y = two_blocks(40, n_classes=3)
PROBLEM = make_problem(GRAPH, Y, np.arange(15), dtype=torch.float32)


def trained(rule: BoostingRule, n_rounds: int = 5, **options: object) -> tuple[Boosted, Voting]:
    parts = (InputInjection(), MLP(epochs=10), rule)
    return boost(PROBLEM, *parts, n_rounds=n_rounds, seeds=Seeds(0), **options), rule.voting_for(PROBLEM.task)


@pytest.mark.parametrize("rule", [SammeR(), Samme()], ids=repr)
def test_applying_the_ensemble_forms_the_same_sums_as_training(rule: BoostingRule) -> None:
    result, voting = trained(rule)
    staged = [(t, scores.clone()) for t, scores in stage(result.ensemble, PROBLEM.inputs, voting)]
    assert [t for t, _ in staged] == [1, 2, 3, 4, 5]
    assert torch.equal(staged[-1][1], result.scores)
    for t, scores in staged:
        assert torch.equal(scores, trained(rule, t)[0].scores)
        assert torch.equal(scores, apply(result.ensemble[:t], PROBLEM.inputs, voting))


def test_one_score_matrix_is_held_whatever_the_rounds() -> None:
    result, voting = trained(SammeR())
    places = {scores.data_ptr() for _, scores in stage(result.ensemble, PROBLEM.inputs, voting)}
    assert len(places) == 1
    assert apply(result.ensemble, PROBLEM.inputs, voting).shape == (40, 3)


def test_no_rounds_are_zero_scores() -> None:
    _, voting = trained(SammeR(), 1)
    assert torch.equal(apply(Ensemble(), PROBLEM.inputs, voting), torch.zeros(40, 3))
    assert list(stage(Ensemble(), PROBLEM.inputs, voting)) == []


def test_dropped_learners_cannot_be_applied() -> None:
    result, voting = trained(SammeR(), 2, keep_learners=False)
    with pytest.raises(ParameterError, match="the fitted learners were not kept"):
        apply(result.ensemble, PROBLEM.inputs, voting)
