from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gbgnn.theory import GeneralisationBound
from gbgnn.theory.generalisation import sum_of_classes


def bound(training: float = 0.1, **changed: object) -> GeneralisationBound:
    settings = {"delta": 0.5, "confidence": 0.95, "form": "corrected", "steps": "fixed", **changed}
    return GeneralisationBound(training, (0.2, 0.05), 0.02, partition=0.03, **settings)


def test_total_is_the_sum_of_the_terms() -> None:
    assert bound().complexity == pytest.approx(0.25)
    assert bound().total == pytest.approx(0.4)


def test_the_sharp_form_pays_for_no_partition_and_no_imbalance() -> None:
    bare = GeneralisationBound(0.1, (0.2,), 0.02, delta=0.5, confidence=0.95, form="sharp", steps="any")
    assert (bare.partition, bare.imbalance, bare.label) == (0.0, 0.0, None)
    assert bare.total == pytest.approx(0.32)


def test_a_bound_of_one_or_more_is_called_vacuous() -> None:
    assert not bound().is_vacuous
    assert bound(0.71).is_vacuous
    assert "test error <= 1.01 with confidence 0.95 (vacuous: it says nothing)" in str(bound(0.71))
    assert "test error <= 0.4 with confidence 0.95 (it says something)" in str(bound())


def test_every_term_and_note_is_printed_and_json() -> None:
    whole = bound(notes=("as it is",))
    for part in (
        "training, margin 0.5",
        "complexity of 2 rounds",
        "partition",
        "deviation",
        "note: as it is",
    ):
        assert part in str(whole)
    document = whole.to_dict()
    assert json.loads(json.dumps(document))["total"] == pytest.approx(0.4)
    assert document["complexities"] == (0.2, 0.05)
    assert document["is_vacuous"] is False


def test_strata_of_unequal_shares_are_a_term() -> None:
    assert bound(imbalance=0.01).total == pytest.approx(0.41)
    assert "imbalance of strata     0.01" in str(bound(imbalance=0.01))
    assert "partition" not in str(replace(bound(), partition=0.0))


def test_errors_of_classes_add_up_term_by_term() -> None:
    parts = (bound(0.1, label="a"), bound(0.3, label="b", delta=0.25))
    whole = sum_of_classes(parts, 0.9, ("two",))
    assert whole.total == pytest.approx(parts[0].total + parts[1].total)
    assert whole.complexities == pytest.approx((0.4, 0.1))
    assert (whole.delta, whole.label) == (0.5, None)
    assert (whole.confidence, whole.notes, whole.per_class) == (0.9, ("two",), parts)
    assert [part["label"] for part in whole.to_dict()["per_class"]] == ["a", "b"]
