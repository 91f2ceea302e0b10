from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gbgnn._json import as_plain, to_json


def test_everything_becomes_plain() -> None:
    value = {"a": np.float64(0.5), 1: (np.arange(2), None), "p": Path("x"), "b": np.bool_(True), "d": "é"}
    assert as_plain(value) == {"a": 0.5, "1": [[0, 1], None], "p": "x", "b": True, "d": "é"}
    assert json.loads(to_json(value)) == as_plain(value)


def test_other_objects_are_what_the_caller_says() -> None:
    assert as_plain([{1}], unknown=sorted) == [[1]]
    with pytest.raises(ZeroDivisionError):
        as_plain(object(), unknown=lambda _: 1 / 0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), np.float32("nan")])
def test_json_is_standard(value: float) -> None:
    assert json.loads(to_json({"x": [value]})) == {"x": [None]}
