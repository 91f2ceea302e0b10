"""Kills at any moment, full disks, two writers: no trained model is lost, and nothing of the user's."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import gbgnn
from gbgnn import persistence
from gbgnn.cli import files

TINY = ("csbm", "--data-option", "n_nodes=60", "--data-option", "per_class=6", "--seed", "0", "-q")
SMALL = (*TINY, "--rounds", "3", "--epochs", "5", "--units", "4")
# SAMME.R never refuses a learner.
LONG = ("--rounds", "250", "--epochs", "20", "--units", "4", "--rule", "samme_r")

# One process that has everything imported forks a child for every moment at which a run may be killed.
KILLER = """
import os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
import gbgnn
from gbgnn.cli.app import app

def call(*words, kill_at=None):
    child = os.fork()
    if child == 0:
        if kill_at is not None:
            sys.addaudithook(count)
            left[0] = kill_at
        try:
            app(list(words), prog_name="gbgnn")
        except SystemExit as stop:
            os._exit(stop.code or 0)
        os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

left = [0]
home = os.getcwd()

def count(event, arguments):
    if event not in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"):
        return
    path = os.path.abspath(arguments[0]) if isinstance(arguments[0], (str, bytes, Path)) else ""
    if not str(path).startswith(home):
        return
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1

def model(out):
    return Path(out, "model.gbgnn").read_bytes()

words, extra, step = sys.argv[1:-2], sys.argv[-2].split(), int(sys.argv[-1])
assert call("fit", *words, "--out", "whole") == 0
moment, ended = 0, {"resumed": 0, "again": 0, "whole": 0}
while True:
    out = f"run{moment}"
    if extra:
        assert call("fit", *words, "--out", out) == 0
    code = call("fit", *words, *extra, "--checkpoint-every", "1", "--out", out, kill_at=moment)
    if code == 0:
        break
    assert code == -signal.SIGKILL, code
    if call("fit", "--resume", out, "-q") == 0:
        ended["resumed"] += 1
    elif Path(out, "model.gbgnn").exists():
        ended["whole"] += 1
    else:
        assert call("fit", *words, "--out", out) == 0, moment
        ended["again"] += 1
    assert model(out) == model("whole"), moment
    assert not Path(out + ".partial").exists(), moment
    moment += step
print(moment, ended)
assert moment > 20 and ended["resumed"] > 20 // step
"""


@pytest.mark.parametrize(("extra", "step"), [("", 7), ("--force", 12)])
def test_a_run_killed_before_a_file_operation_ends_in_the_same_model(run, extra: str, step: int) -> None:
    """Every so many of them, for time; all of them passed too."""
    command = [sys.executable, "-c", KILLER, *SMALL, extra, str(step)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def _wait_for(path: Path) -> None:
    for _ in range(600):
        if path.exists():
            return
        time.sleep(0.1)
    raise AssertionError(f"{path} did not appear")


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_process_that_is_ended_goes_on_to_the_same_model(run, name: str) -> None:
    words = (*TINY, *LONG)
    process = subprocess.Popen(
        [sys.executable, "-m", "gbgnn", "fit", *words, "--out", "r", "--checkpoint-every", "50"],
        stderr=subprocess.PIPE,
        text=True,
    )
    _wait_for(Path("r.partial/checkpoint.gbgnn"))
    process.send_signal(getattr(signal, name))
    _, told = process.communicate(timeout=60)
    expected = {"SIGKILL": -9, "SIGTERM": 143}
    assert process.returncode == expected[name]
    if name != "SIGKILL":
        assert "interrupted after round " in told
        assert "go on with: gbgnn fit --resume r" in told
    run("fit", "--resume", "r", "-q")
    run("fit", *words, "--out", "whole")
    first, second = (Path(out, "model.gbgnn").read_bytes() for out in ("r", "whole"))
    assert first == second


def test_two_writers_at_once_one_of_which_is_told(run) -> None:
    words = (*TINY, *LONG, "--out", "r")
    first = subprocess.Popen([sys.executable, "-m", "gbgnn", "fit", *words])
    _wait_for(Path("r.partial/config.toml"))
    for extra in ((), ("--force",)):
        told = run("fit", *words, *extra, code=1).stderr
        assert f"r.partial is being written by process {first.pid} on " in told
    assert f"process {first.pid} on " in run("fit", "--resume", "r", code=1).stderr
    assert first.wait(timeout=120) == 0
    assert "250 rounds" in run("inspect", "r").stdout


def _fill_disk(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let files of these names, or in folders of these names, not be written any more."""
    usual = persistence.save

    def save(model, path, **options) -> None:
        if {Path(path).name, *(p.name for p in Path(path).parents)} & set(names):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        usual(model, path, **options)

    for module in ("gbgnn.base_estimator", "gbgnn.callbacks"):
        monkeypatch.setattr(f"{module}.save", save)


