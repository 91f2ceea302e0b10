"""Random signs, mostly zero, and their products with matrices of any kind and size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from gbgnn._checks import check_integer, check_number
from gbgnn.errors import ParameterError

# Draws made side by side. Every group has random streams of its own, so that more draws continue fewer.
_GROUP = 128
# Numbers held at a time, 64 MB in double precision.
_BLOCK = 2**23


class Signs:
    """Independent vectors sigma, drawn in groups that are never held whole."""

    def __init__(self, owner: str, n_nodes: int, p: float, n_draws: int, seed: int) -> None:
        check_number(owner, "p", p, 0, 0.5, open_low=True)
        check_integer(owner, "n_draws", n_draws, 2)
        check_integer(owner, "seed", seed, 0)
        self.n_nodes, self.p, self.n_draws, self.seed = n_nodes, float(p), n_draws, seed

    @property
    def n_groups(self) -> int:
        """How many groups hold the draws; the last may hold more than were asked for."""
        return -(-self.n_draws // _GROUP)

    def sums(self, X: Any, group: int) -> NDArray[np.float64]:
        """Return <sigma, X_c>, a row for each draw of the group and a column for each c."""
        total = np.zeros((_GROUP, X.shape[1]))
        width = X.nnz / X.shape[0] if sp.issparse(X) else X.shape[1]
        for rows, signs in self._blocks(group, int(_BLOCK / max(width, _GROUP))):
            total += _product(signs, X, rows)
        return total

    def _blocks(self, group: int, size: int) -> Iterator[tuple[NDArray[np.int64], sp.csr_array]]:
        """Yield rows that have non-zero signs in some draw, and these signs, a column per draw.

        Places are numbered row by row. The gap from one non-zero sign to the next is geometric, which is an
        exponential variable rounded up; so zeros cost nothing, and neither of the two random streams depends
        on where a block ends.
        """
        sequence = np.random.SeedSequence(self.seed, spawn_key=(group,))
        gaps, coins = map(np.random.default_rng, sequence.spawn(2))
        rate = -math.log1p(-2 * self.p) if self.p < 0.5 else math.inf
        end, last = self.n_nodes * _GROUP, -1
        size = min(max(size, 1), math.ceil(2.1 * self.p * end) + 100)  # a small graph needs one block
        while last < end:
            steps = np.minimum(gaps.standard_exponential(size) / rate, end)  # to fit an integer
            places = np.cumsum(steps.astype(np.int64) + 1) + last
            signs = np.where(coins.random(size) < 0.5, 1.0, -1.0)
            last = int(places[-1])
            within = int(np.searchsorted(places, end))
            if within:
                rows, draws = places[:within] // _GROUP, places[:within] % _GROUP
                starts = np.flatnonzero(np.diff(rows, prepend=-1))
                pointers = np.append(starts, within)
                yield rows[starts], sp.csr_array((signs[:within], draws, pointers), (len(starts), _GROUP))


def as_matrix(owner: str, vectors: Any) -> Any:
    """Return a tensor of a GPU, a CSR array or a NumPy array of floating point numbers, checked."""
    X: Any
    if isinstance(vectors, torch.Tensor):
        X, is_real = vectors.detach(), vectors.layout == torch.strided and not vectors.is_complex()
    else:
        X = sp.csr_array(vectors) if sp.issparse(vectors) else np.asarray(vectors)
        is_real = X.dtype.kind in "biuf"
    if not is_real or X.ndim != 2 or 0 in X.shape:
        raise ParameterError(
            f"{owner}.vectors must be a matrix of real numbers with a row per node (NumPy, SciPy sparse or "
            f"dense torch); got {type(vectors).__name__} of {X.dtype}, shape {tuple(X.shape)}."
        )
    if isinstance(X, torch.Tensor):
        X = X if X.dtype in (torch.float32, torch.float64) else X.double()
        X = X.numpy() if X.device.type == "cpu" else X
    elif X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    entries = X.data if sp.issparse(X) else X
    # The extremes of all are NaN where some entry is, and need no array of their own.
    if len(entries) and not all(math.isfinite(extreme) for extreme in (entries.max(), entries.min())):
        raise ParameterError(f"{owner}.vectors has NaN or infinite entries.")
    return X


def _product(signs: sp.csr_array, X: Any, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return signs^T X[rows] in double precision."""
    if isinstance(X, torch.Tensor):
        # Dense signs: a sparse product would add up in an order that changes from run to run.
        chosen = X[torch.from_numpy(rows).to(X.device)].double()
        dense = torch.from_numpy(signs.toarray()).to(X.device)
        return np.asarray((dense.T @ chosen).cpu().numpy())
    sums = signs.T @ X[rows]
    return np.asarray(sums.toarray() if sp.issparse(sums) else sums)
