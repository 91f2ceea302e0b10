"""A cluster of processes, one of which is killed in the middle of a round."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

from gbgnn import Callback, GBGNNClassifier
from gbgnn.dask import DaskGBGNNClassifier, DaskGraph

LABELLED = np.arange(0, 300, 3)


class KillWorker(Callback):
    """Kills the processes of workers a moment after a round, while the next one is computed."""

    def __init__(self, client, n_killed: int) -> None:
        self.client, self.n_killed, self.killed = client, n_killed, set()

    def on_round(self, report) -> None:
        if report.t == 3:
            self.killed |= set(sorted(self.client.run(os.getpid).values())[: self.n_killed])
            for pid in self.killed:
                threading.Timer(0.01, os.kill, (pid, signal.SIGKILL)).start()


@pytest.fixture
def data(make_graph):
    graph = make_graph(300)
    return graph, (graph.adjacency @ graph.features[:, 0] + graph.features[:, 1] > 0).astype(int)


def test_what_travels_is_what_was_promised(processes, data) -> None:
    graph, y = data
    model = DaskGBGNNClassifier(random_state=0, client=processes, aggregation="adjacency")
    for _ in range(8):  # Dask may compute a chunk elsewhere that is as small as these
        sent = DaskGraph.from_graph(graph, client=processes, n_chunks=2)
        model.set_params(n_rounds=1).fit(LABELLED, y[LABELLED], graph=sent)
        before = sum(map(_received, processes.run(_log).values()))
        model.set_params(n_rounds=5).fit(LABELLED, y[LABELLED], graph=sent)
        travelled = sum(map(_received, processes.run(_log).values())) - before
        if travelled == 4 * sent.bytes_per_product(7):
            return
    pytest.fail(f"{travelled} bytes travelled, and never {4 * sent.bytes_per_product(7)}")


def test_labels_stay_where_they_are(processes, data) -> None:
    graph, y = data
    mark = 0.123456789
    model = DaskGBGNNClassifier(n_rounds=2, random_state=0, client=processes)
    model.fit(LABELLED, np.where(y[LABELLED] > 0, mark, 7.0).astype(str), graph=graph)
    held = [key for keys in processes.has_what().values() for key in keys]
    assert held
    assert not any(processes.run(_knows, str(mark)).values())


@pytest.mark.parametrize("n_killed", [1, 2])
def test_a_fit_whose_workers_are_killed_ends_in_the_same_bytes(
    processes, fit_here, data, tmp_path, n_killed
) -> None:
    graph, y = data
    settings = {"n_rounds": 6, "random_state": 0, "aggregation": "injection"}
    kill = KillWorker(processes, n_killed)
    there = DaskGBGNNClassifier(**settings, client=processes, callbacks=[kill])
    there.fit(LABELLED, y[LABELLED], graph=DaskGraph.from_graph(graph, client=processes, n_chunks=4))
    assert len(kill.killed) == n_killed
    assert kill.killed.isdisjoint(processes.run(os.getpid).values())
    here = fit_here(GBGNNClassifier(**settings), LABELLED, y[LABELLED], graph)
    there.save(tmp_path / "there.gbgnn")
    here.save(tmp_path / "here.gbgnn")
    assert (tmp_path / "there.gbgnn").read_bytes() == (tmp_path / "here.gbgnn").read_bytes()
    every = np.arange(300)
    assert np.allclose(there.predict_proba(every), here.predict_proba(every), atol=1e-6)


def _log(dask_worker):
    return list(dask_worker.transfer_incoming_log)


def _received(log) -> int:
    return sum(n for each in log for key, n in each["keys"].items() if "borrow" in str(key))


def _knows(text: str, dask_worker) -> bool:
    return any(text in repr(value) for value in dask_worker.data.values())
