"""TermRows: rows of a sequence of representations that all members of a population share."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock

import torch


class TermRows:
    """Some nodes' rows of representations of all nodes, computed when they are first asked for and kept.

    Parameters
    ----------
    stream
        The representations of all nodes, one after the other, each valid until the next is asked for.
    nodes
        The nodes whose rows are kept.
    width
        Columns of a kept row; those beyond the representation's are zero.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from gbgnn.propagation import Propagator, powers
    >>> P = Propagator(sp.csr_array([[0.0, 1.0], [1.0, 0.0]]))
    >>> rows = TermRows(powers(P, torch.tensor([[1.0], [2.0]]), range(9)), torch.tensor([1]), width=2)
    >>> rows.first(3).tolist()
    [[[2.0, 0.0]], [[1.0, 0.0]], [[2.0, 0.0]]]
    """

    def __init__(self, stream: Iterator[torch.Tensor], nodes: torch.Tensor, width: int) -> None:
        self._stream, self._nodes, self._width = stream, nodes, width
        self._rows, self._n_known = torch.empty(0), 0
        self._lock = Lock()  # cohorts are trained in threads, and ask when they need

    def first(self, n_terms: int) -> torch.Tensor:
        """Return the rows of the first terms, shape (n_terms, nodes, width)."""
        with self._lock:
            while self._n_known < n_terms:
                term = next(self._stream)
                self._make_room(term, max(n_terms, 3 * self._n_known // 2))
                self._rows[self._n_known, :, : term.shape[1]] = term[self._nodes]
                self._n_known += 1
            return self._rows[:n_terms]

    def _make_room(self, like: torch.Tensor, n_terms: int) -> None:
        if self._n_known == len(self._rows):
            more = like.new_zeros(n_terms - self._n_known, len(self._nodes), self._width)
            self._rows = torch.cat([self._rows, more]) if self._n_known else more
