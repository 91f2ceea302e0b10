"""Predictions of many nodes are written block by block."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from gbgnn import predictor
from gbgnn.cli.prediction_files import with_columns, write_table

N_BLOCKS, N_ROWS, N_CLASSES = 40, 8192, 12


def blocks() -> Iterator[dict[str, np.ndarray]]:
    for start in range(0, N_BLOCKS * N_ROWS, N_ROWS):
        proba = np.random.default_rng(start).random((N_ROWS, N_CLASSES), np.float32)
        named = {f"proba_{k}": column.copy() for k, column in enumerate(proba.T)}
        yield {"node": np.arange(start, start + N_ROWS), "label": proba.argmax(axis=1)} | named


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_file_larger_than_what_is_held_is_written_block_by_block(suffix, tmp_path: Path) -> None:
    path = tmp_path / f"p.{suffix}"
    n_blocks = N_BLOCKS if suffix == "parquet" else 8
    given = (block for block, _ in zip(blocks(), range(n_blocks), strict=False))
    write_table(path.with_name("first." + suffix), iter([next(blocks())]))  # what is imported, is
    tracemalloc.start()
    write_table(path, given)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    if suffix == "csv":
        assert len(path.read_text().splitlines()) == 1 + n_blocks * N_ROWS
        return
    frame = N_BLOCKS * N_ROWS * (16 + 4 * N_CLASSES)
    assert peak < frame / 5
    file = pq.ParquetFile(path)
    assert (file.metadata.num_row_groups, file.metadata.num_rows) == (N_BLOCKS, N_BLOCKS * N_ROWS)
    assert file.read(["node"])["node"].to_pylist() == list(range(N_BLOCKS * N_ROWS))


def test_what_there_is_of_all_rows_is_cut_with_the_blocks() -> None:
    cut = list(
        with_columns(iter([{"node": np.arange(2)}, {"node": np.arange(1)}]), {"set": np.array(list("abc"))})
    )
    assert [block["set"].tolist() for block in cut] == [["a", "b"], ["c"]]


def test_blocks_of_a_run_are_those_of_one_frame(run, tables: Path, monkeypatch) -> None:
    run("fit", tables, *run.quick, "-q", "--out", "r")
    run("predict", "r", "--out", "whole.parquet")
    monkeypatch.setattr(predictor, "_ROWS", 1)  # so that a block is of four nodes
    run("predict", "r", "--out", "p.parquet")
    file, whole = pq.ParquetFile("p.parquet"), pq.read_table("whole.parquet")
    assert file.metadata.num_row_groups == 2
    assert file.read().drop_columns(["proba_blue", "proba_red"]) == whole.drop_columns(
        ["proba_blue", "proba_red"]
    )
    assert file.read()["proba_red"].to_pylist() == pytest.approx(whole["proba_red"].to_pylist())
