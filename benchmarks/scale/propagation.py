"""One product P X on a CPU: the kernels of the library and their rivals, from Cora to 124 million entries.

``bag`` and ``torch`` are the library's backends: ours is the former where there is one, the latter in
float64; inside a fit that has one thread, here as many as are said. SciPy has one thread always. ``numba`` is
a kernel over the bare pattern, written for this comparison; it is left out where numba is not installed.
Milliseconds are the best of several, taken in turns.

Gathered bytes are those of the rows of X that the entries of P name. The machine's own speed is that of
``Tensor.copy_`` of 200 MB in the same minutes, bytes read plus bytes written. What fits its caches may be
gathered faster.
"""

from __future__ import annotations

import sys
import time
import warnings
from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import scipy.sparse as sp
import torch

sys.path.append(str(Path(__file__).parents[1]))  # last: a benchmark there is called coverage
from common import publish, table

from gbgnn import AugmentedAdjacency, datasets
from gbgnn.propagation import Operator, Propagator

# Nodes and mean degree of the graphs that are drawn, with so many columns; and how often each is timed.
DRAWN = {"medium": (170_000, 13.6), "large": (2_400_000, 51.7)}
N_COLUMNS = 100
REPEATS = {"cora": 40, "pubmed": 30, "medium": 15, "large": 3}
# By how much kernels may differ, with a largest result near 10.
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.05, torch.float64: 1e-12}
Product = Callable[[], torch.Tensor]


def main() -> None:
    warnings.simplefilter("ignore")  # torch calls its sparse layouts a beta
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", nargs="+", choices=REPEATS, default=list(REPEATS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--no-page", action="store_true", help="print only")
    arguments = parser.parse_args()
    found = []
    for name in arguments.graphs:
        operator, X = load(name)
        for dtype in TOLERANCE:
            if name == "large" and dtype == torch.float64:
                continue  # 8 GB
            found += measure(name, operator, X.to(dtype), arguments.threads)
            show(found[-len(arguments.threads) :])
    if not arguments.no_page:
        publish("propagation", "One product P X on a CPU", lines(found), found)


def load(name: str) -> tuple[Operator, torch.Tensor]:
    """Return P and X in single precision."""
    if name in DRAWN:
        n_nodes, mean_degree = DRAWN[name]
        graph = datasets.power_law(n_nodes, mean_degree, n_features=1, n_classes=10).graph
        X = torch.randn((n_nodes, N_COLUMNS), generator=torch.Generator().manual_seed(0))
    else:
        graph = datasets.load(name).graph
        X = torch.tensor(graph.features.toarray())
    return AugmentedAdjacency().build(graph.adjacency), X


