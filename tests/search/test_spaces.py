from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbgnn import MLP
from gbgnn.errors import ParameterError
from gbgnn.search import VARIANTS, Choice, Integer, Real, SearchSpace, default_space, paper_space
from gbgnn.search.spaces import as_range, describe_range, extreme_values, range_document


def test_build_sets_fixed_and_searched_settings() -> None:
    space = SearchSpace(
        {"aggregation": "injection", "fine_tune": True, "propagation": "random_walk"},
        {
            "n_rounds": Integer(1, 9),
            "aggregation__mixing": Real(0, 1),
            "fine_tune__epochs": Integer(1, 9),
            "propagation__self_loops": Choice([True, False]),
        },
    )
    settings = {
        "n_rounds": 4,
        "aggregation__mixing": 0.25,
        "fine_tune__epochs": 7,
        "propagation__self_loops": True,
    }
    model = space.build(settings, seed=11)
    params = model.get_params()
    assert {name: params[name] for name in settings} == settings
    assert params["random_state"] == 11


def test_an_object_may_be_fixed_too() -> None:
    space = SearchSpace({"learner": MLP(units=3)}, {"learner__dropout": Choice([0.0, 0.5])})
    assert space.build({"learner__dropout": 0.5}, seed=0).learner.units == 3
    assert space.to_document()["base"] == {"learner": "MLP(units=3)"}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("fine_tune", [False, True])
def test_every_corner_of_our_spaces_is_a_model(variant: str, fine_tune: bool) -> None:
    spaces = [
        paper_space(variant, n_train=20, fine_tune=fine_tune),
        default_space(variant, fine_tune=fine_tune),
    ]
    for space in spaces:
        space.check(range(3))
        for name, each in space.ranges.items():
            seen = [corner[name] for corner in space.corners()]
            assert set(extreme_values(each)) <= set(seen)


def test_changed_fixes_narrows_and_adds() -> None:
    space = default_space("adj").changed(
        {
            "learner__units": {"low": 20, "high": 30},
            "learner__epochs": 50,
            "learner__optimizer": ["adam"],
            "learner__momentum": Real(0.0, 0.9),
        }
    )
    assert space.ranges["learner__units"] == Integer(20, 30, log=True)
    assert (space.base["learner__epochs"], space.base["learner__optimizer"]) == (50, "adam")
    assert {"learner__epochs", "learner__optimizer"} & space.ranges.keys() == set()
    assert space.ranges["learner__momentum"] == Real(0.0, 0.9)


def test_what_was_fixed_can_be_searched() -> None:
    space = default_space("kta").changed({"aggregation__degree": [2, 3], "n_rounds": Integer(5, 10)})
    assert space.ranges["aggregation__degree"] == Choice([2, 3])
    assert "n_rounds" not in space.base


def test_a_part_that_is_replaced_takes_its_settings_with_it() -> None:
    space = default_space("kta", fine_tune=True)
    other = space.changed(
        {"aggregation": "lazy", "fine_tune": False, "aggregation__mixing": {"low": 0, "high": 1}}
    )
    mine = [
        name for name in (*other.base, *other.ranges) if name.startswith(("aggregation__", "fine_tune__"))
    ]
    assert mine == ["aggregation__mixing"]
    other.check(range(2))
    same = space.changed({"aggregation": "kta", "learner": "mlp"})
    assert same == space


def test_the_document_is_plain_and_does_not_depend_on_order() -> None:
    forward = SearchSpace({"rule": "samme", "n_rounds": 3}, {"learner__units": Integer(1, 2)})
    backward = SearchSpace({"n_rounds": 3, "rule": "samme"}, {"learner__units": Integer(1, 2)})
    assert json.dumps(forward.to_document()) == json.dumps(backward.to_document())
    fixed = SearchSpace({"fine_tune": True, "fine_tune__moves": ("learners", "etas")})
    assert fixed.to_document()["base"]["fine_tune__moves"] == ["learners", "etas"]


