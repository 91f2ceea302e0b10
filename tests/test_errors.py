from __future__ import annotations

import pytest

from gbgnn import errors


def test_errors_are_also_the_builtin_kind_people_catch() -> None:
    assert issubclass(errors.ParameterError, ValueError)
    assert issubclass(errors.GraphError, ValueError)
    assert issubclass(errors.DatasetNotFoundError, FileNotFoundError)
    assert issubclass(errors.WeakLearnerError, RuntimeError)
    assert issubclass(errors.MissingDependencyError, ImportError)


def test_missing_dependency_says_how_to_install_it() -> None:
    error = errors.MissingDependencyError("reading Parquet", "pyarrow", "io")
    assert str(error) == 'reading Parquet needs pyarrow: pip install "gbgnn[io]".'


@pytest.mark.parametrize(("word", "hint"), [("smame", " Did you mean 'samme'?"), ("zzz", "")])
def test_suggest_only_near_words(word: str, hint: str) -> None:
    assert errors.suggest(word, ["samme", "gradient"]) == hint
