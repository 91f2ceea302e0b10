"""A few hundred hostile inputs of every kind; ``make fuzz`` tries 20,000."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gbgnn.datasets import read_npz, read_tables
from gbgnn.datasets.pickles import read_pickle
from gbgnn.errors import DataError, GBGNNError

for package in ("pyarrow", "safetensors", "tomli_w", "typer", "optuna", "duckdb"):
    pytest.importorskip(package)

FOLDER = str(Path(__file__).parents[1] / "benchmarks")
CASES = {"command line": 6, "config": 6, "space": 2, "model file, forged": 25, "arguments": 15}


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(FOLDER)
    import fuzz

    yield fuzz
    for name in ("fuzz", "fuzz_targets", "hostile", "common"):
        sys.modules.pop(name, None)


TARGETS = (
    *(
        "npz",
        "gbgraph",
        "csv",
        "arrow",
        "planetoid",
        "graphland",
        "model file, damaged",
        "model file, forged",
    ),
    *("config", "space", "command line", "arguments"),
)


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_inputs_are_refused_or_in_order(fuzz: Any, name: str) -> None:
    found = list(fuzz.run_target(name, seed=1, numbers=range(CASES.get(name, 40)), seconds=60))
    assert len(found) == CASES.get(name, 40)
    assert [each for each in found if each.outcome not in fuzz.GOOD] == []


@pytest.mark.parametrize(
    ("name", "number"),
    [("npz", 53), ("npz", 123), ("npz", 707), ("npz", 1310), ("arrow", 409), ("arrow", 674)],
)
def test_what_was_found_once_stays_mended(fuzz: Any, name: str, number: int) -> None:
    (found,) = fuzz.run_target(name, seed=0, numbers=range(number, number + 1), seconds=60)
    assert found.outcome in fuzz.GOOD, found


def test_no_target_is_left_out(fuzz: Any) -> None:
    assert set(fuzz.TARGETS) == set(TARGETS)
    assert sum(fuzz.count_cases(20_000).values()) >= 19_990


@pytest.mark.parametrize(
    ("act", "outcome"),
    [
        (lambda: 1 // 0, "foreign"),
        (lambda: bytearray(1 << 60), "memory"),
        (lambda: __import__("os").abort(), "crash"),
        (lambda: __import__("time").sleep(60), "hang"),
        (lambda: "accepted", "accepted"),
    ],
)
def test_what_goes_wrong_is_a_finding(fuzz: Any, monkeypatch: pytest.MonkeyPatch, act, outcome) -> None:
    monkeypatch.setitem(fuzz.TARGETS, "csv", (lambda rng, folder: act, 1))
    monkeypatch.setattr(fuzz, "MEMORY", 1 << 29)
    found = list(fuzz.run_target("csv", 0, range(2), seconds=3))
    assert [(each.number, each.outcome) for each in found] == [(0, outcome), (1, outcome)]


often = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.integers(), inner, max_size=3),
    max_leaves=8,
)


@often
@given(st.binary(max_size=60) | plain.map(lambda value: pickle.dumps(value, 4)))
def test_any_pickle_is_plain_values_or_refused(tmp_path, content) -> None:
    path = tmp_path / "ind.x.graph"
    path.write_bytes(content)
    try:
        value = read_pickle(path)
    except DataError:
        return
    assert pickle.loads(content) == value


@often
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_an_archive_or_refused(tmp_path, content, is_zip) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes((b"PK\x03\x04" if is_zip else b"") + content)
    with pytest.raises(GBGNNError):
        read_npz(path)


@often
@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_is_a_table_or_refused(tmp_path, nodes, edges) -> None:
    (tmp_path / "nodes.csv").write_bytes(nodes.encode("utf-8", "surrogatepass"))
    (tmp_path / "edges.csv").write_bytes(edges.encode("utf-8", "surrogatepass"))
    with pytest.raises(GBGNNError):
        read_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", split="stratified")