@pytest.mark.parametrize(
    ("base", "ranges", "message"),
    [
        ({}, {"n_rounds": 3}, r"the range of n_rounds must be Integer\(...\), .* got 3. A fixed value goes"),
        ({"n_rounds": 3}, {"n_rounds": Integer(1, 2)}, "n_rounds is fixed in base and has a range"),
        ({"random_state": 3}, {}, "random_state is no part of a space; give the search a seed"),
        ({}, {"random_state": Integer(1, 2)}, "random_state is no part of a space"),
    ],
)
def test_contradictions_are_refused(base, ranges, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        SearchSpace(base, ranges)


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        (
            {"learner__unitz": Integer(1, 2)},
            r"learner__unitz is unknown: .* Did you mean 'units'\?",
        ),
        ({"aggregation__mixing": Real(0, 1)}, "aggregation__mixing belongs to aggregation injection or lazy"),
        ({"learner__dropout": Real(0, 1)}, r"MLP.dropout must be in \[0, 1\); got 1"),
        ({"n_rounds": Integer(0, 9)}, "GBGNNClassifier.n_rounds must be an integer >= 1; got 0"),
        ({"rule__learning_rate": Real(0, 1)}, r"FunctionalGradient.learning_rate must be in \(0, 2\); got 0"),
        ({"learner__optimizer": Choice(["adam", "sdg"])}, "Did you mean 'sgd'"),
        ({"fine_tune__epochs": Integer(-1, 9)}, "FineTuner.epochs must be an integer >= 0; got -1"),
        ({"aggregation": Choice(["adjacency", "ktaa"])}, "unknown aggregation 'ktaa'"),
        ({"rule__loss": Choice(["softmax", "sigmoid"])}, 'loss="sigmoid" is for two classes; got 3'),
    ],
)
def test_a_range_that_no_model_has_is_found_before_any_trial(ranges, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        SearchSpace({}, ranges).check(range(3))


def test_replaced_takes_lists_as_they_stand() -> None:
    space = default_space("adj").replaced({"fine_tune__moves": ["etas"], "n_rounds": Integer(2, 3)})
    assert space.base["fine_tune__moves"] == ["etas"]
    assert space.ranges["n_rounds"] == Integer(2, 3)


@pytest.mark.parametrize("name", ["metric", "task"])
def test_what_trials_are_judged_by_is_not_searched(name: str) -> None:
    with pytest.raises(ParameterError, match=f"{name} has a range, but all trials must be judged alike"):
        SearchSpace({}, {name: Choice(["a", "b"])})


whole = st.integers(-50, 50)
integers = st.builds(
    lambda low, n, step: Integer(low, low + n * step, step=step),
    whole,
    st.integers(0, 20),
    st.integers(1, 7),
)
logs = st.builds(lambda low, n: Integer(low, low + n, log=True), st.integers(1, 9), st.integers(0, 99))
reals = st.builds(lambda low, d: Real(low, low + d), st.floats(-5, 5), st.floats(0, 9)) | st.builds(
    lambda low, factor: Real(low, low * factor, log=True), st.floats(1e-9, 1), st.floats(1, 1e6)
)
steps = st.builds(lambda low, n: Real(low, low + n * 0.5, step=0.5), whole.map(float), st.integers(1, 9))
options = st.one_of(st.booleans(), st.integers(2, 9), st.text(max_size=4), st.none())
choices = st.lists(options, min_size=2, max_size=5, unique=True).map(Choice)


@given(integers | logs | reals | steps | choices)
def test_a_range_is_read_back_from_its_document(given_range) -> None:
    document = json.loads(json.dumps(range_document(given_range)))
    assert as_range("x", document) == given_range


@given(integers | logs | reals | steps | choices)
def test_the_extremes_are_in_the_range(given_range) -> None:
    for value in extreme_values(given_range):
        assert given_range._contains(given_range.to_internal_repr(value))


def test_ranges_in_words() -> None:
    numbers = [Integer(1, 9), Integer(1, 9, log=True), Real(0, 0.5), Real(0, 0.5, step=0.25)]
    words = ["1 to 9", "1 to 9, log scale", "0 to 0.5", "0 to 0.5 in steps of 0.25"]
    assert [describe_range(each) for each in numbers] == words
    assert [describe_range(Choice(each)) for each in ([True, None], ["adam"])] == ["True or None", "adam"]


def test_a_table_keeps_kind_step_and_scale_of_the_range_it_changes() -> None:
    ends = {"low": 20, "high": 40}
    assert as_range("x", ends, Integer(10, 100, step=10)) == Integer(20, 40, step=10)
    assert as_range("x", {**ends, "step": 1}, Integer(10, 100, step=10)) == Integer(20, 40)
    assert as_range("x", ends, Real(1, 100, log=True)) == Real(20.0, 40.0, log=True)
    assert as_range("x", {**ends, "log": False}, Real(1, 100, log=True)) == Real(20.0, 40.0)
    assert as_range("x", ends, Choice([1, 2])) == as_range("x", ends) == Integer(20, 40)
    assert as_range("x", {"low": 0, "high": 0.5}) == Real(0.0, 0.5)


def test_other_values_are_fixed() -> None:
    assert as_range("x", 3, Integer(1, 9)) == 3
    assert as_range("x", ["adam"], Choice(["adam", "sgd"])) == "adam"
    assert as_range("x", [["learners", "etas"]]) == ["learners", "etas"]
    assert as_range("x", Integer(1, 2)) == Integer(1, 2)


@pytest.mark.parametrize(
    ("value", "current", "message"),
    [
        ({"low": 1, "hihg": 2}, None, r"x: a range has no 'hihg'. Did you mean 'high'\? Write {low = 1"),
        ({"low": 1}, None, "x: a range needs high; got {'low': 1}"),
        ({"low": "a", "high": 2}, None, "the ends of a range are numbers; got 'a'. Options are a list"),
        ({"low": True, "high": 2}, None, "the ends of a range are numbers; got True"),
        ({"low": 1, "high": 2.5}, Integer(1, 9), "must be whole numbers, as in 1 to 9; got 1 and 2.5"),
        ({"low": 0.1, "high": 0.5, "step": 1}, None, "in steps of 1, 0.5 is not reached; end at 0.1, or"),
        ({"low": 3, "high": 1}, None, r"x: `low <= high` must hold, but got \(low=3, high=1\)"),
        ({"low": 0, "high": 5, "log": True}, None, "`low >= 1` must hold for `log=True`"),
        ({"low": 1, "high": 9, "log": True, "step": 2}, None, "only accept step is 1 when `log`"),
        ({"low": 1, "high": 9, "step": 0}, None, "`step > 0` must hold"),
        ({"low": 0.0, "high": math.inf}, None, "the ends of a range are numbers; got inf"),
        ({"low": 10, "high": 45, "step": 10}, None, "in steps of 10, 45 is not reached; end at 40"),
        ({"low": 0.0, "high": 0.5, "log": True}, None, "`low > 0` must hold for `log=True`"),
        ({"low": 0.5, "high": 0.1}, None, "`low <= high` must hold"),
        ([], None, r"options are one or more, each once; got \[\]"),
        (["a", "a"], None, "each once"),
        (["a", ["b"]], None, r"options are strings, numbers, booleans or None; got \['b'\]"),
    ],
)
def test_what_is_no_range_is_refused_with_a_way_out(value, current, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        as_range("x", value, current)
