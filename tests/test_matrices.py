from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn import _arrays as arrays_module
from gbgnn._arrays import freeze
from gbgnn._matrices import as_adjacency, as_features, as_node_ids
from gbgnn.errors import GraphError
from gbgnn.graph import Graph

TRIANGLE = np.ones((3, 3)) - np.eye(3)
FEATURES = np.arange(6.0).reshape(3, 2)


LAYOUTS = ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float32, np.float64, np.longdouble])
def test_graph_takes_any_scipy_layout_and_dtype(layout: str, kind: Any, dtype: Any) -> None:
    graph = Graph(kind(TRIANGLE.astype(dtype)).asformat(layout), sp.csr_array(FEATURES).asformat(layout))
    np.testing.assert_array_equal(graph.adjacency.toarray(), TRIANGLE)
    np.testing.assert_array_equal(graph.features.toarray(), FEATURES)
    assert graph.adjacency.dtype == (dtype if dtype in (np.float32, np.float64) else _float_of(dtype))
    assert graph.adjacency.indices.dtype == np.int32
    assert graph.repairs == ()


def _float_of(dtype: Any) -> Any:
    return np.float64 if dtype is np.longdouble else np.float32


TORCH_LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "strided": lambda tensor: tensor,
    "coo": lambda tensor: tensor.to_sparse_coo(),
    "csr": lambda tensor: tensor.to_sparse_csr(),
    "csc": lambda tensor: tensor.to_sparse_csc(),
    "bsr": lambda tensor: tensor.to_sparse_bsr((2, 2)),
    "bsc": lambda tensor: tensor.to_sparse_bsc((2, 1)),
}


@pytest.mark.parametrize("layout", TORCH_LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.float16, torch.bfloat16, torch.float64])
def test_graph_takes_any_torch_layout_and_dtype(layout: str, dtype: torch.dtype) -> None:
    dense = torch.tensor([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 1], [0, 1, 1, 0]], dtype=dtype)
    tensor = TORCH_LAYOUTS[layout](dense)
    graph = Graph(tensor, dense.requires_grad_(dense.is_floating_point()))
    np.testing.assert_array_equal(graph.adjacency.toarray(), dense.double().detach().numpy())
    assert graph.adjacency.dtype == graph.features.dtype
    assert graph.adjacency.dtype == (np.float64 if dtype == torch.float64 else np.float32)


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i4", np.float16, np.longdouble])
def test_strange_number_formats_become_ordinary_floats(dtype: Any) -> None:
    graph = Graph(TRIANGLE.astype(dtype), FEATURES.astype(dtype))
    wide = np.dtype(dtype).kind == "f" and np.dtype(dtype).itemsize >= 8
    expected = np.dtype(np.float64 if wide else np.float32)
    assert (graph.adjacency.dtype, graph.features.dtype) == (expected, expected)
    assert graph.adjacency.dtype.isnative
    np.testing.assert_array_equal(graph.adjacency.toarray(), TRIANGLE)
    np.testing.assert_array_equal(graph.features, FEATURES)


def test_float16_and_big_endian_values_of_a_sparse_matrix_become_ordinary_floats() -> None:
    for dtype in (np.float16, ">f8"):
        matrix = sp.csr_array(TRIANGLE)
        matrix.data, matrix.indices = matrix.data.astype(dtype), matrix.indices.astype(">i8")
        graph = Graph(matrix, FEATURES)
        np.testing.assert_array_equal(graph.adjacency.toarray(), TRIANGLE)
        assert graph.adjacency.indices.dtype == np.int64


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_small_integers_given_twice_do_not_overflow(layout: str) -> None:
    twice = sp.coo_array((np.array([100, 100], np.int8), ([0, 0], [1, 1])), shape=(2, 2))
    if layout != "coo":
        wide = sp.csr_array((np.array([100, 100], np.int8), [1, 1], [0, 2, 2]), shape=(2, 2))
        twice = wide if layout == "csr" else sp.csc_array((wide.data, [0, 0], [0, 0, 2]), shape=(2, 2))
    graph = Graph(twice, twice)
    assert graph.adjacency[0, 1] == 200
    assert graph.features[0, 1] == 200
    assert graph.repairs == ("summed 1 repeated adjacency entries",)


