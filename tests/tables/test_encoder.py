from __future__ import annotations

import json
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from gbgnn.errors import GBGNNWarning, GraphError, ParameterError
from gbgnn.tables import NodeTable, TableEncoder
from gbgnn.tables import encoder as encoder_module

N = 300


def mixed(n: int = N, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    age = random.normal(40, 10, n)
    age[::7] = np.nan
    frame = pd.DataFrame(
        {
            "age": age,
            "rooms": random.integers(1, 5, n),
            "owner": random.random(n) < 0.3,
            "city": random.choice(["Oslo", "Rome", "Bern"], n),
            "shop": [f"shop {i}" for i in random.integers(0, 40, n)],
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 900, n), unit="D"),
            "street": [
                f"{random.integers(1000)} {random.choice(['Main', 'Mill'])} Road {i}" for i in range(n)
            ],
            "year": 2024,
            "void": None,
            "once": np.where(random.random(n) < 0.5, 1.0, np.nan),
        }
    )
    return frame.assign(age_again=frame["age"])


@pytest.fixture
def encoder() -> TableEncoder:
    return TableEncoder().fit(mixed())


def test_a_mixed_table_becomes_finite_numbers_with_names(encoder: TableEncoder) -> None:
    X = encoder.transform(mixed())
    names = encoder.get_feature_names_out().tolist()
    assert X.dtype == np.float32
    assert X.shape == (N, len(names))
    assert len(set(names)) == len(names)
    assert np.isfinite(X).all()
    assert (X.std(axis=0) > 0).all()
    assert names[:5] == ["age", "age=missing", "rooms", "owner", "city=Bern"]
    assert "once=missing" in names
    assert "shop:frequency" in names
    assert "street#31" in names


def test_what_says_nothing_is_dropped_and_named(encoder: TableEncoder) -> None:
    assert encoder.report_[:3] == (
        "dropped 'year': it is 2024 everywhere.",
        "dropped 'void': it is missing everywhere.",
        "dropped 'age_again': it equals 'age' in every row.",
    )
    assert "'age' became 2 columns, gaps marked." in encoder.report_
    assert encoder.n_features_in_ == 11
    assert encoder.feature_names_in_.tolist() == list(mixed())


def test_columns_come_in_any_order_and_dropped_ones_need_not_come(encoder: TableEncoder) -> None:
    other = mixed(seed=1)
    expected = encoder.transform(other)
    shuffled = other[other.columns[::-1]].drop(columns=["year", "void", "age_again"])
    np.testing.assert_array_equal(encoder.transform(shuffled), expected)


def test_rows_are_encoded_one_by_one(encoder: TableEncoder) -> None:
    whole, table = encoder.transform(mixed()), NodeTable(mixed())
    np.testing.assert_array_equal(encoder.transform(table.rows([5, 2])), whole[[5, 2]])
    np.testing.assert_array_equal(encoder.transform(mixed().iloc[[5, 2]]), whole[[5, 2]])


def test_blocks_put_together_are_the_matrix(encoder: TableEncoder, monkeypatch: Any) -> None:
    whole = encoder.transform(mixed())
    blocks = list(encoder.transform_blocks(mixed(), 70))
    assert [len(block) for block in blocks] == [70, 70, 70, 70, 20]
    np.testing.assert_array_equal(np.vstack(blocks), whole)
    monkeypatch.setattr(encoder_module, "BLOCK_ROWS", 64)
    np.testing.assert_array_equal(encoder.transform(mixed()), whole)
    with pytest.raises(ParameterError, match="block_rows must be an integer >= 1; got 0"):
        next(encoder.transform_blocks(mixed(), 0))


def test_streaming_holds_one_block_at_a_time() -> None:
    table = NodeTable({"a": np.random.default_rng(0).normal(size=400_000), "b": np.arange(400_000) % 15})
    table = NodeTable(table, kinds={"b": "category"})
    encoder = TableEncoder().fit(table)
    tracemalloc.start()
    for block in encoder.transform_blocks(table, 4096):
        assert block.shape[1] == 16
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400_000 * 16 * 4 / 4


def test_a_missing_column_is_named(encoder: TableEncoder) -> None:
    with pytest.raises(GraphError, match="the table has no column 'city', which the encoder was fitted with"):
        encoder.transform(mixed().drop(columns=["city", "year"]))


def test_other_columns_are_ignored_with_a_warning(encoder: TableEncoder) -> None:
    with pytest.warns(GBGNNWarning, match="not fitted with are ignored: shoe_size, hat."):
        X = encoder.transform(mixed().assign(shoe_size=41, hat="red"))
    np.testing.assert_array_equal(X, encoder.transform(mixed()))


def test_another_kind_of_value_is_read_if_it_can_be(encoder: TableEncoder) -> None:
    other = mixed().assign(owner=mixed()["owner"].astype(float), rooms=mixed()["rooms"].astype(str))
    np.testing.assert_array_equal(encoder.transform(other), encoder.transform(mixed()))
    with pytest.raises(GraphError, match="column 'age' holds 'old', which is no number"):
        encoder.transform(mixed().assign(age="old"))
    nothing = encoder.transform(mixed().assign(city=None))
    names = encoder.get_feature_names_out().tolist()
    assert not nothing[:, names.index("city=Oslo")].any()


