"""Reading the Planetoid pickles without running anything that a pickle might ask for."""

from __future__ import annotations

import importlib
import os
import pickle
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gbgnn.errors import DataError


def _reconstruct() -> Callable[..., Any]:
    """NumPy's array builder, which moved between NumPy 1 and 2."""
    for module in ("numpy._core.multiarray", "numpy.core.multiarray"):
        try:
            builder: Callable[..., Any] = importlib.import_module(module)._reconstruct
        except ModuleNotFoundError:
            continue
        return builder
    raise AssertionError("NumPy has no multiarray module")


# All that the files name, and nothing more. A sparse matrix is read into a SimpleNamespace, because a
# pickle may set attributes on a Python class that it is given, but not on a built-in one.
_ALLOWED: dict[tuple[str, str], Any] = {
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
    ("collections", "defaultdict"): defaultdict,
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct(),
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct(),
    ("scipy.sparse.csr", "csr_matrix"): SimpleNamespace,
    ("scipy.sparse._csr", "csr_matrix"): SimpleNamespace,
}


def read_pickle(path: str | os.PathLike[str]) -> Any:
    """Return the array, SciPy CSR array or dictionary of lists in a Planetoid file.

    Anything else that the file asks for is refused before it runs.
    """
    path = Path(path)
    with path.open("rb") as file:
        try:
            value = _Restricted(file, path).load()
        except DataError:
            raise
        except Exception as error:  # a damaged pickle can raise nearly anything
            raise DataError(f"{path} is not a readable pickle: {error or 'it ends too early'}.") from error
    return _as_csr(value, path) if isinstance(value, SimpleNamespace) else value


class _Restricted(pickle.Unpickler):
    def __init__(self, file: Any, path: Path) -> None:
        super().__init__(file, encoding="latin1")
        self._path = path

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise DataError(
                f"{self._path} asks for {module}.{name}, which no Planetoid file needs; refused, "
                "because loading it could run code. Get the file from a source you trust."
            ) from None


def _as_csr(parts: SimpleNamespace, path: Path) -> sp.csr_array:
    state = vars(parts)
    try:
        arrays = tuple(np.asarray(state[key]) for key in ("data", "indices", "indptr"))
        matrix = sp.csr_array(arrays, shape=tuple(state.get("_shape", state.get("shape", ()))))
        matrix.check_format(full_check=True)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} holds a broken sparse matrix: {error}.") from error
    return matrix
