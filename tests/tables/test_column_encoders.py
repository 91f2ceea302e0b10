from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtr
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from gbgnn.tables.column_encoders import (
    ENCODERS,
    CategoryEncoder,
    DateEncoder,
    NumberEncoder,
    TextEncoder,
    as_single,
    fit_knots,
    interpolate,
)
from gbgnn.tables.columns import Column, make_column
from gbgnn.tables.frames import Coded

NAN = float("nan")
FEW = {"max_onehot": 20, "rare_share": 0.002, "n_hashed": 16}


def categories(values: list[str | None], **settings: float) -> tuple[CategoryEncoder, Column]:
    column = make_column("c", np.array(values, dtype=object), "category")
    return CategoryEncoder.fit(column, **(FEW | settings)), column  # type: ignore[arg-type]


def test_quantiles_are_those_of_scikit_learn() -> None:
    values = np.random.default_rng(0).lognormal(size=5000)
    ours = interpolate(values, *fit_knots(values, 256))
    scikit = QuantileTransformer(n_quantiles=256, output_distribution="normal", subsample=None)
    theirs = np.clip(scikit.fit_transform(values[:, None])[:, 0], ours.min(), ours.max())
    # Compared as shares of the data: a knot is at most one observation elsewhere.
    np.testing.assert_allclose(ndtr(ours), ndtr(theirs), atol=2e-3)
    assert abs(ours.mean()) < 0.01
    assert 0.95 < ours.std() < 1.05


def test_few_distinct_values_are_standardised() -> None:
    values = np.random.default_rng(0).integers(0, 8, 500).astype(float)
    ours = interpolate(values, *fit_knots(values, 256))
    np.testing.assert_allclose(ours, StandardScaler().fit_transform(values[:, None])[:, 0], atol=1e-12)


def test_a_rare_value_does_not_run_away() -> None:
    values = np.zeros(100_000)
    values[0] = 1
    knots, outputs = fit_knots(values, 256)
    assert knots.tolist() == [0, 1]
    assert 9 < outputs[1] <= 10


@given(arrays(np.float64, st.integers(2, 60), elements=st.floats(-8e307, 8e307)), st.integers(2, 40))
def test_the_map_is_monotone_finite_and_centred_on_the_data(values: np.ndarray, n_quantiles: int) -> None:
    if len(np.unique(values)) < 2:
        return
    knots, outputs = fit_knots(values, n_quantiles)
    assert (np.diff(knots) > 0).all()
    assert np.isfinite(outputs).all()
    mapped = interpolate(np.sort(values), knots, outputs)
    assert (np.diff(mapped) >= -1e-9).all()
    assert np.abs(mapped).max() <= 10
    assert mapped[0] < mapped[-1]


def test_gaps_are_the_middle_and_marked_where_there_were_some() -> None:
    with_gaps = make_column("x", np.array([1.0, 3.0, NAN]))
    encoder = NumberEncoder.fit(with_gaps, 256)
    assert encoder.names() == ["x", "x=missing"]
    np.testing.assert_allclose(encoder.encode(with_gaps), [[-1, 0], [1, 0], [0, 1]])
    without = NumberEncoder.fit(make_column("x", np.array([1.0, 3.0])), 256)
    assert without.names() == ["x"]
    np.testing.assert_allclose(without.encode(with_gaps), [[-1], [1], [0]])
    np.testing.assert_array_equal(without.raw(with_gaps), [[1], [3], [NAN]])


def test_numbers_too_large_for_single_precision_stay_finite() -> None:
    np.testing.assert_array_equal(
        as_single(np.array([1e300, -1e300, NAN])), np.array([3.4028235e38, -3.4028235e38, NAN], np.float32)
    )


def test_few_categories_have_a_column_each() -> None:
    encoder, column = categories(["b", "a", None, "b"])
    assert encoder.names() == ["c=a", "c=b", "c=missing"]
    assert encoder.encode(encoder.align(column)).tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]]
    np.testing.assert_array_equal(encoder.raw(encoder.align(column)), [[1], [0], [NAN], [1]])
    assert encoder.is_categorical


def test_rare_and_unseen_categories_share_a_column() -> None:
    encoder, column = categories([*["a"] * 50, *["b"] * 48, "x", "y"], rare_share=0.05)
    assert encoder.names() == ["c=a", "c=b", "c=rare"]
    assert encoder.encode(encoder.align(column)).sum(axis=0).tolist() == [50, 48, 2]
    other = encoder.align(make_column("c", np.array(["new", "a", "x"], dtype=object)))
    assert encoder.encode(other).tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 1]]
    np.testing.assert_array_equal(encoder.raw(other), [[NAN], [0], [2]])  # trees tell the rare ones apart


def test_an_unseen_category_is_in_no_column_where_nothing_was_rare() -> None:
    encoder, _ = categories(["a", "b"])
    assert encoder.encode(encoder.align(make_column("c", np.array(["new", "b"])))).tolist() == [
        [0, 0],
        [0, 1],
    ]


def test_codes_are_those_of_the_fit_whatever_the_order_of_another_table() -> None:
    encoder, _ = categories(["a", "b", "c"])
    other = Column("c", "category", np.array([0, 1, 2, -1], np.int32), ("c", "new", "a"))
    np.testing.assert_array_equal(encoder.raw(encoder.align(other)), [[2], [NAN], [0], [NAN]])


