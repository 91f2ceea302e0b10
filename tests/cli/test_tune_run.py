from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gbgnn import datasets
from gbgnn.cli.data_source import Source, to_toml
from gbgnn.cli.tune_run import build_space, describe_trial, load_hidden, name_study, to_document
from gbgnn.errors import DataError, ParameterError
from gbgnn.search import VARIANTS, Choice, Integer, Real, SearchSpace, TrialReport, default_space, paper_space


def test_the_data_of_a_search_has_no_test_label() -> None:
    data = load_hidden(Source("csbm"))
    whole = datasets.load("csbm")
    seen = [*data.train, *data.val]
    assert data.y[seen].tolist() == whole.y[seen].tolist()
    assert set(data.y[whole.test].tolist()) == {-1}


def test_data_without_validation_nodes_is_refused() -> None:
    with pytest.raises(
        DataError, match="karate has no validation nodes, .* draw some with --split stratified"
    ):
        load_hidden(Source("karate"))


def test_studies_are_named_after_what_they_search() -> None:
    data = datasets.load("karate")
    space = default_space("ii", hidden_layers=2, fine_tune=True)
    assert name_study(data, space, seed=4) == "karate-injection-samme-L2-fine-tuned-seed4"
    assert (
        name_study(data, SearchSpace({}, {"rule": Choice(["samme", "gradient"])}), seed=0) == "karate-seed0"
    )


def test_trials_are_described_in_a_few_words() -> None:
    assert describe_trial(TrialReport("complete", 0.5, 0.75, 1, 9)) == "complete 0.5000  best 0.7500"
    assert describe_trial(TrialReport("failed", None, None, 9, 9)) == "failed  best -"


def _build(file: Path | None = None, **options) -> SearchSpace:
    usual = {"variant": None, "is_paper": False, "hidden_layers": None, "fine_tune": False, "n_train": 20}
    return build_space(file, **{**usual, **options})


def _read(text: str, tmp_path: Path, **options) -> SearchSpace:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return _build(path, **options)


@pytest.mark.parametrize("fine_tune", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_spaces_survive_a_file(variant: str, fine_tune: bool, tmp_path: Path) -> None:
    paper = paper_space(variant, n_train=20, fine_tune=fine_tune)
    ours = default_space(variant, hidden_layers=3, fine_tune=fine_tune)
    listed = {"fine_tune__moves": [["learners", "etas"]]} if fine_tune else {}
    for space in (paper, ours, ours.changed({"rule": "gradient", **listed})):
        again = _read(to_toml(to_document(space)), tmp_path)
        assert again == space
        assert again.to_document() == space.to_document()


def test_a_space_without_parts_or_with_plain_fine_tuning_survives_too(tmp_path: Path) -> None:
    space = SearchSpace({"fine_tune": True}, {"n_rounds": Integer(1, 9)})
    assert tomllib.loads(to_toml(to_document(space)))["space"]["fine_tune"] is True
    assert _read(to_toml(to_document(space)), tmp_path) == space


def test_options_choose_the_space_that_a_file_changes(tmp_path: Path) -> None:
    assert _build() == default_space("adj")
    assert _build(variant="kta", is_paper=True, hidden_layers=2, fine_tune=True) == paper_space(
        "kta", hidden_layers=2, fine_tune=True, n_train=20
    )
    text = '[space]\nvariant = "kta"\n'
    assert _read(text, tmp_path) == default_space("kta")
    assert _read(text, tmp_path, variant="ii") == default_space("ii")
    assert _read("[space.learner]\nhidden_layers = 3", tmp_path, hidden_layers=2) == _build(hidden_layers=2)


def test_a_file_narrows_fixes_and_widens(tmp_path: Path) -> None:
    space = _read(
        """
        [space]
        variant = "kta"
        n_rounds = {low = 5, high = 60}
        select = "last"
        [space.learner]
        units = {low = 16, high = 64}
        optimizer = ["adam"]
        epochs = 50
        momentum = {low = 0, high = 0.9}
        [space.aggregation]
        degree = [2, 3]
        """,
        tmp_path,
    )
    expected = default_space("kta").changed(
        {
            "n_rounds": Integer(5, 60),
            "select": "last",
            "learner__units": Integer(16, 64, log=True),
            "learner__optimizer": "adam",
            "learner__epochs": 50,
            "learner__momentum": Real(0.0, 0.9),
            "aggregation__degree": Choice([2, 3]),
        }
    )
    assert space == expected


def test_a_table_of_fine_tuning_turns_it_on(tmp_path: Path) -> None:
    space = _read("[space.fine_tune]\nepochs = 20\n", tmp_path)
    assert space == default_space("adj", fine_tune=True).changed({"fine_tune__epochs": 20})
    assert _read("[space]\nfine_tune = false\n", tmp_path).build({}, seed=0).fine_tune is False


def test_another_part_brings_its_own_settings(tmp_path: Path) -> None:
    space = _read('[space.rule]\nname = "gradient"\nlearning_rate = {low = 0.1, high = 1.0}\n', tmp_path)
    assert "rule__error_floor" not in space.ranges
    assert space.ranges["rule__learning_rate"] == Real(0.1, 1.0)
    assert _read('[space]\nrule = "gradient"\n', tmp_path).base["rule"] == "gradient"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[spaces]\n", r"mine.toml: unknown key 'spaces'. Did you mean 'space'\? Known: space."),
        ("space = 3\n", r"mine.toml: space must be a table, \[space\]; got 3."),
        (
            '[space]\nvariant = "ktaa"\n',
            r"variant must be one of adj, .*, custom; got 'ktaa'. Did you mean 'kta'",
        ),
        ("[space]\nvariant = 3\n", "variant must be one of adj, kta, ii, samme_r, custom; got 3.$"),
        ("[space]\nn_round = 3\n", r"mine.toml, \[space\]: unknown key 'n_round'. Did you mean 'n_rounds'"),
        ("[space.learner]\nunitz = 3\n", r"\[space\]: learner.unitz is unknown: .* Did you mean 'units'"),
        (
            "[space.aggregation]\nmixing = 0.5\n",
            "aggregation.mixing belongs to aggregation injection or lazy; the aggregation of this run is adj",
        ),
        (
            "[space.learner]\nunits = {low = 3}\n",
            r"mine.toml, \[space\]: learner.units: a range needs high; got {'low': 3}. Write {low = 1, high",
        ),
        ("[space]\nrandom_state = 3\n", "random_state is no part of a space"),
    ],
)
def test_mistakes_are_named_with_their_key(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=message):
        _read(text, tmp_path)


def test_what_is_no_toml_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="mine.toml is not a TOML file"):
        _read("[space\n", tmp_path)
