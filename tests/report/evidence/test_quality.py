from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, r2_score

from gbgnn.report import Subject
from gbgnn.report.evidence.quality import measure_parts, resampled_interval, share_interval


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilsons_interval_has_its_closed_form(case: tuple[int, int]) -> None:
    k, n = case
    z, p = 1.959963984540054, k / n
    middle, half = (p + z * z / (2 * n)), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    wanted = np.array([middle - half, middle + half]) / (1 + z * z / n)
    assert share_interval(k, n) == pytest.approx(wanted.clip(0, 1), abs=1e-9)


def test_accuracy_is_that_of_scikit_learn(classes: Subject) -> None:
    for found in measure_parts(classes):
        part = classes.part(found.part)
        assert found.value == (part.truth == classes.model.predict(part.nodes)).mean()
        assert found.low <= found.value <= found.high


def test_labels_are_judged_by_micro_f1(labels: Subject) -> None:
    found = measure_parts(labels)[-1]
    test = labels.part("test")
    wanted = f1_score(test.truth, labels.model.predict(test.nodes), average="micro", zero_division=0.0)
    assert found.value == pytest.approx(wanted)
    assert found.low <= found.value <= found.high


def test_numbers_are_judged_by_r2(numbers: Subject) -> None:
    found = measure_parts(numbers)[-1]
    test = numbers.part("test")
    assert found.value == pytest.approx(r2_score(test.truth, numbers.model.predict(test.nodes)))
    assert found.low < found.value < found.high


def test_a_record_stands_in_for_data(bare: Subject) -> None:
    (found,) = measure_parts(bare)
    assert (found.part, found.n_nodes, found.value) == ("test", 20, 0.85)
    assert (found.low, found.high) == share_interval(17, 20)


def test_resampling_covers_the_mean_of_normal_numbers() -> None:
    covered = 0
    for seed in range(200):
        sample = np.random.default_rng(seed).normal(size=60)
        low, high = resampled_interval(lambda rows, sample=sample: float(sample[rows].mean()), 60)
        covered += low <= 0 <= high
    assert 0.88 <= covered / 200 <= 0.99


def test_nothing_is_resampled_from_one_node() -> None:
    assert resampled_interval(lambda rows: 1.0, 1) == (None, None)
    assert resampled_interval(lambda rows: np.nan, 5) == (None, None)


def test_r2_of_constant_numbers_is_unknown(numbers: Subject) -> None:
    parts = tuple(replace(part, truth=np.ones(len(part.truth))) for part in numbers.parts)
    found = measure_parts(replace(numbers, parts=parts))
    assert all((each.value, each.low, each.high) == (None, None, None) for each in found)
