from __future__ import annotations

from pathlib import Path

import pytest

from gbgnn._files import atomic_path, write_text


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
