"""One fit over 1, 2 and 4 Dask workers of this machine: seconds a round, and what really travelled.

A power-law graph and the paper's method. Bytes are those that workers say they received of other workers, for
products of P with all rows, beside what ``DaskGraph.bytes_per_product`` says before. Seconds of a product
are modelled as computing, shared by as many workers as there are cores, and bytes at a constant rate: the one
is that of one worker, the other is found with two, and the model is checked with four. Workers have one
thread each and share the cores of this machine, so that more of them than cores cannot be faster.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import publish, table
from distributed import Client, LocalCluster, wait

from gbgnn import GBGNNClassifier, datasets
from gbgnn.dask import DaskGBGNNClassifier, DaskGraph
from gbgnn.dask.storage import Cluster
from gbgnn.problem import InputRecipe
from gbgnn.propagation import AugmentedAdjacency
from gbgnn.storage import Needs

N_PRODUCTS = 10


def received(dask_worker: Any) -> dict[str, int]:
    """Return the bytes that a worker got of others so far, by what they are."""
    kinds: dict[str, int] = {}
    for transfer in dask_worker.transfer_incoming_log:
        for key, size in transfer["keys"].items():
            kind = str(key).split("-")[1]
            kinds[kind] = kinds.get(kind, 0) + size
    return kinds


def travelled(client: Client, kinds: tuple[str, ...]) -> int:
    """Return the bytes of some kinds that all workers got."""
    return sum(found.get(kind, 0) for found in client.run(received).values() for kind in kinds)


def measure(n_workers: int, data: Any, n_rounds: int) -> dict[str, Any]:
    """Fit over so many workers."""
    graph, settings = data.graph, {"random_state": 0, "device": "cpu", "n_rounds": n_rounds}
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        client.run(_import)
        started = time.perf_counter()
        sent = DaskGraph.from_graph(graph, client=client)
        inputs = Cluster(client).build(InputRecipe(AugmentedAdjacency()), sent, None, Needs(1))
        wait(list(inputs.features.chunks))
        result = {"workers": n_workers, "send": time.perf_counter() - started}
        promised = sent.bytes_per_product(graph.n_features)
        X, seconds = inputs.features, []
        before, moved = (travelled(client, kinds) for kinds in (("borrow",), ("multiply", "P", "rows")))
        for _ in range(N_PRODUCTS):
            started = time.perf_counter()
            X = X.mixed((1,), np.ones(1))
            wait(list(X.chunks))
            seconds.append(time.perf_counter() - started)
        result |= {
            "product": float(np.median(seconds)),
            "promised": promised,
            "borrowed": (travelled(client, ("borrow",)) - before) / N_PRODUCTS,
            "moved": (travelled(client, ("multiply", "P", "rows")) - moved) / N_PRODUCTS,
        }
        started = time.perf_counter()
        model = DaskGBGNNClassifier(**settings, client=client)
        model.fit(data.train, data.y[data.train], graph=sent)
        result["round"] = (time.perf_counter() - started) / n_rounds
        started = time.perf_counter()
        result["accuracy"] = model.score(data.test[:100_000], data.y[data.test[:100_000]])
        result["predict"] = time.perf_counter() - started
    return result


def alone(data: Any, n_rounds: int) -> dict[str, Any]:
    """Fit in this process."""
    model = GBGNNClassifier(preset="fast", random_state=0, device="cpu", n_rounds=n_rounds)
    started = time.perf_counter()
    model.fit(data.train, data.y[data.train], graph=data.graph)
    seconds = time.perf_counter() - started
    return {
        "round": seconds / n_rounds,
        "accuracy": model.score(data.test[:100_000], data.y[data.test[:100_000]]),
    }


def add_model(found: list[dict[str, Any]]) -> None:
    """Say of each number of workers what a product should take, by what it took with one and two."""
    of = {own["workers"]: own for own in found}
    if 1 not in of or 2 not in of:
        return
    cores = os.cpu_count() or 1
    seconds_per_byte = (of[2]["product"] - of[1]["product"] / min(2, cores)) / of[2]["borrowed"]
    for n, own in of.items():
        own["modelled"] = of[1]["product"] / min(n, cores) + seconds_per_byte * own["borrowed"]


def _import() -> None:
    import gbgnn.dask.scores  # noqa: F401  # so that no product waits for it


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--degree", type=int, default=20)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    shares = {"train": 3000 / options.nodes, "val": 3000 / options.nodes}
    data = datasets.power_law(options.nodes, options.degree, options.features, **shares, seed=0)
    here, found = alone(data, options.rounds), [measure(n, data, options.rounds) for n in options.workers]
    add_model(found)
    rows = [["this process", *[""] * 6, f"{here['round']:.2f}", f"{here['accuracy']:.4f}"]]
    for own in found:
        sizes = (f"{own[name] / 1e6:.1f}" for name in ("promised", "borrowed", "moved"))
        times = (f"{own[name]:.2f}" for name in ("send", "product", "round"))
        send, product, one_round = times
        modelled = f"{own['modelled']:.2f}" if "modelled" in own else ""
        rows.append([own["workers"], send, product, modelled, *sizes, one_round, f"{own['accuracy']:.4f}"])
    header = [
        "workers",
        "s to send",
        "s a product",
        "by the model",
        "MB promised",
        "MB borrowed",
        "MB of chunks moved",
    ]
    A = data.graph.adjacency
    publish(
        "dask_workers",
        "A fit over Dask workers",
        [
            f"A power-law graph of {options.nodes:,} nodes, {A.nnz:,} entries and {options.features} "
            f"features, {options.rounds} rounds, workers of one thread each that share {os.cpu_count()} "
            "cores. A product is one hop of all nodes, the median of "
            f"{N_PRODUCTS}; promised is what `DaskGraph.bytes_per_product` says, borrowed what workers "
            "then received of each other, chunks moved what Dask chose to compute elsewhere. By the model "
            "a product takes the time of one worker, divided by the workers but no more than the cores, and bytes at "
            "the rate found with two workers; what it says of four is a prediction.",
            "",
            *table([*header, "s a round", "accuracy"], rows),
        ],
        {"alone": here, "workers": found},
    )


if __name__ == "__main__":
    main()
