from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
import torch

from gbgnn import FineTuner, GBGNNClassifier
from gbgnn._threads import LARGE, gram, map_threads, n_threads, one_thread, threads_for
from gbgnn.testing import two_blocks


@pytest.fixture(autouse=True)
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_one_thread_is_left_as_it_was_found_also_after_an_error() -> None:
    @one_thread()
    def fail() -> None:
        assert (torch.get_num_threads(), n_threads()) == (1, 4)
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (torch.get_num_threads(), n_threads()) == (4, 4)


def test_nested_limits_end_with_the_outermost() -> None:
    with one_thread():
        with one_thread():
            pass
        assert (torch.get_num_threads(), n_threads()) == (1, 4)


def test_large_work_gets_all_threads_and_small_work_one() -> None:
    with one_thread():
        with threads_for(LARGE):
            assert torch.get_num_threads() == 4
        with threads_for(LARGE - 1):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    with threads_for(LARGE - 1):  # outside of a limit, nothing is changed
        assert torch.get_num_threads() == 4


def test_items_are_mapped_in_order_and_by_several_threads_only_where_that_pays() -> None:
    def name(item: int) -> tuple[int, str, int]:
        barrier.wait(timeout=20)
        return item, threading.current_thread().name, torch.get_num_threads()

    barrier = threading.Barrier(2)  # passed only if two threads are at work at once
    with one_thread():
        found = map_threads(name, range(8), work=LARGE)
    assert [item for item, _, _ in found] == list(range(8))
    assert {own for _, _, own in found} == {1}
    barrier = threading.Barrier(1)
    assert {who for _, who, _ in map_threads(name, range(8), work=1)} == {threading.current_thread().name}


def test_an_error_in_a_thread_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        map_threads(lambda x: 1 // x, [1, 0, 2, 3], work=LARGE)


def large_problem() -> tuple:
    graph, y = two_blocks(3000, n_classes=3, n_features=500)
    return graph, y, np.arange(60)


def test_any_number_of_threads_gives_the_same_bytes() -> None:
    graph, y, train = large_problem()
    found = []
    for n in (1, 2, 4):
        torch.set_num_threads(n)
        model = GBGNNClassifier(n_rounds=3, random_state=0, device="cpu").fit(train, y[train], graph=graph)
        found.append((model.scores_.tobytes(), model.predict_proba([0], graph=graph).tobytes()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("shape", [(5, 3), (64, 200), (130, 700), (2, 70, 300)])
def test_a_gram_matrix_is_the_same_for_any_number_of_threads(shape: tuple[int, ...]) -> None:
    rows = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    found = []
    for n in (1, 2, 3):
        torch.set_num_threads(n)
        found.append(gram(rows).numpy().tobytes())
    assert found[0] == found[1] == found[2]
    torch.testing.assert_close(gram(rows), rows @ rows.mT, atol=1e-4, rtol=1e-4)


def test_who_asks_for_deterministic_algorithms_gets_one_thread_also_for_large_work() -> None:
    try:
        torch.use_deterministic_algorithms(True)
        with one_thread(), threads_for(LARGE):
            assert torch.get_num_threads() == 1
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    "settings",
    [
        {"aggregation": "kta"},
        {"rule": "samme_r", "dtype": "float64"},
        {"aggregation": "nonlinear", "deterministic": True},
        {"fine_tune": FineTuner(epochs=2), "deterministic": True},
    ],
    ids=["kta", "double", "mixing", "fine-tuned"],
)
def test_the_number_of_threads_does_not_show(settings: dict[str, Any]) -> None:
    """Where labelled rows meet each other, in many columns; elsewhere for those who ask for it."""
    graph, y = two_blocks(600, n_classes=3, n_features=1000)
    own, train, found = dict(settings), np.arange(140), []
    try:
        torch.use_deterministic_algorithms(own.pop("deterministic", False))
        for n in (1, 3):
            torch.set_num_threads(n)
            model = GBGNNClassifier(n_rounds=2, random_state=0, device="cpu", **own)
            found.append(model.fit(train, y[train], graph=graph).scores_.tobytes())
    finally:
        torch.use_deterministic_algorithms(False)
    assert found[0] == found[1]


FORK = """
import os
import numpy as np, torch
from gbgnn import GBGNNClassifier
from gbgnn.testing import two_blocks
torch.set_num_threads(2)
graph, y = two_blocks(2000, n_classes=3, n_features=400)
model = GBGNNClassifier(n_rounds=2, random_state=0, device="cpu")
fit = lambda: model.fit(np.arange(60), y[:60], graph=graph)
expected = fit().scores_.tobytes()
child = os.fork()
if not child:
    os._exit(0 if fit().scores_.tobytes() == expected else 1)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_child_fits_after_its_parent_did() -> None:
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=120)


def test_probabilities_of_many_nodes_are_the_same_for_any_number_of_threads() -> None:
    graph, y = two_blocks(60, n_classes=3)
    model = GBGNNClassifier(preset="fast", n_rounds=1, random_state=0, device="cpu")
    fitted = model.fit(np.arange(30), y[:30], graph=graph).model_
    scores = torch.randn(50_001, 3, generator=torch.Generator().manual_seed(0))
    found = []
    for n in (1, 3):
        torch.set_num_threads(n)
        found.append(fitted._proba(scores).tobytes())
    assert found[0] == found[1]
    assert np.allclose(np.frombuffer(found[0], np.float32).reshape(-1, 3), scores.softmax(dim=1), atol=1e-6)
