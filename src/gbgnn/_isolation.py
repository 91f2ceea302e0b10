"""Calling a function in a process of its own: its memory is its own, and so is its death."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

import torch

from gbgnn.errors import GBGNNError

# What every run needs; a fork of a process that has it starts at once.
_PRELOADED = ["torch", "sklearn.metrics", "gbgnn.estimators", "gbgnn.search"]
_INTERRUPTED = 130


class ProcessDiedError(GBGNNError, RuntimeError):
    """The process of a run ended before the run did."""


class Processes:
    """Calls functions, each in a new process, from any thread; on leaving, those still at work are ended."""

    def __init__(self, threads: int) -> None:
        self.threads = threads  # torch's, in each process
        self._running: set[Any] = set()
        self._lock = threading.Lock()
        self._is_open = True
        # A plain fork would copy the threads' locks, and a CUDA context that cannot be used.
        self._context: Any = multiprocessing.get_context("forkserver" if os.name == "posix" else "spawn")
        if os.name == "posix":
            self._context.set_forkserver_preload(_PRELOADED)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(*args)``; all three must pickle, and so must what the function raises."""
        receiver, sender = self._context.Pipe(duplex=False)
        # No daemon: a function may want processes of its own. Those still at work are ended on leaving.
        process = self._context.Process(target=_answer, args=(sender, self.threads, function, args))
        with self._lock:
            if not self._is_open:
                raise ProcessDiedError("no process is started any more.")
            with _blank_main():
                process.start()
            self._running.add(process)
        sender.close()  # the child has its own; when that is closed too, there is nothing to wait for
        try:
            error, value = receiver.recv()
        except EOFError:
            process.join()
            raise _death(process.exitcode) from None
        finally:
            receiver.close()
            process.join()
            with self._lock:
                self._running.discard(process)
        if error is not None:
            raise error
        return value

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._is_open = False
            for process in self._running:
                process.terminate()


def n_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _blank_main() -> Iterator[None]:
    """Hide the main module while a process is started, which would otherwise import it.

    A script that calls us outside of ``if __name__ == "__main__"`` would run again in every process, and one
    that was read from stdin cannot be imported at all.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _answer(sender: Connection, threads: int, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Send the result, or what was raised."""
    torch.set_num_threads(threads)
    answer: tuple[Exception | None, Any]
    try:
        answer = (None, function(*args))
    except KeyboardInterrupt:  # Ctrl-C reaches every process; the first one has the say
        os._exit(_INTERRUPTED)
    except Exception as error:
        answer = (error, None)
    sender.send(answer)
    sender.close()


def _death(exitcode: int) -> BaseException:
    if exitcode == _INTERRUPTED:
        return KeyboardInterrupt()
    if exitcode < 0:
        name = signal.Signals(-exitcode).name
        likely = ", most likely for want of memory" if -exitcode == signal.SIGKILL else ""
        return ProcessDiedError(f"the process was ended by {name}{likely}.")
    return ProcessDiedError(f"the process ended with code {exitcode}.")
