from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gbgnn.datasets import CATALOG, cache_folder, search_places, where
from gbgnn.datasets.download import FoundFiles, check_files, compute_sha256, search_place
from gbgnn.errors import DataError, DatasetNotFoundError

CORA = CATALOG["cora"]
FILES = CORA.file_sets[0]


def _fill(folder, names=tuple(FILES.sha256)):
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
    _fill(tmp_path / layout)
    searched = search_place(CORA, "data_dir", tmp_path)
    assert searched.found is not None
    assert searched.found.folder == tmp_path / layout
    assert searched.found.files is FILES


def test_raw_cora_counts_as_cora(tmp_path):
    _fill(tmp_path / "cora_raw", tuple(CORA.file_sets[1].sha256))
    found = search_place(CORA, "cache", tmp_path).found
    assert found is not None
    assert found.files.kind == "cora_raw"


def test_an_incomplete_set_is_not_found_but_named(tmp_path):
    _fill(tmp_path, list(FILES.sha256)[1:])
    searched = search_place(CORA, "data_dir", tmp_path)
    assert searched.found is None
    assert "lacks ind.cora.allx" in searched.note


def test_where_tells_what_is_there(monkeypatch, tmp_path):
    _fill(tmp_path / "mine")
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
    _fill(tmp_path)
    actual = compute_sha256(tmp_path / "ind.cora.allx")
    expected = FILES.sha256["ind.cora.allx"]
    with pytest.raises(
        DataError, match=rf"(?s)ind\.cora\.allx.*{actual}, expected {expected}.*read_planetoid\("
    ):
        check_files(FoundFiles(FILES, tmp_path), "cora")


def test_the_right_bytes_pass(tmp_path):
    _fill(tmp_path)
    sums = {name: compute_sha256(tmp_path / name) for name in FILES.sha256}
    found = FoundFiles(replace(FILES, sha256=sums), tmp_path)
    assert found.first_damaged() is None
    check_files(found, "cora")