def measure(name: str, operator: Operator, X: torch.Tensor, threads: list[int]) -> list[dict[str, Any]]:
    """Return a row per number of threads: seconds of every kernel, and of a copy."""
    out = torch.empty_like(X)
    products = candidates(operator, X, out)
    some = torch.arange(0, len(X), max(1, len(X) // 1000))
    expected, compiled = products[_ours(products)]()[some].double(), None
    for kernel, product in products.items():
        started = time.perf_counter()
        result = product()
        compiled = time.perf_counter() - started if kernel == "numba" else compiled
        difference = float((result[some].double() - expected).abs().max())
        assert difference < TOLERANCE[X.dtype], f"{kernel} differs by {difference}"
    del result
    source = torch.ones(50_000_000)
    target = torch.empty_like(source)
    rows = []
    for n_threads in threads:
        torch.set_num_threads(n_threads)
        acts: dict[str, Callable[[], Any]] = {**products, "copy": lambda: target.copy_(source)}
        if n_threads > 1:
            acts.pop("SciPy", None)  # it would take the same time
        best = dict.fromkeys(acts, float("inf"))
        for _ in range(REPEATS[name]):
            for key, act in acts.items():
                started = time.perf_counter()
                act()
                best[key] = min(best[key], time.perf_counter() - started)
        gathered = operator.edges.n_entries * X.shape[1] * X.element_size()
        rows.append(
            {
                **{"graph": name, "n_nodes": len(X), "n_entries": operator.edges.n_entries},
                **{"n_columns": X.shape[1], "dtype": str(X.dtype).removeprefix("torch.")},
                **{"threads": n_threads, "gathered_bytes": gathered, "first_numba_call": compiled},
                "copy_bytes_per_second": 2 * source.nbytes / best.pop("copy"),
                "seconds": best,
            }
        )
    return rows


def candidates(operator: Operator, X: torch.Tensor, out: torch.Tensor) -> dict[str, Product]:
    """Return the products that there are for numbers of this type."""
    products: dict[str, Product] = {}
    if X.dtype != torch.float64:
        bag = Propagator(operator, dtype=X.dtype, backend="bag")
        products["bag"] = lambda: bag(X, out=out)
        if find_spec("numba") is not None:
            from pattern_kernel import PatternKernel

            kernel = PatternKernel(operator)
            products["numba"] = lambda: kernel.multiply(X, out)
    if X.dtype != torch.bfloat16:
        csr = Propagator(operator, dtype=X.dtype, backend="torch")
        products["torch"] = lambda: csr(X, out=out)
        P = scipy_of(operator, X.dtype)
        products["SciPy"] = lambda: torch.from_numpy(P @ X.numpy())
    return products


def _ours(kernels: Iterable[str]) -> str:
    """Return the one that the library takes."""
    return "bag" if "bag" in kernels else "torch"


def scipy_of(operator: Operator, dtype: torch.dtype) -> sp.csr_array:
    """Return P as SciPy's matrix, without a copy in double precision in between."""
    values, diagonal = operator.values(dtype), operator.diagonal_terms()
    assert values is not None
    assert diagonal is not None
    edges = operator.edges
    parts = (values.numpy(), edges.columns.numpy(), edges.row_starts.int().numpy())
    return sp.csr_array(parts, shape=edges.shape) + sp.diags_array(diagonal.to(dtype).numpy(), format="csr")


def lines(found: list[dict[str, Any]]) -> list[str]:
    """Return the page."""
    kernels = list(dict.fromkeys(kernel for row in found for kernel in row["seconds"]))
    header = ["graph", "nodes", "entries", "columns", "type", "threads", *(f"{k}, ms" for k in kernels)]
    header += ["ours gathers, GB/s", "copy, GB/s", "share"]
    cells = []
    for row in found:
        seconds, speed = row["seconds"], row["gathered_bytes"] / row["seconds"][_ours(row["seconds"])]
        times = [f"{1000 * seconds[k]:,.1f}" if k in seconds else "" for k in kernels]
        cells.append(
            [
                *(row["graph"], f"{row['n_nodes']:,}", f"{row['n_entries']:,}", row["n_columns"]),
                *(row["dtype"], row["threads"], *times, f"{speed / 1e9:.1f}"),
                *(f"{row['copy_bytes_per_second'] / 1e9:.1f}", f"{speed / row['copy_bytes_per_second']:.2f}"),
            ]
        )
    first = [row["first_numba_call"] for row in found if row["first_numba_call"] is not None]
    told = __doc__.replace("``", "`").split("\n\n")
    paragraphs = [
        "",
        " ".join(told[1].split()),
        "",
        " ".join(told[2].split()),
    ]
    if first:
        paragraphs += [
            "",
            f"The first call of numba's kernel took {max(first[0], 0):.1f} s, mostly to compile it.",
        ]
    return [*table(header, cells), *paragraphs]


def show(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        times = {kernel: round(1000 * seconds, 2) for kernel, seconds in row["seconds"].items()}
        print(
            row["graph"],
            row["dtype"],
            row["threads"],
            times,
            f"{row['copy_bytes_per_second'] / 1e9:.1f} GB/s",
        )


if __name__ == "__main__":
    main()
