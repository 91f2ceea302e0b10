from __future__ import annotations

import json
from pathlib import Path

import pytest

from gbgnn.cli.runs import RunFolder, open_saved, unfinished
from gbgnn.errors import DataError, ModelFileError


@pytest.fixture
def place(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def test_a_run_appears_whole(place: RunFolder) -> None:
    place.start({"n_rounds": 1})
    place.checkpoint.write_text("c")
    assert not place.path.exists()
    place.finish([{"round": 1}, {"round": 2}], {"loss": 0.5})
    assert not place.partial.exists()
    assert {p.name for p in place.path.iterdir()} == {"config.toml", "history.jsonl", "metrics.json"}
    assert _rows(place, "history.jsonl") == [{"round": 1}, {"round": 2}]


def test_epochs_are_recorded_where_there_was_fine_tuning(place: RunFolder) -> None:
    place.start({})
    place.finish([{"round": 1}], {}, [{"epoch": 1, "val_loss": None}, {"epoch": 2, "val_loss": float("nan")}])
    assert _rows(place, "history.jsonl") == [{"round": 1}]
    assert _rows(place, "fine_tuning.jsonl") == [{"epoch": k, "val_loss": None} for k in (1, 2)]
    again = RunFolder(place.path, force=True)
    again.start({})
    again.finish([], {}, [])
    assert _rows(place, "fine_tuning.jsonl") == []


def _rows(place: RunFolder, name: str) -> list[dict[str, object]]:
    return [json.loads(row) for row in (place.path / name).read_text().splitlines()]


def test_a_run_is_not_replaced_unless_forced(place: RunFolder) -> None:
    place.start({})
    place.finish([], {"first": True})
    with pytest.raises(DataError, match="exists; choose another --out, or replace it with --force"):
        place.start({})
    forced = RunFolder(place.path, force=True)
    forced.start({})
    assert json.loads((place.path / "metrics.json").read_text()) == {"first": True}
    forced.finish([], {"first": False})
    assert json.loads((place.path / "metrics.json").read_text()) == {"first": False}
    assert [p.name for p in place.path.parent.iterdir()] == ["run"]


def test_a_folder_of_something_else_is_never_replaced(place: RunFolder) -> None:
    place.path.mkdir()
    place.check_free()  # empty
    (place.path / "thesis.tex").write_text("")
    with pytest.raises(DataError, match="is not a run folder and will not be replaced"):
        RunFolder(place.path, force=True).start({})
    assert (place.path / "thesis.tex").exists()


def test_an_unfinished_run_is_in_the_way_until_resumed_or_forced(place: RunFolder) -> None:
    place.start({})
    with pytest.raises(DataError, match=r"unfinished run; start over with --force"):
        place.check_free()
    place.checkpoint.write_text("c")
    with pytest.raises(DataError, match=r"go on with --resume .*run, or start over with --force"):
        place.check_free()
    RunFolder(place.path, force=True).start({})
    assert not place.checkpoint.exists()


def test_discard_keeps_a_checkpoint(place: RunFolder) -> None:
    place.start({})
    place.checkpoint.write_text("c")
    place.discard()
    assert unfinished(place.path).checkpoint == unfinished(place.partial).checkpoint == place.checkpoint
    place.checkpoint.unlink()
    place.discard()
    assert not place.partial.exists()


def test_nothing_to_go_on_with(place: RunFolder) -> None:
    with pytest.raises(DataError, match="there is no run"):
        unfinished(place.path)
    place.start({})
    with pytest.raises(DataError, match="has no checkpoint yet"):
        unfinished(place.path)
    place.finish([], {})
    with pytest.raises(DataError, match="is finished"):
        unfinished(place.path)


def test_what_is_no_model(place: RunFolder) -> None:
    with pytest.raises(ModelFileError, match="there is no run or model .*run.$"):
        open_saved(place.path)
    place.start({})
    with pytest.raises(ModelFileError, match=r"There is an unfinished .*run.partial"):
        open_saved(place.path)
    with pytest.raises(ModelFileError, match=r"holds neither model.gbgnn nor checkpoint.gbgnn"):
        open_saved(place.partial)
