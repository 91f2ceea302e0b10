from __future__ import annotations

import numpy as np
import pytest
import torch

from gbgnn import MLP, InputInjection, Samme, SammeR
from gbgnn._random import Seeds
from gbgnn.aggregation import IDENTITY, Adjacency
from gbgnn.boosting import Boosted, BoostingRule, Ensemble, Round, Voting, apply, boost, stage
from gbgnn.errors import ParameterError
from gbgnn.testing import make_problem, two_blocks

HOP = Adjacency().hop()
ROUNDS = Ensemble().add(Round(1, IDENTITY, None, 0.5)).add(Round(2, HOP, None, 0.25))


def test_prefix_is_the_model_stopped_there() -> None:
    assert [r.t for r in ROUNDS[:1]] == [1]
    assert ROUNDS[1].eta == 0.25
    assert ROUNDS[:5].etas == (0.5, 0.25)
    assert ROUNDS.hops == (IDENTITY, HOP)
    assert len(Ensemble()) == 0
    assert repr(ROUNDS) == "Ensemble(2 rounds)"


@pytest.mark.parametrize("part", [slice(1, None), slice(None, None, 2), slice(None, None, -1)])
def test_only_prefixes_are_models(part: slice) -> None:
    with pytest.raises(ParameterError, match="only a prefix of an ensemble is a model"):
        ROUNDS[part]


def test_adding_and_rescaling_leave_the_ensemble_alone() -> None:
    longer, rescaled = ROUNDS.add(Round(3, HOP, None, 1.0)), ROUNDS.rescaled(3.0)
    assert longer.etas == (0.5, 0.25, 1.0)
    assert rescaled.etas == (2.0, 1.0)
    assert rescaled.hops == ROUNDS.hops
    assert ROUNDS.etas == (0.5, 0.25)


def test_dropped_head_says_how_to_keep_it() -> None:
    with pytest.raises(ParameterError, match="fit with keep_learners=True"):
        ROUNDS[0].kept_head()


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
