"""Which sparse product P uses on a CPU: the candidates on Cora and PubMed, those of the library last.

``bag`` sums rows over the bare pattern of the graph and scales them, the others have values for every edge.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from common import publish, table

from gbgnn import AugmentedAdjacency, datasets
from gbgnn.propagation import Propagator


def main() -> None:
    warnings.simplefilter("ignore")  # torch calls its sparse layouts a beta
    rows = []
    for name in ("cora", "pubmed"):
        data = datasets.load(name)
        operator = AugmentedAdjacency().build(data.graph.adjacency)
        P = operator.to_scipy().astype(np.float32)
        X = torch.tensor(data.graph.features.toarray())
        narrow, wide = (
            torch.sparse_csr_tensor(
                torch.tensor(P.indptr.astype(kind)),
                torch.tensor(P.indices.astype(kind)),
                torch.tensor(P.data),
            )
            for kind in (np.int32, np.int64)
        )
        coo = wide.to_sparse_coo()
        ours = [Propagator(operator, backend=backend) for backend in ("torch", "bag")]
        times = [
            fastest(lambda wide=wide, X=X: wide @ X),
            fastest(lambda narrow=narrow, X=X: narrow @ X),
            fastest(lambda coo=coo, X=X: coo @ X),
            fastest(lambda P=P, X=X: P @ X.numpy()),
            *(fastest(lambda P=P, X=X: P(X)) for P in ours),
        ]
        rows.append([name, *(f"{1000 * seconds:.1f}" for seconds in times)])
    header = ["data", "torch CSR, int64", "torch CSR, int32", "torch COO", "SciPy CSR"]
    header += [f"ours, {backend}" for backend in ("torch", "bag")]
    publish("kernels", "One product P X, milliseconds", table(header, rows), rows)


def fastest(act: Callable[[], object], repeats: int = 20) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        act()
        times.append(time.perf_counter() - started)
    return min(times)


if __name__ == "__main__":
    main()