def test_torch_entries_given_twice_are_reported() -> None:
    twice = torch.sparse_coo_tensor([[0, 0], [1, 1]], torch.ones(2), (2, 2), check_invariants=True)
    assert Graph(twice, np.eye(2)).repairs == ("summed 1 repeated adjacency entries",)


def _corrupt(layout: str, part: str, position: int, value: int, shape: tuple[int, int] = (3, 3)) -> Any:
    matrix = sp.csr_array(np.ones(shape)).asformat(layout)
    array = np.array(getattr(matrix, part)).astype(np.int64)
    array[position] = value
    setattr(matrix, part, array)
    return matrix


def _torch_corrupt(layout: str, index: int) -> torch.Tensor:
    pointers, indices = torch.tensor([0, 1, 2, 3]), torch.tensor([0, 1, index])
    if layout == "coo":
        return torch.sparse_coo_tensor(
            torch.stack([indices, torch.arange(3)]), torch.ones(3), (3, 3), check_invariants=False
        )
    make = torch.sparse_csr_tensor if layout == "csr" else torch.sparse_csc_tensor
    return make(pointers, indices, torch.ones(3), (3, 3), check_invariants=False)


CORRUPT: dict[str, tuple[Callable[[], Any], str]] = {
    "csr, column far outside": (
        lambda: _corrupt("csr", "indices", 4, 10**6),
        r"column 1000000, but it has 3 columns \(0 to 2\)\.$",
    ),
    "csr, column n beside column 0": (
        lambda: _corrupt("csr", "indices", 2, 3),
        r"column 3, but it has 3 .* Ids are counted from 0\.$",
    ),
    "csr, negative column": (lambda: _corrupt("csr", "indices", 0, -1), "column -1, but it has 3 columns"),
    "csr, column that would wrap": (lambda: _corrupt("csr", "indices", 0, 2**32), "column 4294967296"),
    "csr, pointers start late": (lambda: _corrupt("csr", "indptr", 0, 1), "indptr starts at 1; .* at 0"),
    "csr, pointers start below": (lambda: _corrupt("csr", "indptr", 0, -1), "indptr starts at -1"),
    "csr, pointers fall": (lambda: _corrupt("csr", "indptr", 1, 8), "indptr falls from 8 to 6 at row 1"),
    "csr, pointers end far": (
        lambda: _corrupt("csr", "indptr", 3, 10**9),
        "ends at 1000000000, but 9 entries",
    ),
    "csr, pointers too few": (lambda: _with("indptr", np.array([0, 9])), "indptr has 2 entries for 3 rows"),
    "csr, values too few": (
        lambda: _with("data", np.ones(8)),
        "has 9 indices but 8 values; each entry needs one of each",
    ),
    "csr, indices too few": (lambda: _with("indices", np.zeros(4, int)), "has 4 indices but 9 values"),
    "csr, indices fractional": (lambda: _with("indices", np.zeros(9)), "indices must be whole .* float64"),
    "csr, indices in a table": (
        lambda: _with("indices", np.eye(9, dtype=int)),
        "indices must be a flat array",
    ),
    "csr, values in a table": (lambda: _with("data", np.eye(9)), "stored values must be a flat array"),
    "csr, values of text": (lambda: _with("data", np.array(["a"] * 9)), "must be numbers; got dtype <U1"),
    "csr, values masked": (lambda: _with("data", np.ma.masked_equal(np.arange(9.0), 3)), "1 masked values"),
    "csc, row far outside": (lambda: _corrupt("csc", "indices", 4, 10**6), "row 1000000, but it has 3 rows"),
    "csc, pointers fall": (lambda: _corrupt("csc", "indptr", 1, 8), "from 8 to 6 at column 1"),
    "coo, row far outside": (lambda: _corrupt("coo", "row", 4, 10**6), "row 1000000, but it has 3 rows"),
    "coo, negative column": (lambda: _corrupt("coo", "col", 4, -7), "column -7, but it has 3 columns"),
    "coo, values too few": (lambda: _with("data", np.ones(4), "coo"), "9 rows, 9 columns and 4 values"),
    "bsr, block far outside": (lambda: _corrupt("bsr", "indices", 0, 10**6), "block 1000000, but it has"),
    "dia, values too few": (
        lambda: _with("data", np.ones((1, 3)), "dia"),
        r"values of shape \(1, 3\) do not fit 5 diagonals",
    ),
    "lil, column outside": (lambda: _lil(9), r"column 9, but it has 3 columns \(0 to 2\)"),
    "lil, column that would wrap": (lambda: _lil(2**32), "adjacency is not a sound lil matrix|4294967296"),
    "lil, lists of two lengths": (lambda: _lil(None), "columns and of values differ in length"),
    **{
        f"torch {layout}, outside": (
            lambda layout=layout: _torch_corrupt(layout, 10**6),
            "1000000, but it has 3",
        )
        for layout in ("csr", "csc", "coo")
    },
}


