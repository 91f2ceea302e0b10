from __future__ import annotations

from pathlib import Path

import pytest

from gbgnn.cli.saved import open_saved
from gbgnn.errors import ModelFileError
from gbgnn.runs import RunFolder


def test_what_is_no_model(tmp_path: Path) -> None:
    place = RunFolder(tmp_path / "run")
    with pytest.raises(ModelFileError, match="there is no run or model .*run.$"):
        open_saved(place.path)
    place.start({"config.toml": ""})
    with pytest.raises(ModelFileError, match=r"There is an unfinished .*run.partial"):
        open_saved(place.path)
    with pytest.raises(ModelFileError, match=r"holds neither model.gbgnn nor checkpoint.gbgnn"):
        open_saved(place.partial)


def test_a_run_is_its_model_with_its_record_and_a_file_is_bare(fitted: Path) -> None:
    saved = open_saved(fitted)
    assert saved.model_path == fitted / "model.gbgnn"
    assert saved.class_names == {"0": "Mr. Hi", "1": "Officer"}
    assert saved.metrics["dataset"] == "karate"
    bare = open_saved(fitted / "model.gbgnn")
    assert (bare.config, bare.metrics, bare.class_names, bare.graph_checksum) == ({}, {}, {}, None)
