from __future__ import annotations

import json

import pytest

from gbgnn import MLP
from gbgnn.errors import ParameterError
from gbgnn.search import VARIANTS, Choice, Integer, Real, SearchSpace, default_space, paper_space
from gbgnn.search.ranges import extreme_values
from gbgnn.tasks import Classification


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
        space.check(Classification().fit(range(3)))
        for name, given in space.ranges.items():
            seen = [corner[name] for corner in space.corners()]
            assert set(extreme_values(given)) <= set(seen)


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
    other.check(Classification().fit(range(2)))
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
        SearchSpace({}, ranges).check(Classification().fit(range(3)))


def test_replaced_takes_lists_as_they_stand() -> None:
    space = default_space("adj").replaced({"fine_tune__moves": ["etas"], "n_rounds": Integer(2, 3)})
    assert space.base["fine_tune__moves"] == ["etas"]
    assert space.ranges["n_rounds"] == Integer(2, 3)


@pytest.mark.parametrize("name", ["metric", "task"])
def test_what_trials_are_judged_by_is_not_searched(name: str) -> None:
    with pytest.raises(ParameterError, match=f"{name} has a range, but all trials must be judged alike"):
        SearchSpace({}, {name: Choice(["a", "b"])})
