from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gbgnn._files import as_plain, atomic_path, to_json, write_text


def test_failure_leaves_the_old_file_and_no_rubbish(tmp_path: Path) -> None:
    target = tmp_path / "folder" / "note.txt"
    write_text(target, "old")

    def fail_half_way() -> None:
        with atomic_path(target) as part:
            part.write_text("new")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail_half_way()
    assert target.read_text() == "old"
    assert list(target.parent.iterdir()) == [target]


def test_success_replaces_the_file_with_usual_permissions(tmp_path: Path) -> None:
    target = tmp_path / "note.txt"
    write_text(target, "old")
    write_text(target, "new")
    plain = tmp_path / "plain.txt"
    plain.write_text("")
    assert target.read_text() == "new"
    assert target.stat().st_mode == plain.stat().st_mode


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