def test_on_a_full_disk_the_trained_model_is_elsewhere(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with monkeypatch.context() as patch:
        _fill_disk(patch, "model.gbgnn")
        told = run("fit", *SMALL, "--out", "r", code=1).stderr
    assert told.startswith("error: r.partial/model.gbgnn: No space left on device. The trained model (")
    assert " MB are free in " in told
    (rescued,) = tmp_path.glob("r-*.gbgnn")
    assert f" is in {rescued}. " in told
    assert told.endswith("make room there, and fit again.\n")
    run("fit", *SMALL, "--out", "whole")
    assert gbgnn.load(rescued).scores_.tobytes() == gbgnn.load("whole/model.gbgnn").scores_.tobytes()


def test_on_a_full_disk_a_checkpoint_stays_to_go_on_from(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with monkeypatch.context() as patch:
        _fill_disk(patch, "model.gbgnn", "nowhere")
        told = run("fit", *SMALL, "--checkpoint-every", "2", "--out", "r", code=1).stderr
    assert "The trained model could not be put elsewhere: " in told
    assert told.endswith("make room there, then go on with: gbgnn fit --resume r\n")
    run("fit", "--resume", "r", "-q")
    run("fit", *SMALL, "--out", "whole")
    assert gbgnn.load("r/model.gbgnn").scores_.tobytes() == gbgnn.load("whole/model.gbgnn").scores_.tobytes()


@pytest.mark.filterwarnings("default")
def test_on_a_full_disk_training_goes_on_without_checkpoints(run, monkeypatch) -> None:
    _fill_disk(monkeypatch, "checkpoint.gbgnn")
    told = run("fit", *SMALL, "--checkpoint-every", "1", "--out", "r").stderr
    assert (
        "warning: the checkpoint r.partial/checkpoint.gbgnn could not be written (No space left on " in told
    )
    assert len(gbgnn.load("r/model.gbgnn").ensemble_) == 3


def test_on_a_full_disk_a_model_that_was_written_is_kept_and_gone_on_with(run, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "r.partial/metrics.json")

    with monkeypatch.context() as patch:
        patch.setattr(files, "finish_run", fail)
        told = run("fit", *SMALL, "--out", "r", code=1).stderr
    assert "metrics.json: No space left on device. The trained model is r.partial/model.gbgnn; " in told
    assert "going on from round 3 of 3" in run("fit", "--resume", "r").stderr
    assert Path("r/metrics.json").exists()


LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from gbgnn.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
main()
"""


def test_a_file_that_the_system_cuts_short_is_no_traceback(run) -> None:
    command = [sys.executable, "-c", LIMITED, "fit", *SMALL, "--units", "512", "--out", "r"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stderr
    assert result.stderr.startswith("error: r.partial/model.gbgnn: File too large. ")
    assert "Traceback" not in result.stderr
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 8192


def test_a_partial_folder_that_is_removed_is_an_error_and_the_model_is_elsewhere(
    run, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    usual = files.save_model

    def save_model(model, job) -> list[str]:
        for path in Path("r.partial").iterdir():
            path.unlink()
        Path("r.partial").rmdir()
        return usual(model, job)

    monkeypatch.setattr(files, "save_model", save_model)
    told = run("fit", *SMALL, "--out", "r", code=1).stderr
    assert "error: r.partial was removed while the run was being made. The trained model (" in told
    assert len(list(tmp_path.glob("r-*.gbgnn"))) == 1
    assert not Path("r").exists()


def test_a_folder_filled_during_training_stays(run, monkeypatch) -> None:
    usual = files.save_model

    def save_model(model, job) -> list[str]:
        Path("r").mkdir()
        Path("r/thesis").write_text("")
        return usual(model, job)

    with monkeypatch.context() as patch:
        patch.setattr(files, "save_model", save_model)
        told = run("fit", *SMALL, "--out", "r", code=1).stderr
    assert "r was filled while the run was being made, and stays." in told
    assert os.listdir("r") == ["thesis"]
    assert len(gbgnn.load("r.partial/model.gbgnn").ensemble_) == 3
    os.rename("r", "thesis")
    run("fit", "--resume", "r", "-q")
    assert len(gbgnn.load("r/model.gbgnn").ensemble_) == 3


def test_a_link_to_a_folder_is_written_through(run) -> None:
    Path("disk").mkdir()
    Path("r").symlink_to("disk")
    run("fit", *SMALL, "--out", "r")
    assert Path("r").is_symlink()
    assert Path("disk/model.gbgnn").exists()
    assert "3 rounds" in run("inspect", "r").stdout


@pytest.mark.parametrize("text", ["", "[run]\n", "[data]\n", "[data]\n[run]\n"])
def test_a_record_that_is_none_is_said_to_be_none(run, text: str) -> None:
    Path("r.partial").mkdir()
    Path("r.partial/config.toml").write_text(text)
    assert "r.partial/config.toml is not a run's own record" in run("fit", "--resume", "r", code=1).stderr
