from __future__ import annotations

import time

import pytest
from distributed import Client, LocalCluster

from gbgnn.dask.layout import Layout, find_address, find_client, find_workers, open_client, take
from gbgnn.errors import ParameterError


def test_a_scheduler_that_is_not_there_is_said_soon() -> None:
    started = time.perf_counter()
    with (
        pytest.raises(ParameterError, match="no Dask scheduler answers at 'tcp://127.0.0.1:9'"),
        open_client("tcp://127.0.0.1:9"),
    ):
        pass
    assert time.perf_counter() - started < 9


@pytest.mark.parametrize("name", ["local:", "local:x", "local:0"])
def test_workers_of_this_machine_need_a_number(name: str) -> None:
    with (
        pytest.raises(ParameterError, match="has no number of workers; give it as local:4"),
        open_client(name),
    ):
        pass


def test_a_scheduler_is_reached_by_its_address(client: Client) -> None:
    with open_client(find_address(client)) as other:
        assert find_workers(other) == find_workers(client)


def test_a_cluster_without_workers_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gbgnn.dask.layout._SECONDS", 0.2)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as empty,
        pytest.raises(ParameterError, match="has no workers, after waiting 0.2 s"),
    ):
        find_workers(empty)


def test_the_client_is_that_of_the_program_or_the_one_given(client: Client) -> None:
    assert find_client(client) is client
    with client.as_current():
        assert find_client(None) is client
    with pytest.raises(ParameterError, match="client must be a distributed.Client; got str"):
        find_client("tcp://127.0.0.1:1")  # type: ignore[arg-type]


def test_without_any_client_one_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_there() -> None:
        raise ValueError("no client")

    monkeypatch.setattr("gbgnn.dask.layout.get_client", none_there)
    with pytest.raises(ParameterError, match="there is no Dask client"):
        find_client(None)


def test_every_worker_has_its_share_of_the_chunks(client: Client) -> None:
    layout = Layout.build(client, range(5))
    assert (layout.n_chunks, layout.n_nodes) == (4, 4)
    assert layout.homes == tuple(sorted(layout.homes))
    assert set(layout.homes) == set(find_workers(client))
    chunks = [layout.settle(i, f"test-homes-{i}", take, i) for i in range(4)]
    layout.wait(chunks)
    assert [client.who_has(chunk)[chunk.key][0] for chunk in chunks] == list(layout.homes)
    assert client.run_on_scheduler(_find_bound) == []


def test_what_goes_wrong_with_a_chunk_is_raised(client: Client) -> None:
    layout = Layout.build(client, range(2))
    with pytest.raises(ZeroDivisionError):
        layout.wait([layout.settle(0, "test-wrong", divmod, 1, 0)])


def _find_bound(dask_scheduler):
    tasks = dask_scheduler.tasks.values()
    return [ts.key for ts in tasks if "test-homes" in ts.key and ts.worker_restrictions]