def _with(part: str, array: Any, layout: str = "csr") -> Any:
    matrix = sp.csr_array(np.ones((3, 3))).asformat(layout)
    setattr(matrix, part, array)
    return matrix


def _lil(column: int | None) -> Any:
    matrix = sp.lil_array(np.ones((3, 3)))
    if column is None:
        matrix.data[1].append(1.0)
    else:
        matrix.rows[1][2] = column
    return matrix


@pytest.mark.parametrize(("make", "message"), CORRUPT.values(), ids=CORRUPT)
@pytest.mark.parametrize("name", ["adjacency", "features"])
def test_corrupt_sparse_matrices_are_refused_before_scipy_reads_them(
    make: Callable[[], Any], message: str, name: str
) -> None:
    message = message.replace("adjacency", name)
    with pytest.raises(GraphError, match=message) as caught:
        Graph(make(), FEATURES) if name == "adjacency" else Graph(TRIANGLE, make())
    assert str(caught.value).startswith(name)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_ids_counted_from_one_are_recognised(layout: str) -> None:
    matrix = sp.csr_array(TRIANGLE).asformat(layout)
    part = "indices" if layout != "coo" else "col"
    setattr(matrix, part, getattr(matrix, part) + 1)
    with pytest.raises(GraphError, match=r"Ids are counted from 0; yours look counted from 1: subtract 1\.$"):
        Graph(matrix, FEATURES)


def test_entries_behind_the_last_pointer_are_ignored() -> None:
    matrix = sp.csr_array((3, 3))
    matrix.data, matrix.indices, matrix.indptr = np.ones(4), np.array([1, 0, 99, -5]), np.array([0, 1, 2, 2])
    graph = Graph(matrix, FEATURES)
    assert graph.adjacency.nnz == len(graph.adjacency.data) == 2


def test_a_wrong_claim_of_canonical_form_is_not_believed() -> None:
    matrix = sp.csr_array((np.ones(3), [2, 1, 1], [0, 3, 3, 3]), shape=(3, 3))
    matrix.has_canonical_format = True
    graph = Graph(matrix, FEATURES)
    assert graph.adjacency.indices.tolist() == [1, 2]
    assert graph.adjacency.data.tolist() == [2, 1]
    assert graph.repairs == ("summed 1 repeated adjacency entries",)
    assert matrix.indices.tolist() == [2, 1, 1]


