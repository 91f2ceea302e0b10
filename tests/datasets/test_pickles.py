"""Pickles are read without unpickling: whatever a file asks for, nothing is built but plain values."""

from __future__ import annotations

import os
import pickle
import struct
from collections import OrderedDict, defaultdict

import numpy as np
import pytest
import scipy.sparse as sp

from gbgnn.datasets.pickles import read_pickle
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


# The names are all allowed: an array of pointers that the file chooses, as it stands in trust's D1.
_START = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I2\nt"
_POINTERS = struct.pack("<QQ", 0x414141414140, 0x414141414140)


def _array(kind: bytes, content: bytes = _POINTERS) -> bytes:
    return _START + kind + b"I00\nB" + struct.pack("<I", len(content)) + content + b"tb."


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (b"cnumpy\ndtype\n(S'O8'\nI00\nI01\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntb", "array of 'O8'"),
        (b"cnumpy\ndtype\n(S'S1000000000'\nI00\nI01\ntR", "array of 'S1000000000'"),
        (b"cnumpy\ndtype\n(S'f8'\nI00\nI01\ntR(I3\nS'<'\n(S'f8'\nI1\ntNNI-1\nI-1\nI0\ntb", "other things"),
        (b"cnumpy\ndtype\n(S'f8'\nI00\nI01\ntR(I3\nS'O'\nNNNI-1\nI-1\nI0\ntb", "other things"),
        (b"cnumpy\ndtype\n((lI00\nI01\ntR", "array of 'another type'"),
        (b"N", "has no type"),
        (b"cnumpy\nndarray\n", "has no type"),
    ],
)
def test_an_array_of_pointers_cannot_be_asked_for(kind, message, pickled):
    with pytest.raises(DataError, match=message):
        read_pickle(pickled(_array(kind)))


def test_an_array_has_as_many_bytes_as_it_takes(pickled):
    kind = b"cnumpy\ndtype\n(S'f8'\nI00\nI01\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntb"
    assert read_pickle(pickled(_array(kind))).shape == (2,)
    with pytest.raises(DataError, match=r"shape \(2,\) and type f8 does not take 15 bytes"):
        read_pickle(pickled(_array(kind, _POINTERS[1:])))
    huge = _array(kind).replace(b"(I2\nt", b"(I1000000000000\nt")
    with pytest.raises(DataError, match="does not take 16 bytes"):
        read_pickle(pickled(huge))
    deep = _array(kind).replace(b"(I2\nt", b"(" + b"I1\n" * 40 + b"I2\nt")
    with pytest.raises(DataError, match="one whole number, or two"):
        read_pickle(pickled(deep))


def test_arrays_keep_their_order_of_bytes_and_axes(pickled):
    values = np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3))
    read = read_pickle(pickled(values, 4))
    assert np.array_equal(read, values)
    assert read.dtype == np.dtype("=i4")


@pytest.mark.parametrize(
    ("instructions", "message"),
    [
        (
            b"\x80\x04r\xff\xff\xff\x7fN.",
            "not a readable pickle",
        ),  # a place far out, with nothing to put there
        (b"\x80\x05\x96\x00\x00\x00\x00\x01\x00\x00\x00.", "not a readable pickle"),  # 4 GiB of bytes
        (b"(" * 5 + b".", "not a readable pickle"),
        (b"\x80\x04}]K\x01s.", "numbers or text for its keys"),
        (b"\x80\x04}" + b")" + b"\x85" * 10**5 + b"K\x01s.", "numbers or text for its keys"),
        (b"\x80\x04NK\x01a.", "no list"),
        (b"\x80\x04NNb.", "where nothing can be"),
        (b"\x80\x04\x8f.", "asks for EMPTY_SET"),
        (b"\x80\x04c__builtin__\nlist\n)R.", "nothing is made of list"),
        (b"\x80\x04N)R.", "what is no name"),
        (b"cnumpy\ndtype\n(" + b"(" * 5 + b"t" * 5 + b"tR.", "array of 'another type'"),
        (b"I" + b"9" * 5000 + b"\n.", "not a readable pickle"),
        (b"\x86.", "something is missing"),
    ],
)
def test_instructions_that_do_not_fit_are_a_data_error(instructions, message, pickled):
    with pytest.raises(DataError, match=message):
        read_pickle(pickled(instructions))


def test_a_matrix_whose_parts_are_no_arrays_is_a_data_error(pickled):
    state = b"}(X\x04\x00\x00\x00dataNX\x07\x00\x00\x00indicesNX\x06\x00\x00\x00indptrNu"
    with pytest.raises(DataError, match="its parts are no arrays"):
        read_pickle(pickled(b"\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81" + state + b"b."))


def test_lists_and_tables_of_the_oldest_protocol_are_read(pickled):
    assert read_pickle(pickled({0: [1, 2], 1: [0]}, 0)) == {0: [1, 2], 1: [0]}
    assert read_pickle(pickled(b"(I0\n(I1\nI2\nlI1\n(I0\nld.")) == {0: [1, 2], 1: [0]}
