"""Wide sparse features and many labels: our default beside PyG's GCN, in time, memory and accuracy.

Made-up pages with words, half of them linked to pages of their own kind, and amazon_computers with the masks
in its file. Every fit is a process of its own, with two threads unless told: seconds of the fit, data ready
before it, and those that processors computed in it, of all threads, which other work on the machine changes
less; and the most memory that the process ever held (VmHWM), interpreter, libraries and data included.
``--graphs large`` is 117,791 nodes with 11,400 words, ``--repeats 3`` takes the median of three seeds.

PyG's GCN has two layers, dropout 0.5 between them, Adam with steps of 0.01 and a penalty of 0.0005 on the
first layer, 200 epochs, and goes back to the epoch of the best validation accuracy. Its first layer has our
own product with sparse words, and their transpose made once: torch's transposes them in every step. Its
matrix is torch's sparse CSR, the fastest that PyG has on a CPU, or the ``edge_index`` of its examples.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from children import answer_parent, run_child
from common import publish, resident_bytes, table

from gbgnn import GBGNNClassifier, Graph, NodeSplit, datasets
from gbgnn.datasets import Dataset
from gbgnn.learners.row_product import RowProduct
from gbgnn.propagation import as_rows


class Pages(NamedTuple):
    """The sizes of made-up pages."""

    n_nodes: int
    n_words: int
    n_labels: int
    n_classes: int = 15
    words_per_page: int = 70
    links_per_page: int = 10


MADE_UP = {
    "synthetic": Pages(20_000, 7_000, 13_000),
    "social": Pages(22_470, 4_714, 16_000, n_classes=4, words_per_page=30, links_per_page=15),
    "large": Pages(117_791, 11_400, 70_000),
}
GRAPHS = ("synthetic", "amazon_computers", "social", "large")
SYSTEMS = {
    "gbgnn, default": {"kind": "gbgnn"},
    'gbgnn, preset="fast"': {"kind": "gbgnn", "preset": "fast"},
    "PyG's GCN, 64 units": {"kind": "gcn", "units": 64, "kernel": "csr"},
    "PyG's GCN, 256 units": {"kind": "gcn", "units": 256, "kernel": "csr"},
    "PyG's GCN, 64 units, edge_index": {"kind": "gcn", "units": 64, "kernel": "scatter"},
}


def make_pages(size: Pages, seed: int = 0) -> Dataset:
    """Return pages whose words and links tell of their kind, neither of them all.

    How often words are used falls as Zipf has it; each kind of page has its own liking of each word. Half of
    the links of a page lead to its own kind, the others anywhere; popular pages get more of them.
    """
    random, n, k = np.random.default_rng(seed), size.n_nodes, size.n_classes
    y = random.choice(k, n, p=random.dirichlet(np.full(k, 8.0)))
    frequencies = 1 / (np.arange(size.n_words) + 20.0)
    likings = frequencies * np.exp(0.35 * random.standard_normal((k, size.n_words)))
    likings /= likings.sum(axis=1, keepdims=True)
    lengths = random.poisson(1.25 * size.words_per_page, n)  # some words come twice
    words = np.empty(lengths.sum(), np.int64)
    owners = np.repeat(np.arange(n), lengths)
    for kind in range(k):
        own = y[owners] == kind
        words[own] = random.choice(size.n_words, own.sum(), p=likings[kind])
    X = sp.csr_array((np.ones(len(words), np.float32), (owners, words)), shape=(n, size.n_words))
    X.sum_duplicates()
    X.data[:] = 1.0
    popularity = random.pareto(2.5, n) + 1
    n_links = n * size.links_per_page // 2
    one = random.choice(n, n_links, p=popularity / popularity.sum())
    other = random.choice(n, n_links, p=popularity / popularity.sum())
    alike = random.random(n_links) < 0.5
    for kind in range(k):
        members = np.flatnonzero(y == kind)
        own = alike & (y[one] == kind)
        other[own] = random.choice(members, own.sum(), p=popularity[members] / popularity[members].sum())
    proper = one != other
    A = sp.coo_array((np.ones(proper.sum(), np.float32), (one[proper], other[proper])), shape=(n, n)).tocsr()
    A = A.maximum(A.T).tocsr()
    A.data[:] = 1.0
    order = random.permutation(n)
    ends = (size.n_labels, size.n_labels + 2_000)
    split = NodeSplit(order[: ends[0]], order[ends[0] : ends[1]], order[ends[1] :])
    return Dataset("pages", Graph(A, X), y, split)


def load(name: str) -> Dataset:
    """Return a graph by its name."""
    if name in MADE_UP:
        return make_pages(MADE_UP[name])
    folder = Path(os.environ["GBGNN_DATA"])
    return datasets.read_npz(folder / "graphs" / f"{name}.npz")


def fit_ours(data: Dataset, seed: int, **settings: Any) -> tuple[float, np.ndarray]:
    """Return the seconds of a fit, and the probabilities of the test nodes."""
    model = GBGNNClassifier(**settings, random_state=seed, device="cpu")
    started = time.perf_counter()
    model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))
    seconds = time.perf_counter() - started
    return seconds, model.predict_proba(data.test)


def fit_gcn(data: Dataset, seed: int, units: int, kernel: str, epochs: int = 200) -> tuple[float, np.ndarray]:
    """Return what :func:`fit_ours` does, of PyG's network."""
    from torch.nn.functional import cross_entropy, dropout
    from torch_geometric.nn import GCNConv
    from torch_geometric.utils import to_torch_csr_tensor

    torch.manual_seed(seed)
    X, A = data.graph.features, sp.coo_array(data.graph.adjacency)
    y, train, val, test = (torch.tensor(each) for each in (data.y, data.train, data.val, data.test))
    started = time.perf_counter()
    times = RowProduct(as_rows(X))
    edges = torch.from_numpy(np.stack([A.row, A.col]).astype(np.int64))
    edges = edges if kernel == "scatter" else to_torch_csr_tensor(edges, size=A.shape)
    shapes = ((X.shape[1], units), (units, int(y.max()) + 1))
    first, second = (GCNConv(*shape, cached=True) for shape in shapes)
    weights = first.lin.weight

    class Product(torch.nn.Module):
        """The first layer's product with words, which PyG's own layer would make dense."""

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return times(weights.t().contiguous())

    first.lin = Product()
    rows = torch.zeros(X.shape[0], 1)  # GCNConv asks how many there are
    of_first, of_second = [weights, first.bias], list(second.parameters())
    optimizer = torch.optim.Adam([{"params": of_first, "weight_decay": 5e-4}, {"params": of_second}], lr=0.01)
    every = [*of_first, *of_second]
    best, kept = -1.0, [each.detach().clone() for each in every]

    def outputs(rate: float) -> torch.Tensor:
        return second(dropout(first(rows, edges).relu(), rate), edges)

    for _ in range(epochs):
        optimizer.zero_grad()
        cross_entropy(outputs(0.5)[train], y[train]).backward()
        optimizer.step()
        with torch.no_grad():
            accuracy = float((outputs(0.0)[val].argmax(dim=1) == y[val]).float().mean())
            if accuracy > best:
                best, kept = accuracy, [each.detach().clone() for each in every]
    with torch.no_grad():
        for each, own in zip(every, kept, strict=True):
            each.copy_(own)
        proba = outputs(0.0)[test].softmax(dim=1).double().numpy()
    return time.perf_counter() - started, proba


