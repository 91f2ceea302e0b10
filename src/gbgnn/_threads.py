"""Threads by the size of the work.

torch splits every larger operation among its threads, which wait for each other, spinning, at the end of
each one. A fit is thousands of operations that take microseconds: beside other work on the machine a thread
that is not running holds up all others time and again, and a fit takes ten times as long. So a fit runs on
one thread, large single operations excepted; and long passes over all nodes, which fall into independent
pieces, are split among a few threads of our own that meet once, at the end. The pieces are the same whatever
the number of threads, and so is the result. Of the large single operations that cannot be promised, but where
``torch.use_deterministic_algorithms(True)`` asks for it: they get one thread then.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

import torch

LARGE = 2**24
"""Multiply-adds, or numbers read, from which on an operation gets all threads: half a millisecond of work."""

_ROWS = 64

T = TypeVar("T")
R = TypeVar("R")
_allowed = threading.local()


def n_threads() -> int:
    """Return how many threads the user lets torch have."""
    outside: int | None = getattr(_allowed, "n", None)
    return torch.get_num_threads() if outside is None else outside


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread inside, in this thread of Python; calls may be nested."""
    if getattr(_allowed, "n", None) is not None:
        yield
        return
    _allowed.n = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(_allowed.n)
        _allowed.n = None


@contextmanager
def threads_for(work: float) -> Iterator[None]:
    """Let torch use all its threads inside where the main operations there are of a large ``work`` each.

    How they split such an operation may show in the last bits of its result: not so where torch is asked for
    deterministic algorithms.
    """
    is_exact = torch.are_deterministic_algorithms_enabled()
    if getattr(_allowed, "n", None) in (None, 1) or work < LARGE or is_exact:
        yield
        return
    torch.set_num_threads(_allowed.n)
    try:
        yield
    finally:
        torch.set_num_threads(1)


def gram(rows: torch.Tensor) -> torch.Tensor:
    """Return the products of all rows with each other, the same for any number of threads.

    Left to itself a BLAS splits the long sums among its threads, and adds them up in another order.
    """
    n_rows = rows.shape[-2]
    if rows.device.type != "cpu":
        return rows @ rows.mT
    pieces = [slice(start, start + _ROWS) for start in range(0, n_rows, _ROWS)]
    with one_thread():
        found = map_threads(lambda rs: rows[..., rs, :] @ rows.mT, pieces, rows.numel() * n_rows)
    return torch.cat(found, dim=-2)


def map_threads(function: Callable[[T], R], items: Sequence[T], work: float) -> list[R]:
    """Return the function of every item, computed by several threads where all of the ``work`` is large.

    The function must not keep the interpreter's lock for long, as torch and NumPy do not.
    """
    n_workers = n_threads() if work >= LARGE // 4 and len(items) > 1 else 1
    if n_workers < 2:
        return list(map(function, items))
    pool = _start_threads(n_workers, os.getpid())
    futures = [pool.submit(function, item) for item in items]
    try:
        wait(futures)  # for all, also where one fails: they may write where the caller goes on
    finally:
        for future in futures:
            future.cancel()
    return [future.result() for future in futures]


@lru_cache(maxsize=2)
def _start_threads(n_workers: int, process: int) -> ThreadPoolExecutor:
    """Return threads that stay: starting them takes as long as a small product. A fork has none of them."""
    return ThreadPoolExecutor(n_workers, "gbgnn", initializer=torch.set_num_threads, initargs=(1,))
