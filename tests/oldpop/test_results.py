from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from gbgnn.population.results import Records

from gbgnn import GBGNNClassifier
from gbgnn.boosting import StopReason
from gbgnn.losses import SoftmaxCrossEntropy
from gbgnn.population import PopulationInputs

Build = Callable[..., GBGNNClassifier]
Inputs = Callable[..., PopulationInputs]


def scores_with(inputs: PopulationInputs, n_right: int, sureness: float) -> torch.Tensor:
    """Scores under which so many of the validation nodes are right."""
    scores = torch.zeros(1, inputs.n_rows, 3, dtype=torch.float64)
    validation = inputs.problem.validation
    assert validation is not None
    classes = (validation.targets + (torch.arange(validation.size) >= n_right)) % 3
    scores[0, inputs.n_train + torch.arange(validation.size), classes] = sureness
    return scores


@pytest.mark.parametrize(
    ("rounds", "select", "best"),
    [
        ([(3, 1.0), (5, 1.0), (4, 1.0)], "auto", 2),
        ([(3, 1.0), (5, 2.0), (5, 1.0)], "auto", 3),  # surely wrong is worse
        ([(5, 1.0), (5, 1.0)], "auto", 1),
        ([(5, 1.0), (3, 1.0)], "last", 2),
    ],
)
def test_best_round_is_that_of_the_accuracy_and_then_of_the_loss(
    model: Build, inputs_of: Inputs, rounds: list[tuple[int, float]], select: str, best: int
) -> None:
    inputs = inputs_of(model())
    records = Records(inputs, 1, SoftmaxCrossEntropy(), select)
    tables = [scores_with(inputs, *each) for each in rounds]
    for scores in tables:
        records.add_round([0], torch.ones(1, dtype=torch.float64), scores)
    records.stop(0, StopReason.ROUNDS_EXHAUSTED)
    result = records.result(0, [])
    assert result.best_round == best
    assert result.n_rounds == len(rounds)
    assert result.best_val_accuracy == result.val_accuracy[best - 1]
    assert result.scores is not None
    assert torch.equal(torch.from_numpy(result.scores), tables[best - 1][0, inputs.further])


def test_refused_members_stop_and_the_others_are_kept(model: Build, inputs_of: Inputs) -> None:
    records = Records(inputs_of(model()), 3, SoftmaxCrossEntropy(), "auto")
    assert records.keep_accepted([2, 0, 1], torch.tensor([0, 2, 0])) == [0, 2]
    assert [records.has_stopped(member) for member in range(3)] == [True, False, False]
    assert records.result(0, []).stop_reason is StopReason.NO_BETTER_THAN_CHANCE


def test_time_is_shared_and_no_further_nodes_means_no_scores(model: Build, inputs_of: Inputs) -> None:
    inputs = inputs_of(model(), predict_nodes=None)
    records = Records(inputs, 2, SoftmaxCrossEntropy(), "auto")
    records.add_time([0, 1], 4.0)
    records.add_time([1], 1.0)
    records.add_round([1], torch.ones(1, dtype=torch.float64), scores_with(inputs, 3, 1.0))
    for member in (0, 1):
        records.stop(member, StopReason.REQUESTED)
    results = [records.result(member, [None, (1.0,)]) for member in (0, 1)]
    assert [result.seconds for result in results] == [2.0, 3.0]
    assert [result.scores for result in results] == [None, None]
    assert [result.coefficients for result in results] == [[], [None]]
