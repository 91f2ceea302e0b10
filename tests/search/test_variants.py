from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from gbgnn.errors import ParameterError
from gbgnn.search import VARIANTS, Choice, Integer, Real, default_space, paper_space


def _log_uniform(low: int, high: int) -> tuple[str, int, int]:
    return "LogUnif", low, high


# The paper's table of hyper-parameters, row by row; |V_train| is 140.
OPTIMIZERS = {"sgd", "adam", "rmsprop"}
BOOSTING = {"n_rounds": range(1, 101), "learner__batch_size": range(1, 141)}
MODEL = {
    "learner__epochs": range(10, 101, 10),
    "learner__optimizer": OPTIMIZERS,
    "learner__learning_rate": _log_uniform(-5, -1),
    "learner__momentum": _log_uniform(-10, -1),
    "learner__weight_decay": _log_uniform(-10, -1),
    "learner__units": range(10, 201),
    "learner__dropout": {0.0, 0.5},
}
SAMME = {"rule__error_floor": _log_uniform(-10, -5)}
SAMME_R = {"rule__proba_floor": _log_uniform(-10, -5)}
INJECTION = {"aggregation__mixing": ("Unif", 0, 1)}
ALIGNMENT = {
    "aggregation__epochs": range(5, 31),
    "aggregation__optimizer": OPTIMIZERS,
    "aggregation__learning_rate": _log_uniform(-5, -1),
}
FINE_TUNING = {
    "fine_tune__epochs": range(1, 101),
    "fine_tune__optimizer": OPTIMIZERS,
    "fine_tune__learning_rate": _log_uniform(-5, -1),
    "fine_tune__momentum": _log_uniform(-10, -1),
    "fine_tune__weight_decay": _log_uniform(-10, -1),
}
TABLE = {
    "adj": BOOSTING | SAMME | MODEL,
    "kta": BOOSTING | SAMME | MODEL | ALIGNMENT,
    "ii": BOOSTING | SAMME | MODEL | INJECTION,
    "samme_r": BOOSTING | SAMME_R | MODEL,
}


def _in_the_papers_words(given: Integer | Real | Choice) -> object:
    if isinstance(given, Integer):
        assert not given.log
        return range(given.low, given.high + 1, given.step)
    if isinstance(given, Choice):
        return set(given.choices)
    if given.log:
        return _log_uniform(round(math.log10(given.low)), round(math.log10(given.high)))
    return "Unif", given.low, given.high


@pytest.mark.parametrize("fine_tune", [False, True])
@pytest.mark.parametrize("variant", TABLE)
def test_the_papers_space_is_the_papers_table(variant: str, fine_tune: bool) -> None:
    space = paper_space(variant, n_train=140, fine_tune=fine_tune)
    expected = TABLE[variant] | (FINE_TUNING if fine_tune else {})
    if variant == "kta" and fine_tune:
        expected = expected | {"n_rounds": range(1, 41)}  # the paper's footnote
    assert {name: _in_the_papers_words(given) for name, given in space.ranges.items()} == expected
    assert space.base.get("fine_tune", False) is fine_tune
    for given in space.ranges.values():
        if isinstance(given, Real) and given.log:
            assert given.low == pytest.approx(10 ** round(math.log10(given.low)), rel=1e-12)


def test_the_variants_are_the_papers_parts() -> None:
    bases = {variant: paper_space(variant, n_train=9, hidden_layers=2).base for variant in VARIANTS}
    parts = {variant: (base["aggregation"], base["rule"]) for variant, base in bases.items()}
    assert parts == {
        "adj": ("adjacency", "samme"),
        "kta": ("kta", "samme"),
        "ii": ("injection", "samme"),
        "samme_r": ("adjacency", "samme_r"),
    }
    assert bases["kta"]["aggregation__degree"] == 3
    assert {base["learner__hidden_layers"] for base in bases.values()} == {2}
    assert {base["learner__standardize"] for base in bases.values()} == {False}


def test_the_papers_fine_tuned_model_is_judged_tuned() -> None:
    assert paper_space("adj", n_train=9, fine_tune=True).base["fine_tune__keep"] == "tuned"


@pytest.mark.parametrize("fine_tune", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_our_space_lies_within_the_papers(variant: str, fine_tune: bool) -> None:
    ours = default_space(variant, fine_tune=fine_tune)
    theirs = paper_space(variant, n_train=140, fine_tune=fine_tune)
    for name, given in ours.ranges.items():
        if name in ("rule__learning_rate", "rule__error_floor"):  # the paper's steps are hardly bounded
            continue
        wide = theirs.ranges[name]
        if isinstance(given, Choice):
            assert set(given.choices) <= set(wide.choices)
        else:
            assert wide.low <= given.low <= given.high <= wide.high
    assert ours.base["n_rounds"] in range(1, 41)


def test_many_training_nodes_take_less_decay_and_larger_steps() -> None:
    few, many = (default_space("adj", n_train=n).ranges for n in (200, 2000))
    assert few == default_space("adj", n_train=60).ranges == default_space("adj").ranges
    decays = [space["learner__weight_decay"] for space in (few, many)]
    assert [decays[0].low / 10, decays[0].high / 10] == pytest.approx([decays[1].low, decays[1].high])
    assert (few["rule__learning_rate"].high, many["rule__learning_rate"].high) == (0.05, 1.0)
    deep = default_space("adj", hidden_layers=2).ranges["learner__weight_decay"]
    assert deep.high < decays[0].low


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paper_space("addj", n_train=9), r"paper_space.variant must be one of adj, kta, .*'adj'\?"),
        (lambda: paper_space("adj", n_train=0), "paper_space.n_train must be an integer >= 1; got 0"),
        (
            lambda: default_space("adj", n_train=0),
            "default_space.n_train must be an integer >= 1; got 0",
        ),
        (
            lambda: default_space("adj", hidden_layers=5),
            "default_space.hidden_layers must be .* 0 to 4; got 5",
        ),
    ],
)
def test_unknown_variants_and_sizes_are_refused(call, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


def test_the_spaces_print() -> None:
    text = str(paper_space("ii", n_train=140))
    assert "aggregation = injection" in text
    assert "learner__epochs: 10 to 100 in steps of 10" in text
    assert "learner__momentum: 1e-10 to 0.1, log scale" in text


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_guide_prints_the_ranges_that_are_searched(variant):
    guide = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text()
    printed = dict(re.findall(r"^\| .*?`(\w+)` \|[^|]*\| ([^|]*?) \|$", guide, flags=re.MULTILINE))
    space = default_space(variant, fine_tune=True)
    for name, given in space.ranges.items():
        text = printed[name].partition(";")[0]
        ends = given.choices if isinstance(given, Choice) else (given.low, given.high)
        assert [float(number) for number in re.findall(r"\d[\d.e-]*", text)][:2] == list(ends), name
        assert text.endswith("log") == getattr(given, "log", False), name
    fixed = {name for name, text in printed.items() if "fixed" in text}
    assert fixed
    assert not fixed & space.ranges.keys()