def run_fit(graph: str, system: str, seed: int) -> dict[str, Any]:
    """Fit in this process, and return what was measured."""
    settings = dict(SYSTEMS[system])
    fit = {"gbgnn": fit_ours, "gcn": fit_gcn}[settings.pop("kind")]
    data = load(graph)
    before, computed = resident_bytes(), time.process_time()
    seconds, proba = fit(data, seed, **settings)
    computed = time.process_time() - computed
    truth = data.y[data.test]
    losses = -np.log(np.maximum(proba[np.arange(len(truth)), truth], 1e-12))
    return {
        "seconds": seconds,
        "computing": computed,
        "accuracy": float((proba.argmax(axis=1) == truth).mean()),
        "log_loss": float(losses.mean()),
        "before": before,
    }


def measure(graph: str, system: str, seed: int, threads: int) -> dict[str, Any] | None:
    """Fit in another process; None where it fails."""
    try:
        return run_child("fit", graph=graph, system=system, seed=seed, threads=threads)
    except RuntimeError as error:
        print(error)
        return None


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=GRAPHS[:3])
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-page", action="store_true", help="print only")
    answer_parent({"fit": run_fit})
    options = parser.parse_args()
    # Threads that wait for others that are not running would take their time from them.
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    found: dict[str, dict[str, list[dict[str, Any] | None]]] = {}
    for graph in options.graphs:
        # Systems take turns, so that what else the machine does meets all of them.
        for seed in range(options.repeats):
            for system in options.systems:
                result = measure(graph, system, seed, options.threads)
                print(graph, system, seed, result, flush=True)
                found.setdefault(graph, {}).setdefault(system, []).append(result)
    lines = [" ".join("\n\n".join(__doc__.split("\n\n")[1:]).split("\n")), ""]
    for graph, systems in found.items():
        header = (
            "system",
            "seconds",
            "of computing",
            "peak memory",
            "before the fit",
            "accuracy",
            "log loss",
        )
        rows = [(system, *describe(results)) for system, results in systems.items()]
        lines += [f"## {graph}", "", *table(header, rows), ""]
    if options.no_page:
        print("\n".join(lines))
    else:
        publish("scale_wide", "Wide sparse features, many labels", lines, found)


def describe(results: Sequence[dict[str, Any] | None]) -> list[str]:
    """Return the medians of some runs in words."""
    ended = [each for each in results if each is not None]
    if len(ended) < len(results):
        return ["failed", *["-"] * 5]
    middle = {name: statistics.median(each[name] for each in ended) for name in ended[0]}
    return [
        f"{middle['seconds']:.1f}",
        f"{middle['computing']:.1f}",
        f"{middle['peak'] / 1e6:,.0f} MB",
        f"{middle['before'] / 1e6:,.0f} MB",
        f"{100 * middle['accuracy']:.1f}",
        f"{middle['log_loss']:.3f}",
    ]


if __name__ == "__main__":
    main()
