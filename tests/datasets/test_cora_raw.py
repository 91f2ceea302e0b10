from __future__ import annotations

import numpy as np
import pytest

from gbgnn.datasets import load
from gbgnn.datasets.planetoid import planetoid_order, read_cora_raw
from gbgnn.errors import DataError

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402 only where pyarrow is there

# Subject number of Planetoid's class 0, 1, ..., 6 in the raw table.
SUBJECTS = np.array([4, 2, 5, 0, 3, 6, 1])


def _write(folder, papers, subjects, words, sources, targets):
    nodes = {"nodeId": papers, "subject": subjects, "features": list(words)}
    parquet.write_table(pa.table(nodes), folder / "cora_nodes.parquet.gzip")
    ends = {"sourceNodeId": sources, "targetNodeId": targets}
    parquet.write_table(pa.table(ends), folder / "cora_rels.parquet.gzip")


def test_the_order_lists_every_paper_once():
    order = planetoid_order()
    assert len(np.unique(order)) == 2708


def test_rows_are_put_into_planetoids_order(tmp_path):
    order = planetoid_order()
    papers = np.sort(order)
    words = np.stack([papers % 2, papers % 3], axis=1)
    _write(tmp_path, papers, np.zeros(2708, int), words, order[[0, 1, 1]], order[[1, 0, 5]])
    graph, y, split = read_cora_raw(tmp_path)
    assert np.array_equal(graph.features.toarray(), np.stack([order % 2, order % 3], axis=1))
    assert set(y) == {3}
    assert graph.adjacency[[0, 1, 5], [1, 0, 1]].tolist() == [1, 1, 1]
    assert graph.n_edges == 2
    assert (len(split.train), len(split.val), len(split.test)) == (140, 500, 1000)


def test_another_set_of_papers_is_refused(tmp_path):
    _write(tmp_path, np.arange(2), np.zeros(2, int), np.eye(2), [0], [1])
    with pytest.raises(DataError, match="does not hold the 2,708 papers"):
        read_cora_raw(tmp_path)


@pytest.mark.dataset
def test_the_raw_tables_give_the_same_data_as_the_planetoid_files(planetoid_folder, tmp_path):
    """Write Cora the way the raw tables hold it, shuffled, and read it back."""
    known = load("cora", data_dir=planetoid_folder, normalize_features=False)
    order, rng = planetoid_order(), np.random.default_rng(0)
    shuffled = rng.permutation(2708)
    low, high = np.nonzero(np.triu(known.graph.adjacency.toarray()))
    words = known.graph.features.toarray().astype(np.int64)[shuffled]
    _write(tmp_path, order[shuffled], SUBJECTS[known.y[shuffled]], words, order[low], order[high])
    graph, y, split = read_cora_raw(tmp_path)
    assert (graph.adjacency != known.graph.adjacency).nnz == 0
    assert (graph.features != known.graph.features).nnz == 0
    assert np.array_equal(y, known.y)
    for part in ("train", "val", "test"):
        assert np.array_equal(getattr(split, part), getattr(known, part))
