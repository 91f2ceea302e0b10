from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gbgnn.errors import DataError
from gbgnn.runs import (
    CONFIG,
    MODEL,
    SPACE,
    RunFolder,
    Terminated,
    catch_termination,
    describe_versions,
    lock_folder,
    remove_run,
)

OURS = {CONFIG: '[run.versions]\ngbgnn = "0.2"\n'}


@pytest.fixture
def place(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def _make(path: Path, text: str = "", force: bool = False) -> RunFolder:
    run = RunFolder(path, force)
    run.start(OURS)
    run.finish({"metrics.json": text})
    return run


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_run_appears_whole(place: RunFolder) -> None:
    place.start(OURS)
    place.checkpoint.write_text("c")
    assert not place.path.exists()
    place.finish({"history.jsonl": "{}\n"})
    assert not place.partial.exists()
    assert _names(place.path) == {CONFIG, "history.jsonl"}
    assert _names(place.path.parent) == {"run"}


def test_a_run_is_not_replaced_unless_forced(place: RunFolder) -> None:
    _make(place.path, "first")
    with pytest.raises(DataError, match="exists; choose another --out, or replace it with --force"):
        place.start(OURS)
    forced = RunFolder(place.path, force=True)
    forced.start(OURS)
    assert (place.path / "metrics.json").read_text() == "first"
    forced.finish({"metrics.json": "second"})
    assert (place.path / "metrics.json").read_text() == "second"
    assert _names(place.path.parent) == {"run"}


@pytest.mark.parametrize("name", ["thesis.tex", CONFIG])
def test_a_folder_of_something_else_is_never_replaced(place: RunFolder, name: str) -> None:
    place.path.mkdir()
    place.check_free()  # empty
    (place.path / name).write_text('title = "My site"\n')
    with pytest.raises(DataError, match="is not a run folder and will not be replaced"):
        RunFolder(place.path, force=True).start(OURS)
    assert _names(place.path.parent) == {"run"}
    assert _names(place.path) == {name}


def test_a_file_in_a_run_that_no_run_wrote_keeps_the_run(place: RunFolder) -> None:
    _make(place.path)
    (place.path / "notes.md").write_text("dear diary")
    with pytest.raises(DataError, match=r"holds what no run wrote \(notes.md\) and will not be replaced"):
        RunFolder(place.path, force=True).start(OURS)
    assert (place.path / "notes.md").exists()


@pytest.mark.parametrize("name", ["run.replaced", "run.new", ".run.replaced"])
def test_other_folders_beside_a_run_stay(place: RunFolder, name: str) -> None:
    other = place.path.with_name(name)
    other.mkdir()
    (other / "thesis").write_text("")
    _make(place.path)
    _make(place.path, force=True)
    assert _names(place.path.parent) == {"run", name}
    assert _names(other) == {"thesis"}


def test_a_folder_that_is_filled_meanwhile_is_not_replaced(place: RunFolder) -> None:
    place.start(OURS)
    place.path.mkdir()
    (place.path / "thesis").write_text("")
    with pytest.raises(DataError, match="run was filled while the run was being made, and stays"):
        place.finish({MODEL: "m"})
    assert _names(place.path) == {"thesis"}
    assert MODEL in _names(place.partial)


def test_a_run_that_gets_a_foreign_file_meanwhile_is_not_replaced_by_force(place: RunFolder) -> None:
    _make(place.path)
    forced = RunFolder(place.path, force=True)
    forced.start(OURS)
    (place.path / "thesis").write_text("")
    with pytest.raises(DataError, match=r"holds what no run wrote \(thesis\)"):
        forced.finish({MODEL: "m"})
    assert "thesis" in _names(place.path)


def test_a_partial_folder_that_is_removed_meanwhile_is_an_error(place: RunFolder) -> None:
    place.start(OURS)
    remove_run(place.partial)
    with pytest.raises(DataError, match=r"run.partial was removed while the run was being made"):
        place.finish({MODEL: "m"})
    assert _names(place.path.parent) == set()


def test_an_unfinished_run_is_in_the_way_until_resumed_or_forced(place: RunFolder) -> None:
    place.start(OURS)
    place.checkpoint.write_text("c")
    place.close()
    with pytest.raises(DataError, match=r"go on with --resume .*run, or start over with --force"):
        place.check_free()
    RunFolder(place.path, force=True).start(OURS)
    assert not place.checkpoint.exists()


@pytest.mark.parametrize("names", [[], ["lock", "holder"], [".config.toml.x1y2.part", ".tmpAb3dE9"]])
def test_what_a_kill_left_before_there_were_settings_is_no_dead_end(
    place: RunFolder, names: list[str]
) -> None:
    place.partial.mkdir()
    for name in names:
        (place.partial / name).write_text("")
    with pytest.raises(DataError, match=r"has no config.toml, so .* start the run again"):
        place.resume()
    place.start(OURS)
    place.finish({})
    assert _names(place.path) == {CONFIG}


def test_discard_keeps_what_was_trained(place: RunFolder) -> None:
    for name in ("checkpoint.gbgnn", MODEL):
        place.start(OURS)
        (place.partial / name).write_text("c")
        place.discard()
        assert name in _names(place.partial)
        place.resume()
        (place.partial / name).unlink()
        place.discard()
        assert not place.partial.exists()


def test_what_another_process_made_in_the_place_of_a_partial_folder_stays(place: RunFolder) -> None:
    place.start(OURS)
    (place.partial / "holder").write_text("process 1 on another since today")
    with pytest.raises(DataError, match="was removed while the run was being made"):
        place.finish({MODEL: "m"})
    place.discard()
    assert _names(place.partial) == {CONFIG, "holder", "lock"}
    _make(place.path.with_name("other"))
    place.discard()  # what is let go of is let go of
    assert place.partial.exists()


def test_a_run_goes_on_with_its_settings(place: RunFolder) -> None:
    with pytest.raises(DataError, match="there is no run"):
        place.resume()
    place.start(OURS)
    place.close()
    assert RunFolder(place.path).resume() == {"run": {"versions": {"gbgnn": "0.2"}}}


def test_there_is_nothing_to_go_on_with_in_a_finished_run(place: RunFolder) -> None:
    _make(place.path)
    with pytest.raises(DataError, match="is finished"):
        place.resume()


HOLD = """
import sys
from gbgnn.runs import RunFolder
run = RunFolder(sys.argv[1])
run.start({"config.toml": ""})
print(flush=True)
sys.stdin.read()
"""


def test_a_second_writer_is_told_who_the_first_is(place: RunFolder) -> None:
    command = [sys.executable, "-c", HOLD, place.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        first.stdout.readline()
        told = rf"run.partial is being written by process {first.pid} on .* since 2.*; wait until"
        for force in (False, True):
            with pytest.raises(DataError, match=told):
                RunFolder(place.path, force).start(OURS)
        with pytest.raises(DataError, match=told):
            place.resume()
        first.kill()
    place.resume()  # the lock ends with its process


def test_without_a_name_the_holder_is_another_process(tmp_path: Path) -> None:
    lock = lock_folder(tmp_path)
    (tmp_path / "holder").unlink()
    with pytest.raises(DataError, match="is being written by another process"):
        lock_folder(tmp_path)
    lock.release()


def test_a_link_stands_for_its_folder(tmp_path: Path) -> None:
    disk = tmp_path / "disk" / "runs"
    disk.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(disk)
    _make(link)
    assert link.is_symlink()
    assert _names(disk) == {CONFIG, "metrics.json"}
    assert _names(disk.parent) == {"runs"}
    _make(link, "again", force=True)
    assert (link / "metrics.json").read_text() == "again"


@pytest.mark.parametrize("path", [".", "", "..", "/"])
def test_a_run_needs_a_folder_of_its_own(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="a run needs a folder of its own"):
        RunFolder(path, force=True).check_free()


def test_a_file_in_the_way_is_not_replaced(place: RunFolder) -> None:
    place.path.write_text("thesis")
    with pytest.raises(DataError, match="will not be replaced"):
        RunFolder(place.path, force=True).start(OURS)
    assert place.path.read_text() == "thesis"


def test_when_a_run_cannot_be_moved_the_old_one_is_back(
    place: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make(place.path, "old")
    forced = RunFolder(place.path, force=True)
    forced.start(OURS)
    usual = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self.name == "run.partial":
            raise OSError(13, "Permission denied", str(self))
        return usual(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(OSError, match="Permission denied"):
        forced.finish({})
    assert (place.path / "metrics.json").read_text() == "old"


def test_versions_are_those_of_what_is_installed() -> None:
    assert list(describe_versions(["numpy", "never-heard-of"])) == ["gbgnn", "python", "numpy"]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_wish_to_end_is_an_interrupt(name: str) -> None:
    before = signal.getsignal(getattr(signal, name))
    with pytest.raises(Terminated, match=name) as caught, catch_termination():
        os.kill(os.getpid(), getattr(signal, name))
    assert caught.value.signum == getattr(signal, name)
    assert isinstance(caught.value, KeyboardInterrupt)
    assert signal.getsignal(getattr(signal, name)) is before


def test_other_threads_do_without_signals() -> None:
    done = []

    def work() -> None:
        with catch_termination():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def _leave(place: RunFolder, kind: str, text: str = "") -> Path:
    """What a process leaves that is killed in the middle of beginning, or of replacing."""
    left = place.path.with_name(f".{place.path.name}.0a1b2c3d.{kind}")
    left.mkdir()
    for name in (CONFIG, "lock", ".config.toml.x1y2.part"):
        (left / name).write_text(OURS[CONFIG] if name == CONFIG else text)
    return left


@pytest.mark.parametrize("kind", ["new", "replaced"])
def test_what_killed_runs_left_beside_is_removed_by_the_next_one(place: RunFolder, kind: str) -> None:
    _make(place.path)
    _leave(place, kind)
    _make(place.path, force=True)
    assert _names(place.path.parent) == {"run"}


def test_a_run_that_was_about_to_be_replaced_is_back(place: RunFolder) -> None:
    _leave(place, "replaced")
    with pytest.raises(DataError, match="run exists; choose another --out"):
        place.start(OURS)
    assert _names(place.path) == {CONFIG, ".config.toml.x1y2.part"}
    _leave(place, "replaced")  # and now there is one too many
    _make(place.path, force=True)
    assert _names(place.path.parent) == {"run"}


def test_what_another_process_works_on_stays(place: RunFolder) -> None:
    left = _leave(place, "new")
    held = lock_folder(left)
    _make(place.path)
    held.release()
    assert _names(place.path.parent) == {"run", left.name}


@pytest.mark.parametrize("name", [".run.0a1b2c3d.old", ".other.0a1b2c3d.new", ".run.thesis.new", ".run.new"])
def test_other_hidden_folders_stay(place: RunFolder, name: str) -> None:
    other = place.path.with_name(name)
    other.mkdir()
    (other / CONFIG).write_text("mine")
    _make(place.path)
    assert (other / CONFIG).read_text() == "mine"


def test_half_written_files_are_not_in_a_whole_run(place: RunFolder) -> None:
    place.start(OURS)
    for name in (".checkpoint.gbgnn.x1y2.part", ".tmpAb3dE9"):  # ours, and what safetensors leaves
        (place.partial / name).write_text("half")
    place.finish({})
    assert _names(place.path) == {CONFIG}


def test_a_search_goes_on_by_its_own_command(place: RunFolder) -> None:
    place.start({**OURS, SPACE: ""})
    place.close()
    with pytest.raises(
        DataError, match="holds an unfinished run; give the search's command again with --force"
    ):
        place.check_free()
    with pytest.raises(DataError, match="is what a search was about to write; give its command again"):
        place.resume()
    _make(place.path, force=True)
    assert _names(place.path.parent) == {"run"}


def test_of_two_who_begin_at_once_one_is_told(place: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, first = Path.rename, RunFolder(place.path)

    def rename(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", usual)
        first.start(OURS)
        return usual(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(DataError, match=r"run.partial is being written by process \d+ on"):
        place.start(OURS)
    first.finish({})
    assert _names(place.path.parent) == {"run"}
