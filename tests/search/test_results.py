from __future__ import annotations

from pathlib import Path

import pytest

from gbgnn.errors import ParameterError
from gbgnn.settings import build_model


def test_importances_are_shares_and_need_ten_trials(toy) -> None:
    assert toy.tune(9).importances() == {}
    shares = toy.tune(10).importances()
    assert set(shares) == set(toy.space.ranges)
    assert sum(shares.values()) == pytest.approx(1)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_without_a_complete_trial_there_is_no_best_one(toy) -> None:
    space = toy.space.changed({"learner__learning_rate": 1e30, "learner__optimizer": "sgd"})
    message = r"none of 2 trials was completed, .* The last one: round 1: a learner returned NaN or infinity"
    with pytest.raises(ParameterError, match=message):
        toy.tune(2, space=space)
    with pytest.raises(ParameterError, match="none of 0 trials was completed, so there is no best one"):
        toy.tune(2, timeout=1e-9)


@pytest.mark.parametrize("confirm", [0, 2])
def test_the_settings_are_those_of_the_model(toy, confirm: int) -> None:
    """So that a record of the run is written without another model."""
    result = toy.tune(3, seed=4, confirm=confirm)
    own = {"random_state": 4, "device": "cpu"}
    assert result.settings == {**toy.space.base, **result.best_settings, **own}
    again = build_model(result.settings)
    toy.known.fit(again)
    assert again.scores_.tolist() == result.model.scores_.tolist()


def test_the_checksums_are_those_of_the_study(toy, tmp_path: Path) -> None:
    result = toy.tune(1, storage=tmp_path / "s.log")
    assert result.checksums == toy.known.checksums() == result.study.user_attrs["data"]
