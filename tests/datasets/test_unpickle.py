from __future__ import annotations

import os
import pickle
from collections import OrderedDict, defaultdict

import numpy as np
import pytest
import scipy.sparse as sp

from gbgnn.datasets.planetoid import read_pickle
from gbgnn.errors import DataError


class _Call:
    """Pickles as a call of any function."""

    def __init__(self, function, *arguments):
        self.reduced = function, arguments

    def __reduce__(self):
        return self.reduced


@pytest.fixture
def pickled(tmp_path):
    def _pickled(value, protocol=2):
        path = tmp_path / "ind.toy.x"
        path.write_bytes(value if isinstance(value, bytes) else pickle.dumps(value, protocol))
        return path

    return _pickled


def test_arrays_matrices_and_lists_of_neighbours_are_read(pickled):
    assert np.array_equal(read_pickle(pickled(np.eye(3), 4)), np.eye(3))
    matrix = read_pickle(pickled(sp.csr_matrix(np.eye(3)), 4))
    assert isinstance(matrix, sp.csr_array)
    assert np.array_equal(matrix.toarray(), np.eye(3))
    assert read_pickle(pickled(defaultdict(list, {0: [1]}))) == {0: [1]}


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        (_Call(os.system, "touch {}"), "posix.system|nt.system"),
        (_Call(eval, "open({!r}, 'w')"), "_*builtin.*eval"),
        (_Call(OrderedDict), "collections.OrderedDict"),
    ],
)
def test_a_hostile_pickle_is_refused_and_nothing_runs(call, refused, pickled, tmp_path):
    mark = tmp_path / "ran"
    function, arguments = call.reduced
    call.reduced = function, tuple(text.format(str(mark)) for text in arguments)
    with pytest.raises(DataError, match=rf"ind\.toy\.x asks for ({refused}).*refused"):
        read_pickle(pickled(call))
    assert not mark.exists()


def test_text_encoders_are_refused_too(pickled):
    with pytest.raises(DataError, match=r"asks for _codecs\.encode"):
        read_pickle(pickled(b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x06\x00\x00\x00latin1\x86R."))


def test_a_pickle_cannot_change_a_class_it_is_given(pickled):
    # GLOBAL csr_matrix, state (None, {"toarray": None}), BUILD: would set an attribute of the class.
    hostile = b"\x80\x02cscipy.sparse.csr\ncsr_matrix\nN}X\x07\x00\x00\x00toarrayNs\x86b."
    with pytest.raises(DataError, match="not a readable pickle"):
        read_pickle(pickled(hostile))
    assert sp.csr_matrix.toarray is not None


@pytest.mark.parametrize("keep", [0, 1, 30, -1])
def test_a_truncated_pickle_is_a_data_error(keep, pickled):
    whole = pickle.dumps(np.arange(50), 4)
    with pytest.raises(DataError, match=r"ind\.toy\.x is not a readable pickle"):
        read_pickle(pickled(whole[:keep]))


def test_a_matrix_with_broken_parts_is_a_data_error(pickled):
    matrix = sp.csr_matrix(np.eye(3))
    matrix.indices[0] = 99
    with pytest.raises(DataError, match="broken sparse matrix"):
        read_pickle(pickled(matrix, 4))
    bare = b"\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81."
    with pytest.raises(DataError, match="broken sparse matrix: 'data'"):
        read_pickle(pickled(bare))
