from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError

import pytest

from gbgnn.theory import DepthBound


def depth(gammas: list[float], training: list[float], increments: list[float]) -> DepthBound:
    return DepthBound(tuple(gammas), tuple(training), tuple(increments), 0.1, 0.05, 0.5, 0.95, "corrected")


def test_powers_and_geometric_series_are_recognised() -> None:
    T = range(1, 30)
    bound = depth([3 * t**0.6 for t in T], [1 / t for t in T], [0.2 * 0.7**t for t in T])
    assert bound.gamma_exponent == pytest.approx(0.6)
    assert bound.decay == pytest.approx(0.7)
    assert bound.conditions_hold
    assert not depth([1.0] * 5, [0.5] * 5, [0.1] * 5).conditions_hold
    growing = depth([3.0 * t for t in T], [1 / t for t in T], [0.2 * 1.1**t for t in T])
    assert growing.gamma_exponent == pytest.approx(1)
    assert not growing.conditions_hold


def test_terms_add_up_and_the_best_depth_is_the_smallest_total() -> None:
    bound = depth([0.0, 1.0, 2.0, 3.0], [math.inf, 0.6, 0.3, 0.29], [0.01, 0.02, 0.03, 0.2])
    assert bound.complexity == pytest.approx((0.01, 0.03, 0.06, 0.26))
    assert bound.totals[0] == math.inf
    assert bound.totals[1:] == pytest.approx((0.78, 0.51, 0.70))
    assert bound.best_depth == 3
    assert not bound.falls
    assert not bound.is_vacuous
    assert depth([0.0, 1.0], [math.inf, 5.0], [0.1, 0.1]).is_vacuous
    assert depth([0.0, 1.0], [math.inf, 5.0], [0.1, 0.1]).falls


def test_two_rounds_are_too_few_for_a_fit() -> None:
    bound = depth([0.0, 1.0], [math.inf, 1.0], [0.1, 0.1])
    assert bound.gamma_exponent is bound.decay is None
    assert not bound.conditions_hold


def test_everything_is_json() -> None:
    document = depth([0.0, 1.0, 2.0], [math.inf, 1.0, 0.5], [0.1, 0.1, 0.1]).to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["rounds"][0] == {
        "round": 1,
        "gamma_total": 0.0,
        "training": None,
        "complexity": 0.1,
        "total": None,
    }


def test_three_points_have_a_slope_and_two_have_none() -> None:
    assert depth([1.0, 2.0, 3.0], [1.0, 0.5, 0.4], [0.4, 0.2, 0.1]).decay == pytest.approx(0.5)
    assert depth([1.0, 2.0], [1.0, 0.5], [0.4, 0.2]).decay is None


def test_a_bound_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        depth([1.0], [1.0], [0.4]).delta = 0.1
