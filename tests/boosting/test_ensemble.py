from __future__ import annotations

import pytest

from gbgnn.aggregation import IDENTITY, Adjacency
from gbgnn.boosting import Ensemble, Round
from gbgnn.errors import ParameterError

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
