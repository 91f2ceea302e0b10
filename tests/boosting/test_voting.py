from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch

from gbgnn.boosting import FunctionalGradient, Samme, SammeR
from gbgnn.boosting.voting import (
    ClassVoting,
    LabelVoting,
    LogProbaVoting,
    OutputVoting,
    Voting,
    average_vote_proba,
    class_codes,
    samme_step,
)
from gbgnn.losses import SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
from gbgnn.registry import FITTED
from gbgnn.tasks import Classification

SIGMOID, SOFTMAX = SigmoidCrossEntropy(), SoftmaxCrossEntropy()


def drawn(n_rows: int, n_columns: int, scale: float = 1.0) -> torch.Tensor:
    random = torch.Generator().manual_seed(0)
    return scale * torch.randn(n_rows, n_columns, generator=random, dtype=torch.float64)


def choosing(n_classes: int) -> list[Voting]:
    hard: list[Voting] = [
        ClassVoting(n_classes, n_classes),
        LabelVoting(n_classes, n_classes, loss=SOFTMAX),
    ]
    return [*hard, LabelVoting(1, 2, loss=SIGMOID)] if n_classes == 2 else hard


def smooth(n_classes: int) -> list[Voting]:
    return [
        OutputVoting(n_classes, SOFTMAX),
        OutputVoting(n_classes, SquaredError()),
        LogProbaVoting(n_classes, 1e-7),
        *(voting.softened() for voting in choosing(n_classes)),
    ]


def test_family_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Voting(3)


def test_rules_make_the_votings_of_their_tasks() -> None:
    two, three = Classification().fit([0, 1]), Classification().fit([0, 1, 2])
    assert Samme().voting_for(three) == ClassVoting(3, 3)
    assert SammeR(proba_floor=1e-3).voting_for(two) == LogProbaVoting(2, 1e-3)
    outputs = FunctionalGradient().voting_for(two)
    assert isinstance(outputs, OutputVoting)
    assert (outputs.n_outputs, type(outputs.loss)) == (1, SigmoidCrossEntropy)
    labels = FunctionalGradient(target="labels").voting_for(two)
    assert isinstance(labels, LabelVoting)
    assert (labels.n_outputs, labels.n_classes, type(labels.loss)) == (1, 2, SigmoidCrossEntropy)


@pytest.mark.parametrize("voting", [*choosing(3), *smooth(3), LabelVoting(1, 2, loss=SIGMOID)])
def test_record_is_json_and_round_trips(voting: Voting) -> None:
    record = json.loads(json.dumps(voting.record()))
    loss = getattr(voting, "loss", SOFTMAX)
    assert "loss" not in record  # it stands by itself in the model file
    assert type(voting).from_record(record, loss) == voting
    assert type(voting) in FITTED["voting"].values()
    assert record["n_outputs"] == voting.n_outputs


@pytest.mark.parametrize("n_classes", [2, 3])
def test_votings_say_whether_a_gradient_passes_their_direction(n_classes: int) -> None:
    for voting in [*choosing(n_classes), *smooth(n_classes)]:
        output = drawn(4, n_classes).requires_grad_()
        direction, soft = voting.direction(output), voting.softened().direction(output)
        assert direction.shape == soft.shape == (4, voting.n_outputs)
        assert voting.is_choice == (not direction.requires_grad)
        assert not voting.softened().is_choice
        assert voting.is_choice or torch.equal(soft, direction)
        (slope,) = torch.autograd.grad(soft[:, 0].sum(), output)
        assert bool((slope.abs().sum(dim=1) > 0).all())


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_sure_learners_vote_softly_as_they_choose(n_classes: int) -> None:
    output = drawn(20, n_classes, scale=1e4)
    for voting in choosing(n_classes):
        torch.testing.assert_close(voting.softened().direction(output), voting.direction(output))