def test_many_categories_are_hashed_with_their_frequency() -> None:
    values = [f"v{i}" for i in range(400) for _ in range(1 + i // 40)]
    encoder, column = categories([*values, None])
    names = encoder.names()
    assert names[-3:] == ["c=rare", "c:frequency", "c=missing"]
    assert len(names) <= 16 + 3
    X = encoder.encode(encoder.align(column))
    buckets = X[:, :-2]
    assert (buckets[:-1].sum(axis=1) == 1).all()  # each in one bucket, or rare
    assert X[-1].tolist() == [0.0] * (len(names) - 1) + [1.0]
    assert len(encoder.values) == 254
    frequent, rare = X[len(values) - 1], X[0]
    assert frequent[-2] > rare[-2]
    assert rare[names.index("c=rare")] == 1
    raw = encoder.raw(encoder.align(column))
    assert np.nanmax(raw) == 253
    assert np.isnan(raw[0, 0])


def test_categories_nobody_has_take_no_column() -> None:
    column = make_column("c", Coded(np.array([0, 2, 0]), np.array(["S", "M", "L"], dtype=object)))
    encoder = CategoryEncoder.fit(column, **FEW)  # type: ignore[arg-type]
    assert encoder.names() == ["c=S", "c=L"]


def test_dates_are_a_number_and_places_on_circles() -> None:
    column = make_column("d", np.array(["2024-01-01", "2024-04-02", "NaT"], "datetime64[D]"))
    encoder = DateEncoder.fit(column, 256)
    circles = [f"d:{part}_{wave}" for part in ("month", "weekday") for wave in ("sin", "cos")]
    assert encoder.names() == ["d", *circles, "d=missing"]
    X = encoder.encode(column)
    np.testing.assert_allclose(X[:2, 0], [-1, 1], atol=1e-6)
    np.testing.assert_allclose(X[:2, 1:3], [[0, 1], [1, 0]], atol=1e-6)  # January, April
    tuesday = 2 * np.pi / 7
    np.testing.assert_allclose(X[:2, 3:5], [[0, 1], [np.sin(tuesday), np.cos(tuesday)]], atol=1e-6)
    assert X[2].tolist() == [0, 0, 0, 0, 0, 1]
    assert encoder.raw_names() == ["d", "d:month", "d:weekday"]
    np.testing.assert_array_equal(encoder.raw(column), [[19723, 0, 0], [19815, 3, 1], [NAN, NAN, NAN]])


def test_parts_of_dates_that_never_differ_take_no_column() -> None:
    column = make_column("d", np.array(["2023-01-02", "2024-01-01"], "datetime64[D]"))
    assert DateEncoder.fit(column, 256).names() == ["d"]  # both Mondays in January


@pytest.mark.parametrize("day", ["1969-12-31", "1970-01-01", "2000-02-29", "1600-01-01"])
def test_weekdays_and_months_are_those_of_the_calendar(day: str) -> None:
    import datetime

    other = "1999-07-14"
    column = make_column("d", np.array([day, other], "datetime64[D]"))
    raw = DateEncoder(
        name="d", has_gaps=False, knots=np.zeros(1), outputs=np.zeros(1), parts=("month", "weekday")
    ).raw(column)
    date = datetime.date.fromisoformat(day)
    assert raw[0, 1:].tolist() == [date.month - 1, date.weekday()]


def test_text_is_hashed_as_scikit_learn_does() -> None:
    words = ["Main Street 4", None, "Mian Street 4", "Main Street 4"]
    column = make_column("t", np.array(words, dtype=object), "text")
    encoder = TextEncoder(name="t", has_gaps=True, n_columns=32)
    X = encoder.encode(column)
    hasher = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4), n_features=32)
    np.testing.assert_allclose(X[[0, 2], :32], hasher.transform([words[0], words[2]]).toarray(), rtol=1e-6)
    assert (X[0] == X[3]).all()
    assert X[1].tolist() == [0.0] * 32 + [1.0]
    assert np.isnan(encoder.raw(column)[1]).all()
    near, far = X[0, :32] @ X[2, :32], X[0, :32] @ hasher.transform(["zebra"]).toarray()[0]
    assert near > far


def test_text_of_blocks_is_that_of_the_whole() -> None:
    column = make_column("t", np.array(["red lamp", None, "old Red lamp", "lamp"], dtype=object), "text")
    encoder = TextEncoder(name="t", has_gaps=True, n_columns=8)
    aligned = encoder.align(column)
    blocks = [encoder.encode(aligned.rows(slice(i, i + 2))) for i in (0, 2)]
    np.testing.assert_array_equal(np.vstack(blocks), encoder.encode(column))


def test_every_encoder_is_known_by_a_name() -> None:
    encoder, column = categories(["b", "a", None])
    again = ENCODERS["category"].from_record(encoder.record(), encoder.state())
    assert again.names() == encoder.names()
    assert encoder.record()["encoder"] == "category"
    np.testing.assert_array_equal(again.encode(again.align(column)), encoder.encode(encoder.align(column)))
