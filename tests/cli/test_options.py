from __future__ import annotations

import pytest

from gbgnn.cli.command import UsageError
from gbgnn.cli.options import as_split, key_values


def test_values_are_read_as_toml() -> None:
    assert key_values(["a=1", "b=x=y", "c=[1, 2]"], "--f") == {"a": 1, "b": "x=y", "c": [1, 2]}
    assert key_values(None, "--f") == {}


@pytest.mark.parametrize("word", ["a", "=1", "a b=1"])
def test_words_without_name_or_value_are_refused(word: str) -> None:
    with pytest.raises(UsageError, match="--f must look like NAME=VALUE; got"):
        key_values([word], "--f")


def test_folds_are_numbers() -> None:
    assert as_split("3") == 3
    assert as_split("stratified") == "stratified"
    assert as_split(None) is None
