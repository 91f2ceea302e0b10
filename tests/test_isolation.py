from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest
import torch

from gbgnn._isolation import ProcessDiedError, Processes

posix = pytest.mark.skipif(os.name != "posix", reason="signals")


@pytest.fixture
def processes():
    with Processes(threads=1) as made:
        yield made


def test_every_call_has_a_process_of_its_own(processes):
    numbers = {processes.call(os.getpid) for _ in range(2)}
    assert len(numbers) == 2
    assert os.getpid() not in numbers


def test_threads_are_set(processes):
    assert processes.call(torch.get_num_threads) == 1


def test_what_is_raised_there_is_raised_here(processes):
    with pytest.raises(ValueError, match="invalid literal"):
        processes.call(int, "seven")


@posix
@pytest.mark.parametrize(
    ("number", "words"),
    [(9, "ended by SIGKILL, most likely for want of memory"), (15, "ended by SIGTERM.$")],
)
def test_a_killed_process_says_by_what(processes, number, words):
    with pytest.raises(ProcessDiedError, match=words):
        processes.call(_kill_itself, number)


def test_a_process_that_leaves_says_so(processes):
    with pytest.raises(ProcessDiedError, match="the process ended with code 3"):
        processes.call(os._exit, 3)


def test_an_interrupt_there_is_an_interrupt_here(processes):
    with pytest.raises(KeyboardInterrupt):
        processes.call(_interrupt)


def test_leaving_ends_what_is_still_at_work():
    ended: list[BaseException] = []

    def sleep(processes: Processes) -> None:
        try:
            processes.call(time.sleep, 60)
        except ProcessDiedError as error:
            ended.append(error)

    started = time.perf_counter()
    with Processes(threads=1) as processes:
        thread = threading.Thread(target=sleep, args=(processes,))
        thread.start()
        while not processes._running:
            time.sleep(0.01)
    thread.join(30)
    assert len(ended) == 1
    assert time.perf_counter() - started < 30
    with pytest.raises(ProcessDiedError, match="no process is started any more"):
        processes.call(os.getpid)


def test_a_script_without_a_guard_is_not_run_again():
    code = """
from gbgnn._isolation import Processes
with Processes(1) as processes:
    print(processes.call(divmod, 7, 2))
"""
    done = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, check=True)
    assert done.stdout == "(3, 1)\n"
    assert done.stderr == ""


def _kill_itself(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(60)


def _interrupt() -> None:
    raise KeyboardInterrupt