def test_softening_changes_the_vote_and_nothing_else() -> None:
    for voting in choosing(3):
        soft = voting.softened()
        assert type(soft) is type(voting)
        assert soft.record() == voting.record() | {"is_soft": True}
        assert soft.softened() == soft
        scores = drawn(5, 3)
        assert torch.equal(soft.link(scores, 2.0), voting.link(scores, 2.0))
    for voting in smooth(3):
        assert voting.softened() == voting


def test_codes_of_two_classes_are_signs() -> None:
    assert class_codes(torch.tensor([0, 1]), 2, like=torch.empty(0)).tolist() == [[1, -1], [-1, 1]]


def test_one_score_column_is_the_code_of_the_last_class() -> None:
    voting = LabelVoting(1, 2, loss=SIGMOID)
    assert voting.direction(torch.tensor([[2.0, 1.0], [0.0, 1.0]])).tolist() == [[-1.0], [1.0]]
    soft = voting.softened().direction(torch.tensor([[math.log(3.0), 0.0]], dtype=torch.float64))
    assert float(soft) == pytest.approx(2 * 0.25 - 1)


def test_soft_vote_is_the_mean_of_the_codes_by_belief() -> None:
    output = torch.tensor([[0.3, -1.0, 2.0]]).double()
    codes = class_codes(torch.arange(3), 3, like=output)
    soft = ClassVoting(3, 3, is_soft=True).direction(output)
    torch.testing.assert_close(soft, output.softmax(dim=1) @ codes)


def test_floor_bounds_the_votes_by_log_probability() -> None:
    certain = torch.tensor([[1000.0, 0.0]], dtype=torch.float64)
    direction = LogProbaVoting(2, proba_floor=1e-4).direction(certain)
    np.testing.assert_allclose(direction[0], [math.log(1e4) / 2, -math.log(1e4) / 2])


@pytest.mark.parametrize("voting", [ClassVoting(3, 3), LogProbaVoting(3, 1e-7)])
def test_probabilities_of_a_sum_of_votes_do_not_depend_on_the_length_of_its_steps(voting: Voting) -> None:
    scores = drawn(5, 3)
    proba = voting.link(scores, 2.0)
    torch.testing.assert_close(voting.link(10 * scores, 20.0), proba)
    torch.testing.assert_close(proba, (scores / 2 / 2).softmax(dim=1))
    assert average_vote_proba(torch.zeros(1, 3), 0.0).tolist() == [[pytest.approx(1 / 3)] * 3]


@pytest.mark.parametrize("loss", [SIGMOID, SOFTMAX, SquaredError()])
def test_scores_that_descend_on_a_loss_mean_what_they_mean_to_it(loss: Any) -> None:
    scores = drawn(5, 2)
    for voting in (OutputVoting(2, loss), LabelVoting(2, 2, loss=loss)):
        for total in (0.5, 40.0):
            assert torch.equal(voting.link(scores, total), loss.link(scores))


def test_only_sums_of_outputs_are_covered_by_bounds() -> None:
    assert OutputVoting(3, SOFTMAX).adds_outputs
    assert not any(v.adds_outputs for v in (*choosing(3), LogProbaVoting(3, 1e-7)))


def test_steps_of_class_votes_alone_are_rescaled_before_fine_tuning() -> None:
    """Their scale has no say in predictions, and from it every loss would be zero; others' has."""
    assert ClassVoting(3, 3).fine_tuning_total() == pytest.approx(math.log(19) + math.log(2))
    assert ClassVoting(3, 3).softened().fine_tuning_total() is None  # once is enough
    others = (LabelVoting(3, 3, loss=SOFTMAX), OutputVoting(3, SOFTMAX), LogProbaVoting(3, 1e-7))
    assert [voting.fine_tuning_total() for voting in others] == [None] * 3


def test_step_is_zero_at_chance_and_grows_without_errors() -> None:
    for n_classes in (2, 3, 10):
        assert samme_step(1 - 1 / n_classes, n_classes) == pytest.approx(0, abs=1e-12)
        assert samme_step(0.1, n_classes) == pytest.approx(math.log(9) + math.log(n_classes - 1))