def test_trees_see_numbers_as_they_are_and_codes(encoder: TableEncoder) -> None:
    raw = encoder.raw(mixed())
    assert raw.matrix.dtype == np.float32
    assert raw.matrix.shape == (N, len(raw.names)) == (N, len(raw.categorical))
    named = dict(zip(raw.names, raw.matrix.T, strict=True))
    np.testing.assert_array_equal(named["age"], mixed()["age"].to_numpy(np.float32))
    np.testing.assert_array_equal(named["owner"], mixed()["owner"].to_numpy(np.float32))
    cities = np.array(["Bern", "Oslo", "Rome"])[named["city"].astype(int)]
    assert cities.tolist() == mixed()["city"].tolist()
    categorical = [name for name, yes in zip(raw.names, raw.categorical, strict=True) if yes]
    assert categorical == ["city", "shop"]
    unseen = encoder.raw(mixed().assign(city="Paris"))
    assert np.isnan(unseen.matrix[:, raw.names.index("city")]).all()


def test_labels_play_no_part() -> None:
    one, two = TableEncoder().fit(mixed(), np.zeros(N)), TableEncoder().fit(mixed(), np.arange(N))
    np.testing.assert_array_equal(one.transform(mixed()), two.transform(mixed()))


def test_a_record_of_json_and_arrays_is_the_encoder(encoder: TableEncoder) -> None:
    record = json.loads(json.dumps(encoder.record()))
    arrays = encoder.state()
    assert all(isinstance(array, np.ndarray) and array.dtype.kind in "if" for array in arrays.values())
    again = TableEncoder.from_record(record, arrays)
    other = mixed(seed=2)
    np.testing.assert_array_equal(again.transform(other), encoder.transform(other))
    np.testing.assert_array_equal(again.raw(other).matrix, encoder.raw(other).matrix)
    assert again.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()
    assert again.report_ == encoder.report_
    assert again.get_params() == encoder.get_params()


def test_scikit_learns_manners(encoder: TableEncoder) -> None:
    fresh = clone(TableEncoder(n_text=8))
    assert fresh.n_text == 8
    with pytest.raises(NotFittedError):
        fresh.transform(mixed())
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(encoder)).transform(mixed()), encoder.transform(mixed())
    )
    frame = TableEncoder().set_output(transform="pandas").fit_transform(mixed())
    assert list(frame) == encoder.get_feature_names_out().tolist()
    np.testing.assert_array_equal(frame.to_numpy(), encoder.transform(mixed()))
    y = (mixed()["city"] == "Oslo").to_numpy()
    model = make_pipeline(TableEncoder(), LogisticRegression(max_iter=500)).fit(mixed(), y)
    assert model.score(mixed(), y) == 1


@pytest.mark.parametrize("setting", ["n_quantiles", "max_onehot", "n_hashed", "n_text"])
def test_settings_are_checked(setting: str) -> None:
    with pytest.raises(ParameterError, match=f"TableEncoder.{setting} must be an integer >= 2; got 1"):
        TableEncoder(**{setting: 1}).fit(mixed())
    with pytest.raises(ParameterError, match=r"TableEncoder.rare_share must be in \[0, 1\]; got 2"):
        TableEncoder(rare_share=2).fit(mixed())


def test_a_table_that_says_nothing_is_refused() -> None:
    with pytest.raises(GraphError, match="no column tells nodes apart: dropped 'a': it is 1 everywhere."):
        TableEncoder().fit({"a": [1, 1], "b": [None, None]})


def test_trees_of_scikit_learn_take_the_raw_columns(encoder: TableEncoder) -> None:
    raw = encoder.raw(mixed())
    y = (mixed()["city"] == "Oslo").to_numpy() ^ mixed()["age"].isna().to_numpy()
    trees = HistGradientBoostingClassifier(categorical_features=raw.categorical, max_iter=20, random_state=0)
    assert trees.fit(raw.matrix, y).score(raw.matrix, y) == 1


def sentence_of(call: Callable[[], Any]) -> str:
    """What a call says against its arguments."""
    try:
        call()
    except GraphError as error:
        return str(error)
    return ""


CELLS = st.one_of(
    st.lists(st.one_of(st.none(), st.floats(-8e307, 8e307)), min_size=12, max_size=12),
    st.lists(st.one_of(st.none(), st.integers(-5, 5)), min_size=12, max_size=12),
    st.lists(st.one_of(st.none(), st.booleans()), min_size=12, max_size=12),
    st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=12, max_size=12),
    st.lists(st.one_of(st.none(), st.dates()), min_size=12, max_size=12),
)


@given(
    st.lists(CELLS, min_size=1, max_size=4),
    st.lists(CELLS, min_size=4, max_size=4),
    st.permutations(range(4)),
)
def test_whatever_the_table_numbers_are_finite_and_a_record_is_the_encoder(
    columns: list[Any], others: list[Any], order: list[int]
) -> None:
    table = {f"c{i}": values for i, values in enumerate(columns)}
    encoder = TableEncoder(max_onehot=3, n_hashed=2)
    refusal = sentence_of(lambda: encoder.fit(table))
    if refusal:
        assert "no column tells nodes apart" in refusal
        return
    X = encoder.transform(table)
    assert np.isfinite(X).all()
    assert X.shape[1] == len(encoder.get_feature_names_out())
    shuffled = {f"c{i}": table[f"c{i}"] for i in order if i < len(columns)}
    np.testing.assert_array_equal(encoder.transform(shuffled), X)
    again = TableEncoder.from_record(json.loads(json.dumps(encoder.record())), encoder.state())
    np.testing.assert_array_equal(again.transform(table), X)
    raw = encoder.raw(table)
    assert not np.isinf(raw.matrix).any()
    other = {f"c{i}": values for i, values in enumerate(others[: len(columns)])}
    refusal = sentence_of(lambda: encoder.transform(other))  # one kind cannot be read as another
    assert "column 'c" in refusal if refusal else np.isfinite(encoder.transform(other)).all()
