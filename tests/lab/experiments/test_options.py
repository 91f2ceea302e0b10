from __future__ import annotations

import pytest

from gbgnn.errors import ParameterError
from gbgnn_lab.experiments.options import CompareOptions, Options, Protocol, write_command


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
    assert write_command(options, "table4") == (
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


def test_the_command_asks_for_the_same():
    options = CompareOptions(names=("a b", "cora"), runs=2, normalize=False, jobs=3, data_options={"n": 1})
    assert write_command(options) == (
        "gbgnn compare 'a b' cora --runs 2 --jobs 3 --no-normalize --data-option n=1"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"names": ()}, "there is no data to compare on"),
        ({"splits": 0}, "CompareOptions.splits must be an integer >= 1; got 0"),
        ({"runs": 0}, "CompareOptions.runs must be an integer >= 1, or None; got 0"),
        ({"jobs": 0}, "CompareOptions.jobs must be an integer >= 1; got 0"),
    ],
)
def test_a_comparison_must_be_possible(changes, words):
    with pytest.raises(ParameterError, match=words):
        CompareOptions(**{"names": ("cora",)} | changes)
