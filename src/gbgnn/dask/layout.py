"""Layout: which nodes are in which chunk, and how workers are asked for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import dask
import numpy as np
from distributed import Client, Future, LocalCluster, get_client
from numpy.typing import NDArray

from gbgnn.errors import ParameterError

Chunks = Sequence["Future[Any]"]
"""What the workers hold, a future for each chunk; what no future stands for any more is let go."""

_SECONDS = 5
"""So long a scheduler may take to answer, and workers to be there."""


@final
@dataclass(frozen=True, eq=False)
class Layout:
    """Chunks of consecutive nodes, and the cluster that has them.

    Tasks are pure functions of other tasks' results and are called by what they compute. So Dask can compute
    again whatever is lost with a worker, and nothing twice that is there. Chunks are first made at home, so
    that every worker has its share. After that no task is bound to a worker, which might be gone by then: a
    task runs where most of what it needs is, so that a chunk stays where it was made.
    """

    client: Client
    bounds: tuple[int, ...]  # the first node of every chunk, and the number of all
    homes: tuple[str, ...] = ()  # the address of the worker that first makes each chunk

    @classmethod
    def build(cls, client: Client, bounds: Sequence[int]) -> Layout:
        """Share out chunks among the workers there are, neighbouring ones to one worker."""
        threads, n_chunks = sorted(find_workers(client).items()), len(bounds) - 1
        slots = [address for address, n_threads in threads for _ in range(n_threads)]
        homes = (slots[i * len(slots) // n_chunks] for i in range(n_chunks))
        return cls(client, tuple(map(int, bounds)), tuple(homes))

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return len(self.bounds) - 1

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.bounds[-1]

    def submit(self, key: str, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Let a worker compute a function; futures among ``args`` become results."""
        with quiet_about_size():
            return self.client.submit(function, *args, key=f"gbgnn-{key}")

    def settle(self, chunk: int, key: str, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Let a function be computed where a chunk is at home, or elsewhere if that worker is gone."""
        home = {"workers": [self.homes[chunk]], "allow_other_workers": True}
        with quiet_about_size():
            return self.client.submit(function, *args, key=f"gbgnn-{key}", **home)

    def wait(self, settled: Chunks) -> None:
        """Wait for what was settled, raise what went wrong, and bind it to its home no longer.

        A task that is to be computed again while there is no worker would wait for the one it is bound to.
        """
        for part in settled:
            error = part.exception()
            if error is not None:
                raise error
        unbound: dict[Any, list[str]] = {part.key: [] for part in settled}
        scheduler: Any = self.client.scheduler
        self.client.sync(scheduler.set_restrictions, worker=unbound)

    def locate(self, ids: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield each chunk that some nodes are in, their places among ``ids``, and their rows in the chunk.

        Examples
        --------
        >>> layout = Layout(None, (0, 2, 5))
        >>> [(i, places.tolist(), rows.tolist()) for i, places, rows in layout.locate(np.array([4, 0, 2]))]
        [(0, [1], [0]), (1, [0, 2], [2, 0])]
        """
        chunks = np.searchsorted(self.bounds, ids, side="right") - 1
        for chunk in np.unique(chunks).tolist():
            places = np.flatnonzero(chunks == chunk)
            yield chunk, places, ids[places] - self.bounds[chunk]


def find_workers(client: Client) -> dict[str, int]:
    """Return the number of threads of each worker, by its address; wait a little for the first one."""
    try:
        client.wait_for_workers(1, timeout=_SECONDS)
    except TimeoutError:
        address = find_address(client)
        raise ParameterError(
            f"the Dask scheduler at {address} has no workers, after waiting {_SECONDS} s; start some, such "
            f"as `dask worker {address}`."
        ) from None
    return dict(client.nthreads())


def find_address(client: Client) -> str:
    """Return where the scheduler of a client is."""
    return str(client.scheduler_info()["address"])


def find_client(client: Client | None) -> Client:
    """Return the client that was given, or that of the program."""
    if client is None:
        try:
            return get_client()
        except ValueError:
            raise ParameterError(
                "there is no Dask client: make one, such as distributed.Client(address), or give client=."
            ) from None
    if not isinstance(client, Client):
        raise ParameterError(
            f"client must be a distributed.Client; got {type(client).__name__}. Make one, such as "
            "distributed.Client(address)."
        )
    return client


@contextmanager
def open_client(scheduler: str) -> Iterator[Client]:
    """Reach a scheduler by its address, or start so many workers on this machine: ``"local:4"``."""
    kind, _, count = scheduler.partition(":")
    if kind == "local":
        if not count.isdecimal() or not int(count):
            raise ParameterError(f"scheduler={scheduler!r} has no number of workers; give it as local:4.")
        with (
            LocalCluster(
                n_workers=int(count), threads_per_worker=1, dashboard_address=":0", silence_logs=logging.ERROR
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = Client(scheduler, timeout=_SECONDS)
    except (OSError, ValueError) as error:
        raise ParameterError(
            f"no Dask scheduler answers at {scheduler!r} ({error}); give its address, such as "
            "tcp://10.0.0.1:8786, or local:4 for workers on this machine."
        ) from None
    with client:
        yield client


def take(value: Any) -> Any:
    """Return what was sent, as the result of a task."""
    return value


def quiet_about_size() -> Any:
    """Return a context in which Dask does not warn of parts of a graph in memory, which must travel once."""
    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PiB"})
