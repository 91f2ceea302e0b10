from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from gbgnn.errors import ParameterError
from gbgnn.theory import HoldoutBound, most_errors
from gbgnn.theory.holdout import log_chance_of_at_most, most_errors_at, percent


def exact_chance(k: int, n: int, E: int, N: int) -> Fraction:
    """P(Hyp(N, E, n) <= k), by counting the draws."""
    ways = sum(math.comb(E, j) * math.comb(N - E, n - j) for j in range(k + 1))
    return Fraction(ways, math.comb(N, n))


@st.composite
def draws(draw: st.DrawFn) -> tuple[int, int, int]:
    N = draw(st.integers(1, 60))
    n = draw(st.integers(0, N))
    return draw(st.integers(0, n)), n, N


@given(draws(), st.data())
def test_chances_are_counted_exactly(case: tuple[int, int, int], data: st.DataObject) -> None:
    k, n, N = case
    E = data.draw(st.integers(0, N))
    chance = exact_chance(k, n, E, N)
    exact = math.log(chance) if chance else -math.inf
    assert log_chance_of_at_most(k, n, E, N) == pytest.approx(exact, abs=1e-11)


@settings(max_examples=300)
@given(draws(), st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99]))
def test_most_errors_are_those_of_trying_every_number(case: tuple[int, int, int], confidence: float) -> None:
    k, n, N = case
    failure = 1 - Fraction(str(confidence))
    possible = [E for E in range(k, N - (n - k) + 1) if exact_chance(k, n, E, N) >= failure]
    assert most_errors(k, n, N, confidence) == max(possible)


@pytest.mark.parametrize("N", [7, 12, 19])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95])
def test_the_bound_fails_no_more_often_than_it_says(N: int, confidence: float) -> None:
    """The theorem, by enumeration: every size of the draw, every true number of errors."""
    for n in range(1, N):
        for E in range(N + 1):
            fails = Fraction(0)
            for k in range(max(0, n - (N - E)), min(n, E) + 1):
                if most_errors(k, n, N, confidence) < E:
                    fails += Fraction(math.comb(E, k) * math.comb(N - E, n - k), math.comb(N, n))
            assert fails <= 1 - Fraction(str(confidence))


def test_it_is_as_tight_as_the_distribution_allows() -> None:
    """Some true number of errors fails almost as often as is allowed, where draws have many outcomes."""
    N, n, fails = 400, 150, []
    for E in range(20, 200, 3):
        k = np.arange(0, n + 1)
        chances = np.diff([0.0, *(math.exp(log_chance_of_at_most(int(j), n, E, N)) for j in k)])
        missed = [most_errors(int(j), n, N) < E for j in k if chances[j] > 1e-6]
        fails.append(chances[chances > 1e-6][missed].sum())
    assert 0.04 < max(fails) <= 0.05


def test_of_very_many_nodes_it_is_clopper_and_pearson() -> None:
    k, n, N = 30, 400, 10**9
    assert most_errors(k, n, N) / N == pytest.approx(beta.ppf(0.95, k + 1, n - k), rel=1e-4)


def test_failures_may_be_too_small_for_a_number() -> None:
    exact = [E for E in range(1, 57) if exact_chance(1, 25, E, 60) * 7**12 >= Fraction(1, 20)]
    assert most_errors_at(1, 25, 60, math.log(0.05) - 12 * math.log(7)) == max(exact)
    tiny = most_errors_at(200, 1354, 2708, math.log(0.05) - 500 * math.log(7))  # 7^500 is infinite
    assert most_errors(200, 1354, 2708) < tiny < 2708 - 1154


def test_everything_drawn_leaves_no_doubt_and_nothing_drawn_leaves_all() -> None:
    assert most_errors(3, 10, 10) == 3
    assert most_errors(0, 0, 10) == 10
    assert most_errors(10, 10, 15) == 15
    assert most_errors(0, 0, 0) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 2, 10), "most_errors.n_wrong must be an integer from 0 to 2; got 3"),
        ((1, 11, 10), "n_drawn must be an integer from 0 to 10"),
        ((0, 0, -1), "n_nodes must be an integer >= 0"),
        ((0, 1, 10, 1.0), r"confidence must be in \(0, 1\)"),
    ],
)
def test_impossible_counts_are_named(arguments: tuple, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        most_errors(*arguments)


def wrong(k: int, n: int) -> np.ndarray:
    return np.arange(n) < k


def test_the_others_are_what_is_left_of_the_errors() -> None:
    bound = HoldoutBound.count(wrong(86, 500), 2068, 0.95)
    assert bound.most_wrong == most_errors(86, 500, 2568) - 86 == 425
    assert bound.bound == 425 / 2068
    assert bound.observed == 86 / 500
    assert not bound.is_vacuous
    assert str(bound) == (
        "with 95 % confidence at most 20.6 % of the other 2,068 nodes are wrong\n"
        "  86 of the 500 held out are (17.2 %)"
    )


@given(draws(), st.integers(1, 30), st.integers(1, 9))
def test_choices_and_statements_share_the_failure(
    case: tuple[int, int, int], n_choices: int, n_statements: int
) -> None:
    k, n, N = case
    plain = HoldoutBound.count(wrong(k, n), N - n, 0.9)
    shared = HoldoutBound.count(wrong(k, n), N - n, 0.9, n_choices=n_choices, n_statements=n_statements)
    assert shared.most_wrong == most_errors(k, n, N, 1 - 0.1 / (n_choices * n_statements)) - k
    assert shared.most_wrong >= plain.most_wrong
    assert (shared.confidence, shared.n_choices) == (0.9, n_choices)


def test_groups_are_named_in_words_and_json() -> None:
    parts = (
        HoldoutBound.count(wrong(1, 40), 100, 0.95, n_statements=2, label="Theory"),
        HoldoutBound.count(wrong(0, 2), 0, 0.95, n_statements=2, label="Rules"),
    )
    levels = (HoldoutBound.count(wrong(0, 0), 3, 0.95, level=0.9),)
    whole = HoldoutBound.count(
        wrong(1, 42), 100, 0.95, per_class=parts, per_level=levels, notes=("as it is",), assumption_holds=True
    )
    text = str(whole)
    assert f"Theory: at most {most_errors(1, 40, 140, 0.975) - 1} % of 100 (1 of 40 held out)" in text
    assert "Rules: no other node (0 of 2 held out)" in text
    assert "at least 90 %: at most 100 % of 3 (0 of 0 held out)" in text
    assert "note: as it is" in text
    assert parts[0].sentence.endswith("of the other 100 nodes that are called Theory are wrong")
    assert parts[1].sentence == "there are no other nodes that are called Rules"
    assert (parts[1].bound, parts[1].is_vacuous) == (None, False)
    assert levels[0].sentence == (
        "nothing is certain of the other 3 nodes of which the model is at least 90 % sure: 0 were held out"
    )
    document = json.loads(json.dumps(whole.to_dict()))
    assert document["sentence"] == whole.sentence
    assert document["bound"] == whole.bound
    assert [each["label"] for each in document["per_class"]] == ["Theory", "Rules"]
    assert document["per_level"][0]["observed"] is None
    assert document["assumption_holds"] is True


@given(st.floats(0, 1))
def test_percentages_never_promise_too_much(share: float) -> None:
    assert float(percent(share, up=True).removesuffix(" %")) >= 100 * share - 1e-6
    assert abs(float(percent(share).removesuffix(" %")) - 100 * share) <= 0.05 + 1e-9