@pytest.mark.parametrize("fault", ["none", "unsorted", "repeated", "zero", "nan", "outside"])
@pytest.mark.parametrize("place", [0, 1, 7, 8, 9, 40, -1])
def test_every_block_is_looked_at(fault: str, place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays_module, "_BLOCK", 8)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((12, 12)) < 0.5, rng.random((12, 12)), 0)
    dense[3] = dense[4] = 0  # empty rows beside each other
    given = sp.csr_array(dense)
    place = place % given.nnz
    row = int(np.searchsorted(given.indptr, place, side="right")) - 1
    other = place + 1 if place + 1 < given.indptr[row + 1] else place - 1
    if fault == "unsorted":
        swap = [other, place]
        given.indices[[place, other]], given.data[[place, other]] = given.indices[swap], given.data[swap]
    elif fault == "repeated":
        given.indices[place] = given.indices[other]
    elif fault in ("zero", "nan"):
        given.data[place] = 0 if fault == "zero" else np.nan
    elif fault == "outside":
        given.indices[place] = 12
    if fault in ("nan", "outside"):
        with pytest.raises(GraphError, match=f"edge {row} -> " if fault == "nan" else "holds column 12"):
            Graph(given, np.ones((12, 1)))
        return
    expected = given.toarray()
    graph = Graph(given, np.ones((12, 1)))
    np.testing.assert_allclose(graph.adjacency.toarray(), expected)
    assert graph.adjacency.copy().has_canonical_format
    assert bool(graph.repairs) == (fault in ("repeated", "zero"))
    assert np.all(graph.adjacency.data != 0)


def _read_only(matrix: sp.csr_array) -> sp.csr_array:
    frozen = matrix.copy()
    for array in (frozen.data, frozen.indices, frozen.indptr):
        array.flags.writeable = False
    return frozen


def _shares(one: sp.csr_array, other: sp.csr_array) -> list[bool]:
    parts = ("data", "indices", "indptr")
    return [np.shares_memory(getattr(one, part), getattr(other, part)) for part in parts]


def test_read_only_arrays_are_shared_and_writable_ones_copied() -> None:
    matrix, X = sp.csr_array(TRIANGLE), sp.csr_array(FEATURES)
    graph = Graph(matrix, X)
    assert _shares(graph.adjacency, matrix) == _shares(graph.features, X) == [False] * 3
    again = Graph(graph.adjacency, graph.features, node_ids=graph.node_ids)
    assert _shares(again.adjacency, graph.adjacency) == _shares(again.features, graph.features) == [True] * 3
    assert np.shares_memory(again.node_ids, graph.node_ids)
    matrix, X = _read_only(matrix), _read_only(X)
    shared = Graph(matrix, X)
    assert _shares(shared.adjacency, matrix) == _shares(shared.features, X) == [True] * 3


