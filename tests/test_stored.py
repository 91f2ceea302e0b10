from __future__ import annotations

import json
import mmap
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from gbgnn import Graph
from gbgnn import _arrays as arrays
from gbgnn._arrays import constant
from gbgnn._matrices import csr_of_parts
from gbgnn._stored import check_text, read_graph_folder
from gbgnn.datasets import Dataset, karate, save_dataset
from gbgnn.errors import DataError
from gbgnn.labels import NodeSplit


def _stored(place: Path, weights=None, directed=False) -> tuple[Path, Graph]:
    ring = sp.csr_array((np.ones(5), (range(5), [1, 2, 3, 4, 0])))
    adjacency = ring if directed else ring + ring.T
    if weights is not None:
        adjacency = adjacency * weights
    graph = Graph(adjacency.astype(np.float32), np.eye(5, 2), node_ids=list("edcba"))
    data = Dataset("ring", graph, np.array([0, 1, 0, 1, 0]), NodeSplit([0, 1]))
    return save_dataset(data, place / "ring.gbgraph"), graph


def _owner(array: np.ndarray) -> object:
    while isinstance(array, np.ndarray):
        array = array.base
    return array


@pytest.mark.parametrize("weights", [None, 0.5])
@pytest.mark.parametrize("directed", [True, False])
def test_what_is_opened_is_what_was_stored(weights, directed, tmp_path) -> None:
    folder, graph = _stored(tmp_path, weights, directed)
    opened = Graph.open(folder)
    assert opened.checksum == graph.checksum
    assert (opened.is_directed, opened.is_weighted) == (directed, weights is not None)
    assert (opened.n_edges, opened.n_isolated, opened.n_self_loops) == (5, 0, 0)
    assert opened.node_ids.tolist() == list("edcba")
    assert pickle.loads(pickle.dumps(opened)).checksum == graph.checksum


def test_nothing_is_copied(tmp_path) -> None:
    opened = Graph.open(_stored(tmp_path, 0.5)[0])
    A = opened.adjacency
    for array in (A.data, A.indices, A.indptr, opened.features, opened.node_ids):
        assert isinstance(_owner(array), mmap.mmap)
        assert not array.flags.writeable


def test_edges_that_all_weigh_one_have_no_weights(tmp_path) -> None:
    assert Graph.open(_stored(tmp_path)[0]).adjacency.data.strides == (0,)


def test_whether_it_is_directed_is_read_not_found_out(tmp_path, monkeypatch) -> None:
    folder, _ = _stored(tmp_path, directed=True)
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["directed"] is True
    for noted, expected in ((False, False), ("?", None)):
        (folder / "meta.json").write_text(json.dumps(meta | {"directed": noted}))
        assert read_graph_folder(folder).is_directed is expected
    assert Graph.open(folder).is_directed


def test_a_folder_of_another_kind_is_a_clear_error(tmp_path) -> None:
    with pytest.raises(DataError, match=r"is not a gbgnn data set: it has no meta\.json"):
        Graph.open(tmp_path)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("indices", np.array([9] * 10, np.int32), "the stored edges do not fit together: .* holds column 9"),
        (
            "indptr",
            np.array([0, 4, 2, 6, 8, 10], np.int32),
            "the stored edges .*: .* indptr falls from 4 to 2",
        ),
        ("features", np.full((5, 2), np.nan), "the stored features do not fit together: .* NaN"),
        ("node_ids", np.array(list("aabcd")), "the stored node_ids do not fit together: .* repeated ids"),
        ("node_ids", np.frombuffer(np.full(5, 0x110000, np.uint32), "<U1"), "holds what is no text"),
    ],
)
def test_arrays_that_cannot_be_trusted_are_refused(name, array, message, tmp_path) -> None:
    folder, _ = _stored(tmp_path)
    np.save(folder / f"{name}.npy", array)
    meta = json.loads((folder / "meta.json").read_text())
    meta["arrays"][name] = [str(array.dtype), list(array.shape)]
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(DataError, match=message):
        Graph.open(folder)


def test_text_is_looked_at_block_by_block(monkeypatch) -> None:
    monkeypatch.setattr(arrays, "_BLOCK", 2)
    words = np.array(["a", "b", "c"], "<U1")
    check_text(words, "here")
    words.view(np.uint32)[2] = 0xD800
    with pytest.raises(DataError, match="here holds what is no text"):
        check_text(words, "here")


def test_indices_of_more_entries_than_they_could_count_stay_narrow() -> None:
    n = 2**31 + 2
    data, indices = constant(1, n, np.float32), constant(0, n, np.int32)
    matrix = csr_of_parts((data, indices, np.array([0, n])), (1, 1), "it", look_at_indices=False)
    assert (matrix.indices.dtype, matrix.indptr.dtype) == (np.int32, np.int64)
    few = csr_of_parts((data[:2], indices[:2], np.array([0, 2])), (1, 1), "it")
    assert (few.indices.dtype, few.indptr.dtype) == (np.int32, np.int32)


def test_opening_takes_no_memory_for_what_is_mapped(tmp_path) -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("only Linux tells the peak of a part of a process")
    n, degree = 200_000, 60
    rng = np.random.default_rng(0)
    folder = save_dataset(karate(), tmp_path / "large.gbgraph")
    steps = np.sort(rng.permutation(n - 1)[:degree])
    large = {
        "indices": np.sort((np.arange(n)[:, None] + 1 + steps) % n, axis=1).astype(np.int32).ravel(),
        "indptr": np.arange(0, n * degree + 1, degree, dtype=np.int32),
        "features": rng.random((n, 64), np.float32),
        "node_ids": np.arange(n),
    }
    meta = json.loads((folder / "meta.json").read_text())
    for name, array in large.items():
        np.save(folder / f"{name}.npy", array)
        meta["arrays"][name] = [str(array.dtype), list(array.shape)]
    size = sum(array.nbytes for array in large.values())
    del large, array
    (folder / "meta.json").write_text(json.dumps(meta | {"n_nodes": n, "n_features": 64}))
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    graph = Graph.open(folder)
    assert (graph.n_edges, len(graph.checksum)) == (n * degree // 2, 64)
    assert size > 90e6
    assert _resident("VmHWM") - before < size / 4


def _resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])
