from __future__ import annotations

from pathlib import Path

import pytest

from gbgnn.errors import DataError, ParameterError
from gbgnn_lab.experiments.experiment import Experiment, Options, Shelf, best_settings
from gbgnn_lab.experiments.pages import Page
from gbgnn_lab.experiments.protocol import Protocol
from gbgnn_lab.experiments.records import Record

PLAIN = Experiment(
    "plain",
    lambda data, options, shelf: iter(()),
    lambda shelf: Page("Plain", []),
    Options(datasets=("cora", "pubmed"), runs=10),
    Options(runs=2, trials=5),
)


def test_what_is_left_open_is_the_experiments_choice():
    chosen = PLAIN.options(Options(runs=3))
    assert (chosen.runs, chosen.datasets, chosen.trials, chosen.out) == (
        3,
        ("cora", "pubmed"),
        None,
        "results",
    )


def test_a_quick_run_has_its_own_numbers_and_folder():
    chosen = PLAIN.options(Options(quick=True, trials=7, out="here"))
    assert (chosen.runs, chosen.datasets, chosen.trials) == (2, ("cora", "pubmed"), 7)
    assert chosen.out == Path("here", "quick")


def test_the_protocol_is_made_of_what_is_given():
    assert Options().protocol == Protocol()
    assert Options(trials=7, space="default", population=4, confirm=2).protocol == Protocol(
        trials=7, space="default", population=4, confirm=2
    )


def test_the_command_holds_what_was_asked_for_and_no_path():
    options = Options(
        datasets=("cora", "pubmed"),
        layers=(0, 2),
        quick=True,
        jobs=2,
        out="/some/where",
        data_dir="/else/where",
        data_options={"n_nodes": 60},
    )
    assert options.command("table4") == (
        "gbgnn reproduce table4 --dataset cora --dataset pubmed --layers 0 --layers 2 --quick --jobs 2 "
        "--data-option n_nodes=60"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"variants": ("ajd",)}, "Options.variants must be one of adj, .*; got 'ajd'"),
        ({"layers": (5,)}, "Options.layers must be an integer from 0 to 4; got 5"),
        ({"depths": (0,)}, "Options.depths must be an integer >= 1; got 0"),
        ({"runs": 0}, "Options.runs must be an integer >= 1, or None; got 0"),
        ({"confirm": -1}, "Options.confirm must be an integer >= 0, or None; got -1"),
        ({"space": "wide"}, "Options.space must be one of paper, default, quick; got 'wide'"),
        ({"jobs": 0}, "Options.jobs must be an integer >= 1; got 0"),
    ],
)
def test_options_must_be_possible(changes, words):
    with pytest.raises(ParameterError, match=words):
        Options(**changes)


def test_data_sets_are_loaded_by_name():
    options = Options(datasets=("csbm",), data_options={"n_nodes": 60, "per_class": 6})
    assert options.load_data()["csbm"].graph.n_nodes == 60


def test_two_data_sets_of_one_name_are_refused():
    options = Options(datasets=("csbm", "csbm"), data_options={"n_nodes": 60, "per_class": 6})
    with pytest.raises(ParameterError, match=r"two of the data sets have the same name \(csbm, csbm\)"):
        options.load_data()


def test_data_without_validation_nodes_is_refused():
    with pytest.raises(DataError, match="karate has no val nodes"):
        Options(datasets=("karate",)).load_data()


def test_a_shelf_has_the_records_of_every_experiment(tmp_path):
    shelf = Shelf(tmp_path)
    shelf.file("one").append(Record({"run": 1}))
    shelf.file("two").append(Record({"run": 2}))
    assert [record["run"] for record in shelf.read("two", "none", "one")] == [2, 1]
    assert (tmp_path / "one" / "records.jsonl").exists()


def test_the_best_settings_are_those_of_the_best_search():
    found = [
        Record({}, settings={"units": units}, results={"search_accuracy": value})
        for units, value in ((1, 0.7), (2, 0.8), (3, 0.8))
    ]
    assert best_settings([Record({}, failure="no"), *found]) == {"units": 2}
    assert best_settings([Record({}, failure="no")]) is None