def test_arrays_that_were_mended_are_shared_with_the_next_graph() -> None:
    graph = Graph(sp.coo_array(([1.0, 1.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(3, 3)), FEATURES)
    assert graph.repairs
    assert _shares(Graph(graph.adjacency, FEATURES).adjacency, graph.adjacency) == [True] * 3


def test_without_copying_writable_arrays_are_shared_and_stay_the_callers() -> None:
    matrix, X, ids = sp.csr_array(TRIANGLE), FEATURES.copy(), np.arange(3)
    graph = Graph(matrix, X, node_ids=ids, copy=False)
    assert _shares(graph.adjacency, matrix) == [True] * 3
    assert np.shares_memory(graph.features, X)
    assert np.shares_memory(graph.node_ids, ids)
    for array in (matrix.data, matrix.indices, matrix.indptr, X, ids):
        assert array.flags.writeable
    for array in (graph.adjacency.data, graph.adjacency.indices, graph.features, graph.node_ids):
        assert not array.flags.writeable


@pytest.mark.parametrize("layout", ["strided", "csr"])
def test_without_copying_torch_tensors_are_shared(layout: str) -> None:
    tensor, X = TORCH_LAYOUTS[layout](torch.tensor(TRIANGLE)), torch.tensor(FEATURES)
    graph = Graph(tensor, X, copy=False)
    assert np.shares_memory(graph.features, X.numpy())
    if layout == "csr":
        assert np.shares_memory(graph.adjacency.data, tensor.values().numpy())
        assert np.shares_memory(graph.adjacency.indices, tensor.col_indices().numpy())
    assert not np.shares_memory(Graph(tensor, X).features, X.numpy())


def test_without_copying_what_must_be_mended_is_copied_all_the_same() -> None:
    matrix = sp.csr_array((np.ones(3), [2, 1, 1], [0, 3, 3, 3]), shape=(3, 3))
    Graph(matrix, FEATURES, copy=False)
    assert matrix.indices.tolist() == [2, 1, 1]
    assert matrix.indptr.tolist() == [0, 3, 3, 3]


def test_a_read_only_view_of_a_writable_array_is_copied() -> None:
    X = FEATURES.copy()
    view = X.view()
    view.flags.writeable = False
    graph = Graph(TRIANGLE, view)
    X[:] = 99
    assert graph.features.max() == 5


def test_mapped_files_stay_mapped(tmp_path: Path) -> None:
    matrix = sp.csr_array(TRIANGLE)
    for name, array in (("data", matrix.data), ("indices", matrix.indices), ("indptr", matrix.indptr)):
        np.save(tmp_path / name, array)
    np.save(tmp_path / "X", FEATURES)
    data, indices, indptr, X = (
        np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("data", "indices", "indptr", "X")
    )
    mapped = sp.csr_array((data, indices, indptr), shape=(3, 3))
    graph = Graph(mapped, X)
    assert isinstance(graph.features, np.memmap)
    assert np.shares_memory(graph.features, X)
    assert _shares(graph.adjacency, mapped) == [True] * 3
    assert np.shares_memory(graph.adjacency.data, data)
    loaded = pickle.loads(pickle.dumps(graph))
    assert type(loaded.features) is np.ndarray
    assert loaded.checksum == graph.checksum == Graph(TRIANGLE, FEATURES).checksum


def test_mapped_features_are_searched_for_gaps(tmp_path: Path) -> None:
    X = np.ones((50, 3), np.float32)
    X[31, 2] = np.nan
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(GraphError, match=r"features has 1 NaN .* \(first: node 31, column 2\)"):
        Graph(np.eye(50), np.load(tmp_path / "X.npy", mmap_mode="r"))


def test_building_without_copying_makes_no_temporary_of_the_matrix() -> None:
    n, degree = 40_000, 50
    columns = (np.arange(degree) * 7 + np.arange(n)[:, None] % 100).astype(np.int32)
    pointers = np.arange(0, n * degree + 1, degree, dtype=np.int32)
    matrix = sp.csr_array((np.ones(n * degree, np.float32), columns.ravel(), pointers), shape=(n, n))
    X = np.ones((n, 64), np.float32)
    Graph(TRIANGLE, FEATURES)
    tracemalloc.start()
    Graph(matrix, X, copy=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < matrix.data.nbytes / 2


def test_node_ids_of_mixed_kinds_are_kept() -> None:
    ids = np.array([1, "a", (2, 3)], dtype=object)
    assert Graph(TRIANGLE, FEATURES, node_ids=ids).node_ids.tolist() == [1, "a", (2, 3)]
    with pytest.raises(GraphError, match="node_ids holds repeated ids"):
        Graph(TRIANGLE, FEATURES, node_ids=np.array([1, "a", 1], dtype=object))


def test_node_ids_that_count_upwards_are_not_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "unique", lambda *_: pytest.fail("sorted"))
    Graph(TRIANGLE, FEATURES)
    Graph(TRIANGLE, FEATURES, node_ids=[3, 5, 8])


def test_a_sound_matrix_comes_back_with_what_was_mended() -> None:
    matrix, mended = as_adjacency(sp.coo_array(([1.0, 2.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2)), True)
    assert (matrix.format, matrix.has_canonical_format) == ("csr", True)
    np.testing.assert_array_equal(matrix.toarray(), [[0, 3], [0, 0]])
    assert mended == ["summed 1 repeated adjacency entries", "dropped 1 explicit zero weights"]
    # Zeros of features are entries like others: nobody counts them as edges.
    X = as_features(sp.csr_array(([0.0, 2.0], ([0, 1], [0, 0])), shape=(2, 1)), 2, True)
    assert X.nnz == 2


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (
            lambda: as_adjacency(np.zeros((2, 3)), True),
            r"adjacency must be a square matrix; got shape \(2, 3\)",
        ),
        (lambda: as_adjacency(np.zeros((0, 0)), True), "adjacency is 0 x 0; a graph needs at least one node"),
        (lambda: as_adjacency(sp.coo_array(np.ones(3)), True), r"a square matrix; got shape \(3,\)"),
        (lambda: as_adjacency(np.eye(2) * 1j, True), "adjacency must be real; got complex weights"),
        (lambda: as_adjacency([[np.inf]], True), r"1 NaN or infinite weights \(first: edge 0 -> 0\)"),
        (lambda: as_adjacency(torch.empty(2, 2, device="meta"), True), "adjacency is a meta tensor"),
        (
            lambda: as_features(np.zeros(3), 3, True),
            r"features must be a matrix with one row per node; got sh",
        ),
        (lambda: as_features(np.zeros((2, 1)), 3, True), "features has 2 rows but adjacency is 3 x 3"),
        (lambda: as_features(np.zeros((3, 0)), 3, True), "features has no columns"),
        (lambda: as_features([["a"]], 1, True), "features must be numbers; got list of dtype <U1"),
        (lambda: as_features([[1, 2], [3]], 2, True), "features is not a matrix"),
        (lambda: as_features(np.ma.masked_equal([[1.0]], 1), 1, True), "features has 1 masked values"),
        (lambda: as_node_ids([1, 2], 3, True), r"node_ids has shape \(2,\) but the graph has 3 nodes"),
        (lambda: as_node_ids([2, 1, 2], 3, True), "node_ids holds repeated ids"),
    ],
)
def test_what_is_no_matrix_of_a_graph_is_refused(read: Callable[[], Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        read()


def test_a_lazily_negated_tensor_is_read_by_its_values() -> None:
    negative = torch.tensor([[1j]]).conj().imag
    assert negative.is_neg()
    assert as_features(negative, 1, True).tolist() == [[-1.0]]


def test_blocks_that_do_not_fill_the_matrix_are_refused() -> None:
    matrix = sp.csr_array(np.eye(4)).tobsr(blocksize=(2, 2))
    matrix._shape = (3, 4)
    with pytest.raises(
        GraphError, match=r"blocks of shape \(2, 2, 2\) do not fill a matrix of shape \(3, 4\)"
    ):
        as_features(matrix, 3, True)


def test_diagonals_are_read_as_scipy_reads_them() -> None:
    for shape in ((4, 4), (3, 5), (5, 3)):
        matrix = sp.dia_array((np.arange(1.0, 16.0).reshape(3, 5), [-1, 0, 2]), shape=shape)
        found = as_features(matrix, shape[0], True)
        np.testing.assert_array_equal(found.toarray(), matrix.toarray())


def test_freezing_reaches_the_array_that_a_view_shows() -> None:
    owner = np.zeros(4)
    freeze(owner[1:][1:])
    assert not owner.flags.writeable


def test_node_ids_default_to_row_numbers_and_are_copied() -> None:
    assert as_node_ids(None, 3, True).tolist() == [0, 1, 2]
    given = np.array([7, 5, 9])
    kept, shared = as_node_ids(given, 3, True), as_node_ids(given, 3, False)
    given[0] = 1
    assert (kept[0], shared[0]) == (7, 1)
    assert given.flags.writeable
