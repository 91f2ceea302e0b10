"""Taking the same step many times: called, or recorded once as a CUDA graph and replayed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

Step = Callable[[int, int], None]
"""Takes a step of so many members on so many rows, in memory that never moves, without asking the device."""

_MANY = 10
"""Steps in a graph, as far as there are so many: between two graphs a device waits longer than inside one."""

_ENOUGH = 40
"""From so many steps on, graphs of many are recorded."""

_N_WARM_UP = 3
"""Steps taken before recording, in which libraries and kernels set themselves up."""


class StepRunner:
    """Takes steps by calling.

    Examples
    --------
    >>> StepRunner(lambda n_members, n_rows: print(n_members, n_rows, end="; ")).run([3, 3, 1], [9, 9, 2])
    3 9; 2 9; 2 2;
    """

    def __init__(self, step: Step) -> None:
        self._step = step

    def run(self, n_steps: Sequence[int], n_rows: Sequence[int]) -> None:
        """Take so many steps of every member, those with more first, and each on so many rows."""
        sizes = [size for size, count in phases(n_steps) for _ in range(count)]
        for size, needed in zip(sizes, n_rows, strict=True):
            self._step(size, needed)


class GraphRunner:
    """Takes steps by replaying CUDA graphs: that launches all kernels at once.

    ``capacity`` and ``n_rows`` are the most members there are, and the most rows of a step. Fewer members
    come in sizes of which each has a graph, recorded when it is first needed and kept; fewer rows are padded.
    """

    def __init__(self, step: Step, capacity: int, n_rows: int) -> None:
        self._step, self._sizes, self._n_rows = step, graph_sizes(capacity), n_rows
        self._graphs: dict[tuple[int, int], Any] = {}
        self._warm: set[int] = set()
        self._stream, self._pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()

    def run(self, n_steps: Sequence[int], n_rows: Sequence[int]) -> None:
        """Take so many steps of every member, those with more first; ``n_rows`` is as good as the most."""
        # On a stream of its own, as recording demands; the one that fills and reads the memory waits.
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for size, count in phases(n_steps, self._sizes):
                left = count - self._warm_up(size, count)
                # A long graph takes longer to record, which a few steps do not pay for.
                for length in (_MANY, 1) if left >= _ENOUGH else (1,):
                    n_times, left = divmod(left, length)
                    for _ in range(n_times):
                        self._record(size, length).replay()
        torch.cuda.current_stream().wait_stream(self._stream)

    def _warm_up(self, size: int, count: int) -> int:
        """Let libraries and kernels set themselves up for a size; return how many steps that took."""
        if size in self._warm:
            return 0
        self._warm.add(size)
        n_taken = min(count, _N_WARM_UP)
        for _ in range(n_taken):
            self._step(size, self._n_rows)
        return n_taken

    def _record(self, size: int, length: int) -> Any:
        """Return the graph of so many steps, recorded when it is first asked for."""
        if (size, length) not in self._graphs:
            # torch.cuda.graph would do the same after collecting garbage, which takes longer than recording.
            graph = torch.cuda.CUDAGraph()
            torch.cuda.synchronize()
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            for _ in range(length):
                self._step(size, self._n_rows)
            graph.capture_end()
            self._graphs[size, length] = graph
        return self._graphs[size, length]


def phases(n_steps: Sequence[int], sizes: Sequence[int] | None = None) -> Iterator[tuple[int, int]]:
    """Yield how many members go on together for how many steps, until the last is done.

    ``n_steps`` are those of every member, the most first. ``sizes`` are the numbers of members that may step
    together, increasing, None for any: those who are done may have to come along.

    Examples
    --------
    >>> list(phases([30, 30, 20, 5]))
    [(4, 5), (3, 15), (2, 10)]
    >>> list(phases([30, 30, 20, 5], sizes=[1, 2, 4]))
    [(4, 20), (2, 10)]
    """
    done, size, waiting = 0, 0, 0
    for n_going_on in range(len(n_steps), 0, -1):
        end = n_steps[n_going_on - 1]
        if end == done:
            continue
        fitting = n_going_on if sizes is None else next(size for size in sizes if size >= n_going_on)
        if waiting and fitting != size:
            yield size, waiting
            waiting = 0
        size, waiting, done = fitting, waiting + end - done, end
    if waiting:
        yield size, waiting


def graph_sizes(capacity: int) -> list[int]:
    """Return the numbers of members that may step together where each number has to be prepared for.

    Examples
    --------
    >>> graph_sizes(64)
    [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]
    """
    shares = [share / 2**k for k in range(capacity.bit_length()) for share in (1, 0.75)]
    return sorted({math.ceil(share * capacity) for share in shares})
