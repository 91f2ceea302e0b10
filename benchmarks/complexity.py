"""Complexity of a linear head on a million nodes, hop by hop: the closed form and the Monte Carlo estimate.

The graph is a contextual stochastic block model, 10 edges a node, 64 features. The class is all X w with
|w|_1 <= 1, once with 400 labelled nodes and once with half of all nodes, which is the slowest case.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict

import torch
from common import publish, table

from gbgnn import AugmentedAdjacency, datasets
from gbgnn.boosting.history import peak_memory
from gbgnn.propagation import Propagator
from gbgnn.theory.monte_carlo import rademacher_complexity
from gbgnn.theory.rademacher import mlp_complexity

N_NODES, N_HOPS, N_DRAWS = 1_000_000, 10, 1000
CPU = torch.device("cpu")


def main() -> None:
    data = datasets.load("csbm", n_nodes=N_NODES, n_classes=4, n_features=64, per_class=100, seed=0)
    P = Propagator(AugmentedAdjacency().build(data.graph.adjacency))
    features = torch.tensor(data.graph.features)

    def representations() -> Iterator[torch.Tensor]:
        X = features
        for _ in range(N_HOPS):
            X = P(X)
            yield X

    started = time.perf_counter()
    norms = [float(torch.linalg.vector_norm(X, dtype=torch.float64)) for X in representations()]
    hop_seconds = (time.perf_counter() - started) / N_HOPS
    before = peak_memory(CPU) or 0
    lines, results = [], []
    for n_labelled in (len(data.train), N_NODES // 2):
        rows = []
        for t, X in enumerate(representations(), start=1):
            norm = norms[t - 1]
            closed = mlp_complexity(norm, n_labelled, N_NODES - n_labelled, n_layers=1, max_norm=1.0)
            started, cpu_started = time.perf_counter(), time.process_time()
            estimate = rademacher_complexity(X, n_labelled, n_draws=N_DRAWS)
            seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
            low, high = estimate.interval()
            limit = estimate.upper_limit()
            numbers = closed, estimate.value, (high - low) / 2, limit
            times = [f"{seconds:.1f}", f"{cpu_seconds:.1f}"]
            rows.append([t, f"{norm:,.0f}", *(f"{number:.3g}" for number in numbers), *times])
            results.append(
                {
                    "n_labelled": n_labelled,
                    "hop": t,
                    "norm": norm,
                    "closed": closed,
                    **asdict(estimate),
                    "upper_limit": limit,
                    "seconds": seconds,
                    "cpu_seconds": cpu_seconds,
                }
            )
        header = [
            "hop",
            "norm of X",
            "closed form",
            "Monte Carlo",
            "+-",
            "upper limit",
            "Monte Carlo, s",
            "CPU, s",
        ]
        lines += [f"{n_labelled:,} labelled nodes:", "", *table(header, rows), ""]
    after = peak_memory(CPU) or 0
    added, signs = (after - before) / 2**20, N_NODES * N_DRAWS / 2**20
    summary = (
        f"{data.graph.n_nodes:,} nodes, {data.graph.n_edges:,} edges, {features.shape[1]} features; "
        f"{N_DRAWS:,} draws, 95 % confidence. A hop and its closed form take {hop_seconds:.2f} s. "
        f"Estimates run on one core. Peak memory {after / 2**20:,.0f} MB, of which they added {added:,.0f} "
        f"MB; the signs of all draws would be {signs:,.0f} MB at a byte each."
    )
    memory = {"peak_before": before, "peak_after": after, "hop_seconds": hop_seconds}
    title = "Complexity of linear heads on a million nodes"
    publish("complexity", title, [summary, "", *lines[:-1]], {**memory, "hops": results})


if __name__ == "__main__":
    main()
