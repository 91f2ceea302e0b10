"""A rival written for numba: products over the bare pattern, both scalings and the diagonal fused.

A row is summed by one thread in the order of its entries, four at a time, in float32 also where numbers are
stored in bfloat16, whose bits numba is handed as integers. Rows of X are fetched into the cache some entries
ahead. Ranges of rows of about as many entries each are shared out by ``map_threads``; the kernel holds no
lock meanwhile.
"""

# No annotations from the future: numba needs none of them here, and its intrinsic reads its own.

from functools import cache
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from gbgnn._threads import map_threads
from gbgnn.propagation import Operator

_AHEAD = 16  # entries: of 4 to 24 about the best
_PIECES = 64  # ranges of rows
_LINE = 64  # bytes that the cache fetches at once
u = np.uint64  # signed indices would be checked for counting from the end


class PatternKernel:
    """Multiplies by the P of an unweighted graph."""

    def __init__(self, operator: Operator) -> None:
        edges = operator.edges
        assert edges.values is None
        self._starts, self._columns = edges.row_starts.numpy(), edges.columns.numpy().view(np.uint32)
        ones = torch.ones(operator.n_nodes)
        diagonal = operator.diagonal_terms()
        parts = (operator.left, operator.right, ones * 0 if diagonal is None else diagonal)
        self._left, self._right, self._diagonal = (
            (ones if part is None else part).float().numpy() for part in parts
        )
        work = self._starts + 4 * np.arange(len(self._starts))
        wanted = np.linspace(0, work[-1], _PIECES + 1)
        cuts = np.unique(np.searchsorted(work, wanted)).tolist()
        self._ranges = list(zip(cuts, [*cuts[1:-1], operator.n_nodes], strict=False))

    def multiply(self, X: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Write P @ X into ``out``."""
        is_half = X.dtype == torch.bfloat16
        given, result = ((T.view(torch.uint16) if is_half else T).numpy() for T in (X, out))
        kernel = _compile(is_half)

        def run(rows: tuple[int, int]) -> None:
            kernel(
                *(self._starts, self._columns, self._left, self._right, self._diagonal),
                *(given.reshape(-1), result.reshape(-1), u(X.shape[1]), *rows),
            )

        map_threads(run, self._ranges, len(self._columns) * X.shape[1])
        return out


@intrinsic  # type: ignore[misc]
def _prefetch(context: Any, array: Any, place: Any) -> Any:
    """Fetch the cache line of an entry of an array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        builder.call(fetch, [address, *(number(each) for each in (0, 3, 1))])  # read, keep, data
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


@cache
def _compile(is_half: bool) -> Any:
    """Return the kernel for float32, or for bfloat16 as unsigned integers."""
    step = u(_LINE // (2 if is_half else 4))

    @njit(inline="always")
    def widen(x):  # type: ignore[no-untyped-def]
        return np.uint32(np.uint32(x) << np.uint32(16)).view(np.float32) if is_half else x

    @njit(inline="always")
    def narrow(x):  # type: ignore[no-untyped-def]
        if not is_half:
            return x
        bits = np.float32(x).view(np.uint32)  # rounded to the nearest, ties to even; our numbers are finite
        return np.uint16(
            (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        )

    @njit(nogil=True, fastmath={"contract"}, error_model="numpy")
    def kernel(starts, columns, left, right, diagonal, X, out, C, first, end):  # type: ignore[no-untyped-def]
        sums = np.empty(C, np.float32)
        last = u(columns.size) - u(1)
        for row in range(u(first), u(end)):
            for c in range(C):
                sums[c] = 0
            entry, stop = u(starts[row]), u(starts[row + u(1)])
            while entry < stop:
                n = min(u(4), stop - entry)
                for k in range(n):
                    ahead = u(columns[min(entry + u(_AHEAD) + k, last)]) * C
                    for c in range(u(0), C, step):
                        _prefetch(X, ahead + c)
                j0 = u(columns[entry])
                r0, x0 = right[j0], j0 * C
                if n == u(4):
                    j1, j2 = u(columns[entry + u(1)]), u(columns[entry + u(2)])
                    j3 = u(columns[entry + u(3)])
                    r1, r2, r3, x1, x2, x3 = right[j1], right[j2], right[j3], j1 * C, j2 * C, j3 * C
                    for c in range(C):
                        half = (sums[c] + r0 * widen(X[x0 + c])) + r1 * widen(X[x1 + c])
                        sums[c] = (half + r2 * widen(X[x2 + c])) + r3 * widen(X[x3 + c])
                    entry += u(4)
                else:
                    for c in range(C):
                        sums[c] += r0 * widen(X[x0 + c])
                    entry += u(1)
            L, D, own = left[row], diagonal[row], row * C
            for c in range(C):
                out[own + c] = narrow(L * sums[c] + D * widen(X[own + c]))

    return kernel
