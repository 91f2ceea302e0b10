from __future__ import annotations

import pytest

from gbgnn.errors import ParameterError
from gbgnn_lab.experiments.protocol import Protocol


def test_fine_tuning_matters_to_fine_tuned_cells_alone():
    one, other = Protocol(tune_trials=10), Protocol(tune_trials=20)
    assert one.to_document(fine_tune=False) == other.to_document(fine_tune=False)
    assert one.to_document(fine_tune=True) != other.to_document(fine_tune=True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trials": 0}, "Protocol.trials must be an integer >= 1; got 0"),
        ({"population": 0}, "Protocol.population must be an integer >= 1, or None; got 0"),
        ({"seeds_per_trial": 2}, "seeds_per_trial > 1 needs a population"),
        ({"confirm": -1}, "Protocol.confirm must be an integer >= 0; got -1"),
        ({"space": "papper"}, "Protocol.space must be one of .* Did you mean 'paper'"),
        ({"finalists": 6}, "Protocol.finalists must be an integer from 1 to 5; got 6"),
        ({"tune_trials": 0}, "Protocol.tune_trials must be an integer >= 1; got 0"),
    ],
)
def test_a_protocol_must_be_possible(changes, words):
    with pytest.raises(ParameterError, match=words):
        Protocol(**changes)
