from __future__ import annotations

import pytest

from gbgnn import datasets
from gbgnn.cli.data_source import Source
from gbgnn.cli.tune_run import describe_trial, load_hidden, name_study
from gbgnn.errors import DataError
from gbgnn.search import Choice, SearchSpace, TrialReport, default_space


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
