from __future__ import annotations

import math
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbgnn.cli import toml
from gbgnn.errors import DataError

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
SCALARS = st.one_of(
    st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False), TEXT, st.lists(st.integers(0, 9))
)
TABLES = st.recursive(
    st.dictionaries(TEXT, SCALARS, min_size=1, max_size=3),
    lambda inner: st.dictionaries(TEXT, st.one_of(SCALARS, inner), min_size=1, max_size=3),
    max_leaves=6,
)


@given(TABLES)
def test_what_is_written_is_read_back(document: dict) -> None:
    assert tomllib.loads(toml.dumps(document)) == document


def test_none_and_empty_tables_are_left_out_and_keys_become_text() -> None:
    assert toml.dumps({"a": None, "b": {}, "c": {0: math.inf}}) == "[c]\n0 = inf\n"


def test_a_file_that_is_not_toml_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("a = = 1")
    with pytest.raises(DataError, match=r"x.toml is not a TOML file"):
        toml.read(path)
    path.write_bytes(b"a = '\xff'")
    with pytest.raises(DataError, match="not a TOML file"):
        toml.read(path)
